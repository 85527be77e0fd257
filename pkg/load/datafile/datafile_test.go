package datafile

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// serve offers a text as the data set "poems", and counts how often it is fetched.
func serve(t *testing.T, text, sum string) (c *Cache, fetched *atomic.Int32) {
	t.Helper()
	fetched = &atomic.Int32{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetched.Add(1)
		if r.URL.Path != "/poems.txt" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(text)) // the client says what it missed
	}))
	t.Cleanup(s.Close)
	return &Cache{Dir: filepath.Join(t.TempDir(), "shared"), Client: s.Client(), Log: t.Logf,
		Known: func(name string) (File, bool) {
			return File{name + ".txt", s.URL + "/" + name + ".txt", sum}, name != "none"
		}}, fetched
}

// covers: BEN-5
func TestFilesAreFetchedOnce(t *testing.T) {
	sum := sha256.Sum256([]byte("a line\n"))
	c, fetched := serve(t, "a line\n", hex.EncodeToString(sum[:]))
	for range 3 {
		path, err := c.Get(t.Context(), "poems")
		require.NoError(t, err)
		require.Equal(t, filepath.Join(c.Dir, "poems.txt"), path)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "a line\n", string(got))
	}
	require.EqualValues(t, 1, fetched.Load())
	require.Len(t, names(t, c.Dir), 1, "nothing else stays in the folder")
}

// covers: BEN-5
func TestWhatCannotBeFetched(t *testing.T) {
	c, _ := serve(t, "another line\n", "00ff")
	_, err := c.Get(t.Context(), "poems")
	require.ErrorContains(t, err, "have the SHA-256")
	require.ErrorContains(t, err, "not 00ff")
	require.Empty(t, names(t, c.Dir), "a wrong file is not kept")

	_, err = c.Get(t.Context(), "gone")
	require.ErrorContains(t, err, "404")

	known, offline := c.Known, *c
	offline.Known = func(name string) (File, bool) {
		f, ok := known(name)
		f.URL = "http://127.0.0.1:1/" + f.Name // nobody listens there
		return f, ok
	}
	_, err = offline.Get(t.Context(), "poems")
	for _, want := range []string{"127.0.0.1:1", "internet access", "SHA-256 00ff", filepath.Join(c.Dir, "poems.txt"),
		"--dataset-path"} {
		require.ErrorContains(t, err, want)
	}
	_, err = c.Get(t.Context(), "none")
	require.ErrorContains(t, err, "--dataset-path")
	c.Dir = ""
	_, err = c.Get(t.Context(), "poems")
	require.ErrorContains(t, err, "PROFLLM_DATASETS")
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

func TestKnownFiles(t *testing.T) {
	for _, name := range []string{"sharegpt", "sonnet"} {
		f, ok := Known(name)
		require.True(t, ok)
		require.Len(t, f.SHA256, 64)
		require.Contains(t, f.URL, f.Name)
	}
	_, ok := Known("random")
	require.False(t, ok)
}

func TestFolder(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"PROFLLM_DATASETS": "/d", "HOME": "/h"}, "/d"},
		{map[string]string{"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/profllm/datasets"},
		{map[string]string{"HOME": "/h"}, "/h/.cache/profllm/datasets"},
		{nil, ""},
	} {
		require.Equal(t, tt.want, Folder(func(name string) string { return tt.env[name] }))
	}
}
