package source

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnquote(t *testing.T) {
	for text, want := range map[string]string{
		`'{"a": 1}'`: `{"a": 1}`, `''`: "", `'`: `'`, `'a`: `'a`, `a'`: `a'`, `"a"`: `"a"`, "": "", `''a''`: `'a'`,
	} {
		require.Equal(t, want, Unquote(text), text)
	}
}

// Each value that is changed has a note, and no other.
func TestUnquotedNotes(t *testing.T) {
	table, err := Parse("t.toml", []byte("a = \"'x y'\"\nb = \"x\"\nc = [\"'1'\", \"2\", 3]\nd = \"it's\"\n"))
	require.NoError(t, err)
	require.Equal(t, []string{
		"t.toml:1:1: decode.a is passed without its outer single quotes, as CloudAI's shell passes it: x y",
		"t.toml:3:1: decode.c is passed without its outer single quotes, as CloudAI's shell passes it: 1",
	}, table.UnquotedNotes("decode"))
}
