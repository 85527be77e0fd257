package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

const replicasScenario = `name = "xpyd"
[[Tests]]
id = "a"
test_template_name = "vllm"
num_nodes = 5
time_limit = "5m"
[Tests.cmd_args.prefill]
replicas = 2
[Tests.cmd_args.decode]
replicas = 3
[Tests.bench_cmd_args]
num_prompts = 1500
random_output_len = 10
max_concurrency = 24
`

// Two prefill and three decode instances on five nodes: each on its own node and
// reached, the load spread evenly. When one is killed in the middle the client
// goes on with the others, and the verdict names the instance and says what its
// end did to the numbers.
//
// covers: PL-D8, PL-V14
func TestSlurmReplicas(t *testing.T) {
	t.Parallel()
	counted := regexp.MustCompile(`^decode_1 rank 0 on node\d ended with \d+; 2 of 3 decode instances served on; (\d+) of 1500 requests failed; ` +
		`by the counters of the other instances: ([\d.]+) requests/s of [\d.]+ ms on average before, ([\d.]+) requests/s of [\d.]+ ms on average afterwards$`)
	detailed := regexp.MustCompile(`^decode_1 rank 0 on node\d ended with \d+; 2 of 3 decode instances served on; (\d+) of 1500 requests failed; ` +
		`before ([\d.]+) requests/s of median [\d.]+ ms, afterwards ([\d.]+) requests/s of median [\d.]+ ms$`)
	for name, c := range map[string]struct {
		more   string
		killed bool
		says   *regexp.Regexp
	}{
		"all live":           {},
		"one killed":         {killed: true, says: counted},
		"one killed, detail": {more: "save_detailed = true\n", killed: true, says: detailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := lab(t)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(replicasScenario+c.more), 0o644))
			t.Cleanup(func() { profllm(t, dir, nil, "slurm", "cancel", "results") })
			submit := command(dir, []string{"PROFLLM_SIM_ITL=10ms"}, "slurm", "submit", "--simulate", "--system", "site.toml", "s.toml", "--wait")
			require.NoError(t, submit.Start())
			if c.killed {
				killStep(t, dir, "decode_1")
			}
			submit.Wait()
			want := exitOK
			if c.killed {
				want = exitInvalid
			}
			require.Equal(t, want, submit.ProcessState.ExitCode())
			d := only(t, dir)
			r := readResult(t, d)
			requireSpread(t, d, r)
			require.Equal(t, 1500, *r.Results.CompletedRequests+*r.Results.FailedRequests, "the client finished")
			died := r.Validity.Check("instance-died")
			if !c.killed {
				require.True(t, r.Validity.Valid)
				require.Equal(t, result.Pass, r.Validity.Check("uneven-spread").Outcome,
					r.Validity.Check("uneven-spread").Detail)
				require.Len(t, r.Results.Server, 5)
				for _, s := range r.Results.Server {
					require.Greater(t, s.Counters["vllm:request_success_total"], 1500*0.9/3, "%s %d was reached",
						s.Role, s.Replica)
				}
			} else {
				require.False(t, r.Validity.Valid)
				require.Equal(t, result.Partial, r.Status)
				found := c.says.FindStringSubmatch(died.Detail)
				require.NotNil(t, found, died.Detail)
				failed, _ := strconv.Atoi(found[1])
				require.Equal(t, *r.Results.FailedRequests, failed)
				require.Positive(t, failed, "what the instance had in hand")
				require.Less(t, failed, 300, "the proxy goes round the dead instance")
				after, _ := strconv.ParseFloat(found[3], 64)
				require.Positive(t, after)
				require.Equal(t, "6:0", r.Slurm.ExitCode)
				require.Len(t, r.Results.Server, 4, "the counters of the living")
			}
			requireNoLeftovers(t, r.Slurm.JobID)
		})
	}
}

// killStep waits for the only run's client, which may wait for nodes, and ends
// the role's step with KILL while the client is under way.
func killStep(t *testing.T, results, role string) {
	t.Helper()
	dir := ""
	await.True(t, func() bool {
		files, _ := filepath.Glob(filepath.Join(results, "results/*/*/*/events.jsonl"))
		if len(files) != 1 {
			return false
		}
		dir = filepath.Dir(files[0])
		data, err := os.ReadFile(files[0])
		return err == nil && strings.Contains(string(data), "client-begins")
	}, "no client ever began")
	awaitAnswers(t, dir, role, 100)
	out, err := exec.Command("squeue", "-h", "-s", "-j", jobID(t, dir), "-o", "%i|%j").Output()
	require.NoError(t, err)
	for _, line := range strings.Split(string(out), "\n") {
		if id, name, _ := strings.Cut(strings.TrimSpace(line), "|"); name == role {
			require.NoError(t, exec.Command("scancel", "--signal=KILL", id).Run())
			return
		}
	}
	t.Fatalf("no step of %s: %s", role, out)
}

// awaitAnswers waits until the engine of a role has answered some requests.
func awaitAnswers(t *testing.T, dir, role string, some float64) {
	t.Helper()
	p, err := run.ReadPlan(dir)
	require.NoError(t, err)
	var place run.Placement
	require.NoError(t, run.ReadJSON(filepath.Join(dir, run.PlacementFile), &place))
	i := slices.IndexFunc(p.Roles, func(r plan.Role) bool { return r.Name == role })
	require.GreaterOrEqual(t, i, 0, role)
	url := fmt.Sprintf("http://%s:%d/metrics", place.Nodes[p.Roles[i].Nodes.Offset].Addr, place.Ports[p.Roles[i].Health.Port])
	answered := regexp.MustCompile(`(?m)^vllm:request_success_total\{.*\} (\S+)$`)
	var seen string
	await.True(t, func() bool {
		got, err := http.Get(url)
		if err != nil {
			seen = err.Error()
			return false
		}
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		sum := 0.0
		for _, m := range answered.FindAllSubmatch(text, -1) {
			n, err := strconv.ParseFloat(string(m[1]), 64)
			require.NoError(t, err)
			sum += n
		}
		seen = fmt.Sprint(sum)
		return sum >= some
	}, "%s has answered %v requests; it has answered %s", role, some, &seen)
}

// requireSpread checks that each instance ran on the node that the record says,
// alone, with what its kind was configured with.
func requireSpread(t *testing.T, dir string, r *result.Result) {
	t.Helper()
	steps := stepNodes(t, r.Slurm.JobID)
	hosts := map[string]bool{}
	for _, p := range r.Placement.Roles {
		if p.Role == "proxy" {
			continue
		}
		name := p.Role + "_" + strconv.Itoa(p.Replica)
		require.Equal(t, p.Hosts, steps[name])
		require.False(t, hosts[p.Hosts[0]], "%s shares %s", name, p.Hosts[0])
		hosts[p.Hosts[0]] = true
		log, err := os.ReadFile(filepath.Join(dir, "logs", name+"-0.log"))
		require.NoError(t, err)
		require.Contains(t, string(log), "PROFLLM_ROLE="+name)
		require.NotEmpty(t, p.Ports["http"])
		require.NotEmpty(t, p.Ports["nixl"])
	}
	require.Len(t, hosts, 5)
	require.Len(t, r.Config.Roles, 2, "by kind")
}

// A profiler around every server, on one node, as an instance and behind Ray,
// and shell text before each command: the reports are written although the
// servers are ended from outside, and the run is no baseline.
//
// covers: CD-19, PL-V29
func TestSlurmProfiled(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(`name = "profiled"
[[Tests]]
id = "a"
test_template_name = "vllm"
num_nodes = 4
time_limit = "5m"
[Tests.cmd_args.prefill]
num_nodes = 2
tensor_parallel_size = 8
[Tests.cmd_args.decode]
replicas = 2
[Tests.nsys]
nsys_binary = "/opt/not/here/nsys"
trace = "cuda,nvtx"
[Tests.custom_bash]
"^env .* vllm serve " = "export SEEN='it''s a \"server\"'; echo \"before $0: $SEEN $#\" # words"
"gsm8k" = ""
"." = "echo \"before $0\"\n"
[Tests.bench_cmd_args]
num_prompts = 40
random_output_len = 20
[Tests.semantic_eval_cmd_args]
`), 0o644))
	o := profllm(t, dir, nil, "slurm", "submit", "--simulate", "--system", "site.toml", "s.toml", "--wait")
	require.Equal(t, exitOK, o.code)
	d := only(t, dir)
	r := readResult(t, d)
	require.True(t, r.Validity.Valid)
	require.False(t, r.Validity.Baseline())
	require.True(t, r.Profiling.Enabled)
	require.Regexp(t, `^raw/nsys-prefill-0-[^/]+\.nsys-rep$`, r.Profiling.TraceFilePath)
	require.Equal(t, result.Pass, r.Validity.Check("files-missing").Outcome)
	for role, words := range map[string]string{"prefill": "", "decode_0": "", "decode_1": "", "proxy": "before proxy",
		"bench": "before bench", "eval": ""} {
		log, err := os.ReadFile(filepath.Join(d, "logs", role+"-0.log"))
		require.NoError(t, err)
		if words != "" || role == "eval" {
			require.Equal(t, words != "", strings.Contains(string(log), "before "+role), role)
			continue
		}
		require.Contains(t, string(log), "before "+role+": its a \"server\" ")
		data, err := os.ReadFile(nsysReports(t, d, role, 0)[0])
		require.NoError(t, err)
		var report struct {
			Simulated bool
			Command   []string
			Options   []string
		}
		require.NoError(t, json.Unmarshal(data, &report))
		require.True(t, report.Simulated)
		require.Equal(t, []string{"vllm", "serve"}, report.Command[2:4])
		require.Equal(t, []string{"-t", "cuda,nvtx"}, report.Options[2:])
	}
	requireNoLeftovers(t, r.Slurm.JobID)
}

// A profiler around the servers of each engine, alone, over two nodes, and apart.
//
// covers: PL-D27
func TestRehearseProfiledModes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs six rehearsals")
	}
	dir, text := t.TempDir(), "name = \"modes\"\n"
	for _, engine := range []string{"vllm", "sglang"} {
		for mode, args := range map[string]string{"one": "", "two": "", "apart": "prefill = {}\n"} {
			nodes := 2
			if mode == "one" {
				nodes = 1
			}
			text += fmt.Sprintf("[[Tests]]\nid = \"%s.%s\"\ntest_template_name = \"%s\"\nnum_nodes = %d\n[Tests.cmd_args]\n%s[Tests.nsys]\n"+
				"[Tests.bench_cmd_args]\nnum_prompts = 4\n", engine, mode, engine, nodes, args)
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
	require.Equal(t, exitOK, profllm(t, dir, []string{"PROFLLM_SIM_STARTUP=50ms"}, "rehearse", "s.toml").code)
	all := runs(t, dir)
	require.Len(t, all, 6)
	for d, p := range all {
		r := readResult(t, d)
		require.True(t, r.Validity.Valid, p.Test)
		require.True(t, r.Profiling.Enabled, p.Test)
		require.False(t, r.Validity.Baseline(), p.Test)
		for _, role := range p.Roles {
			if role.Engine {
				require.Len(t, nsysReports(t, d, role.Name, 0), 1, p.Test)
			}
		}
	}
}

// nsysReports are the reports of nsys around a rank of a server, on whatever host.
func nsysReports(t *testing.T, dir, role string, rank int) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "raw", fmt.Sprintf("nsys-%s-%d-*.nsys-rep", role, rank)))
	require.NoError(t, err)
	return files
}

const capturedScenario = `name = "captured"
[[Tests]]
id = "loads"
test_template_name = "vllm"
bench_cmd_args = { num_prompts = 4, random_output_len = 4 }
phases = [{ name = "a" }, { name = "b", cache = "keep" }]
nsys = { preset = "loads" }
[[Tests]]
id = "some"
test_template_name = "vllm"
num_nodes = 2
cmd_args = { decode = { tensor_parallel_size = 8, distributed_executor_backend = "mp" } }
bench_cmd_args = { num_prompts = 4, random_output_len = 4 }
nsys = { ranks = [1], efa_metrics = true }
`

// The job opens and closes the capture range around each load, so that nsys writes a report for
// each; the stand-in writes none otherwise. Around a server over two nodes, only the selected rank
// has nsys, and its report names the host.
//
// covers: PRF-4, PRF-5, PRF-10
func TestRehearseCaptured(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(capturedScenario), 0o644))
	o := profllm(t, dir, []string{"PROFLLM_SIM_STARTUP=50ms"}, "rehearse", "s.toml")
	require.Equal(t, exitOK, o.code, o.stderr)
	for d, p := range runs(t, dir) {
		if p.Test == "some" {
			require.Empty(t, nsysReports(t, d, "serve", 0))
			require.Len(t, nsysReports(t, d, "serve", 1), 1)
			r := readResult(t, d)
			require.Equal(t, 1, *r.Profiling.Traces[0].Rank)
			require.Contains(t, r.Profiling.Traces[0].Path, r.Placement.Nodes[1])
			require.Equal(t, result.Pass, r.Validity.Check("files-missing").Outcome)
			continue
		}
		require.Len(t, nsysReports(t, d, "serve", 0), 2)
		for _, load := range []string{"a", "b"} {
			r := readResult(t, filepath.Join(d, load))
			require.Len(t, r.Profiling.Traces, 2)
			require.Equal(t, result.Pass, r.Validity.Check("files-missing").Outcome)
			for _, w := range r.Warnings {
				require.NotEqual(t, result.TraceFailed, w.Kind, w.Text)
			}
		}
	}
}
