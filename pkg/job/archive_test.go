package job_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/run"
)

// nodeStore is a runtime with a store: load puts the image in it whose id the archive's
// manifest has.
const nodeStore = `store=${0%/*}/store; mkdir -p "$store"
case "$1 $2" in
'image inspect') [[ -e $store/$3 ]] ;;
'load --quiet') # of stdin without --input
  [[ $3 ]] && exec <"$4"
  id=$( { [[ $4 == *gz ]] && gzip -dc || cat; } | grep -ao '[0-9a-f]\{64\}' | head -n 1)
  touch "$store/sha256:$id"; echo "Loaded image: vllm-serve:1" ;;
esac`

// image writes an archive of docker save with an image of that id, compressed if its name says
// so.
func image(t *testing.T, file, id string) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	text := fmt.Sprintf(`[{"Config":"%s.json","RepoTags":["vllm-serve:1"]}]`, id)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "manifest.json", Mode: 0o644, Size: int64(len(text))}))
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	if strings.HasSuffix(file, ".gz") {
		var z bytes.Buffer
		g := gzip.NewWriter(&z)
		_, err := g.Write(b.Bytes())
		require.NoError(t, err)
		require.NoError(t, g.Close())
		b = z
	}
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o644))
}

// called returns the calls that load or run an image, without what names the container.
func called(t *testing.T, file string) (calls []string) {
	t.Helper()
	for _, line := range lines(t, file) {
		f := strings.Fields(line)
		switch f[0] {
		case "load":
			calls = append(calls, "load")
		case "run":
			calls = append(calls, "run "+f[len(f)-2])
		}
	}
	require.NoError(t, os.Remove(file))
	return calls
}

// A node that has the image of an archive does not load it. A rebuilt archive is loaded again
// although its tag is the same, and what runs is the archive's image, not what has its tag.
//
// covers: IMG-3, IMG-7
func TestContainArchive(t *testing.T) {
	first, second := strings.Repeat("1", 64), strings.Repeat("2", 64)
	for _, program := range []string{"docker", "podman"} {
		for _, ending := range []string{".tar", ".tar.gz"} {
			t.Run(program+ending, func(t *testing.T) {
				calls, contain := standIn(t, program, nodeStore)
				file, dir := filepath.Join(t.TempDir(), "vllm"+ending), t.TempDir()
				require.NoError(t, os.Mkdir(filepath.Join(dir, run.RawDir), 0o755))
				step := func() []string {
					_, said, err := contain(t.Context(),
						job.Contain{Args: []string{"--rm", file, "vllm"}, Load: file, Dir: dir})
					require.NoError(t, err, said)
					require.Contains(t, said, "image vllm-serve:1 ")
					return called(t, calls)
				}
				image(t, file, first)
				require.Equal(t, []string{"load", "run sha256:" + first}, step())
				require.Equal(t, []string{"run sha256:" + first}, step(), "the node has it")
				image(t, file, second)
				require.NoError(t, os.Chtimes(file, time.Now(), time.Now().Add(time.Minute)))
				require.Equal(t, []string{"load", "run sha256:" + second}, step(), "the tag is the same, the image is not")
				image(t, file, first)
				require.NoError(t, os.Chtimes(file, time.Now(), time.Now().Add(time.Hour)))
				require.Equal(t, []string{"run sha256:" + first}, step(), "both are there; the tag is of the other")
			})
		}
	}
}

// The steps of a run decompress an archive once.
func TestContainReadsAnArchiveOnce(t *testing.T) {
	calls, contain := standIn(t, "docker", nodeStore)
	file, dir, id := filepath.Join(t.TempDir(), "vllm.tar.gz"), t.TempDir(), strings.Repeat("1", 64)
	image(t, file, id)
	st, err := os.Stat(file)
	require.NoError(t, err)
	step := job.Contain{Args: []string{file, "vllm"}, Load: file, Dir: dir}
	_, _, err = contain(t.Context(), step)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, make([]byte, st.Size()), 0o644)) // who reads it sees no archive
	require.NoError(t, os.Chtimes(file, st.ModTime(), st.ModTime()))
	_, _, err = contain(t.Context(), step)
	require.NoError(t, err)
	require.Equal(t, []string{"load", "run sha256:" + id, "run sha256:" + id}, called(t, calls))
}

// Servers that share a node start together, and the image is loaded once.
func TestContainLoadsOnceOnANode(t *testing.T) {
	bin, tmp, file := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "vllm.tar")
	script := "#!/bin/bash\necho \"$1\" >>" + bin + "/calls\n[ $1 != load ] || sleep 0.1\n" + nodeStore + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "docker"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	image(t, file, strings.Repeat("1", 64))
	var steps sync.WaitGroup
	for i := range 3 {
		env := map[string]string{"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": fmt.Sprint(i), "TMPDIR": tmp}
		out, err := os.Create(filepath.Join(bin, fmt.Sprint("out-", i)))
		require.NoError(t, err)
		defer out.Close()
		j := &job.Job{Env: func(name string) string { return env[name] }, Stdout: out, Stderr: out, Now: time.Now}
		steps.Go(func() {
			code, err := j.RunContain(t.Context(),
				job.Contain{Runtime: "docker", Step: "serve", Args: []string{file}, Load: file}, os.Environ())
			assert.NoError(t, err)
			assert.Zero(t, code)
		})
	}
	steps.Wait()
	all := lines(t, filepath.Join(bin, "calls"))
	count := func(call string) (n int) {
		for _, c := range all {
			if c == call {
				n++
			}
		}
		return n
	}
	require.Equal(t, []int{1, 3}, []int{count("load"), count("run")})
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

// An archive that profllm cannot read is left to the runtime, which may know its compression.
func TestContainForeignArchive(t *testing.T) {
	calls, contain := standIn(t, "docker", `case $1 in load) echo "Loaded image ID: sha256:00ff" ;; image) false ;; esac`)
	file := filepath.Join(t.TempDir(), "x.tar.zst")
	require.NoError(t, os.WriteFile(file, []byte{0x28, 0xb5, 0x2f, 0xfd}, 0o644))
	_, said, err := contain(t.Context(), job.Contain{Args: []string{file, "vllm"}, Load: file})
	require.NoError(t, err)
	require.Contains(t, said, "compressed by zstd, which profllm cannot read: it is loaded at every start")
	require.Equal(t, []string{"load", "run sha256:00ff"}, called(t, calls))
	_, _, err = contain(t.Context(), job.Contain{Args: []string{"y"}, Load: file})
	require.ErrorContains(t, err, "do not contain the image")
}

func TestContainLoadFails(t *testing.T) {
	_, contain := standIn(t, "docker", `echo "Error processing tar file"; [[ $1 != load && $1 != image ]]`)
	file := filepath.Join(t.TempDir(), "x.tar")
	image(t, file, strings.Repeat("1", 64))
	code, _, err := contain(t.Context(), job.Contain{Args: []string{file}, Load: file})
	require.ErrorContains(t, err, "docker load --input "+file+": exit status 1")
	require.Equal(t, 125, code)
	code, _, err = contain(t.Context(), job.Contain{Args: []string{"x.tar"}, Load: "/none/x.tar"})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Equal(t, 125, code)
}

// A step that is told to end does not run what it has not loaded, although the archive is known.
func TestContainEndsBeforeItLoads(t *testing.T) {
	calls, contain := standIn(t, "docker", nodeStore)
	file, dir := filepath.Join(t.TempDir(), "vllm.tar.gz"), t.TempDir()
	image(t, file, strings.Repeat("1", 64))
	step := job.Contain{Args: []string{file, "vllm"}, Load: file, Dir: dir}
	_, _, err := contain(t.Context(), step)
	require.NoError(t, err)
	require.Len(t, called(t, calls), 2)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	code, _, err := contain(ended, step)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 125, code, "the runtime is not called with an image that has no name")
}

const (
	amazon      = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
	amazonImage = amazon + "/vllm:1"
)

// amazonStore runs the image of Amazon's registry after a login, or with own credentials.
const amazonStore = `case "$1 $2" in
'image inspect') [ -n "$THERE" ] ;;
'login --username') cat >"$STDIN" ;;
run*|pull*) [ -e "$STDIN" ] || [ -n "$OWN" ] || exit 125 ;;
esac`

// amazonAWS is a stand-in for aws beside the runtime's.
func amazonAWS(t *testing.T, calls, body string) {
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(calls), "aws"), []byte("#!/bin/bash\n"+body+"\n"), 0o755))
}

// A node that cannot pull from Amazon's registry with the credentials that are there logs in and
// tries once more: the password is on no command line, and in no log.
//
// covers: IMG-5
func TestContainLogsIn(t *testing.T) {
	calls, contain := standIn(t, "docker", amazonStore)
	stdin := filepath.Join(t.TempDir(), "stdin")
	amazonAWS(t, calls, `[ "$*" = 'ecr get-login-password --region eu-west-1' ] && [ -z "$NO_ROLE" ] && echo secret-of-aws`)
	step := func(args []string, environ ...string) (done []string, code int) {
		_ = os.Remove(stdin)
		code, said, err := contain(t.Context(), job.Contain{Args: append(args, amazonImage, "vllm", "--pull=always"),
			Login: amazonImage}, append(environ, "STDIN="+stdin)...)
		require.NoError(t, err)
		all := lines(t, calls)
		require.NotContains(t, said+strings.Join(all, "\n"), "secret-of-aws")
		require.NoError(t, os.Remove(calls))
		for _, l := range all {
			switch {
			case strings.HasPrefix(l, "login"):
				done = append(done, strings.TrimSpace(l))
			case strings.HasPrefix(l, "run"):
				done = append(done, "run")
			}
		}
		return done, code
	}
	again := []string{"run", "login --username AWS --password-stdin " + amazon, "run"}
	for _, c := range []struct {
		why           string
		args, environ []string
		want          []string
		code          int
	}{
		{"the pull fails", nil, nil, again, 0},
		{"the user's own credentials do", nil, []string{"OWN=1"}, []string{"run"}, 0},
		{"the node has the image", nil, []string{"THERE=1"}, []string{"run"}, 125},
		{"it pulls nevertheless", []string{"--pull=always"}, []string{"THERE=1"}, again, 0},
		{"the same in two words", []string{"--pull", "newer"}, []string{"THERE=1"}, again, 0},
		{"it never pulls", []string{"--pull=never"}, nil, []string{"run"}, 125},
		{"the login fails", nil, []string{"NO_ROLE=1"}, again[:2], 125},
	} {
		done, code := step(c.args, c.environ...)
		require.Equal(t, c.want, done, c.why)
		require.Equal(t, c.code, code, c.why)
		if len(done) == 3 {
			got, err := os.ReadFile(stdin)
			require.NoError(t, err)
			require.Equal(t, "secret-of-aws\n", string(got))
		}
	}
}

// Nothing of a login outlives a step that is told to end.
func TestContainEndsALogin(t *testing.T) {
	calls, contain := standIn(t, "docker", amazonStore)
	pids := filepath.Join(t.TempDir(), "pids")
	amazonAWS(t, calls, `trap '' TERM; sleep 600 & echo "$$ $! ." >`+pids+`; wait`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var login []string
	go func() {
		for ctx.Err() == nil {
			data, _ := os.ReadFile(pids)
			if login = strings.Fields(string(data)); len(login) == 3 {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	code, said, err := contain(ctx, job.Contain{Args: []string{amazonImage}, Login: amazonImage})
	require.NoError(t, err)
	require.Equal(t, 125, code)
	require.Contains(t, said, "logging in to the registry of "+amazonImage)
	for _, text := range login[:2] {
		pid, err := strconv.Atoi(text)
		require.NoError(t, err)
		await.True(t, func() bool { return process.Start(pid) == "" }, "process %d of the login ends", &pid)
	}
}
