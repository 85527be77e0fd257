package run_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/internal/killtest"
	"github.com/profllm/profllm/pkg/kubetest"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/run"
)

const kubeScenario = `name = "kill"
[[Tests]]
id = "a"
name = "a"
test_template_name = "AIDynamo"
time_limit = "1h"
[Tests.cmd_args]
docker_image_url = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.6.1"
workloads = "aiperf"
[Tests.cmd_args.dynamo]
model = "Qwen/Qwen3-0.6B"
[Tests.cmd_args.dynamo.prefill_worker]
num-nodes = 0
[Tests.cmd_args.dynamo.decode_worker]
num-nodes = 1
[Tests.cmd_args.aiperf.args]
concurrency = 1
request-count = 5
`

// kubeSession is a user with a scenario of one run in front of a real cluster.
type kubeSession struct {
	*kubetest.Cluster
	t   *testing.T
	dir string
}

func newKubeSession(t *testing.T) *kubeSession {
	t.Helper()
	s := &kubeSession{kubetest.New(t, os.Environ()), t, t.TempDir()}
	wholeProgram(t)
	system := fmt.Sprintf(`name = "cluster"
scheduler = "kubernetes"
kube_config_path = %q
default_namespace = %q
install_path = "install"
output_path = "results"
gpus_per_node = 8
[kubernetes]
client_image = "registry.example/aiperf:0.13.0"
annotations = { "kube-lab/done-after" = "1h" }
`, s.Kubeconfig, s.Namespace)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "cluster.toml"), []byte(system), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "kill.toml"), []byte(kubeScenario), 0o644))
	return s
}

var kubeSubmit = []string{"kube", "submit", "--system", "cluster.toml", "--settle", "10ms", "kill.toml"}

// marker tells the processes of a session.
const marker = "PROFLLM_KUBETEST="

func (s *kubeSession) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), marker+s.Namespace)
	return cmd
}

func (s *kubeSession) profllm(args ...string) (code int, said string) {
	s.t.Helper()
	cmd := s.command(args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	s.t.Logf("profllm %s: exit %d\n%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), out)
	return cmd.ProcessState.ExitCode(), string(out)
}

// settled waits until the kubectl of a killed command, if there is one, is done.
func (s *kubeSession) settled() {
	s.t.Helper()
	await.True(s.t, func() bool {
		environs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, name := range environs {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			env, err := os.ReadFile(name)
			if err == nil && process.Start(pid) != "" && bytes.Contains(env, []byte(marker+s.Namespace+"\x00")) {
				return false
			}
		}
		return true
	}, "no program of the session runs")
}

// requireOneJob checks the promise: the run has one Job with all of its service, and its record names
// it.
func (s *kubeSession) requireOneJob() {
	s.t.Helper()
	dirs, err := run.Find(filepath.Join(s.dir, "results"))
	require.NoError(s.t, err)
	require.Len(s.t, dirs, 1)
	var sub run.Submission
	require.NoError(s.t, run.ReadJSON(filepath.Join(dirs[0], run.SubmitFile), &sub))
	jobs := strings.Fields(s.Kubectl("get", "jobs", `--output=jsonpath={.items[*].metadata.uid}`))
	require.Len(s.t, jobs, 1)
	require.True(s.t, strings.HasSuffix(sub.JobID, "."+jobs[0][:8]), "%s, %s", sub.JobID, jobs[0])
	require.Equal(s.t, jobs, strings.Fields(s.Kubectl("get", "dynamographdeployments.nvidia.com",
		`--output=jsonpath={.items[*].metadata.ownerReferences[*].uid}`)), "one graph, which is the Job's")
}

// kube submit is killed before each of its changes: of a file, or the start of kubectl, which goes on
// alone. The next submission goes on, adopts, and makes nothing twice; cancel leaves nothing.
//
// covers: PL-D2
func TestKubeKilledAtEveryChange(t *testing.T) {
	s := newKubeSession(t)
	changes, code, err := killtest.Run(s.command(kubeSubmit...), 0)
	require.NoError(t, err)
	require.Zero(t, code)
	s.requireOneJob()
	list := points(changes)
	t.Logf("killed at %d of %d changes", len(list), len(changes))
	for _, n := range list {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			s := newKubeSession(t)
			changes, code, err := killtest.Run(s.command(kubeSubmit...), n)
			require.NoError(t, err)
			if code >= 0 {
				return // it needed fewer changes this time
			}
			t.Logf("killed before %s", changes[len(changes)-1])
			s.settled()
			if submitted, _ := filepath.Glob(filepath.Join(s.dir, "results/*/a/0", run.SubmitFile)); len(submitted) == 0 {
				code, _ = s.profllm(kubeSubmit...)
				require.Zero(t, code)
			}
			s.requireOneJob()
			if n%5 == 0 { // as after any other submission
				code, _ = s.profllm("kube", "cancel", "results")
				require.Zero(t, code)
				require.Empty(t, s.Left("profllm.io/run"))
			}
		})
	}
}

// A submission that was killed and is given up leaves nothing.
func TestKubeCancelAfterKill(t *testing.T) {
	s := newKubeSession(t)
	changes, _, err := killtest.Run(s.command(kubeSubmit...), 0)
	require.NoError(t, err)
	programs := []int{}
	for i, c := range changes {
		if c.Call == "start a program" {
			programs = append(programs, i+1)
		}
	}
	last := programs[len(programs)-1] // it makes the service
	s = newKubeSession(t)
	_, code, err := killtest.Run(s.command(kubeSubmit...), last)
	require.NoError(t, err)
	require.Negative(t, code)
	s.settled()
	require.Contains(t, s.Left("profllm.io/run"), "job.batch/", "the Job is there, and its service is not")
	code, _ = s.profllm("kube", "status", "results")
	require.Zero(t, code)
	code, _ = s.profllm("kube", "cancel", "results")
	require.Zero(t, code)
	require.Empty(t, s.Left("profllm.io/run"))
}

// Of several that submit at once each makes its own run, or is told why not.
//
// covers: PL-D2
func TestKubeTwoSubmitAtOnce(t *testing.T) {
	s := newKubeSession(t)
	var all sync.WaitGroup
	codes := make([]int, 3)
	for i := range codes {
		all.Go(func() {
			cmd := s.command(append(kubeSubmit[:len(kubeSubmit):len(kubeSubmit)], "--time", thatTime)...)
			_ = cmd.Run()
			codes[i] = cmd.ProcessState.ExitCode()
		})
	}
	all.Wait()
	for _, c := range codes {
		require.Contains(t, []int{0, 4}, c, "submitted, or told that the name is taken")
	}
	s.requireOneJob()
}
