package planner_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/cloudaitest"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/sweep"
)

// Scenarios of CloudAI's folder, with what CloudAI makes of them: how many tests, the
// limit of the first with its hooks, and the points of its sweep.
func TestCorpusLoads(t *testing.T) {
	conf := cloudaitest.Conf(t, os.Environ())
	for file, want := range map[string]struct {
		tests  int
		limit  string
		points int // of a sweep, 0 where there is none
	}{
		"common/test_scenario/dse_nccl_all_gather.toml":             {1, "01:00:00", 2},
		"common/test_scenario/dse_nemo_run_llama3_8b.toml":          {1, "01:00:00", 2},
		"common/test_scenario/fio.toml":                             {1, "00:05:00", 0},
		"common/test_scenario/fio_local.toml":                       {1, "00:05:00", 0},
		"common/test_scenario/nccl_test.toml":                       {5, "00:50:00", 0},
		"common/test_scenario/nemo_run_llama3_8b.toml":              {2, "01:00:00", 0},
		"common/test_scenario/sleep.toml":                           {4, "00:01:00", 0},
		"common/test_scenario/slurm_container.toml":                 {1, "00:20:00", 0},
		"common/test_scenario/ucc_generator_test.toml":              {1, "00:02:00", 0},
		"common/test_scenario/ucc_test.toml":                        {4, "00:20:00", 0},
		"experimental/vllm/test_scenario/vllm.toml":                 {5, "00:30:00", 0},
		"experimental/vllm/test_scenario/vllm-heavy.toml":           {1, "01:30:00", 0},
		"experimental/sglang/test_scenario/sglang.toml":             {5, "00:10:00", 0},
		"experimental/sglang/test_scenario/sglang-heavy.toml":       {1, "01:30:00", 0},
		"experimental/ai_dynamo/test_scenario/vllm_slurm.toml":      {3, "00:10:00", 0},
		"experimental/ai_dynamo/test_scenario/sglang_slurm.toml":    {2, "00:10:00", 0},
		"experimental/ai_dynamo/test_scenario/vllm_kvbm_slurm.toml": {1, "20:00:00", 0},
		"experimental/ai_dynamo/test_scenario/vllm_lmcache.toml":    {1, "00:10:00", 0},
		"experimental/ai_dynamo/test_scenario/sglang_hicache.toml":  {1, "00:10:00", 0},
		"experimental/ai_dynamo/test_scenario/vllm_k8s.toml":        {1, "", 0},
	} {
		t.Run(file, func(t *testing.T) {
			name := filepath.Join(conf, filepath.FromSlash(file))
			s, err := scenario.Load(scenario.File{Name: name, Data: read(t, name)},
				files(t, filepath.Join(filepath.Dir(name), "../test")),
				scenario.HookFiles{Scenarios: files(t, filepath.Join(conf, "hook")),
					Tests: files(t, filepath.Join(conf, "hook/test"))})
			require.NoError(t, err)
			require.Len(t, s.Tests, want.tests)
			limit := ""
			if d := s.Limit(s.Tests[0]); d > 0 {
				limit = scenario.FormatLimit(d)
			}
			require.Equal(t, want.limit, limit)
			sw, err := planner.Sweep(s.Tests[0])
			require.NoError(t, err)
			points := 0
			if sw.Active() {
				points, err = sweep.Size(sw.Dimensions)
				require.NoError(t, err)
			}
			require.Equal(t, want.points, points)
			for _, test := range s.All() {
				require.NoError(t, planner.Check(test))
			}
		})
	}
}

// Every test file of CloudAI's folder can be checked by itself, and its workload is
// known.
func TestCorpusTestFiles(t *testing.T) {
	checked := 0
	require.NoError(t, filepath.WalkDir(cloudaitest.Conf(t, os.Environ()),
		func(name string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".toml" {
				return err
			}
			f := scenario.File{Name: name, Data: read(t, name)}
			if kind, err := scenario.Kind(f); kind != "test" {
				return err
			}
			test, err := scenario.LoadTest(f)
			require.NoError(t, err)
			require.NoError(t, planner.Check(*test))
			_, err = catalog.Template(test)
			require.NoError(t, err)
			checked++
			return nil
		}))
	require.Greater(t, checked, 50)
}
