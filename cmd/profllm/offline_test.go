package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/bench/vllmoffline"
	"github.com/profllm/profllm/pkg/result"
)

// offlinePrograms stand for vLLM and for Python that has it: each writes a result of its benchmark,
// in whose model it says where it ran.
var offlinePrograms = map[string]string{
	"vllm":    `{"model_id": "WHERE", "elapsed_time": 2.0, "num_requests": 4, "total_num_tokens": 40, "requests_per_second": 2.0, "tokens_per_second": 20.0}`,
	"python3": `{"model_id": "WHERE", "elapsed_time": 2.0, "ttft_from": "scheduled", "input_lens": [5], "output_lens": [5], "queue_times": [0.1], "ttfts": [0.2], "decode_times": [0.4]}`,
}

// A benchmark without a server runs in each kind of container, and on a node that has vLLM itself:
// nothing that only one of them sets is needed.
//
// covers: OFF-4
func TestOfflineInsideAndOutside(t *testing.T) {
	t.Parallel()
	l := newLauncherLab(t)
	outside := filepath.Join(l.dir, "outside")
	require.NoError(t, os.Mkdir(outside, 0o755))
	for name, document := range offlinePrograms {
		for where, dir := range map[string]string{"inside": l.rootfs + "/bin", "outside": outside} {
			text := "#!/bin/sh\nfor last; do :; done\necho '" + strings.Replace(document, "WHERE", where, 1) + "' >\"$last\"\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
		}
	}
	sqsh := filepath.Join(l.dir, "image.sqsh") // for the stand-ins a folder
	require.NoError(t, os.Symlink("rootfs", sqsh))
	for _, c := range []struct{ launcher, image, where string }{
		{"bare", "", "outside"}, {"pyxis", sqsh, "inside"}, {"enroot", sqsh, "inside"}, {"apptainer", sqsh, "inside"},
	} {
		t.Run(c.launcher, func(t *testing.T) {
			for _, benchmark := range []string{"throughput", "requests"} {
				run := l.runOffline(t, c.launcher, c.image, benchmark, outside)
				p, err := vllmoffline.Parser{Dir: "raw", Logs: "logs"}.Parse(os.DirFS(run))
				require.NoError(t, err, benchmark)
				require.Equal(t, c.where, p.Model, benchmark)
				require.NotNil(t, p.Metrics.Offline.Throughput, benchmark)
			}
		})
	}
}

// runOffline submits a benchmark, runs its script without what only Slurm could answer, and returns
// its directory.
func (l *launcherLab) runOffline(t *testing.T, launcher, image, benchmark, outside string) string {
	t.Helper()
	work, err := os.MkdirTemp(l.dir, "offline-")
	require.NoError(t, err)
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(work, name), []byte(text), 0o755))
	}
	write("site.toml", fmt.Sprintf(`name = "site"
scheduler = "slurm"
install_path = %q
output_path = %q
default_partition = "main"
gpus_per_node = 2
launcher = %q
[[partitions]]
name = "main"
`, work+"/install", work+"/results", launcher))
	write("scenario.toml", fmt.Sprintf(`name = "offline"
[[Tests]]
id = "t"
test_template_name = "vllm-offline"
[Tests.cmd_args]
docker_image_url = %q
model = "org/m"
benchmark = %q
`, image, benchmark))
	path := "PATH=" + l.bin + ":" + os.Getenv("PATH")
	if launcher == "bare" {
		path = "PATH=" + outside + ":" + strings.TrimPrefix(path, "PATH=")
	}
	command := func(dir string, name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, []string{path, "HOME=" + work, "USER=somebody", "LANG=C.UTF-8"}
		return cmd
	}
	own := filepath.Join(l.bin, "profllm")
	out, err := command(work, own, "slurm", "submit", "scenario.toml", "--system", "site.toml").CombinedOutput()
	require.NoError(t, err, "%s", out)
	scripts, err := filepath.Glob(work + "/results/*/t/0/job.sh")
	require.NoError(t, err)
	require.Len(t, scripts, 1, "%s", out)
	run := filepath.Dir(scripts[0])
	script, err := os.ReadFile(scripts[0])
	require.NoError(t, err)
	text := strings.Replace(string(script), "PROFLLM="+own+"\n", "PROFLLM="+run+"/profllm\n", 1)
	require.NotEqual(t, string(script), text)
	require.NoError(t, os.WriteFile(scripts[0], []byte(text), 0o755))
	require.NoError(t, os.Link(own, run+"/real"), "the folder of the run is mounted")
	stub := "#!/bin/sh\ncase \"$1 $2\" in\n'job env') : >job.env ;;\n'job exec' | 'job contain' | 'job requests') exec " +
		run + "/real \"$@\" ;;\nesac\n"
	require.NoError(t, os.WriteFile(run+"/profllm", []byte(stub), 0o755))
	job := command(run, "bash", scripts[0])
	job.Env = append(slices.Clone(job.Env), "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=n1", "SLURMD_NODENAME=n1", "TMPDIR="+work)
	said, err := job.CombinedOutput()
	logs, _ := filepath.Glob(run + "/logs/*")
	for _, log := range logs {
		data, _ := os.ReadFile(log)
		said = append(said, data...)
	}
	require.NoError(t, err, "%s", said)
	return run
}

// A rank that is not known would leave every process with the same file.
func TestJobProfileRanked(t *testing.T) {
	t.Parallel()
	o := profllm(t, t.TempDir(), nil, "job", "profile", "--mark", "R/x", "--ranked", "a-%t.json", "--", "true", "a-%t.json")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "--ranked is for the tasks of a step: SLURM_PROCID")
	o = profllm(t, t.TempDir(), []string{"SLURM_PROCID=3"}, "job", "profile", "--mark", "R/x", "--ranked", "a-%t.json", "--",
		"sh", "-c", "echo $0", "a-%t.json")
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Equal(t, "a-3.json\n", o.stdout)
}

// offlineTest is a scenario of four engines on a node.
const offlineTest = `name = "offline"
[[Tests]]
id = "t"
test_template_name = "vllm-offline"
time_limit = "30m"
[Tests.cmd_args]
docker_image_url = "vllm/vllm-openai:v0.32.0"
benchmark = "BENCHMARK"
[Tests.cmd_args.engine]
data_parallel_size = 4
[Tests.cmd_args.options]
num_prompts = 40
`

// Each process of a benchmark leaves a report of its own. With a capture range, nsys records only
// what the benchmark has measured: without the calls that open it, the stand-in for nsys leaves no
// report. Where a benchmark cannot open it, the test is refused.
//
// covers: OFF-12, PRF-8
func TestOfflineProfiled(t *testing.T) {
	t.Parallel()
	for _, benchmark := range []string{"throughput", "requests"} {
		for table, suffix := range map[string]string{
			"[Tests.nsys]\n": ".nsys-rep", "[Tests.nsys]\npreset = \"loads\"\n": ".1.nsys-rep", "[Tests.viztracer]\n": ".json",
		} {
			t.Run(benchmark+" "+suffix, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				text := strings.Replace(offlineTest, "BENCHMARK", benchmark, 1) + table
				require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
				require.Equal(t, exitOK, profllm(t, dir, nil, "rehearse", "s.toml").code)
				for d := range runs(t, dir) {
					r := readResult(t, d)
					require.Equal(t, "vllm-"+benchmark, r.Config.Benchmark.Kind)
					require.NotNil(t, r.Profiling, table)
					require.Len(t, r.Profiling.Traces, 4, table)
					seen := map[string]bool{}
					for i, trace := range r.Profiling.Traces {
						require.Equal(t, i, *trace.Rank)
						require.Equal(t, benchmark, trace.Role)
						require.True(t, strings.HasSuffix(trace.Path, suffix), trace.Path)
						require.FileExists(t, filepath.Join(d, trace.Path))
						seen[trace.Path] = true
					}
					require.Len(t, seen, 4, "no rank overwrites another's")
					require.True(t, r.Validity.Valid, r.Validity.Words)
					require.Equal(t, result.Pass, r.Validity.Check("files-missing").Outcome)
				}
			})
		}
	}
	for text, want := range map[string]string{
		strings.Replace(offlineTest, "BENCHMARK", "requests", 1) + "[Tests.viztracer]\nextra_args = [\"--log_gc\"]\n": "viztracer.extra_args has no effect: requests runs VizTracer itself",
		"name = \"o\"\n[[Tests]]\nid = \"t\"\ntest_template_name = \"vllm-offline\"\n[Tests.cmd_args]\ndocker_image_url = \"i:1\"\nbenchmark = \"latency\"\n" +
			"[Tests.nsys]\npreset = \"loads\"\n": "`vllm bench latency` leaves no result if it opens the range (--profile)",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
		o := profllm(t, dir, nil, "rehearse", "s.toml")
		require.Equal(t, exitDefinition, o.code)
		require.Contains(t, o.stderr, want)
	}
}
