package collect_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
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
	for _, text := range []string{"null", `{"job_id": "20537"}`, `{"job_id": "20537", "nodes": [{"host": "127.0.1.1", "addr": "127.0.1.1"}]}`} {
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
