package kube

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const small = "profllm: archive 3 sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\nYWJj\nprofllm: archive ends\n"

// covers: P-18
func TestReadLog(t *testing.T) {
	for name, c := range map[string]struct{ log, plain, archive, fault string }{
		"whole":       {"hello\n" + small, "hello\n" + strings.Replace(small, "YWJj\n", "", 1), "abc", ""},
		"no newline":  {strings.TrimSuffix(small, "\n"), strings.Replace(small, "YWJj\n", "", 1), "abc", ""},
		"carriage":    {strings.ReplaceAll(small, "\n", "\r\n"), strings.Replace(small, "YWJj\n", "", 1), "abc", ""},
		"times":       {"2026-11-26T12:00:00.000000001Z hello\n" + small, "hello\n" + strings.Replace(small, "YWJj\n", "", 1), "abc", ""},
		"none":        {"hello\n", "hello\n", "", "holds no archive"},
		"other size":  {strings.Replace(small, "archive 3", "archive 4", 1), "", "", "it has 3 bytes, and its marker says 4"},
		"more":        {strings.Replace(small, "archive 3", "archive 2", 1), "", "", "more than the 2 bytes"},
		"digest":      {strings.Replace(small, "YWJj", "YWJk", 1), "", "", "its sha256 is"},
		"no base64":   {strings.Replace(small, "YWJj", "Y WJ", 1), "", "", "something else than base64"},
		"odd":         {strings.Replace(small, "YWJj", "YWJjY", 1), "", "", "incomplete"},
		"cut":         {small[:len(small)-24], "", "", "cut within"},
		"head":        {small[95:], "", "", "beginning of the archive"},
		"two":         {small + small, "", "", "second archive"},
		"no marker":   {strings.Replace(small, "ba78", "BA78", 1), "", "", "is no marker"},
		"huge":        {strings.Replace(small, "archive 3", "archive 9999999999", 1), "", "", "at most"},
		"killed late": {strings.TrimSuffix(small, "profllm: archive ends\n"), "", "", "no end marker"},
	} {
		t.Run(name, func(t *testing.T) {
			var plain, archive bytes.Buffer
			s, err := readLog(strings.NewReader(c.log), &plain, &archive)
			require.NoError(t, err)
			if c.fault != "" {
				require.ErrorContains(t, s.fault, c.fault)
				require.False(t, s.archive)
				return
			}
			require.NoError(t, s.fault)
			require.True(t, s.archive)
			require.Equal(t, c.plain, plain.String())
			require.Equal(t, c.archive, archive.String())
		})
	}
	s, err := readLog(strings.NewReader("profllm: phase ready exit 0\nprofllm: phase a/bench exit 7\nprofllm: phase x exit -1\n"+
		" profllm: phase y exit 1\n"), new(bytes.Buffer), new(bytes.Buffer))
	require.NoError(t, err)
	require.Len(t, s.phases, 2)
	require.Equal(t, "a/bench", s.first().name)
}

func TestParseID(t *testing.T) {
	o := &object{Metadata: metadata{Namespace: "bench", Name: "a.b-client", UID: "0123456789"}}
	require.Equal(t, "kube-bench.a.b-client.01234567", idOf(o))
	ns, name, uid, err := parseID(idOf(o))
	require.NoError(t, err)
	require.Equal(t, []string{"bench", "a.b-client", "01234567"}, []string{ns, name, uid})
	for _, bad := range []string{"", "60", "kube-", "kube-a", "kube-a.b", "kube-a.b.", "kube-.b.c", "local-a.b.c"} {
		_, _, _, err := parseID(bad)
		require.Error(t, err, bad)
	}
}

func TestQuantity(t *testing.T) {
	for text, want := range map[quantity]float64{"8": 8, "200m": 0.2, "2Ti": 2 << 40, "1k": 1000, "64Gi": 64 << 30} {
		v, ok := text.value()
		require.True(t, ok)
		require.InDelta(t, want, v, 1e-9)
	}
	_, ok := quantity("much").value()
	require.False(t, ok)
}

// What a log or an archive holds was written by others.
func FuzzReadLog(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte("profllm: phase ready exit 0\n" + small))
	f.Add([]byte(small[:100]))
	f.Fuzz(func(t *testing.T, data []byte) {
		var plain, archive bytes.Buffer
		s, err := readLog(bytes.NewReader(data), &plain, &archive)
		require.NoError(t, err)
		require.Equal(t, s.archive, s.fault == nil)
		if s.archive {
			require.LessOrEqual(t, archive.Len(), len(data))
		}
	})
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte("raw/a"), true)
	f.Add([]byte("../a"), false)
	f.Fuzz(func(t *testing.T, data []byte, pack bool) {
		if pack {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			z.Write(data)
			z.Close()
			data = b.Bytes()
		}
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "in"), 0o755))
		root, err := os.OpenRoot(filepath.Join(dir, "in"))
		require.NoError(t, err)
		defer root.Close()
		files, err := unpack(bytes.NewReader(data), root, []string{"load/"})
		if err == nil {
			for _, name := range files {
				require.True(t, filepath.IsLocal(name))
			}
		}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1, "nothing is written outside")
	})
}

func TestOfThisMachine(t *testing.T) {
	for err, want := range map[error]bool{
		&fs.PathError{Op: "write", Path: "x", Err: syscall.EFBIG}:           true,
		&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}:          true,
		&os.LinkError{Op: "rename", Old: "x", New: "y", Err: syscall.EXDEV}: true,
		&fs.PathError{Op: "open", Path: "x", Err: syscall.EEXIST}:           false,
		gzip.ErrChecksum: false,
	} {
		require.Equal(t, want, ofThisMachine(err), err)
	}
}

// A manifest that somebody edited is refused in words.
func TestManifestWithoutMetadata(t *testing.T) {
	for _, text := range []string{"Metadata: {name: x, labels: {profllm.io/run: id}}", "metadata: 5", "x: 1"} {
		_, err := parseManifest([]byte("apiVersion: batch/v1\nkind: Job\n"+text+"\n"), "id", "bench")
		require.Error(t, err, text)
	}
	_, err := parseManifest([]byte("apiVersion: batch/v1\nkind: Job\nMetadata: {name: x, labels: {profllm.io/run: id}}\n"), "id", "bench")
	require.ErrorContains(t, err, "an object of kind Job has no metadata")
}

// What was found by an environment is kept by absolute paths.
func TestKubeconfig(t *testing.T) {
	home, here := t.TempDir(), t.TempDir()
	t.Chdir(here)
	require.NoError(t, os.Mkdir(filepath.Join(home, ".kube"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".kube/config"), nil, 0o600))
	for _, name := range []string{"a", "c"} {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	for _, c := range []struct{ given, variable, want string }{
		{"", "", home + "/.kube/config"}, {"", "a::/b", here + "/a:/b"}, {"c", "a", here + "/c"},
	} {
		k := New([]string{"HOME=" + home, "KUBECONFIG=" + c.variable}, time.Now)
		got, err := k.kubeconfig(c.given)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	got, err := New([]string{"HOME=" + here}, time.Now).kubeconfig("")
	require.NoError(t, err)
	require.Empty(t, got)
	_, err = New([]string{"KUBECONFIG=/b::d"}, time.Now).kubeconfig("")
	require.ErrorContains(t, err, "there is no kubeconfig /b, or "+here+"/d\n\thint: name another one")
}

// A small archive may not fill the disk, nor the memory of who reads it.
func TestUnpackBomb(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	require.NoError(t, tar.NewWriter(z).WriteHeader(&tar.Header{Name: "raw/x", Typeflag: tar.TypeReg, Size: 1 << 30, Mode: 0o644}))
	require.NoError(t, z.Close())
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	_, err = unpack(&b, root, nil)
	require.ErrorContains(t, err, "raw/x has 1073741824 bytes, and at most 256 MiB are taken")
	left := int64(mostFile - 1)
	err = unpackFile(nil, &tar.Header{Size: mostFile}, root, "raw/x", &left)
	require.ErrorContains(t, err, "it holds more than 512 MiB")
	_, err = root.Stat("raw")
	require.ErrorIs(t, err, fs.ErrNotExist, "nothing is written")
}
