package source

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/limit"
)

func nested(open, inner, closing string, n int) string {
	return "a = " + strings.Repeat(open, n) + inner + strings.Repeat(closing, n) + "\n"
}

// What lies too deep is refused before the parser sees it, which would use up the stack.
func TestNesting(t *testing.T) {
	const d = limit.Depth
	for _, text := range []string{
		nested("[", "1", "]", d), nested("{a=", "1", "}", d), "[" + strings.Repeat("a.", d) + "a]\n",
		"x = '" + strings.Repeat("[", 3*d) + "'\n", `x = "\"` + strings.Repeat("[", 3*d) + "\"\n",
		"# " + strings.Repeat("[{.", d) + "\na = 1\n", "x = '''\n" + strings.Repeat("[\n", 3*d) + "'''\n", "x = \"\"\"" + strings.Repeat(`\"""[`, d) + "\"\"\"\n", strings.Repeat("a = [1.5, 2.5] # [\n", 1) + strings.Repeat("[[b]]\n", 3*d),
	} {
		_, err := Parse("f.toml", []byte(text))
		require.NoError(t, err, "%.40s", text)
	}
	for text, want := range map[string]string{
		nested("[", "1", "]", d+1): "f.toml:1:205: ", nested("[", "", "]", 5_000_000): "f.toml:1:205: ",
		"b = 1\n" + nested("{a=", "1", "}", 1_000_000): "f.toml:2:605: ",
		"[" + strings.Repeat("a.", 1_000_000) + "a]\n": "f.toml:1:403: ", "x = '''\n[\n'''\n" + nested("[", "1", "]", d+1): "f.toml:4:205: ",
	} {
		_, err := Parse("f.toml", []byte(text))
		require.ErrorContains(t, err, want, "%.40s", text)
		require.ErrorContains(t, err, "more than 200 levels deep")
	}
	_, err := Parse("f.toml", make([]byte, largest+1))
	require.ErrorContains(t, err, "f.toml: the file has 16 MiB or more")
}
