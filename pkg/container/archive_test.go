package container

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
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
		region, ok := ecrRegion(image)
		require.Equal(t, want, region, image)
		require.Equal(t, want != "", ok, image)
		require.Equal(t, ok, Login("docker", image) != nil, image)
	}
}

// runLogin runs a command with stand-ins for aws and docker, and returns what they were called
// with. Pulls work after a login, and before it with own credentials. A minute is short.
func runLogin(t *testing.T, argv []string, aws string, own bool) (calls string, err error) {
	t.Helper()
	limit, err := exec.LookPath("timeout")
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "a b;c")
	require.NoError(t, os.Mkdir(dir, 0o755))
	for name, body := range map[string]string{
		"aws": `echo "aws $*" >>"$CALLS"; ` + aws,
		"docker": `echo "docker $*" >>"$CALLS"
case $1 in
login) echo "stdin $(cat)" >>"$CALLS"; echo Login Succeeded; touch "$CALLS.in" ;;
pull) [ -e "$CALLS.in" ] ;;
esac`,
		"timeout": `[ "$1 $2 $3" = "--foreground --kill-after=5 60" ] || exit 1; shift 3
[ -z "$SHORT" ] || exec ` + limit + ` --foreground --kill-after=5 0.1 "$@"; exec "$@"`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+body+"\n"), 0o755))
	}
	if own {
		require.NoError(t, os.WriteFile(dir+"/calls.in", nil, 0o644))
	}
	for i, arg := range argv {
		argv[i] = strings.ReplaceAll(arg, "DIR", dir)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "CALLS="+dir+"/calls")
	if strings.HasPrefix(aws, "exec sleep") {
		cmd.Env = append(cmd.Env, "SHORT=1")
	}
	said, err := cmd.CombinedOutput()
	out := string(said)
	data, readErr := os.ReadFile(dir + "/calls")
	require.NoError(t, readErr, out)
	require.NotContains(t, out, "secret-of-aws")
	return string(data) + out, err
}

// A pull from Amazon's registry uses the credentials that are there. If it fails, there is a login
// with the password that aws prints, which goes through a pipe, and another pull.
//
// covers: IMG-5
func TestLogin(t *testing.T) {
	const host = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
	ref, err := ParseReference(host + "/vllm:1")
	require.NoError(t, err)
	command := func() []string {
		importer, _ := ImporterOf("docker")
		argv, err := importer.Command(ref, "F")
		require.NoError(t, err)
		return argv
	}
	const pull, save = "docker pull " + host + "/vllm:1\n", "docker save --output F " + host + "/vllm:1\n"
	const asks = "aws ecr get-login-password --region eu-west-1\ndocker login --username AWS --password-stdin " + host + "\n"
	got, err := runLogin(t, command(), "echo secret-of-aws", false)
	require.NoError(t, err, got)
	require.ElementsMatch(t, strings.Split(pull+asks+"stdin secret-of-aws\n"+pull+save, "\n"), strings.Split(got, "\n"),
		"the two ends of a pipe start in any order")
	require.True(t, strings.HasPrefix(got, pull), got)

	got, err = runLogin(t, command(), "echo secret-of-aws", true)
	require.NoError(t, err, got)
	require.Equal(t, pull+save, got, "credentials that do are not replaced")

	for _, aws := range []string{"echo 'Unable to locate credentials' >&2; exit 255", "exec sleep 600"} {
		got, err = runLogin(t, command(), aws, false)
		require.Error(t, err)
		require.Contains(t, got, "profllm: cannot log in to "+host+": aws or docker failed, or took more than 60 s\n")
		require.Equal(t, 1, strings.Count(got, "docker pull"), got)
	}

	got, err = runLogin(t, Login("DIR/docker", host+"/vllm:1"), "echo secret-of-aws", false)
	require.NoError(t, err, got)
	require.Contains(t, got, "stdin secret-of-aws\n", "the shell reads nothing in the program's path")
	require.NotContains(t, got, "docker pull", "the runtime itself pulls on a node")
}
