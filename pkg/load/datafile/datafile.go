// Package datafile fetches the files of data sets that have a known place: once, into a folder
// that all runs share, and compared with a known checksum.
//
//	path, err := (&datafile.Cache{Dir: dir, Client: http.DefaultClient}).Get(ctx, "sharegpt")
package datafile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/profllm/profllm/pkg/durable"
)

// A File is the file of a data set.
type File struct {
	Name   string // in the folder
	URL    string
	SHA256 string // in hexadecimal digits
}

// Known returns the file of a data set; ok is false if it has no known place.
func Known(dataset string) (f File, ok bool) {
	switch dataset {
	case "sharegpt": // what the pages of vLLM and SGLang name
		return File{"ShareGPT_V3_unfiltered_cleaned_split.json",
			"https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered/resolve/" +
				"bcd32a724d8460ebe14e1d05b0195e30e9a46cb1/ShareGPT_V3_unfiltered_cleaned_split.json",
			"35f0e213ce091ed9b9af2a1f0755e9d39f9ccec34ab281cd4ca60d70f6479ba4"}, true
	case "sonnet":
		return File{"sonnet.txt", "https://raw.githubusercontent.com/vllm-project/vllm/v0.8.5/benchmarks/sonnet.txt",
			"d58663195ba6780da5f029b920c7ac00cad1e435ee1df7e03bf9ec2470f8dea4"}, true
	}
	return File{}, false
}

// largest bounds a file, in bytes; ShareGPT's has 0.7 GB.
const largest = 1 << 30

// A Cache is a folder of fetched files.
type Cache struct {
	Dir    string // "" if the environment names none
	Client *http.Client
	Log    func(format string, args ...any)
	Known  func(dataset string) (File, bool) // nil is [Known]
}

// Get returns the path of a data set's file, and fetches it if it is absent. A file with the final
// name is whole: it gets the name when its checksum was found right. Several processes may fetch
// the same file; each fetches its own copy, and the names of all but one are lost.
func (c *Cache) Get(ctx context.Context, dataset string) (path string, err error) {
	f, path, err := c.Place(dataset)
	if err != nil {
		return "", err
	}
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
		return path, nil
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return "", err
	}
	c.Log("fetching %s to %s", f.URL, path)
	if err := c.fetch(ctx, f, path); err != nil {
		return "", fmt.Errorf("%w; fetch %s on a machine with internet access (SHA-256 %s) and put it at %s, or "+
			"name it with --dataset-path", err, f.URL, f.SHA256, path)
	}
	return path, nil
}

// Place returns the file of a data set and its path in the cache, whether it is there or not.
func (c *Cache) Place(dataset string) (f File, path string, err error) {
	known := c.Known
	if known == nil {
		known = Known
	}
	f, ok := known(dataset)
	switch {
	case !ok:
		return f, "", fmt.Errorf("the data set %q has no known place: name its file with --dataset-path", dataset)
	case c.Dir == "":
		return f, "", errors.New("there is no folder for data sets: set PROFLLM_DATASETS or HOME, or name the file " +
			"with --dataset-path")
	}
	return f, filepath.Join(c.Dir, f.Name), nil
}

// fetch writes a file to its path, if it has the right checksum.
func (c *Cache) fetch(ctx context.Context, f File, path string) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL, nil)
	if err != nil {
		return err
	}
	resp, err := c.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("fetch %s: %s", f.URL, resp.Status)
	}
	temp, err := os.CreateTemp(c.Dir, "."+f.Name+"-*")
	if err != nil {
		return err
	}
	defer func() {
		temp.Close()
		if err != nil {
			os.Remove(temp.Name())
		}
	}()
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(temp, hash), io.LimitReader(resp.Body, largest))
	if err != nil {
		return fmt.Errorf("fetch %s: %w", f.URL, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != f.SHA256 {
		return fmt.Errorf("fetch %s: its %d bytes have the SHA-256 %s, not %s", f.URL, n, got, f.SHA256)
	}
	if err := temp.Chmod(0o644); err != nil {
		return err
	}
	if err := temp.Sync(); err != nil {
		return err
	}
	return durable.Move(temp.Name(), path)
}

// Folder returns where data sets are kept, by the environment of the program: $PROFLLM_DATASETS, else
// a folder in the user's cache. It is "" if the environment names none.
func Folder(env func(name string) string) string {
	if dir := env("PROFLLM_DATASETS"); dir != "" {
		return dir
	}
	cache := env("XDG_CACHE_HOME")
	if home := env("HOME"); !filepath.IsAbs(cache) && home != "" {
		cache = filepath.Join(home, ".cache")
	}
	if !filepath.IsAbs(cache) {
		return ""
	}
	return filepath.Join(cache, "profllm", "datasets")
}
