package render_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/render"
)

// hostile are values that a careless printer of shell gets wrong.
var hostile = []string{
	"", " ", "a b", "'", `"`, "''", `'"'"'`, `\`, `\\`, `\'`, "a\nb", "\n", "\n\n", "a\n", "\t", "a\tb", "\r",
	"a\r\nb", "\r\n", "$(touch x)", "`touch x`", "$((1+1))", "${HOME}", "$HOME", "$$", "$", "$'a'", `$"a"`, ";",
	"; touch x", "& touch x", "&& touch x", "| touch x", "> x", "< x", "<(touch x)", "(touch x)", "{a,b}", "~",
	"~root", "a=~", "*", "?", "[a-z]", "!", "!!", "#", "# x", "a #b", "-", "--", "-n", "--help", "-rf", "=", "a=b",
	"A=$(touch x)", "%s", "\\n", "$'\\n'", "\a\b\x1b[31m\x7f", "é", "日本語", "🙂", "\u2028", "\u00a0", "\ufeff", "\xff",
	"\xc3", "\xc3\x28", "a\xffb'c", "\xf0\x9f\x99", "\x80'", "EOF", "if", "'; touch x; '", "'$(touch x)'",
	"\"$(touch x)\"", "a\\\nb", "]", "[[", "}",
}

// words asks a real bash what it reads.
func words(t testing.TB, locale, script string) []string {
	t.Helper()
	cmd := exec.Command("bash", "--norc", "--noprofile")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"LC_ALL=" + locale, "PATH=/usr/bin:/bin", "HOME=/nowhere"}
	cmd.Stdin = strings.NewReader("f() { (($#)) && printf '%s\\0' \"$@\"; }\n" + script + "\n")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%q: %s", script, stderr.String())
	require.Empty(t, stderr.String(), "%q", script)
	list := strings.Split(string(out), "\x00")
	require.Empty(t, list[len(list)-1])
	return list[:len(list)-1]
}

// covers: CD-9, CD-17, CD-20
func TestQuoteAgainstBash(t *testing.T) {
	var script strings.Builder
	script.WriteString("f")
	for _, s := range hostile {
		q, err := render.Quote(s)
		require.NoError(t, err)
		script.WriteString(" " + q)
	}
	for _, locale := range []string{"C", "C.UTF-8"} {
		require.Equal(t, hostile, words(t, locale, script.String()), locale)
		for _, s := range hostile { // alone: no neighbour can close what it opened
			q, err := render.Quote(s)
			require.NoError(t, err)
			require.Equal(t, []string{s}, words(t, locale, "f "+q), "%s: %q", locale, s)
			require.Equal(t, []string{s}, words(t, locale, "A="+q+"\nf \"$A\""), "%s: %q as a value", locale, s)
		}
	}
}

func TestQuote(t *testing.T) {
	for s, want := range map[string]string{
		"": "''", "a": "a", "--tensor-parallel-size": "--tensor-parallel-size", "Qwen/Qwen3-0.6B": "Qwen/Qwen3-0.6B", "it's": `'it'\''s'`,
		"nvcr.io#nvidia/x:1": "'nvcr.io#nvidia/x:1'", "a\r\n": `'a'$'\r''` + "\n'", "~": "'~'",
	} {
		q, err := render.Quote(s)
		require.NoError(t, err)
		require.Equal(t, want, q)
		require.NotContains(t, q, "\r", "sbatch refuses DOS line ends")
	}
	_, err := render.Quote("a\x00b")
	require.EqualError(t, err, `"a\x00b" holds a NUL byte`)
}

func FuzzQuote(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := render.Quote(s)
		if strings.ContainsRune(s, 0) {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		for _, locale := range []string{"C", "C.UTF-8"} {
			require.Equal(t, []string{s, "end"}, words(t, locale, "f "+q+" end"), locale)
		}
	})
}
