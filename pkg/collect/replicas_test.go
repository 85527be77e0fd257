package collect_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// replicated makes three instances of the recorded run's decode role, each with
// the recorded counters.
func replicated(t *testing.T, change func(p *plan.Plan)) string {
	t.Helper()
	dir := recorded(t)
	p, err := run.ReadPlan(dir)
	require.NoError(t, err)
	var roles []plan.Role
	for _, r := range p.Roles {
		if r.Name != "decode" {
			roles = append(roles, r)
			continue
		}
		for i := range 3 {
			r.Name, r.Kind, r.Replica = fmt.Sprintf("decode_%d", i), "decode", i
			roles = append(roles, r)
			for _, when := range []string{"before", "after"} {
				page, err := os.ReadFile(filepath.Join(dir, "raw/metrics-decode-"+when+".prom"))
				require.NoError(t, err)
				write(t, dir, "raw/metrics-"+r.Name+"-"+when+".prom", string(page))
			}
		}
	}
	p.Roles = roles
	p.Loads[0].Expect.GPUs = p.GPUs()
	if change != nil {
		change(p)
	}
	data, err := p.Encode()
	require.NoError(t, err)
	write(t, dir, run.PlanFile, string(data))
	place, err := os.ReadFile(filepath.Join(dir, run.PlacementFile))
	require.NoError(t, err)
	write(t, dir, run.PlacementFile, strings.NewReplacer(`"decode"`, `"decode_1"`, `"decode_nixl"`, `"decode_1_nixl"`).
		Replace(string(place)))
	return dir
}

func TestReplicas(t *testing.T) {
	r := only(t, collector(t), replicated(t, nil), completed())
	require.True(t, r.Validity.Valid)
	require.Len(t, r.Config.Roles, 2)
	require.Equal(t, "decode", r.Config.Roles[1].Role)
	require.Len(t, r.Placement.Roles, 5)
	for i, p := range r.Placement.Roles[1:4] {
		require.Equal(t, "decode", p.Role)
		require.Equal(t, i, p.Replica)
		require.Equal(t, []string{"127.0.1.2"}, p.Hosts)
	}
	require.Equal(t, map[string]int{"http": 8503, "nixl": 5585}, r.Placement.Roles[2].Ports)
	require.Len(t, r.Results.Server, 4)
	require.Equal(t, "pass", outcome(t, r, "uneven-spread"))
	require.Contains(t, r.Validity.Check("uneven-spread").Detail, "decode_0 +0.0 % off its share")
}

// The pages and events that a job leaves when an instance ends under load.
func TestInstanceDied(t *testing.T) {
	dir := replicated(t, nil)
	remove(t, dir, "raw/metrics-decode_1-after.prom")
	page := func(role, when string, count, sum float64) {
		write(t, dir, "raw/metrics-"+role+"-"+when+".prom", fmt.Sprintf(
			"# TYPE vllm:e2e_request_latency_seconds histogram\nvllm:e2e_request_latency_seconds_count %g\nvllm:e2e_request_latency_seconds_sum %g\n", count, sum))
	}
	for _, role := range []string{"decode_0", "decode_2"} {
		page(role, "before", 10, 5)
		page(role, "died", 20, 10)  // 10 requests of 500 ms in 4 s
		page(role, "ended", 50, 34) // 30 requests of 800 ms in 6 s
	}
	const at = "2026-11-21T04:56:"
	write(t, dir, "events.jsonl", `{"time":"`+at+`00Z","event":"all-ready"}
{"time":"`+at+`01Z","event":"client-begins","text":"bench"}
{"time":"`+at+`04Z","event":"role-died","role":"decode_1"}
{"time":"`+at+`10Z","event":"client-ended","text":"bench"}
`)
	r := only(t, collector(t), dir, completed())
	require.False(t, r.Validity.Valid)
	require.Equal(t, result.Partial, r.Status)
	require.Equal(t, "pass", outcome(t, r, "role-died"))
	require.Equal(t, "decode_1 rank 0 on 127.0.1.2 ended with -1; 2 of 3 decode instances served on; 0 of 64 requests failed; by the counters of the other instances: "+
		"5.00 requests/s of 500.0 ms on average before, 10.00 requests/s of 800.0 ms on average afterwards", r.Validity.Check("instance-died").Detail)

	write(t, dir, "events.jsonl", `{"time":"`+at+`00Z","event":"all-ready"}
{"time":"`+at+`04Z","event":"client-ended","text":"bench"}
{"time":"`+at+`06Z","event":"role-died","role":"decode_1"}
`)
	r = only(t, collector(t), dir, completed())
	require.Contains(t, r.Validity.Check("instance-died").Detail, "; the benchmark had ended")

	write(t, dir, "events.jsonl", `{"time":"`+at+`06Z","event":"role-died","role":"prefill"}`+"\n")
	r = only(t, collector(t), dir, completed())
	require.Equal(t, "fail", outcome(t, r, "role-died"), "there is one of it")
}

// covers: PL-V29, PRF-13, PRF-14, SCH-14
func TestProfilerReports(t *testing.T) {
	dir := replicated(t, func(p *plan.Plan) {
		p.Roles[0].Report, p.Roles[1].Report = "raw/nsys-prefill-0", "raw/nsys-decode_0-0"
	})
	write(t, dir, "raw/nsys-decode_0-0.nsys-rep", strings.Repeat("x", 2_000_000))
	r := only(t, collector(t), dir, completed())
	require.True(t, r.Profiling.Enabled)
	require.Equal(t, "raw/nsys-decode_0-0.nsys-rep", r.Profiling.TraceFilePath)
	require.InDelta(t, 2, *r.Profiling.TraceFileSizeMB, 1e-9)
	require.Contains(t, r.Validity.Check("files-missing").Detail, "raw/nsys-prefill-0*.nsys-rep")
	require.Equal(t, "fail", outcome(t, r, "files-missing"))
	require.False(t, r.Validity.Baseline())
}

// A report has its host in its name, and a number if there is one for each capture range. Of a
// server, the first rank that was selected must have one.
//
// covers: PRF-5, PRF-10
func TestReportsOfHosts(t *testing.T) {
	dir := replicated(t, func(p *plan.Plan) {
		p.Roles[0].Report, p.Roles[1].Report = "raw/nsys-prefill-0", "raw/nsys-decode_0-0"
		p.Roles[1].ReportRanks = []int{1}
	})
	for _, name := range []string{"raw/nsys-prefill-0-n1.1.nsys-rep", "raw/nsys-prefill-0-n1.2.nsys-rep",
		"raw/nsys-decode_0-1-n3.nsys-rep", "raw/nsys-decode_0-0-n2.nsys-rep"} {
		write(t, dir, name, "report")
	}
	r := only(t, collector(t), dir, completed())
	var paths []string
	for _, trace := range r.Profiling.Traces {
		paths = append(paths, fmt.Sprint(trace.Path, " ", trace.Role, " ", *trace.Rank))
	}
	require.Equal(t, []string{"raw/nsys-prefill-0-n1.1.nsys-rep prefill 0", "raw/nsys-prefill-0-n1.2.nsys-rep prefill 0",
		"raw/nsys-decode_0-1-n3.nsys-rep decode_0 1"}, paths)
	require.Equal(t, "pass", outcome(t, r, "files-missing"))
	require.NoError(t, os.Remove(filepath.Join(dir, "raw/nsys-decode_0-1-n3.nsys-rep")))
	r = only(t, collector(t), dir, completed())
	require.Contains(t, r.Validity.Check("files-missing").Detail, "raw/nsys-decode_0-1*.nsys-rep")
}

// Each record has the traces of its own load, and says of a server that it left none.
//
// covers: PL-V29, PRF-13, PRF-14, SCH-14
func TestTorchTraces(t *testing.T) {
	dir := replicated(t, func(p *plan.Plan) {
		p.Roles[0].TraceDir, p.Roles[1].TraceDir = "raw/torch/prefill", "raw/torch/decode_0"
	})
	const mine = "raw/torch/decode_0/dp0_pp0_tp1_dcp0_ep0_rank1.7.pt.trace.json.gz"
	write(t, dir, mine, strings.Repeat("x", 3_000_000))
	write(t, dir, "raw/torch/decode_0/rank0.6.pt.trace.json.gz", "of another load")
	write(t, dir, "raw/torch/prefill/rank0.8.pt.trace.json.gz", "")
	write(t, dir, "raw/torch/prefill/rank0.profiler_out.txt", "a table")
	write(t, dir, "events.jsonl", `{"time":"2026-11-21T04:56:00Z","event":"trace-written","load":"other","role":"decode_0","file":"raw/torch/decode_0/rank0.6.pt.trace.json.gz"}
{"time":"2026-11-21T04:56:01Z","event":"trace-failed","role":"prefill","text":"http://x/start_profile: 404 Not Found"}
`)
	r := only(t, collector(t), dir, completed())
	require.True(t, r.Profiling.Enabled)
	size, rank := 3.0, 1
	require.Equal(t, []result.Trace{{Kind: result.TorchTrace, Path: mine, SizeMB: &size, Role: "decode_0", Rank: &rank,
		Process: "worker"}}, r.Profiling.Traces)
	require.Equal(t, mine, r.Profiling.TraceFilePath)
	require.Equal(t, "fail", outcome(t, r, "files-missing"))
	require.Contains(t, r.Validity.Check("files-missing").Detail, "raw/torch/prefill/*.pt.trace.json*")
	require.True(t, slices.ContainsFunc(r.Warnings, func(w result.Warning) bool {
		return w.Kind == result.TraceFailed && w.Text == "profiler of prefill: http://x/start_profile: 404 Not Found"
	}))
	require.False(t, r.Validity.Baseline())
}
