// Package hub finds a model in Hugging Face's cache, or in a folder of its own: which
// snapshot of it is there, and what its tokenizer is.
//
// It reads small files and downloads nothing. What is not there, or cannot be read, is
// "".
//
//	hub.Model{Name: "Qwen/Qwen3-8B", Cache: "/hf/hub"}.Revision() // 40 hex digits
package hub

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/regular"
)

// Model is a model as an engine is told to load it.
type Model struct {
	Name  string // at Hugging Face, or an absolute path
	Ref   string // branch, tag or commit; "" is main
	Root  string // what absolute paths are below, "" for /: that of a container's processes
	Cache string // folder that holds models--…, absolute; "": not known
}

// Cache is the folder in which the Hub's own library keeps models, by the environment
// of the program that uses it; "" if it names none that is absolute. Only this folder
// is looked in (huggingface_hub/constants.py).
func Cache(env func(name string) string) string {
	home := env("HOME")
	for _, v := range []struct{ value, below string }{
		{env("HF_HUB_CACHE"), ""}, {env("HUGGINGFACE_HUB_CACHE"), ""}, {env("HF_HOME"), "hub"},
		{env("XDG_CACHE_HOME"), "huggingface/hub"}, {home, ".cache/huggingface/hub"},
	} {
		if v.value == "" {
			continue
		}
		if below, ok := strings.CutPrefix(v.value, "~/"); ok {
			v.value = filepath.Join(home, below)
		}
		if !filepath.IsAbs(v.value) {
			return ""
		}
		return filepath.Join(v.value, v.below)
	}
	return ""
}

// commit is a revision: SHA-1, as git and the Hub write it.
var commit = lazyregexp.New(`^[0-9a-f]{40}$`)

// maxTokenizer bounds what is read of a tokenizer; those of large vocabularies have
// 30 MB.
const maxTokenizer = 128 << 20

// Revision is the commit of the snapshot, "" if it is not known: a folder of the user's
// own has none.
func (m Model) Revision() string {
	_, revision := m.snapshot()
	return revision
}

// Folder is the folder with the model's files, "" if there is none.
func (m Model) Folder() string {
	dir, _ := m.snapshot()
	return dir
}

// snapshot is the folder with the model's files, "" if there is none, and its commit.
func (m Model) snapshot() (dir, revision string) {
	if filepath.IsAbs(m.Name) {
		dir = filepath.Join(m.Root, m.Name)
		elems := strings.Split(filepath.ToSlash(m.Name), "/")
		if i := slices.Index(elems, "snapshots"); i >= 0 && i+1 < len(elems) && commit.MatchString(elems[i+1]) {
			revision = elems[i+1]
		}
		return dir, revision
	}
	if m.Cache == "" || !filepath.IsLocal(m.Name) || strings.Count(m.Name, "/") > 1 {
		return "", ""
	}
	ref := m.Ref
	if ref == "" {
		ref = "main"
	}
	model := filepath.Join(m.Root, m.Cache, "models--"+strings.ReplaceAll(m.Name, "/", "--"))
	revision = ref
	if !commit.MatchString(ref) {
		if !filepath.IsLocal(ref) {
			return "", ""
		}
		revision = strings.TrimSpace(head(filepath.Join(model, "refs", ref), 64))
	}
	dir = filepath.Join(model, "snapshots", revision)
	if st, err := os.Stat(dir); commit.MatchString(revision) && err == nil && st.IsDir() {
		return dir, revision
	}
	return "", ""
}

// tokenizers are the files that hold one, each with those that belong to it; the first
// that is there counts.
var tokenizers = [][]string{{"tokenizer.json"}, {"tokenizer.model"}, {"tiktoken.model"}, {"vocab.json", "merges.txt"}}

// Tokenizer is "sha256:" and the SHA-256 of the tokenizer's files.
func (m Model) Tokenizer() string {
	dir, _ := m.snapshot()
	if dir == "" {
		return ""
	}
	for _, names := range tokenizers {
		h := sha256.New()
		whole := true
		for _, name := range names {
			whole = whole && add(h, filepath.Join(dir, name))
		}
		if whole {
			return fmt.Sprintf("sha256:%x", h.Sum(nil))
		}
	}
	return ""
}

// add hashes a regular file; false if it is not there or too large.
func add(h io.Writer, name string) bool {
	if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() || st.Size() > maxTokenizer {
		return false // a pipe would not answer
	}
	f, err := regular.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	n, err := io.Copy(h, io.LimitReader(f, maxTokenizer+1))
	return err == nil && n <= maxTokenizer
}

// head is the beginning of a small file, "" if it cannot be read.
func head(name string, most int64) string {
	if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() {
		return ""
	}
	f, err := regular.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	return string(data)
}
