package result_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
)

// configured is a run whose configuration is known.
func configured() *result.Result {
	return &result.Result{
		RunID: "exp_20260102_030405_abcdef", Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Config: result.Config{
			Benchmark: result.Benchmark{Kind: "vllm-serve"},
			Settings: map[string]string{
				"NUM_NODES": "2", "cmd_args.model": "Qwen/Qwen3-8B", "cmd_args.docker_image_url": "/here/vllm.sqsh", "cmd_args.decode.tensor_parallel_size": "4",
				"bench_cmd_args.max_concurrency": "16", "bench_cmd_args.endpoint": "/v1/completions", "bench_cmd_args.dataset_path": "/data/sharegpt.json",
				"extra_env_vars.NCCL_ALGO": "Ring", "extra_env_vars.LD_PRELOAD": "/opt/a/x.so:/opt/b/y.so",
			},
		},
		Placement: &result.Placement{Nodes: []string{"n1", "n2"}, Roles: []result.PlacedRole{
			{Role: "prefill", Slice: result.Slice{Count: 1}, GPUsPerNode: 4, Hosts: []string{"n1"}, Ports: map[string]int{"http": 8000}},
			{Role: "decode", Slice: result.Slice{Offset: 1, Count: 1}, GPUsPerNode: 4, Hosts: []string{"n2"}},
		}},
		System: &result.System{HardwareInfo: &result.Hardware{GPU: "H200", Driver: "570", Kernel: "6.8"}},
		Provenance: &result.Provenance{Engine: "vllm", EngineVersion: "0.11.0", Image: "/here/vllm.sqsh",
			ImageDigest: "sha256:1", ModelRevision: "aa", Profllm: "v1"},
		Slurm: &result.Slurm{JobID: "1", State: "COMPLETED"},
	}
}

func fingerprint(t *testing.T, r *result.Result) string {
	t.Helper()
	f, err := r.Fingerprint()
	require.NoError(t, err)
	return f
}

// What another machine, another time and another place change stays out of the
// fingerprint; any change of what was measured is in it. The key of a series is
// coarser: a new image, version or driver is what a series shows.
//
// covers: PL-Q16, PL-V30
func TestFingerprint(t *testing.T) {
	base := fingerprint(t, configured())
	require.Regexp(t, "^sha256:[0-9a-f]{64}$", base)
	series := result.SeriesKey(configured().Config.Settings, configured())
	set := func(key, value string) func(*result.Result) {
		return func(r *result.Result) { r.Config.Settings[key] = value }
	}
	for name, c := range map[string]struct {
		edit         func(*result.Result)
		same, series bool
	}{
		"ids and times": {func(r *result.Result) { r.RunID, r.Timestamp, r.Slurm.JobID = "x", r.Timestamp.Add(time.Hour), "2" }, true, true},
		"nodes, ports": {func(r *result.Result) {
			r.Placement.Nodes, r.Placement.Roles[0].Hosts, r.Placement.Roles[0].Ports["http"] = []string{"n8",
				"n9"}, []string{"n8"}, 9000
		}, true, true},
		"driver, kernel, profllm": {func(r *result.Result) {
			r.System.HardwareInfo.Driver, r.System.HardwareInfo.Kernel, r.Provenance.Profllm = "580", "6.9", "v2"
		}, true, true},
		"leading v": {func(r *result.Result) { r.Provenance.EngineVersion = "v0.11.0" }, true, true},
		"image's place": {func(r *result.Result) {
			r.Provenance.Image = "/there/vllm.sqsh"
			set("cmd_args.docker_image_url", "/there/vllm.sqsh")(r)
		}, true, true},
		"data's place":  {set("bench_cmd_args.dataset_path", "/scratch/sharegpt.json"), true, true},
		"library paths": {set("extra_env_vars.LD_PRELOAD", "/usr/x.so:/usr/y.so"), true, true},
		"model's place": {func(r *result.Result) { set("cmd_args.model", "/hf/hub/models--Qwen--Qwen3-8B/snapshots/aa")(r) }, true, true},

		"engine's version": {func(r *result.Result) { r.Provenance.EngineVersion = "0.11.1" }, false, true},
		"engine's build":   {func(r *result.Result) { r.Provenance.EngineVersion = "0.11.0+cu128" }, false, true},
		"image's digest":   {func(r *result.Result) { r.Provenance.ImageDigest = "sha256:2" }, false, true},
		"model's revision": {func(r *result.Result) { r.Provenance.ModelRevision = "bb" }, false, true},
		"model":            {set("cmd_args.model", "Qwen/Qwen3-8B-FP8"), false, false},
		"engine":           {func(r *result.Result) { r.Provenance.Engine = "sglang" }, false, false},
		"flag":             {set("cmd_args.decode.max_num_seqs", "64"), false, false},
		"variable":         {set("extra_env_vars.NCCL_ALGO", "Tree"), false, false},
		"another library":  {set("extra_env_vars.LD_PRELOAD", "/opt/a/x.so"), false, false},
		"load":             {set("bench_cmd_args.max_concurrency", "32"), false, false},
		"endpoint":         {set("bench_cmd_args.endpoint", "/v1/chat/completions"), false, false},
		"data":             {set("bench_cmd_args.dataset_path", "/data/other.json"), false, false},
		"client":           {func(r *result.Result) { r.Config.Benchmark.Kind = "sglang" }, false, true},
		"GPU":              {func(r *result.Result) { r.System.HardwareInfo.GPU = "H100" }, false, false},
		"topology":         {func(r *result.Result) { r.Placement.Roles[1].GPUsPerNode = 8 }, false, false},
		"replicas":         {func(r *result.Result) { r.Placement.Roles = append(r.Placement.Roles, r.Placement.Roles[0]) }, false, false},
		"simulated":        {func(r *result.Result) { r.Simulated = true }, false, true},
		"profiled":         {func(r *result.Result) { r.Profiling = &result.Profiling{Enabled: true} }, false, true},
	} {
		r := configured()
		c.edit(r)
		require.Equal(t, c.same, fingerprint(t, r) == base, name)
		require.Equal(t, c.series, result.SeriesKey(r.Config.Settings, r) == series, name)
	}
	var read result.Result
	data, err := json.Marshal(configured())
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &read))
	require.Equal(t, base, fingerprint(t, &read), "it can be computed from the record alone")
}

// The hash is kept in files: it must stay what it is.
func TestFingerprintStays(t *testing.T) {
	require.Equal(t, "sha256:6fa9f430ed4549ef9b66c8f786af12bc9b284c17cf397c6e9151c7788a0cead5",
		fingerprint(t, configured()))
	require.Equal(t, "29b6d18223a992e6", result.SeriesKey(configured().Config.Settings, configured()))
	require.Equal(t, "decode 1 x 1 nodes x 4 GPUs, prefill 1 x 1 nodes x 4 GPUs", configured().Placement.Topology())
}

// An older record does not say what was asked: no fingerprint is made up for it.
func TestNoFingerprint(t *testing.T) {
	require.Empty(t, fingerprint(t, &result.Result{}))
	require.NotEmpty(t, result.SeriesKey(nil, nil))
	r := configured()
	settings := maps.Clone(r.Config.Settings)
	fingerprint(t, r)
	require.Equal(t, settings, r.Config.Settings, "the record is not changed")
}

func TestModelName(t *testing.T) {
	for in, want := range map[string]string{
		"Qwen/Qwen3-8B": "Qwen/Qwen3-8B", "/models/Qwen3-8B": "Qwen3-8B", "/hf/hub/models--meta-llama--Llama-3.1-8B/snapshots/" + strings.Repeat("a", 40): "meta-llama/Llama-3.1-8B", "": "",
	} {
		require.Equal(t, want, result.ModelName(in))
	}
}

// A record of the time before all this is read as it was.
func TestOlderRecord(t *testing.T) {
	r, err := result.Decode([]byte(`{"schema":"profllm.result/1","run_id":"exp_1","suite":"s","timestamp":"2026-01-02T03:04:05Z","status":"completed",
		"config":{"server":{},"benchmark":{"max_concurrency":null}},"results":{"completed_requests":3},"provenance":{"profllm":"v0","engine":"vllm"},"system":{"hardware_info":{"gpu":"H100"}}}`))
	require.NoError(t, err)
	require.Zero(t, r.MetricsVersion)
	data, err := resulttest.Marshal(r)
	require.NoError(t, err)
	require.NotContains(t, string(data), "metrics_version")
}
