package collect_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// edit replaces a text in a file of a run, which must be there.
func edit(t *testing.T, dir, name, old, text string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	require.Contains(t, string(data), old)
	write(t, dir, name, string(bytes.Replace(data, []byte(old), []byte(text), 1)))
}

// A plan that would lead out of its bounds is an error that names the file and the key.
func TestPlanOutOfBounds(t *testing.T) {
	for name, c := range map[string]struct{ old, text, want string }{
		"roles beyond the job": {`"offset": 1,`, `"offset": 5,`, "plan.json: roles[1].nodes, of \"decode\": offset 5"},
		"many nodes":           {`"offset": 0,`, `"offset": 2000000000,`, "plan.json: roles[0].nodes, of \"prefill\": offset 2000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := recorded(t)
			edit(t, dir, run.PlanFile, c.old, c.text)
			_, err := collector(t).Write(dir, completed())
			require.ErrorContains(t, err, c.want)
			require.NoFileExists(t, filepath.Join(dir, run.ResultFile))
		})
	}
}

// A placement of fewer nodes than the plan needs is no panic: the run has a record, and
// the record says so.
func TestPlacementOfFewerNodes(t *testing.T) {
	for _, text := range []string{"null", `{"job_id": "20537"}`,
		`{"job_id": "20537", "nodes": [{"host": "127.0.1.1", "addr": "127.0.1.1"}]}`} {
		dir := sampled(t)
		write(t, dir, run.PlacementFile, text)
		r := only(t, collector(t), dir, completed())
		require.Equal(t, "fail", outcome(t, r, "files-missing"))
		require.Contains(t, r.Validity.Check("files-missing").Detail, "placement.json: nodes: ")
	}
}

// A load's directory that is another run is left alone.
func TestLoadInAnotherRun(t *testing.T) {
	dir := recorded(t)
	other := filepath.Join(dir, "other")
	write(t, other, run.PlanFile, "{}")
	p, err := run.ReadPlan(dir)
	require.NoError(t, err)
	p.Loads[0].Dir = filepath.Join(p.Dir, "other")
	data, err := p.Encode()
	require.NoError(t, err)
	write(t, dir, run.PlanFile, string(data))
	_, err = collector(t).Write(dir, completed())
	require.ErrorContains(t, err, "loads[0].dir is a run of its own")
	require.NoFileExists(t, filepath.Join(other, run.ResultFile))
}

type panics struct{}

func (panics) Parse(fs.FS) (result.Part, error) {
	var list []int
	return result.Part{}, []error{}[len(list)]
}

// A defect costs one run its record, and is told with its line.
func TestPanicIsTheRunsError(t *testing.T) {
	dir := recorded(t)
	c := &collect.Collector{Version: "v1", Bench: []collect.Parser{panics{}}}
	_, err := c.Write(dir, completed())
	require.ErrorContains(t, err, dir+": a defect of profllm")
	require.ErrorContains(t, err, "index out of range")
	require.ErrorContains(t, err, "collect_test.panics.Parse (damaged_test.go:")
}

// A counter that is no number is left out and named; the others, and the verdict, stay.
func TestCounterThatIsNoNumber(t *testing.T) {
	want := only(t, collector(t), recorded(t), completed())
	for _, value := range []string{"NaN", "+Inf"} {
		dir := recorded(t)
		pages, err := filepath.Glob(filepath.Join(dir, run.RawDir, "metrics-decode-after.prom"))
		require.NoError(t, err)
		require.Len(t, pages, 1)
		data, err := os.ReadFile(pages[0])
		require.NoError(t, err)
		changed := regexp.MustCompile(`(?m)^(vllm:generation_tokens_total\S*) \S+$`).
			ReplaceAll(data, []byte("$1 "+value))
		require.NotEqual(t, data, changed)
		write(t, dir, "raw/metrics-decode-after.prom", string(changed))
		records, err := collector(t).Write(dir, completed())
		require.NoError(t, err)
		r := records[0].Result
		require.Len(t, r.Results.Server, len(want.Results.Server))
		for i, s := range r.Results.Server {
			_, there := s.Counters["vllm:generation_tokens_total"]
			require.Equal(t, s.Role != "decode", there)
			if !there {
				require.Len(t, s.Counters, len(want.Results.Server[i].Counters)-1)
			}
		}
		require.True(t, slices.ContainsFunc(r.Warnings, func(w result.Warning) bool {
			return w.Kind == result.BadValue && w.Key == "vllm:generation_tokens_total" &&
				w.File == "raw/metrics-decode-after.prom"
		}), "%v", r.Warnings)
		require.True(t, r.Validity.Valid)
	}
}

// Another client's file beside that of the planned one gives no numbers, and no doubt.
func TestFileOfAnotherClient(t *testing.T) {
	const other = `{"completed": 3, "duration": 2.0, "backend": "sglang"}` + "\n"
	want := only(t, collector(t), recorded(t), completed())
	dir := recorded(t)
	write(t, dir, "raw/sglang-bench.jsonl", other)
	r := only(t, collector(t), dir, completed())
	require.Equal(t, want.Results, r.Results)
	require.True(t, r.Validity.Valid)
	require.Equal(t, []result.Warning{{
		Kind: result.OtherFile, File: "raw/sglang-bench.jsonl",
		Text: "a result of sglang-bench, which is not in the plan, was not used: vllm bench serve measured",
	}}, slices.DeleteFunc(r.Warnings, func(w result.Warning) bool { return w.Kind != result.OtherFile }))

	remove(t, dir, "raw/vllm-bench.json", "logs/bench-0.log")
	r = only(t, collector(t), dir, completed())
	require.Equal(t, "fail", outcome(t, r, "result-missing"), "what another client measured is not what was planned")

	edit(t, dir, run.PlanFile, `"client": "vllm bench serve"`, `"client": "my bench"`)
	r = only(t, collector(t), dir, completed())
	require.Equal(t, "raw/sglang-bench.jsonl", r.Results.Source, "of an unknown client anyone's file is read")
}

// Files of two executions in one directory are invalid, with both values.
func TestFilesOfTwoExecutions(t *testing.T) {
	r := only(t, collector(t), recorded(t), completed())
	require.Equal(t, "pass", outcome(t, r, "files-mixed"))
	require.Equal(t, "pass", outcome(t, r, "placed-otherwise"))
	for name, c := range map[string]struct {
		file, old, text string
		want            string // "": they agree
	}{
		"claim":        {run.ClaimFile, `"20537"`, `"20538"`, "claim.json is of job 20538, placement.json of job 20537"},
		"finish":       {run.SentinelFile, `"20537"`, `"20538"`, "finish.json of job 20538"},
		"placement":    {run.PlacementFile, `"20537"`, `"20537_3"`, ""},
		"started late": {"raw/vllm-bench.json", `"started":"2026-11-21T04:56:`, `"started":"2026-11-21T04:57:`, "raw/vllm-bench.json says that its window lasted from 2026-11-21T04:57:"},
		"another day":  {"raw/vllm-bench.json", `"started":"2026-11-21`, `"started":"2026-11-20`, "raw/vllm-bench.json says that its window began at 2026-11-20"},
		"date":         {"raw/vllm-bench.json", `"date":"20261121-`, `"date":"20261119-`, "the date of raw/vllm-bench.json"},
		"time zone":    {"raw/vllm-bench.json", `"date":"20261121-04`, `"date":"20261121-18`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := recorded(t)
			edit(t, dir, c.file, c.old, c.text)
			r := only(t, collector(t), dir, completed())
			require.Equal(t, c.want == "", r.Validity.Valid)
			require.Equal(t, c.want != "", outcome(t, r, "files-mixed") == "fail")
			require.Contains(t, r.Validity.Check("files-mixed").Detail, c.want)
		})
	}
	st := completed()
	st.JobID = "20539"
	r = only(t, collector(t), recorded(t), st)
	require.Contains(t, r.Validity.Check("files-mixed").Detail, "claim.json is of job 20537, state.json of job 20539")
	st.State, st.Raw = run.Queued, "PENDING"
	require.True(t, only(t, collector(t), recorded(t), st).Validity.Valid, "the next job has not begun")
	dir := recorded(t)
	remove(t, dir, run.ClaimFile, run.PlacementFile, run.EventFile)
	require.True(t, only(t, collector(t), dir, nil).Validity.Valid, "what is not there differs from nothing")
}

// Plan, placement and preflight have to agree on nodes and GPUs.
func TestPlacedOtherwise(t *testing.T) {
	require.Equal(t, "pass", outcome(t, only(t, collector(t), sampled(t), completed()), "placed-otherwise"))
	for want, change := range map[string]func(*testing.T, string){
		"placement.json has 3 nodes, the plan 2": func(t *testing.T, dir string) {
			edit(t, dir, run.PlacementFile, `"nodes": [`, `"nodes": [{"host": "127.0.1.9", "addr": "127.0.1.9"},`)
		},
		"the plan expects 16 GPUs of the load, its roles have 8": func(t *testing.T, dir string) {
			edit(t, dir, run.PlanFile, `"gpus": 8`, `"gpus": 16`)
		},
		"placement.json has the nodes 127.0.1.1 127.0.1.2, preflight.json 127.0.1.1 other": func(t *testing.T, dir string) {
			edit(t, dir, run.PreflightFile, `"host": "127.0.1.2"`, `"host": "other"`)
		},
		"preflight.json has 5 GPUs of 127.0.1.1, prefill was given GPU 0 of it": func(t *testing.T, dir string) {
			edit(t, dir, run.PreflightFile, `"index": 0`, `"index": 7`)
		},
		"the verdict of preflight.json is fail, but the client measured": func(t *testing.T, dir string) {
			edit(t, dir, run.PreflightFile, `"verdict": "ok"`, `"verdict": "fail"`)
		},
	} {
		dir := sampled(t)
		change(t, dir)
		r := only(t, collector(t), dir, completed())
		require.False(t, r.Validity.Valid, want)
		require.Contains(t, r.Validity.Check("placed-otherwise").Detail, want)
	}
}
