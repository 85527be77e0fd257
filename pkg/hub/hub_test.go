package hub

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	one = "0123456789abcdef0123456789abcdef01234567"
	two = "89abcdef0123456789abcdef0123456789abcdef"
)

func put(t *testing.T, text string, elems ...string) {
	t.Helper()
	file := filepath.Join(elems...)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

// cache makes one as Hugging Face's programs do: snapshots are links to blobs.
func cache(t *testing.T) string {
	t.Helper()
	hub := t.TempDir()
	model := filepath.Join(hub, "models--org--name")
	put(t, one+"\n", model, "refs", "main")
	put(t, two, model, "refs", "v2")
	for _, rev := range []string{one, two} {
		put(t, "tokens", model, "blobs", "b"+rev)
		put(t, rev, model, "snapshots", rev, "config.json")
		require.NoError(t, os.Symlink("../../blobs/b"+rev, filepath.Join(model, "snapshots", rev, "tokenizer.json")))
	}
	return hub
}

// covers: PL-V25
func TestRevision(t *testing.T) {
	hub := cache(t)
	in := func(name, ref string) Model { return Model{Name: name, Ref: ref, Cache: hub} }
	require.Equal(t, one, in("org/name", "").Revision())
	require.Equal(t, two, in("org/name", "v2").Revision())
	require.Equal(t, two, in("org/name", two).Revision())
	path := filepath.Join(hub, "models--org--name", "snapshots", two)
	require.Equal(t, two, in(path, "").Revision())
	require.Equal(t, one, Model{Name: "org/name", Root: filepath.Dir(hub), Cache: "/" + filepath.Base(hub)}.Revision(),
		"below a container's root")
	for _, m := range []Model{in("org/other", ""), in("org/name", "v3"), in("org/name", "../../x"), in("../name", ""),
		in("a/b/c", ""), in(hub, ""), in("org/name", strings.Repeat("f", 40)), {}} {
		require.Empty(t, m.Revision(), m.Name)
	}
}

func TestTokenizer(t *testing.T) {
	hub := cache(t)
	base := Model{Name: "org/name", Cache: hub}
	other := base
	other.Ref = "v2"
	require.Regexp(t, "^sha256:[0-9a-f]{64}$", base.Tokenizer())
	require.Equal(t, base.Tokenizer(), other.Tokenizer(), "the same file in two snapshots")
	own := t.TempDir()
	require.Empty(t, Model{Name: own}.Tokenizer())
	put(t, "{}", own, "vocab.json")
	require.Empty(t, Model{Name: own}.Tokenizer(), "a half")
	put(t, "a b", own, "merges.txt")
	both := Model{Name: own}.Tokenizer()
	require.NotEmpty(t, both)
	put(t, "tokens", own, "tokenizer.json")
	require.Equal(t, base.Tokenizer(), Model{Name: own}.Tokenizer())
	require.NotEqual(t, both, Model{Name: own}.Tokenizer())
}

func TestNotRegular(t *testing.T) {
	own := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(own, "tokenizer.json"), 0o755))
	require.Empty(t, Model{Name: own}.Tokenizer())
}

// The Hub's library looks in one folder, whatever else lies around.
func TestCache(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"nothing":        {nil, ""},
		"home":           {map[string]string{"HOME": "/home/u"}, "/home/u/.cache/huggingface/hub"},
		"cache home":     {map[string]string{"HOME": "/home/u", "XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"},
		"HF_HOME":        {map[string]string{"HOME": "/home/u", "XDG_CACHE_HOME": "/c", "HF_HOME": "/hf"}, "/hf/hub"},
		"a home in it":   {map[string]string{"HOME": "/home/u", "HF_HOME": "~/hf"}, "/home/u/hf/hub"},
		"the older name": {map[string]string{"HF_HOME": "/hf", "HUGGINGFACE_HUB_CACHE": "/old"}, "/old"},
		"HF_HUB_CACHE":   {map[string]string{"HF_HOME": "/hf", "HUGGINGFACE_HUB_CACHE": "/old", "HF_HUB_CACHE": "/hub"}, "/hub"},
		"empty is unset": {map[string]string{"HF_HUB_CACHE": "", "HF_HOME": "/hf"}, "/hf/hub"},
		"relative":       {map[string]string{"HOME": "/home/u", "HF_HOME": "hf"}, ""},
	} {
		require.Equal(t, c.want, Cache(func(name string) string { return c.env[name] }), name)
	}
}
