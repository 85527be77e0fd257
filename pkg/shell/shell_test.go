package shell_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/shell"
)

// A real sh reads back what was quoted. Package render has bash read more, and a fuzz target.
func TestQuote(t *testing.T) {
	for s, want := range map[string]string{
		"": "''", "a": "a", "/a/b-c_d.toml": "/a/b-c_d.toml", "A=b": "A=b", "it's": `'it'\''s'`, "a b": "'a b'",
		"$(id)": "'$(id)'", "~": "'~'", "é": "'é'", "a\r\nb": "'a\r\nb'", `\`: `'\'`, "*": "'*'",
	} {
		require.Equal(t, want, shell.Quote(s))
		out, err := exec.Command("sh", "-c", "printf %s "+shell.Quote(s)).Output()
		require.NoError(t, err)
		require.Equal(t, s, string(out))
	}
}

// Words are what Python's shlex.split makes of commands, and a shell of those without a variable.
func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                               nil,
		" a  b\tc\n":                     {"a", "b", "c"},
		`a 'b c' "d e" f\ g`:             {"a", "b c", "d e", "f g"},
		`'' "" a''b`:                     {"", "", "ab"},
		`"a\"b\\c\d" '\x'`:               {`a"b\c\d`, `\x`},
		`--x '{"a": "b c"}' # no remark`: {"--x", `{"a": "b c"}`, "#", "no", "remark"},
		`$HOME ~ a;b`:                    {"$HOME", "~", "a;b"},
	} {
		got, err := shell.PythonWords(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{`a "b`, `a 'b`, `a \`} {
		_, err := shell.PythonWords(text)
		require.Error(t, err, text)
	}
	for text, want := range map[string]string{`"\$a \" \b"`: `$a " \b`, "\"\\`\"": "`", "a\rb": "a\rb", "'\xff'": "\xff"} {
		got, err := shell.Words(text)
		require.NoError(t, err)
		require.Equal(t, []string{want}, got)
		out, err := exec.Command("sh", "-c", "printf %s "+text).Output()
		require.NoError(t, err)
		require.Equal(t, want, string(out))
	}
	got, err := shell.PythonWords(`"\$a" b` + "\rc")
	require.NoError(t, err)
	require.Equal(t, []string{`\$a`, "b", "c"}, got)
}
