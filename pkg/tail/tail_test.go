package tail_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/tail"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "serve-0.log")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func pack(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	require.NoError(t, err)
	_, err = w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return file(t, b.String())
}

func numbers(from, to int) (list []string) {
	for i := from; i <= to; i++ {
		list = append(list, fmt.Sprintf("line %d", i))
	}
	return list
}

func text(list []string) string { return strings.Join(list, "\n") + "\n" }

func TestLine(t *testing.T) {
	for raw, want := range map[string]string{
		"plain\n":                                "plain",
		"  10%|#   | 1/10\r 100%|##| 10/10\n":    " 100%|##| 10/10",
		"half\rwhole\r\n":                        "whole",
		"bar\r      \r":                          "bar",
		"\x1b[1;31mred\x1b[0m and\x1b]0;t\x07 x": "red and x",
		"a\tb\x00\x08c":                          "a bc",
		"\xff\xfe":                               "\uFFFD",
		"\u009b31mC1":                            "31mC1",
		"":                                       "",
	} {
		require.Equal(t, want, tail.Line([]byte(raw)), "%q", raw)
	}
	long := tail.Line([]byte(strings.Repeat("ä", 1<<20)))
	require.Less(t, len(long), 17<<10)
	require.True(t, utf8.ValidString(long))
}

func TestLast(t *testing.T) {
	all := numbers(1, 30000) // several blocks
	for name, path := range map[string]string{"plain": file(t, text(all)), "packed": pack(t, text(all))} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 3, 29999, 30000, 40000} {
				have, err := tail.Last(path, n)
				require.NoError(t, err)
				require.Equal(t, all[max(0, len(all)-n):], have)
			}
		})
	}
	have, err := tail.Last(file(t, "one\ntwo, unfinished"), 5)
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two, unfinished"}, have)
	have, err = tail.Last(file(t, ""), 5)
	require.NoError(t, err)
	require.Empty(t, have)
	_, err = tail.Last(filepath.Join(t.TempDir(), "none"), 5)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A terabyte, with holes: only its end is read.
func TestLastOfAHugeFile(t *testing.T) {
	path := file(t, "")
	const size = 1 << 40
	if err := os.Truncate(path, size); err != nil {
		t.Skipf("no holes here: %v", err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("\nlast but one\nlast\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	have, err := tail.Last(path, 2)
	require.NoError(t, err)
	require.Equal(t, []string{"last but one", "last"}, have)
	have, err = tail.Last(path, 5)
	require.NoError(t, err)
	require.Equal(t, []string{"last but one", "last"}, have[len(have)-2:], "and no more than 8 MiB before it")
	end, err := tail.End(path, 5)
	require.NoError(t, err)
	require.Equal(t, "last\n", string(end))
}

func TestAround(t *testing.T) {
	all := numbers(1, 9000)
	for name, path := range map[string]string{"plain": file(t, text(all)), "packed": pack(t, text(all))} {
		t.Run(name, func(t *testing.T) {
			have, err := tail.Around(path, 8000, 2, 1)
			require.NoError(t, err)
			require.Equal(t, []tail.Numbered{{7998, "line 7998"}, {7999, "line 7999"}, {8000, "line 8000"},
				{8001, "line 8001"}}, have)
			have, err = tail.Around(path, 9000, 1, 50)
			require.NoError(t, err)
			require.Len(t, have, 2)
			have, err = tail.Around(path, 10000, 1, 1)
			require.NoError(t, err)
			require.Empty(t, have)
		})
	}
	have, err := tail.Around(file(t, strings.Repeat("x", 1<<20)+"end\nnext\n"), 2, 1, 0)
	require.NoError(t, err)
	require.Len(t, have, 2)
	require.True(t, strings.HasSuffix(have[0].Text, "xend"))
	require.Equal(t, tail.Numbered{Number: 2, Text: "next"}, have[1], "a long line counts once")
}

// What of a packed log is there is shown, although its end is not.
func TestPackedLogCutShort(t *testing.T) {
	whole, err := os.ReadFile(pack(t, text(numbers(1, 200000))))
	require.NoError(t, err)
	have, err := tail.Around(file(t, string(whole[:len(whole)-20])), 1, 0, 2)
	require.NoError(t, err)
	require.Len(t, have, 3)
}

func TestFollower(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bench-0.log")
	f := tail.Follower{Path: path, Last: 2}
	more := func(want ...string) {
		t.Helper()
		have, err := f.More()
		require.NoError(t, err)
		require.Equal(t, want, append([]string(nil), have...))
	}
	add := func(s string) {
		t.Helper()
		w, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		require.NoError(t, err)
		_, err = w.WriteString(s)
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
	more()
	add("one\ntwo\nthree\nfo")
	more("two", "three")
	more()
	add("ur\nfive\n 10%|")
	more("four", "five")
	add("\r100%|")
	more()
	require.Equal(t, []string{"100%|"}, f.Rest())
	require.Empty(t, f.Rest())

	require.NoError(t, os.Remove(path))
	more()
	add("anew\n")
	more("anew")
	require.NoError(t, os.Truncate(path, 0))
	more()
	add("again\n")
	more("again")
	add(strings.Repeat("0123456\n", 2<<20)) // 16 MiB
	have, err := f.More()
	require.NoError(t, err)
	require.Equal(t, "… 8388608 bytes left out", have[0])
	require.Len(t, have, 1<<20+1)
}

func TestProgress(t *testing.T) {
	for text, want := range map[string][2]int{
		"  0%|          | 0/64 [00:00<?, ?it/s]\r 19%|#8   | 12/64 [00:03<00:14,  3.5it/s]": {12, 64},
		"load: 12/64 done\nload: 40/64 done\n":                                              {40, 64},
		"100%|##| 64/64 [00:09<00:00]\nMaximum request concurrency: 16\n":                   {64, 64},
		"\x1b[A 50%|# | 5/10 [00:01<00:01]":                                                 {5, 10},
		"Loading shards: 50% Completed | 2/4 [00:05<00:05]":                                 {2, 4},
	} {
		done, total, ok := tail.Progress([]byte(text))
		require.True(t, ok, "%q", text)
		require.Equal(t, want, [2]int{done, total}, "%q", text)
	}
	for _, text := range []string{"", "GET /v1/models 200", "on 2026/11/22 [core", "0/0 [00:00", "9/2 [00:00"} {
		_, _, ok := tail.Progress([]byte(text))
		require.False(t, ok, "%q", text)
	}
}

func FuzzLine(f *testing.F) {
	for _, s := range []string{"plain\n", "  10%|#   | 1/10 [00:01<\r 100%|##| 10/10 [00:02\n",
		"\x1b[1;31mred\x1b[0m\x1b]0;t\x07", "load: 1/2 done", "\x1b\x1b[[A", "\xff\r\r"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		line := tail.Line(raw)
		require.True(t, utf8.ValidString(line))
		require.False(t, strings.ContainsAny(line, "\x1b\r\n\t\x00\x7f"))
		require.Equal(t, line, tail.Line([]byte(line)), "what is shown stays")
		if done, total, ok := tail.Progress(raw); ok {
			require.Positive(t, total)
			require.LessOrEqual(t, done, total)
		}
	})
}
