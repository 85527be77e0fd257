package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// ofTime are the checks that fail on a machine too busy for a rehearsal.
var ofTime = []string{"client-bound", "cold-start", "engine-slower", "load-not-reached", "no-steady-state", "not-steady",
	"sends-lumped", "stalled", "window-wrong"}

// rehearsedScenario runs a shipped scenario with the simulated engine, every run of which must be
// valid but for its times, and returns its folder.
func rehearsedScenario(t *testing.T, dir, scenario string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("../../scenarios", scenario+".toml"))
	require.NoError(t, err)
	o := profllm(t, dir, nil, "rehearse", file, "--speed", "8", "--output-dir", scenario)
	require.Contains(t, []int{exitOK, exitInvalid}, o.code, o.stdout+o.stderr)
	found, err := filepath.Glob(filepath.Join(dir, scenario, scenario+"_*"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, filepath.WalkDir(found[0], func(name string, _ os.DirEntry, err error) error {
		if filepath.Base(name) != "result.json" {
			return err
		}
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		var r struct {
			Validity struct {
				Checks []struct{ Word, Outcome, Severity, Detail string }
			}
		}
		require.NoError(t, json.Unmarshal(data, &r))
		require.NotEmpty(t, r.Validity.Checks, name)
		for _, c := range r.Validity.Checks {
			if c.Outcome == "fail" && (c.Severity == "invalid" || c.Severity == "suspect") && !slices.Contains(ofTime, c.Word) {
				t.Errorf("%s: %s %s: %s", name, c.Severity, c.Word, c.Detail)
			}
		}
		return nil
	}))
	return found[0]
}

// increase is by how much a counter of an engine grew during the load of a folder.
func increase(t *testing.T, dir, role, counter string) float64 {
	t.Helper()
	read := func(when string) (sum float64) {
		data, err := os.ReadFile(filepath.Join(dir, run.RawDir, "metrics-"+role+"-"+when+".prom"))
		require.NoError(t, err)
		for line := range strings.Lines(string(data)) {
			if strings.HasPrefix(line, counter+"{") {
				fields := strings.Fields(line)
				var x float64
				require.NoError(t, json.Unmarshal([]byte(fields[len(fields)-1]), &x))
				sum += x
			}
		}
		return sum
	}
	return read("after") - read("before")
}

// Each setting for KV caches works: files and helpers are there before the engines, and blocks
// that the GPUs have lost come back.
//
// covers: HW-4
func TestKVCacheScenario(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("rehearses 11 runs")
	}
	dir := t.TempDir()
	at := rehearsedScenario(t, dir, "kv-cache")
	for _, test := range []string{"lmcache.local", "offload.native"} {
		for phase, least := range map[string]float64{"cold": 0, "again": 80 * 1000} { // of 80 prompts of 1024 tokens
			hits := increase(t, filepath.Join(at, test, "0", phase), "serve", "vllm:external_prefix_cache_hits_total")
			require.GreaterOrEqual(t, hits, least, "%s %s", test, phase)
			require.LessOrEqual(t, hits, least*1.05, "%s %s", test, phase)
		}
	}
	made := increase(t, filepath.Join(at, "decode-bench", "0"), "serve", "vllm:external_prefix_cache_hits_total")
	require.Greater(t, made, 80*8000.0, "of 80 prompts of 8192 tokens")
	remote := filepath.Join(at, "lmcache.remote", "0")
	text, err := os.ReadFile(filepath.Join(remote, "files", "lmcache.yaml"))
	require.NoError(t, err)
	require.Regexp(t, `remote_url: "lm://[0-9.]+:81[0-9]{2}"`, string(text))
	require.Contains(t, logOf(t, remote, "store-0.log"), "this stands for: lmcache_server 0.0.0.0 81")
	events, err := os.ReadFile(filepath.Join(remote, "events.jsonl"))
	require.NoError(t, err)
	require.Less(t, strings.Index(string(events), `"role":"store"`), strings.Index(string(events), `"role":"serve"`),
		"the store is ready first")
}

// Engine settings: what they are measured by is there.
//
// covers: HW-2, HW-3, VLM-3
func TestSettingsScenario(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("rehearses 14 runs")
	}
	at := rehearsedScenario(t, t.TempDir(), "settings")
	for test, option := range map[string]string{
		"level.before-0.12": `--compilation-config {"level":3}`, "moe": "--enable-expert-parallel",
		"pipeline-parallel": "--pipeline-parallel-size 2",
	} {
		require.Contains(t, logOf(t, filepath.Join(at, test, "0"), "serve-0.log"), option)
	}
	for _, method := range []string{"ngram", "draft-model", "eagle"} {
		dir := filepath.Join(at, "speculative."+method, "0")
		require.Positive(t, increase(t, dir, "serve", "vllm:spec_decode_num_accepted_tokens_total"), method)
	}
	log := logOf(t, filepath.Join(at, "lora", "0"), "bench-0.log")
	require.Contains(t, log, "every request asks for the first adapter")
}

// Loads that are no plain text have a result and a verdict.
//
// covers: VLM-2, VLM-3, LBEN-3
func TestWorkloadsScenario(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("rehearses 6 runs")
	}
	at := rehearsedScenario(t, t.TempDir(), "workloads")
	for test, inputs := range map[string]int{"embedding": 640, "embedding.before-0.13": 80, "rerank": 800} {
		data, err := os.ReadFile(filepath.Join(at, test, "0", "result.json"))
		require.NoError(t, err)
		var r struct {
			Results struct {
				Inputs    int `json:"total_input_sequences"`
				Completed int `json:"completed_requests"`
				Failed    int `json:"failed_requests"`
			}
		}
		require.NoError(t, json.Unmarshal(data, &r))
		require.Equal(t, inputs, r.Results.Inputs, test)
		require.Equal(t, []int{80, 0}, []int{r.Results.Completed, r.Results.Failed}, test)
	}
	hits := increase(t, filepath.Join(at, "prefix", "0"), "serve", "vllm:prefix_cache_hits_total")
	require.Greater(t, hits, 70*1000.0, "of 80 prompts with 1024 tokens in common")
}
