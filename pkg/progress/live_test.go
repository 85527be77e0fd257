package progress

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// What was sampled last is shown: sums over the engines, the fullest cache, tokens between the last
// two looks, and the GPUs with a role. Lines that are cut short, and those of older runs, which count
// no tokens, do no harm.
//
// covers: PERF-4
func TestLive(t *testing.T) {
	dir := t.TempDir()
	pl := &plan.Plan{Dir: dir, Roles: []plan.Role{{Name: "a", GPUs: []int{0, 1}}, {Name: "b", GPUs: []int{2}}},
		Loads: []plan.Load{{Dir: dir, Clients: []plan.Step{{Name: "bench"}}}}}
	write := func(name, text string) {
		file := filepath.Join(dir, run.TelemetryDir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	require.Empty(t, live(dir, pl, "bench").String(), "nothing is known yet")
	const engines = "time_s,role,running,waiting,kv_cache,generated_tokens\n"
	write("engines-bench.csv", engines+"10.000,a,1,0,0.1,100\n10.001,b,1,0,0.2,100\n"+
		"12.000,a,3,1,0.25,300\n12.001,b,4,0,0.5,500\n13.000,a,3,")
	require.Equal(t, "7 running, 1 waiting, KV 50 %, 300 tok/s", live(dir, pl, "bench").String())
	require.Empty(t, live(dir, pl, "eval").String(), "of another phase")
	write("engines-bench.csv", "time_s,role,running,waiting,kv_cache\n10,a,1,0,0.1\n11,a,2,0,0.1\n")
	require.Equal(t, "2 running, 0 waiting, KV 10 %", live(dir, pl, "bench").String())
	sample := func(index, uuid, use string) string {
		return "1795654125455," + index + "," + uuid + "," + use + ",1024,400,,1980,2619,60,0x0\n"
	}
	write("gpu-n1.csv", gpu.Header+sample("0", "x", "10")+sample("0", "x", "90")+sample("1", "y", "100")+
		sample("2", "z", "")+sample("3", "foreign", "100"))
	l := live(dir, pl, "bench")
	l.Left = 90 * time.Second
	require.Equal(t, "2 running, 0 waiting, KV 10 %, GPU 95 %, 90 s left", l.String())
}
