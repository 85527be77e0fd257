package main

import (
	"encoding/csv"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
)

const eightGPUs = `name = "eight"
[[Tests]]
id = "node"
test_template_name = "vllm"
[Tests.cmd_args.decode]
tensor_parallel_size = 8
[Tests.torch_profiler]
torch_profiler_with_stack = false
[Tests.telemetry]
interval_s = 0.2
[Tests.extra_env_vars]
PROFLLM_SIM_GPUS = "8"
[Tests.bench_cmd_args]
max_concurrency = 2
num_prompts = 6
random_output_len = 20
`

// filesOf asks a dashboard for the GPUs over time and the first trace of a run. Both are absent where the server
// does not have the run's folder.
func (p *page) filesOf(id string) (gpus int, trace string) {
	p.t.Helper()
	status, _, body := get(p.t, p.url+"/api/data/experiments/"+id+"/series")
	if status == 404 {
		return 0, ""
	}
	var series struct{ Tracks []struct{ Name string } }
	require.NoError(p.t, json.Unmarshal([]byte(body), &series))
	for _, x := range series.Tracks {
		if x.Name == "GPU power" {
			gpus++
		}
	}
	var e struct{ Record result.Result }
	p.ask("GET", "/api/data/experiments/"+id, nil, &e)
	_, _, trace = get(p.t, p.url+"/api/export/traces/"+id+"?path="+url.QueryEscape(e.Record.Profiling.Traces[0].Path))
	return gpus, trace
}

// A run on a node of eight GPUs, which are simulated, writes into a shared folder. The store is elsewhere, and so
// is the dashboard, which reads samples and traces in place, also where the folder was moved to, and records in an
// archive.
//
// covers: DEP-1, DEP-4
func TestFilesOfRunsAreReadInPlace(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a rehearsal")
	}
	dir := t.TempDir()
	node, login, web := filepath.Join(dir, "node"), filepath.Join(dir, "login"), filepath.Join(dir, "web")
	for _, d := range []string{node, login, web, filepath.Join(dir, "shared")} {
		require.NoError(t, os.Mkdir(d, 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(node, "s.toml"), []byte(eightGPUs), 0o644))
	o := profllm(t, node, nil, "rehearse", "s.toml", "--gpus-per-node", "8", "--output-dir", "../shared/results")
	require.Contains(t, []int{exitOK, exitInvalid}, o.code, o.stdout+o.stderr) // a busy machine is seen in its times
	o = profllm(t, login, nil, "store", "fill", "--store", "../runs.db", "../shared/results")
	require.Zero(t, o.code, o.stderr)

	p := startDashboard(t, web, nil, "--store", "../runs.db", "--files", "../shared", "--read-only")
	var list struct {
		Experiments []struct {
			RunID string  `json:"run_id"`
			GPUs  float64 `json:"gpus"`
		}
	}
	p.ask("GET", "/api/data/experiments?fields=gpus", nil, &list)
	require.Len(t, list.Experiments, 1)
	id := list.Experiments[0].RunID
	require.Equal(t, 8.0, list.Experiments[0].GPUs)
	gpus, trace := p.filesOf(id)
	require.Equal(t, 8, gpus)
	traces, err := filepath.Glob(filepath.Join(dir, "shared/results/*/node/0/raw/torch/*/*.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, traces)
	require.Contains(t, readAll(t, traces), trace)

	require.NoError(t, os.Rename(filepath.Join(dir, "shared/results"), filepath.Join(dir, "shared/2026")))
	gpus, _ = p.filesOf(id)
	require.Zero(t, gpus, "the folder is gone")
	o = profllm(t, login, nil, "store", "rebuild", "--store", "../runs.db", "../shared/2026")
	require.Zero(t, o.code, o.stderr)
	gpus, moved := p.filesOf(id)
	require.Equal(t, 8, gpus)
	require.Equal(t, trace, moved)

	other := startDashboard(t, web, nil, "--store", "../runs.db", "--read-only")
	gpus, _ = other.filesOf(id)
	require.Zero(t, gpus, "without --files, nothing of the disk is shown")

	found, err := filepath.Glob(filepath.Join(dir, "shared/2026/eight_*"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	o = profllm(t, login, nil, "archive", "--remove", found[0])
	require.Zero(t, o.code, o.stderr)
	before := readAll(t, []string{found[0] + ".tar.xz"})
	archived := startDashboard(t, web, nil, found[0]+".tar.xz")
	archived.ask("GET", "/api/data/experiments?fields=gpus", nil, &list)
	require.Equal(t, id, list.Experiments[0].RunID)
	archived.stop()
	require.Equal(t, before, readAll(t, []string{found[0] + ".tar.xz"}))
}

// readAll gives the contents of files.
func readAll(t *testing.T, files []string) (list []string) {
	t.Helper()
	for _, name := range files {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		list = append(list, string(data))
	}
	return list
}

// The command line and the API export the same runs of a filter, with the same numbers, as CSV and as JSON.
//
// covers: DATA-1
func TestExportsOfPageAndCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeRecords(t, filepath.Join(dir, "results"), 40)
	p := startDashboard(t, dir, nil, "results")
	f := `{"and": [{"field": "gpus", "min": 4}, {"field": "median_ttft_ms", "below": 200}]}`
	want := map[string]map[string]float64{} // of the API, by run id and metric
	var list []map[string]any
	p.ask("POST", "/api/export/json", map[string]any{"filter": json.RawMessage(f)}, &list)
	require.Greater(t, len(list), 5)
	for _, run := range list {
		numbers := map[string]float64{}
		for _, m := range metric.All {
			if v, ok := run[m.Key].(float64); ok {
				numbers[m.Key] = v
			}
		}
		want[run["run_id"].(string)] = numbers
	}
	o := profllm(t, dir, nil, "report", "results", "--filter", f, "--output", "csv")
	require.Zero(t, o.code, o.stderr)
	rows, err := csv.NewReader(strings.NewReader(o.stdout)).ReadAll()
	require.NoError(t, err)
	fromCSV := map[string]map[string]float64{}
	for _, row := range rows[1:] {
		numbers, id := map[string]float64{}, ""
		for i, head := range rows[0] {
			if head == "run_id" {
				id = row[i]
			}
			if _, err := metric.Find(head); err == nil && row[i] != "" {
				if x, err := strconv.ParseFloat(row[i], 64); err == nil { // or "withheld"
					numbers[head] = x
				}
			}
		}
		fromCSV[id] = numbers
	}
	require.Equal(t, want, fromCSV)

	o = profllm(t, dir, nil, "report", "results", "--filter", f, "--output", "json")
	require.Zero(t, o.code, o.stderr)
	var rep report.Report
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &rep))
	fromJSON := map[string]map[string]float64{}
	for _, e := range rep.Runs {
		fromJSON[e.RunID] = map[string]float64{}
		for key, v := range e.Metrics {
			if v.Number != nil {
				fromJSON[e.RunID][key] = *v.Number
			}
		}
	}
	require.Equal(t, want, fromJSON)
}
