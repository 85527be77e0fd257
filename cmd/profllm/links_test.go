package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A page leads to the directories of its runs by paths that stay right where its folder is moved,
// whatever their names, and to nothing that is no directory.
func TestLinksOfAPage(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"results/a b#?%/0", "javascript:alert(1)", "pages"} {
		require.NoError(t, os.MkdirAll(name, 0o755))
	}
	require.NoError(t, os.WriteFile("file", nil, 0o644))
	link := linksFrom("report.html")
	require.Equal(t, "./results/a%20b%23%3F%25/0/", link("results/a b#?%/0"))
	require.Equal(t, "./javascript:alert%281%29/", link("javascript:alert(1)"))
	require.Empty(t, link("file"))
	require.Empty(t, link("night.tar.xz/a/0"))
	require.Equal(t, "./../results/a%20b%23%3F%25/0/", linksFrom("pages/report.html")(filepath.Join(dir, "results/a b#?%/0")))
}
