package container

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	hexA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	hexB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// docker24 is manifest.json as Docker wrote it until version 24, and Podman's docker-archive.
const docker24 = `[{"Config":"` + hexA + `.json","RepoTags":["vllm-serve:0.15"],"Layers":["x/layer.tar"]}]`

// The files of an archive of Docker 25 and later, and of an OCI layout, which has no manifest.json.
var (
	docker25 = `[{"Config":"blobs/sha256/` + hexA + `","RepoTags":["vllm-serve:0.15"]}]`
	layout   = `{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:` +
		hexB + `","annotations":{"org.opencontainers.image.ref.name":"0.15","io.containerd.image.name":"docker.io/library/vllm-serve:0.15"}}]}`
	manifest = `{"schemaVersion":2,"config":{"digest":"sha256:` + hexA + `"},"layers":[]}`
)

// tarOf is an archive of files, NAME and CONTENT in turn.
func tarOf(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1]))}))
		_, err := w.Write([]byte(files[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// The name and the ids of an image stand in its archive, in each form that Docker and Podman
// write, plain and compressed; nothing is loaded.
//
// covers: IMG-4
func TestReadArchive(t *testing.T) {
	both := []string{"sha256:" + hexA, "sha256:" + hexB}
	layer := strings.Repeat("layer", 1<<18) // more than is read of a manifest
	for name, c := range map[string]struct {
		data []byte
		want Archive
	}{
		"docker 24": {tarOf(t, "x/layer.tar", layer, "manifest.json", docker24), Archive{"vllm-serve:0.15", both[:1]}},
		"docker 25": {tarOf(t, "blobs/sha256/"+hexB, manifest, "blobs/sha256/cc", layer, "index.json", layout, "manifest.json", docker25),
			Archive{"vllm-serve:0.15", both}},
		"oci layout": {tarOf(t, "./index.json", layout, "./blobs/sha256/"+hexB, manifest), Archive{"docker.io/library/vllm-serve:0.15", both}},
		"no name":    {tarOf(t, "manifest.json", `[{"Config":"`+hexA+`.json","RepoTags":null}]`), Archive{"", both[:1]}},
	} {
		for ending, data := range map[string][]byte{".tar": c.data, ".tar.gz": zipped(t, c.data)} {
			file := filepath.Join(t.TempDir(), "x"+ending)
			require.NoError(t, os.WriteFile(file, data, 0o644))
			require.True(t, IsArchive(file))
			got, err := ReadArchive(t.Context(), file)
			require.NoError(t, err, name)
			require.Equal(t, c.want, got, name+ending)
			_, _, err = CheckFile(file)
			require.NoError(t, err, name+ending)
		}
	}
	require.False(t, IsArchive("/a/x.sqsh"))
}

func TestReadArchiveRefuses(t *testing.T) {
	whole := zipped(t, tarOf(t, "x", strings.Repeat("0123456789", 1000), "manifest.json", docker24))
	for want, data := range map[string][]byte{
		"neither manifest.json nor index.json names an image": tarOf(t, "x", "y"),
		"manifest.json: invalid character 'x'":                tarOf(t, "manifest.json", "x"),
		"manifest.json: the file is too large":                tarOf(t, "manifest.json", strings.Repeat(" ", mostIndex+1)),
		"index.json names an image":                           tarOf(t, "manifest.json", `[{"Config":"--privileged"}]`),
		"unexpected EOF":                                      whole[:len(whole)/2],
		"compressed by zstd, which profllm cannot read":       {0x28, 0xb5, 0x2f, 0xfd, 0},
	} {
		file := filepath.Join(t.TempDir(), "x.tar")
		require.NoError(t, os.WriteFile(file, data, 0o644))
		_, err := ReadArchive(t.Context(), file)
		require.ErrorContains(t, err, "read archive "+file)
		require.ErrorContains(t, err, want)
	}
	_, err := ReadArchive(t.Context(), t.TempDir()+"/none.tar")
	require.ErrorIs(t, err, os.ErrNotExist)

	file := filepath.Join(t.TempDir(), "x.tar.gz")
	require.NoError(t, os.WriteFile(file, whole, 0o644))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = ReadArchive(over, file)
	require.ErrorIs(t, err, context.Canceled, "a job that ends does not wait for an archive")
	require.NoError(t, os.WriteFile(file, whole[:len(whole)-4], 0o644))
	_, _, err = CheckFile(file)
	require.Error(t, err, "the checksum at the end is missing")
}

func FuzzReadArchive(f *testing.F) {
	f.Add(tarOf(f, "manifest.json", docker24))
	f.Add(tarOf(f, "blobs/sha256/"+hexB, manifest, "index.json", layout))
	f.Add(zipped(f, tarOf(f, "manifest.json", docker25)))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := readArchive(bytes.NewReader(data))
		require.Equal(t, err == nil, len(a.IDs) > 0)
		for _, id := range a.IDs {
			require.Regexp(t, `^[a-z0-9]+:[0-9a-fA-F]+$`, id, "it becomes an argument")
		}
	})
}

// The region of Amazon's registry stands in its name. There is none for any other registry.
//
// covers: IMG-6
func TestECRRegion(t *testing.T) {
	for image, want := range map[string]string{
		"123456789012.dkr.ecr.eu-central-1.amazonaws.com/a/vllm:1":        "eu-central-1",
		"123456789012.dkr.ecr.us-gov-west-1.amazonaws.com#vllm@sha256:ab": "us-gov-west-1",
		"AWS@123456789012.dkr.ecr.us-west-2.amazonaws.com#vllm":           "us-west-2",
		"123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/vllm":           "cn-north-1",
		"123456789012.dkr.ecr-fips.us-east-1.amazonaws.com/vllm":          "us-east-1",
		"public.ecr.aws/vllm/vllm:1":                                      "",
		"nvcr.io/nvidia/vllm:26.01":                                       "",
		"vllm/vllm-openai:v0.15":                                          "",
		"123456789012.dkr.ecr.amazonaws.com/vllm":                         "",
		"123456789012.dkr.ecr.us-west-2.amazonaws.com.evil.org/vllm":      "",
		"x123456789012.dkr.ecr.us-west-2.amazonaws.com/vllm":              "",
		"/images/123456789012.dkr.ecr.us-west-2.amazonaws.com/x.tar":      "",
		"": "",
	} {
		region, ok := ECRRegion(image)
		require.Equal(t, want, region, image)
		require.Equal(t, want != "", ok, image)
		require.Equal(t, ok, Login("docker", image) != nil, image)
	}
}

// runLogin runs a command with stand-ins for aws and docker, and returns what they were called with.
func runLogin(t *testing.T, argv []string, aws string) (calls string) {
	t.Helper()
	dir := t.TempDir()
	for name, body := range map[string]string{
		"aws":    `echo "aws $*" >>"$CALLS"; ` + aws,
		"docker": `echo "docker $*" >>"$CALLS"; [ "$1" != login ] || { echo "stdin $(cat)" >>"$CALLS"; echo Login Succeeded; }`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+body+"\n"), 0o755))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("CALLS", dir+"/calls")
	said, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	out := string(said)
	require.NoError(t, err, out)
	data, err := os.ReadFile(dir + "/calls")
	require.NoError(t, err)
	require.NotContains(t, out, "secret-of-aws")
	return string(data) + out
}

// A pull from Amazon's registry logs in with the password that aws prints: it goes through a pipe.
// If that fails, the pull is tried with the credentials that are there.
//
// covers: IMG-5
func TestLogin(t *testing.T) {
	const host = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
	ref, err := ParseReference(host + "/vllm:1")
	require.NoError(t, err)
	importer, _ := ImporterOf("docker")
	argv, err := importer.Command(ref, "F")
	require.NoError(t, err)
	const pulls = "docker pull %[1]s/vllm:1\ndocker save --output F %[1]s/vllm:1\n"
	asks := "aws ecr get-login-password --region eu-west-1\ndocker login --username AWS --password-stdin " + host + "\n"
	want := asks + "stdin secret-of-aws\n" + fmt.Sprintf(pulls, host)
	require.ElementsMatch(t, strings.Split(want, "\n"), strings.Split(runLogin(t, argv, "echo secret-of-aws"), "\n"),
		"the two ends of a pipe start in any order")

	said := runLogin(t, argv, "echo 'Unable to locate credentials' >&2; exit 255")
	require.Contains(t, said, "profllm: cannot log in to "+host+"; trying the credentials that are there\n")
	require.Contains(t, said, fmt.Sprintf(pulls, host))

	said = runLogin(t, Login("docker", host+"/vllm:1"), "echo secret-of-aws")
	require.Contains(t, said, "stdin secret-of-aws\n")
	require.NotContains(t, said, "docker pull", "the runtime itself pulls on a node")
}
