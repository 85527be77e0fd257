package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What holds nothing, or no text, has no failure to be found: it is a wrong command line.
func TestWhyOfNoLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	noise := make([]byte, 20000)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	for name, data := range map[string]string{"noise": string(noise), "empty.log": "", "fine.log": "INFO all is well\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644))
	}
	why := func(stdin string, args ...string) outcome {
		t.Helper()
		cmd := command(dir, nil, append([]string{"why"}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		cmd.Run()
		return outcome{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
	}
	const hint = "\n\thint: name a log, or a run directory\n"
	o := why("", "-")
	require.Equal(t, exitUsage, o.code)
	require.Equal(t, "stdin: the input is empty"+hint, o.stderr)
	require.Empty(t, o.stdout)
	o = why(string(noise), "-")
	require.Equal(t, exitUsage, o.code)
	require.Equal(t, "stdin: this is no text"+hint, o.stderr)
	o = why("", "empty.log")
	require.Equal(t, exitUsage, o.code)
	require.Equal(t, "empty.log: the input is empty"+hint, o.stderr)
	o = why(string(noise), "-", "fine.log")
	require.Equal(t, exitUsage, o.code)
	require.Equal(t, "stdin: this is no text"+hint, o.stderr)
	require.Contains(t, o.stdout, "no failure found", "the others are told")
	o = why("", "noise")
	require.Equal(t, exitUsage, o.code)
	require.Equal(t, "noise: this is no text"+hint, o.stderr)
	for _, args := range [][]string{{"fine.log"}, {"fine.log", "empty.log"}} {
		o = why("", args...)
		require.Equal(t, exitOK, o.code, o.stderr)
		require.Contains(t, o.stdout, "no failure found")
	}
	o = why("torch.OutOfMemoryError: CUDA out of memory\n", "-")
	require.Contains(t, o.stdout, "oom")
}

func TestIsText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"":                                true,
		"INFO a\r\n":                      true,
		"\x1b[31mred\x1b[0m ██ 12 %\n":    true,
		"日本"[:4]:                          true, // cut within a character
		"caf\xe9 is Latin-1 in a line":    true,
		"a line\n\x00\x00\x00\x00another": true,
		"\xfd7zXZ\x00\xff\xff\xff":        true,
		"\x1f\x8b\x08\x00\xff\xfe\xfd":    false,
	} {
		require.Equal(t, want, isText(text), "%q", text)
	}
}
