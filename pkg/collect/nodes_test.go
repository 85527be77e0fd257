package collect_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/node"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// addEvents appends lines to the events of a run.
func addEvents(t *testing.T, dir string, lines ...string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, run.EventFile), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	for _, line := range lines {
		_, err := fmt.Fprintln(f, line)
		require.NoError(t, err)
	}
}

func preflight(t *testing.T, dir string, nodes ...node.Report) {
	t.Helper()
	p := job.Preflight{Schema: "profllm.preflight/1", Verdict: node.OK, Nodes: nodes}
	for _, n := range nodes {
		if v := node.Worst(n.Checks); v == node.Warn || v == node.Fail {
			p.Verdict = v
		}
	}
	require.NoError(t, run.WriteJSON(filepath.Join(dir, run.PreflightFile), p))
}

// The cause of a run that ended before its servers started comes from the event,
// whatever logs say.
//
// covers: PL-G13, PL-F1, PL-F7
func TestUnfitNodes(t *testing.T) {
	dir := recorded(t)
	remove(t, dir, run.PlacementFile)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, run.RawDir)))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, run.LogDir)))
	write(t, dir, "stderr.txt", "RuntimeError: No CUDA GPUs are available\n")
	preflight(t, dir, node.Report{Host: "n2",
		Checks: []node.Check{{Name: "gpu-memory", Verdict: node.Fail, Seen: "GPU 1 holds 72 GiB"}}})
	addEvents(t, dir,
		`{"time":"2026-11-22T10:00:00Z","event":"preflight-failed","node":"n2","check":"gpu-memory","text":"GPU 1 holds 72 GiB"}`,
		`{"time":"2026-11-22T10:00:00Z","event":"preflight-failed","node":"n3","check":"shm","text":"0 KiB free"}`,
		`{"time":"2026-11-22T10:00:00Z","event":"preflight","text":"fail"}`)
	require.NoError(t, run.WriteJSON(filepath.Join(dir, run.SentinelFile),
		run.Sentinel{Schema: "profllm.finish/1", JobID: "20537", Code: 71}))
	r := only(t, collector(t), dir, state("FAILED", run.Failed))
	require.Equal(t, result.Failed, r.Status)
	want := failure.OfPreflight("gpu-memory")
	require.Equal(t, &result.Failure{
		Cause: "gpu-memory-busy", Line: "gpu-memory: GPU 1 holds 72 GiB", File: run.PreflightFile, Node: "n2",
		Confidence: result.Exact,
		Next:       want.Next + `; to run without it: exclude_nodes = ["n2"]`,
		Others: []result.OtherCause{{Cause: "shm-full", Line: "shm: 0 KiB free", File: run.PreflightFile,
			Node: "n3"}},
	}, r.Failure)
	require.Equal(t, "fail", r.System.Preflight)
	require.Equal(t, "fail", outcome(t, r, "gpu-shared"))
}

// covers: PL-G13
func TestNodesOfARun(t *testing.T) {
	idle := []node.Check{{Name: "gpu-memory", Verdict: node.OK, Seen: "idle"},
		{Name: "gpu-processes", Verdict: node.OK, Seen: "none"}}
	var gpus []gpu.Device
	for index := range 4 {
		gpus = append(gpus, gpu.Device{Index: index, Name: "H100", Driver: "570", Total: 80e9})
	}

	dir := recorded(t)
	write(t, dir, run.PlacementFile, `{"nodes": [{"host": "n1"}, {"host": "n2"}]}`)
	preflight(t, dir, node.Report{Host: "n1", Checks: idle, GPUs: gpus},
		node.Report{Host: "n2", Checks: idle, GPUs: gpus})
	addEvents(t, dir,
		`{"time":"2026-11-22T10:00:00Z","event":"preflight-warned","node":"n1","check":"limits","text":"nofile is 1024"}`,
		`{"time":"2026-11-22T10:00:00Z","event":"leftover","node":"n2","text":"process 7"}`)
	r := only(t, collector(t), dir, completed())
	require.Equal(t, result.Completed, r.Status)
	require.Equal(t, []string{"no-steady-state", "n-too-small", "simulated"}, r.Validity.Words,
		"four rounds of requests, and nothing of the nodes")
	require.Equal(t, "pass", outcome(t, r, "gpu-shared"))
	require.Equal(t, &result.System{Preflight: "ok",
		HardwareInfo: &result.Hardware{GPU: "H100", GPUs: new(4), GPUMemoryGB: new(80.0), Driver: "570"}}, r.System)
	require.Contains(t, r.Warnings, result.Warning{Kind: result.NodeUnfit, Key: "n1/limits", Text: "nofile is 1024"})
	require.Contains(t, r.Warnings, result.Warning{Kind: result.NodeUnclean, Key: "n2", Text: "process 7"})

	var other []gpu.Device
	for index := range 5 {
		other = append(other, gpu.Device{Index: index, Name: "H100", Driver: "550", Total: 80e9})
	}
	shared := []node.Check{{Name: "gpu-processes", Verdict: node.Warn, Seen: "GPU 0: process 9"}}
	preflight(t, dir, node.Report{Host: "n1", Checks: idle, GPUs: gpus},
		node.Report{Host: "n2", Checks: shared, GPUs: other})
	r = only(t, collector(t), dir, completed())
	require.Equal(t, result.VerdictSuspect, r.Validity.Verdict)
	require.Contains(t, r.Validity.Check("gpu-shared").Detail, "n2: GPU 0: process 9")
	require.Equal(t, &result.Hardware{GPU: "H100", GPUMemoryGB: new(80.0)}, r.System.HardwareInfo,
		"what differs is left out")

	preflight(t, dir, node.Report{Host: "n1",
		Checks: []node.Check{{Name: "gpu-memory", Verdict: node.NotPossible, Seen: "no driver"}}})
	r = only(t, collector(t), dir, completed())
	require.Equal(t, "not-possible", outcome(t, r, "gpu-shared"))
	require.Nil(t, r.System.HardwareInfo)
}

// Every check that may end a job has a cause.
func TestEveryCheckHasACause(t *testing.T) {
	for _, check := range append(config.Checks, "ports") {
		require.Contains(t, failure.Preflight(), check)
	}
	for check, e := range failure.Preflight() {
		require.NotEmpty(t, e.ID, check)
		require.NotEmpty(t, e.Next, check)
	}
	require.Equal(t, "node-unfit", failure.OfPreflight("of another version").ID)
}
