package durable

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file is replaced only by one of its kind, and what cannot be written is refused before it
// is tried.
func TestOutput(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) Output {
		return Output{Option: "--html", Path: filepath.Join(dir, name), Kind: "a page",
			Ours: func(head []byte) bool { return bytes.HasPrefix(head, []byte("<page>")) }}
	}
	require.NoError(t, os.WriteFile(at("theirs").Path, []byte("x"), 0o644))
	require.NoError(t, os.WriteFile(at("empty").Path, nil, 0o644))
	require.NoError(t, os.Symlink("theirs", at("link").Path))
	require.NoError(t, at("new").Write([]byte("<page>1")))
	require.NoError(t, at("new").Write([]byte("<page>2")))
	require.NoError(t, at("empty").Write([]byte("<page>")))
	require.NoError(t, CheckOutputs(Output{}, at("new"), Output{}))
	for name, want := range map[string]string{
		"theirs":   "is not a page, so it is not overwritten",
		"link":     "is not a page, so it is not overwritten",
		".":        "this is a folder",
		"no/file":  "there is no folder " + filepath.Join(dir, "no"),
		"new/file": "not a directory",
	} {
		require.ErrorContains(t, CheckOutputs(at(name)), want, name)
		require.ErrorContains(t, at(name).Write([]byte("<page>")), want, name)
	}
	require.ErrorContains(t, CheckOutputs(at("a"), at("b/../a")), "another option names the same file")
	made := at("no/file")
	made.MakesFolder = true
	require.NoError(t, CheckOutputs(made))
	data, err := os.ReadFile(at("theirs").Path)
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
}
