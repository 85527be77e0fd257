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
