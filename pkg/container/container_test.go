package container

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// covers: C.4, CD-23
func TestCacheName(t *testing.T) {
	for image, want := range map[string]string{
		"nvcr.io#nvidia/ai-dynamo/vllm-runtime:0.7.0": "nvcr.io_nvidia_ai-dynamo__vllm-runtime__0.7.0.sqsh",
		"nvcr.io/nvidia/vllm:latest":                  "nvcr.io_nvidia__vllm__latest.sqsh",
		"vllm/vllm-openai:v0.14.0-cu130":              "vllm__vllm-openai__v0.14.0-cu130.sqsh",
		"ubuntu:22.04":                                "ubuntu__22.04.sqsh",
		"/local/disk/file.sqsh":                       "file.sqsh__notag.sqsh",
		"docker://nvcr.io/nvidia/vllm:latest":         "nvcr.io_nvidia__vllm__latest.sqsh",
		"host:5000/a/b":                               "host:5000_a__b__notag.sqsh",
		"host:5000#a/b":                               "host:5000_a__b__notag.sqsh",
		"host:5000/a/b:1":                             "host:5000_a__b__1.sqsh",
		"../../etc/passwd:1":                          "passwd__1.sqsh",
		"a/$(touch x);b:'1'":                          "a____touch_x__b___1.sqsh",
		"":                                            "notag.sqsh",
	} {
		require.Equal(t, want, CacheName(image, ".sqsh"), image)
	}
	require.Equal(t, "host_5000_a__b__1.tar", CacheName("host:5000/a/b:1", ".tar"), "podman takes a colon for a name")
}

// covers: PL-G1, PL-G2
func TestReference(t *testing.T) {
	for _, c := range []struct{ image, plain, enroot string }{
		{"nvcr.io#nvidia/x:1", "nvcr.io/nvidia/x:1", "nvcr.io#nvidia/x:1"},
		{"nvcr.io/nvidia/x:1", "nvcr.io/nvidia/x:1", "nvcr.io#nvidia/x:1"},
		{"docker://nvcr.io/nvidia/x", "nvcr.io/nvidia/x", "nvcr.io#nvidia/x"},
		{"$", "", ""},
		{"user@nvcr.io#nvidia/x:1", "nvcr.io/nvidia/x:1", "user@nvcr.io#nvidia/x:1"},
		{"localhost:5000/x", "localhost:5000/x", "localhost:5000#x"},
		{"vllm/vllm-openai:v1", "vllm/vllm-openai:v1", "vllm/vllm-openai:v1"},
		{"ubuntu", "ubuntu", "ubuntu"},
		{"/a/b c.sqsh", "/a/b c.sqsh", "/a/b c.sqsh"},
		{"x:1@sha256:ab", "x:1@sha256:ab", ""},
		{"$oauthtoken@nvcr.io#nvidia/x:1", "nvcr.io/nvidia/x:1", "$oauthtoken@nvcr.io#nvidia/x:1"},
		{"x:", "", ""}, {"x@", "", ""}, {":##", "", ""}, {"x/../y", "", ""},
		{"dockerd://x", "", ""}, {"", "", ""}, {"-x", "", ""}, {"host#", "", ""}, {"a b", "", ""},
	} {
		r, err := ParseReference(c.image)
		if c.plain == "" {
			require.Error(t, err, c.image)
			continue
		}
		require.NoError(t, err, c.image)
		require.Equal(t, c.plain, r.Plain())
		enroot, err := r.Enroot()
		require.Equal(t, c.enroot == "", err != nil, "%v", err)
		require.Equal(t, c.enroot, enroot)
	}
}

func TestMount(t *testing.T) {
	m, err := parseMount("/a:/b:ro+rslave")
	require.NoError(t, err)
	require.Equal(t, Mount{Source: "/a", Target: "/b", ReadOnly: true, Propagation: "rslave"}, m)
	require.Equal(t, "type=bind,source=/a,target=/b,readonly,bind-propagation=rslave", m.oci())
	m, err = parseMount(`/a,x"y:/b`)
	require.NoError(t, err)
	require.Equal(t, `type=bind,"source=/a,x""y",target=/b`, m.oci())
	for _, bad := range []string{"", "/a", "/a:", ":/b", "/a:/b:z", "/a:/b:ro:rw", "a:/b", "/a:b"} {
		_, err := parseMount(bad)
		require.ErrorContains(t, err, "mount", bad)
	}
}

// Files that have the parts of each kind which Check reads.
func squash(size int) []byte {
	b := make([]byte, max(size, 96))
	copy(b, squashMagic)
	binary.LittleEndian.PutUint64(b[40:], uint64(size))
	return b
}

func sif(start, size int) []byte {
	b := make([]byte, max(start+size, headerSize))
	copy(b[sifMagicAt:], sifMagic)
	binary.LittleEndian.PutUint64(b[112:], uint64(start))
	binary.LittleEndian.PutUint64(b[120:], uint64(size))
	return b
}

func archive(t testing.TB, names ...string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, n := range names {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: n, Mode: 0o644, Size: 700}))
		_, err := w.Write(make([]byte, 700))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// covers: PL-G3
func TestCheck(t *testing.T) {
	whole := map[string][]byte{"squashfs": squash(5000), "sif": sif(4096, 900),
		"archive": archive(t, "layer/layer.tar", "manifest.json")}
	for kind, data := range whole {
		digest, err := Check(kind, bytes.NewReader(data))
		require.NoError(t, err, kind)
		require.Regexp(t, "^sha256:[0-9a-f]{64}$", digest)
		for _, n := range []int{0, 3, 47, 100, 127, 130, len(data) / 2} {
			_, err := Check(kind, bytes.NewReader(data[:n]))
			require.Error(t, err, "%s cut to %d bytes", kind, n)
		}
	}
	for kind, data := range map[string][]byte{"text": []byte(strings.Repeat("error page ", 50)),
		"other archive": archive(t, "x")} {
		_, err := Check(kind, bytes.NewReader(data))
		require.ErrorContains(t, err, "is not a squashfs, SIF or docker archive", kind)
	}
	huge := squash(0)
	binary.LittleEndian.PutUint64(huge[40:], 1<<63)
	_, err := Check("huge", bytes.NewReader(huge))
	require.ErrorContains(t, err, "is truncated")
}

func TestCheckFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.sqsh")
	_, _, err := CheckFile(name)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(name, nil, 0o644))
	_, _, err = CheckFile(name)
	require.ErrorContains(t, err, "empty")
	require.NoError(t, os.WriteFile(name, squash(500), 0o644))
	_, size, err := CheckFile(name)
	require.NoError(t, err)
	require.Equal(t, int64(500), size)
}

func FuzzCheck(f *testing.F) {
	f.Add(squash(200))
	f.Add(sif(128, 4))
	f.Add(archive(f, "manifest.json"))
	f.Fuzz(func(t *testing.T, data []byte) {
		digest, err := Check("x", bytes.NewReader(data))
		require.Equal(t, err == nil, digest != "")
	})
}

func FuzzReference(f *testing.F) {
	for _, s := range []string{"nvcr.io#nvidia/x:1", "a@sha256:1", "u@h:1#x", "/a", "docker://h:5/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, image string) {
		r, err := ParseReference(image)
		name := CacheName(image, ".tar")
		require.Equal(t, filepath.Base(name), name, "one path element")
		require.NotContains(t, name, ":")
		if err == nil && r.File == "" {
			again, err := ParseReference(r.Plain())
			if r.Registry == "localhost" || strings.ContainsAny(r.Registry, ".:") {
				require.NoError(t, err)
				require.Equal(t, r.Plain(), again.Plain())
			}
		}
	})
}
