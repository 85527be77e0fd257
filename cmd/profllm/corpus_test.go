package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// corpus is CloudAI's own conf folder.
func corpus(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../pkg/catalog/testdata/cloudai/conf")
	require.NoError(t, err)
	return dir
}

// Every file of CloudAI's conf folder is good, also given as one folder.
func TestVerifyCorpus(t *testing.T) {
	o := profllm(t, t.TempDir(), nil, "verify", corpus(t))
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Equal(t, 34, strings.Count(o.stdout, "ok   "))
}

// CloudAI's scenarios for vLLM, SGLang and containers run unchanged on the lab,
// with simulated engines.
func TestSlurmCloudAICorpus(t *testing.T) {
	for file, tests := range map[string]int{
		"experimental/vllm/test_scenario/vllm.toml":           5,
		"experimental/vllm/test_scenario/vllm-heavy.toml":     1,
		"experimental/sglang/test_scenario/sglang.toml":       5,
		"experimental/sglang/test_scenario/sglang-heavy.toml": 1,
		"common/test_scenario/slurm_container.toml":           1,
	} {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			dir := lab(t)
			o := profllm(t, dir, nil, "slurm", "submit", "--simulate", "-y", "--system", "site.toml", filepath.Join(corpus(t), file), "--wait")
			require.Equal(t, exitOK, o.code)
			all := runs(t, dir)
			require.Len(t, all, tests)
			for d := range all {
				r := readResult(t, d)
				require.Equal(t, result.Completed, r.Status)
				require.True(t, r.Validity.Valid, r.Validity.Words)
				require.True(t, r.Simulated)
			}
		})
	}
}
