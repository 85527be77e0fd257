package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// tracedScenario has one server, and prefill and decode apart with two loads.
const tracedScenario = `name = "traced"
[[Tests]]
id = "one"
test_template_name = "vllm"
cmd_args = { decode = { tensor_parallel_size = 2 } }
bench_cmd_args = { num_prompts = 4, random_output_len = 4 }
torch_profiler = { torch_profiler_with_stack = false }
[[Tests]]
id = "apart"
test_template_name = "vllm"
num_nodes = 3
cmd_args = { engine_version = "0.12.0", prefill = {}, decode = { replicas = 2 } }
bench_cmd_args = { num_prompts = 4, random_output_len = 4 }
torch_profiler = { ignore_frontend = true }
phases = [{ name = "a" }, { name = "b", cache = "keep" }]
[[Tests]]
id = "calls"
test_template_name = "vllm"
bench_cmd_args = { num_prompts = 4, random_output_len = 4 }
viztracer = { binary = "/opt/not/here/viztracer" }
`

// The whole path of profilers with simulated engines: PyTorch's is configured by the release of the
// test, started and stopped at every instance, traces awaited and in the record of their load.
//
// covers: VLM-4, LBEN-4, SCH-14, PRF-1, PRF-13
func TestRehearseTraced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(tracedScenario), 0o644))
	o := profllm(t, dir, []string{"PROFLLM_SIM_STARTUP=50ms"}, "rehearse", "s.toml")
	require.Equal(t, exitOK, o.code)
	o = profllm(t, dir, nil, "profile", "--output", "json")
	require.Equal(t, exitOK, o.code)
	var listed document.Profile
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &listed))
	require.Len(t, listed.Traces, 10)
	for _, trace := range listed.Traces {
		require.FileExists(t, trace.File)
		require.True(t, trace.Simulated)
		if trace.Kind == result.VizTrace {
			require.Equal(t, []string{"vizviewer " + trace.File}, trace.Commands)
			continue
		}
		require.Equal(t, "https://ui.perfetto.dev", trace.URL)
	}
	require.NoError(t, os.Remove(listed.Traces[0].File))
	o = profllm(t, dir, nil, "profile")
	require.Contains(t, o.stdout, " missing ")
	require.Contains(t, o.stdout, "torch: open https://ui.perfetto.dev and drop a file on the page")
	require.Contains(t, o.stdout, "10 simulated traces: no model ran")
	require.Contains(t, o.stdout, "viztracer: vizviewer results/")
	require.NoError(t, os.WriteFile(listed.Traces[0].File, packed(t, `{"traceEvents": [{}]}`), 0o644))
	for d, p := range runs(t, dir) {
		if p.Test == "calls" {
			r := readResult(t, d)
			require.Equal(t, "viztracer", r.Profiling.By)
			require.Equal(t, "raw/viztracer-serve-0.json", r.Profiling.TraceFilePath)
			require.False(t, r.Validity.Baseline())
			continue
		}
		places, roles := []string{"."}, map[string]int{"serve": 3} // two workers and the front end
		if p.Test == "apart" {
			places, roles = []string{"a", "b"}, map[string]int{"prefill": 1, "decode_0": 1, "decode_1": 1}
		}
		seen := map[string]bool{}
		for _, place := range places {
			r := readResult(t, filepath.Join(d, place))
			require.True(t, r.Profiling.Enabled)
			require.False(t, r.Validity.Baseline())
			require.Equal(t, result.Pass, r.Validity.Check("files-missing").Outcome)
			require.Equal(t, r.Profiling.Traces[0].Path, r.Profiling.TraceFilePath)
			count := map[string]int{}
			for _, trace := range r.Profiling.Traces {
				count[trace.Role]++
				require.False(t, seen[trace.Path], "a trace of one load")
				seen[trace.Path] = true
				require.NotEmpty(t, traceEvents(t, filepath.Join(d, trace.Path)))
			}
			require.Equal(t, roles, count)
		}
	}
}

// What opens a report of nsys is printed with its path, quoted for a shell.
func TestProfileOfNsys(t *testing.T) {
	t.Parallel()
	dir, size, rank := filepath.Join(t.TempDir(), "it's"), 2.5, 0
	require.NoError(t, os.Mkdir(dir, 0o755))
	r := records.Run{Dir: dir, Result: &result.Result{Profiling: &result.Profiling{Traces: []result.Trace{
		{Kind: result.NsysTrace, Path: "raw/nsys-serve-0.nsys-rep", SizeMB: &size, Role: "serve", Rank: &rank},
		{Kind: result.NsysTrace, Path: "/else/where.nsys-rep", SizeMB: &size, Role: "serve"},
	}}}}
	file := filepath.Join(dir, "raw/nsys-serve-0.nsys-rep")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o644))
	list := tracesOf(&r)
	require.Equal(t, file, list[0].File)
	quoted := strings.ReplaceAll(file, "it's", `it'\''s`)
	require.Equal(t, []string{"nsys stats '" + quoted + "'", "nsys-ui '" + quoted + "'"}, list[0].Commands)
	require.False(t, list[0].Missing)
	require.True(t, list[1].Missing)
	require.Equal(t, "/else/where.nsys-rep", list[1].File)
	b := traceTable(list)
	require.Len(t, b.Lines, 2)
	require.Contains(t, b.Lines[0], "nsys: nsys stats '")
}

// A run without a profiler has no traces, which is no error.
func TestProfileOfNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "result.json"), []byte(`{"schema":"`+result.SchemaV1+`"}`), 0o644))
	o := profllm(t, dir, nil, "profile", dir)
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Contains(t, o.stderr, "no traces in 1 record")
}

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, errors.Join(err, z.Close()))
	return b.Bytes()
}

// traceEvents reads the events of a trace.
func traceEvents(t *testing.T, file string) []map[string]any {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var trace struct {
		Events []map[string]any `json:"traceEvents"`
	}
	require.NoError(t, json.NewDecoder(z).Decode(&trace))
	return trace.Events
}

// tracedCPU is the real engine of examples/vllm-lab under PyTorch's profiler. Other processes of
// this machine need memory, too.
const tracedCPU = `name = "traced"
[[Tests]]
id = "cpu"
test_template_name = "vllm"
time_limit = "9m"
[Tests.cmd_args]
model = "@LAB@/tiny"
serve_wait_seconds = 400
[Tests.cmd_args.decode]
load_format = "dummy"
dtype = "float32"
enforce_eager = ""
max_model_len = 2048
max_num_seqs = 16
distributed_executor_backend = "uni"
gpu_memory_utilization = 0.3
[Tests.bench_cmd_args]
random_input_len = 30
random_output_len = 8
max_concurrency = 1
num_prompts = 4
[Tests.torch_profiler]
torch_profiler_with_stack = false
`

// The real engine writes traces of its worker and its front end, and the record has both.
//
// covers: VLM-4, LBEN-4, SCH-14, PRF-1, PRF-6
func TestVLLMTorchTrace(t *testing.T) {
	home, dir := vllmHome(t), t.TempDir()
	site, err := os.ReadFile("../../examples/vllm-lab/site.toml")
	require.NoError(t, err)
	here := strings.NewReplacer("@LAB@", home, `scheduler = "slurm"`, `scheduler = "standalone"`,
		"gpus_per_node = 4\n", "")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "site.toml"), []byte(here.Replace(string(site))), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(here.Replace(tracedCPU)), 0o644))
	o := profllm(t, dir, nil, "run", "--system", "site.toml", "s.toml")
	require.Equal(t, exitOK, o.code)
	d := only(t, dir)
	r := readResult(t, d)
	require.True(t, r.Validity.Valid)
	require.False(t, r.Simulated)
	require.False(t, r.Validity.Baseline())
	require.Equal(t, "--profiler-config", r.Profiling.By)
	processes := map[string]bool{}
	for _, trace := range r.Profiling.Traces {
		require.Equal(t, "serve", trace.Role)
		require.Positive(t, *trace.SizeMB)
		events := traceEvents(t, filepath.Join(d, trace.Path))
		t.Logf("%s: %.3f MB, %d events", trace.Path, *trace.SizeMB, len(events))
		processes[trace.Process] = len(events) > 0
		if trace.Process == "worker" {
			require.Equal(t, 0, *trace.Rank)
			require.Greater(t, len(events), 100)
		}
	}
	require.Equal(t, map[string]bool{"worker": true, "frontend": true}, processes)
}
