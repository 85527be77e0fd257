package manifest_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/manifest"
	"github.com/profllm/profllm/pkg/plan"
)

// scripts writes the script of a golden plan for a folder and a server of this machine.
func scriptFor(t *testing.T, p *plan.Plan, dir, url string) string {
	t.Helper()
	data, err := manifest.Script(p, dir)
	require.NoError(t, err)
	text := regexp.MustCompile(`http://exp-[a-z0-9-]*:\d+`).ReplaceAllString(string(data), url)
	return strings.ReplaceAll(text, plan.RunVolume+"/", dir+"/")
}

// service answers requests for completions as a server does: the first ones with 404, while no
// model is there.
type service struct {
	http.Handler
	asked []string // paths
}

func newService(t *testing.T, early int, chat bool) (*service, string) {
	s := &service{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked = append(s.asked, r.URL.Path)
		var body struct {
			Model  string `json:"model"`
			Tokens int    `json:"max_tokens"`
		}
		err := json.NewDecoder(r.Body).Decode(&body)
		switch {
		case err != nil || body.Model == "" || body.Tokens != 1 || r.Method != http.MethodPost:
			http.Error(w, "a wrong request", http.StatusTeapot)
		case len(s.asked) <= early:
			http.Error(w, `{"error":"model_not_found"}`, http.StatusNotFound)
		case r.URL.Path == "/v1/chat/completions" && !chat:
			http.Error(w, "no chat template", http.StatusBadRequest)
		default:
			fmt.Fprintln(w, `{"choices":[{}]}`)
		}
	}))
	t.Cleanup(server.Close)
	return s, server.URL
}

// tools are programs of a container's image in a folder: coreutils, tar, gzip, and the client.
func tools(t *testing.T, client string, more ...string) string {
	t.Helper()
	bin := t.TempDir()
	for _, name := range append([]string{"bash", "mkdir", "tar", "gzip", "base64", "sha256sum", "stat", "sleep", "tee",
		"env", "head", "cat",
		"sh"}, more...) {
		at, err := exec.LookPath(name)
		require.NoError(t, err)
		if name == "python3" { // a shim of pyenv needs more than itself
			out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
			require.NoError(t, err)
			at = strings.TrimSpace(string(out))
		}
		require.NoError(t, os.Symlink(at, filepath.Join(bin, name)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(bin, "aiperf"), []byte("#!/bin/sh\n"+client), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "pip"), []byte("#!/bin/sh\necho installed \"$@\"\n"), 0o755))
	return bin
}

// ran is what a script did.
type ran struct {
	code   int
	out    string
	phases []string
	files  map[string]string
}

func start(t *testing.T, text, bin string, env ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command("bash", "-c", text)
	var out bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = append([]string{"PATH=" + bin}, env...), &out, &out
	require.NoError(t, cmd.Start())
	return cmd, &out
}

// ended reads what a script printed: its phases, and the archive, whose size and digest must be
// right.
func ended(t *testing.T, cmd *exec.Cmd, out *bytes.Buffer) ran {
	t.Helper()
	r := ran{files: map[string]string{}}
	if err := cmd.Wait(); err != nil {
		exit := new(exec.ExitError)
		require.True(t, errors.As(err, &exit), "%v", err)
		r.code = exit.ExitCode()
	}
	r.out = out.String()
	for _, line := range strings.Split(r.out, "\n") {
		if phase, ok := strings.CutPrefix(line, plan.PhaseEnded); ok {
			r.phases = append(r.phases, phase)
		}
	}
	head := regexp.MustCompile(`(?m)^` + plan.ArchiveBegins + `(\d+) sha256:([0-9a-f]{64})$`).FindStringSubmatchIndex(r.out)
	require.NotNil(t, head, "%s", r.out)
	body, rest, ok := strings.Cut(r.out[head[1]+1:], plan.ArchiveEnds+"\n")
	require.True(t, ok)
	require.Empty(t, rest, "nothing is printed behind the archive")
	data, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(body, "\n", ""))
	require.NoError(t, err)
	require.Equal(t, r.out[head[2]:head[3]], fmt.Sprint(len(data)))
	require.Equal(t, r.out[head[4]:head[5]], fmt.Sprintf("%x", sha256.Sum256(data)))
	z, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if err == io.EOF {
			return r
		}
		require.NoError(t, err)
		text, err := io.ReadAll(in)
		require.NoError(t, err)
		r.files[h.Name] = string(text)
	}
}

// good is a client that measures.
const good = `while [ $# -gt 1 ]; do [ "$1" = --artifact-dir ] && dir=$2; shift; done
echo "measured as $PROFLLM_ROLE"; echo '{}' >"$dir/profile.json"`

// The service is asked until it answers, each load leaves its files, and all of them leave through
// the log.
//
// covers: P-18
func TestScriptMeasures(t *testing.T) {
	s, url := newService(t, 3, true)
	dir := t.TempDir()
	p := one(t, "cluster.toml", "disaggregated")
	cmd, out := start(t, scriptFor(t, p, dir, url), tools(t, good, "curl"))
	r := ended(t, cmd, out)
	require.Zero(t, r.code, r.out)
	require.Equal(t, []string{"ready exit 0", "round_1/bench exit 0", "round_2/bench exit 0"}, r.phases)
	require.Equal(t, []string{"/v1/chat/completions", "/v1/completions", "/v1/chat/completions", "/v1/completions"},
		s.asked)
	require.Equal(t, "{}\n", r.files["round_2/raw/profile.json"])
	require.Equal(t, "installed install aiperf==0.13.0\nmeasured as client\n", r.files["round_1/logs/bench-0.log"])
	require.Contains(t, r.out, "measured as client\n", "who follows the container's log sees the client's")
	before, _, _ := strings.Cut(r.out, plan.ArchiveBegins)
	require.Equal(t, "\nprofllm: phase ready exit 0\ninstalled install aiperf==0.13.0\nmeasured as client\n"+
		"\nprofllm: phase round_1/bench exit 0\ninstalled install aiperf==0.13.0\nmeasured as client\n"+
		"\nprofllm: phase round_2/bench exit 0\n\n", before, "and nothing else")
}

// A client need not end its last line: the markers stand on lines of their own.
//
// covers: P-18
func TestScriptUnendedLine(t *testing.T) {
	_, url := newService(t, 0, true)
	for _, last := range []string{`x`, `100 %%\r`, `x\r\n`} {
		cmd, out := start(t, scriptFor(t, one(t, "cluster.toml", "aggregated"), t.TempDir(), url),
			tools(t, "printf '"+last+"'", "curl"))
		r := ended(t, cmd, out)
		require.Zero(t, r.code, r.out)
		require.Equal(t, []string{"ready exit 0", "bench exit 0"}, r.phases, "%q", r.out)
	}
}

// An image without curl, and a model without a chat template.
func TestScriptAsksInPython(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	s, url := newService(t, 0, false)
	cmd, out := start(t, scriptFor(t, one(t, "cluster.toml", "aggregated"), t.TempDir(), url), tools(t, good,
		"python3"))
	r := ended(t, cmd, out)
	require.Zero(t, r.code, r.out)
	require.Equal(t, []string{"ready exit 0", "bench exit 0"}, r.phases)
	require.Equal(t, []string{"/v1/chat/completions", "/v1/completions"}, s.asked)
}

// A service that never answers, a client that fails, and a client that is missing: the files leave
// all the same, and the exit code says it.
func TestScriptFails(t *testing.T) {
	p := one(t, "cluster.toml", "disaggregated")
	_, never := newService(t, 1<<30, true)
	_, url := newService(t, 0, true)
	for _, c := range []struct {
		name, url, client string
		ready             plan.Seconds
		code              int
		phases            []string
	}{
		{"not ready", never, good, 0, 1, []string{"ready exit 1"}},
		{"nothing listens", "http://127.0.0.1:1", good, 0, 1, []string{"ready exit 1"}},
		{"fails", url, "echo broken >&2; exit 3", p.Kubernetes.Ready, 3, []string{"ready exit 0",
			"round_1/bench exit 3"}},
		{"leaves a process", url, "sleep 0.1 & exit 4", p.Kubernetes.Ready, 4, []string{"ready exit 0",
			"round_1/bench exit 4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, k := *p, *p.Kubernetes
			k.Ready = c.ready
			q.Kubernetes = &k
			cmd, out := start(t, scriptFor(t, &q, t.TempDir(), c.url), tools(t, c.client, "curl"))
			r := ended(t, cmd, out)
			require.Equal(t, c.code, r.code, r.out)
			require.Equal(t, c.phases, r.phases)
			require.Contains(t, r.files, "logs/ready.status")
		})
	}
	q := *p
	q.Loads = slices.Clone(p.Loads)
	for i := range q.Loads {
		q.Loads[i].StopOnFailure = false
	}
	cmd, out := start(t, scriptFor(t, &q, t.TempDir(), url), tools(t, "exit 5", "curl"))
	r := ended(t, cmd, out)
	require.Equal(t, 5, r.code)
	require.Equal(t, []string{"ready exit 0", "round_1/bench exit 5", "round_2/bench exit 5"}, r.phases)
}

// Whoever ends the pod, or the run's own time limit, gets the files so far.
func TestScriptIsEnded(t *testing.T) {
	_, url := newService(t, 0, true)
	for name, code := range map[string]int{"TERM": 143, "XCPU": 124} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fifo := filepath.Join(dir, "began")
			require.NoError(t, syscall.Mkfifo(fifo, 0o600))
			client := "trap 'echo told >&2; exit 0' TERM\necho >" + fifo + "\nwhile :; do sleep 0.05; done"
			cmd, out := start(t, scriptFor(t, one(t, "cluster.toml", "aggregated"), dir, url), tools(t, client, "curl"))
			_, err := os.ReadFile(fifo) // until the client runs
			require.NoError(t, err)
			require.NoError(t, cmd.Process.Signal(map[string]os.Signal{"TERM": syscall.SIGTERM,
				"XCPU": syscall.SIGXCPU}[name]))
			r := ended(t, cmd, out)
			require.Equal(t, code, r.code, r.out)
			require.Equal(t, []string{"ready exit 0", fmt.Sprint("bench exit ", code)}, r.phases)
			require.Contains(t, r.files["logs/bench-0.log"], "told\n", "its last words are kept")
		})
	}
}

// The limit is the run's, and the Job's own comes later.
func TestScriptLimit(t *testing.T) {
	_, url := newService(t, 1<<30, true)
	p := one(t, "cluster.toml", "aggregated")
	k := *p.Kubernetes
	k.Limit = plan.Seconds(1e9)
	p.Kubernetes = &k
	cmd, out := start(t, scriptFor(t, p, t.TempDir(), url), tools(t, good, "curl"))
	r := ended(t, cmd, out)
	require.Equal(t, 124, r.code, r.out)
	require.Equal(t, []string{"ready exit 124"}, r.phases)
}

func TestScriptByShellcheck(t *testing.T) {
	program, err := exec.LookPath("shellcheck")
	if err != nil {
		require.NotEqual(t, "1", os.Getenv("PROFLLM_REQUIRE_SHELLCHECK"), "shellcheck is not installed")
		t.Skip("shellcheck is not installed: scripts are parsed only (apt-get install shellcheck)")
	}
	for name, g := range goldens {
		data, err := manifest.Script(one(t, g.system, g.scenario), plan.RunVolume)
		require.NoError(t, err)
		cmd := exec.Command(program, "--shell=bash", "-")
		cmd.Stdin = bytes.NewReader(data)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
	}
}

// An image without tar cannot give its files away, and says so.
func TestScriptWithoutTar(t *testing.T) {
	_, url := newService(t, 0, true)
	bin := tools(t, good, "curl")
	require.NoError(t, os.Remove(filepath.Join(bin, "tar")))
	cmd, out := start(t, scriptFor(t, one(t, "cluster.toml", "aggregated"), t.TempDir(), url), bin)
	require.Error(t, cmd.Wait())
	require.Equal(t, 74, cmd.ProcessState.ExitCode())
	require.Contains(t, out.String(), "tar: command not found")
	require.NotContains(t, out.String(), plan.ArchiveBegins)
}
