package validity_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/validity"
)

// A run under any profiler is labelled like one under nsys, whatever told the profiler
// to run, and is no baseline; what only looks like it is not.
//
// covers: PL-V29
func TestProfiledHoweverItIsAsked(t *testing.T) {
	argv := func(words ...string) result.Provenance {
		return result.Provenance{Commands: []result.RoleArgv{{Role: "r", Argv: words}}}
	}
	for name, c := range map[string]struct {
		p        result.Provenance
		server   map[string]any
		settings map[string]string
		by       string
	}{
		"the client's order":             {p: argv("vllm", "bench", "serve", "--profile", "--model", "m"), by: "--profile"},
		"SGLang's client":                {p: argv("SGLANG_TORCH_PROFILER_DIR=/t", "python3", "-m", "sglang.bench_serving", "--profile"), by: "--profile"},
		"an option in one word":          {p: argv("vllm", "serve", "m", `--profiler-config={"profiler":"torch","torch_profiler_dir":"/t"}`), by: "--profiler-config"},
		"an option in two":               {p: argv("vllm", "serve", "m", "--profiler-config", `{"profiler": "cuda"}`), by: "--profiler-config"},
		"a dotted option":                {p: argv("vllm", "serve", "m", "--profiler-config.profiler", "torch"), by: "--profiler-config"},
		"with underscores":               {p: argv("vllm", "serve", "m", "--profiler_config", `{"profiler": "cuda"}`), by: "--profiler-config"},
		"the variable of old releases":   {p: argv("VLLM_TORCH_PROFILER_DIR=/t", "vllm", "serve", "m"), by: "VLLM_TORCH_PROFILER_DIR"},
		"in the process's environment":   {p: result.Provenance{Environment: []result.RoleEnv{{Role: "r", Vars: map[string]string{"VLLM_TORCH_PROFILER_DIR": "/t"}}}}, by: "VLLM_TORCH_PROFILER_DIR"},
		"in the test's environment":      {settings: map[string]string{"extra_env_vars.VLLM_TORCH_CUDA_PROFILE": "1"}, by: "VLLM_TORCH_CUDA_PROFILE"},
		"the server's settings":          {server: map[string]any{"profiler_config": map[string]any{"profiler": "torch"}}, by: "profiler_config"},
		"nsys":                           {p: argv("/opt/nsys", "profile", "-o", "x", "vllm", "serve"), by: "nsys profile"},
		"VizTracer":                      {p: argv("env", "A=1", "viztracer", "-o", "x.json", "--", "vllm", "serve"), by: "viztracer"},
		"in a shell":                     {p: argv("bash", "-c", "cd x && ncu --set full vllm serve m"), by: "ncu"},
		"AMD's":                          {p: argv("rocprofv3", "--sys-trace", "--", "vllm", "serve"), by: "rocprofv3"},
		"perf":                           {p: argv("perf", "record", "-g", "vllm", "serve"), by: "perf record"},
		"an imported client's arguments": {p: result.Provenance{Imported: &result.Imported{Fields: map[string]any{"benchmark": map[string]any{"args": map[string]any{"profile": true}}}}}, by: "profile"},

		"an installation of VizTracer":  {p: argv("bash", "-c", "pip install viztracer && vllm serve m")},
		"nothing":                       {p: argv("vllm", "serve", "m")},
		"profile is off":                {p: argv("vllm", "bench", "serve", "--profile=false")},
		"no profiler in the config":     {p: argv("vllm", "serve", "m", "--profiler-config", `{"profiler": null}`)},
		"an empty variable":             {p: argv("VLLM_TORCH_PROFILER_DIR=", "vllm", "serve")},
		"a directory of SGLang's alone": {p: argv("SGLANG_TORCH_PROFILER_DIR=/t", "python3", "-m", "sglang.launch_server")},
		"a model of that name":          {p: argv("vllm", "serve", "org/perf-record", "--served-model-name", "ncu-7b")},
		"another option":                {p: argv("vllm", "serve", "m", "--skip-mm-profiling")},
		"an imported one without":       {p: result.Provenance{Imported: &result.Imported{Fields: map[string]any{"profile": false}}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := good()
			g.r.Provenance, g.r.Config.Server, g.r.Config.Settings = &c.p, c.server, c.settings
			g.r.FindProfiler()
			v := validity.Judge(&g.r, g.e)
			if c.by == "" {
				require.Nil(t, g.r.Profiling)
				require.NotContains(t, v.Words, "profiled")
				return
			}
			require.Equal(t, c.by, g.r.Profiling.By)
			require.Contains(t, v.Words, "profiled")
			require.Contains(t, v.Check("profiled").Detail, c.by)
			require.False(t, v.Baseline())
		})
	}
}
