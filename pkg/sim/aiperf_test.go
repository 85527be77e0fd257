package sim

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/bench/aiperf"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/sim/program"
)

// aiperfProcess runs a simulated AIPerf over a client that measured three requests, and returns what
// that client was asked for.
func aiperfProcess(t *testing.T, line string) (given []string, code int, said string) {
	t.Helper()
	bench := func(_ context.Context, args []string, _ func() time.Time, _, _ io.Writer) int {
		given = args
		const text = `{"duration":2.0,"completed":2,"failed":1,"total_input_tokens":24,"total_output_tokens":8,
			"request_throughput":1.0,"request_goodput":0.5,"output_throughput":4.0,"total_token_throughput":16.0,"latencies":[1.0,0.5,0.0],
			"input_lens":[12,12,12],"output_lens":[4,4,0],"ttfts":[0.4,0.2,0.0],"itls":[[0.1,0.2,0.3],[0.1,0.1,0.1],[]],
			"start_times":[0.0,0.1,0.2],"errors":["","","gone"]}`
		name := filepath.Join(after(args, "--result-dir"), after(args, "--result-filename"))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
		return 0
	}
	var out output
	code = Main(t.Context(), program.Process{Args: strings.Fields(line), Env: env(nil), Stdout: &out, Stderr: &out, Bench: bench})
	return given, code, out.String()
}

const aiperfLine = " profile --model org/m --url http://h:1 --concurrency 2 --request-count 3 --isl 12 --osl 4 --request-rate 5 " +
	"--goodput time_to_first_token:300 --artifact-dir "

// The stand-in of AIPerf asks profllm's client for the same load, and leaves AIPerf's files, each
// with the label that its numbers are simulated.
func TestAIPerfStandIn(t *testing.T) {
	dir := t.TempDir()
	given, code, said := aiperfProcess(t, "aiperf"+aiperfLine+dir+" --streaming --endpoint-type completions --input-file x")
	require.Equal(t, 0, code, said)
	require.Contains(t, said, "profllm sim: --input-file is not read")
	require.Equal(t, []string{"openai", "/v1/completions", "3", "12", "4", "2", "5", "ttft:300"},
		[]string{after(given, "--backend"), after(given, "--endpoint"), after(given, "--num-prompts"),
			after(given, "--random-input-len"), after(given, "--random-output-len"), after(given, "--max-concurrency"),
			after(given, "--request-rate"), after(given, "--goodput")})
	json, err := aiperf.Parser{}.Parse(os.DirFS(dir))
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "profile_export_aiperf.json")))
	csv, err := aiperf.Parser{}.Parse(os.DirFS(dir))
	require.NoError(t, err)
	for name, p := range map[string]result.Part{"json": json, "csv": csv} {
		require.True(t, p.Simulated, name)
		m := p.Metrics
		require.Equal(t, []int{2, 1}, []int{*m.CompletedRequests, *m.FailedRequests}, name)
		require.InDelta(t, 300, *m.Latency[result.TTFT].Mean, 1e-9)
		require.InDelta(t, 750, *m.Latency[result.E2EL].Median, 1e-9)
		require.InDelta(t, 150, *m.Latency[result.TPOT].Mean, 1e-9)
		require.InDelta(t, 0.5, *m.RequestGoodput, 0)
		require.Len(t, p.Samples.Latency, 3, name)
		require.Contains(t, p.Samples.Errors[2], "gone")
	}
	require.InDelta(t, 5, float64(*json.Metrics.RequestRate), 0)
	require.Equal(t, "org/m", json.Model)
	require.Equal(t, 3, *json.Metrics.NumPrompts)
}

// GenAI-Perf leaves a table in a folder of the load.
func TestGenAIPerfStandIn(t *testing.T) {
	dir := t.TempDir()
	given, code, said := aiperfProcess(t, "genai-perf"+strings.ReplaceAll(aiperfLine, "http://", "")+filepath.Join(dir, "raw"))
	require.Equal(t, 0, code, said)
	require.Equal(t, "http://h:1", after(given, "--base-url"))
	p, err := aiperf.Parser{Dir: "raw"}.Parse(os.DirFS(dir))
	require.NoError(t, err)
	require.Equal(t, "org_m-openai-chat-request_rate5/profile_export_genai_perf.csv", p.Metrics.Source)
	require.True(t, p.Simulated)
	require.Equal(t, 2, *p.Metrics.CompletedRequests)
	require.NotContains(t, p.Metrics.Latency, result.TTFT, "without --streaming there is none")
}

func TestAIPerfStandInRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"aiperf plot": "want profile", "aiperf profile": "--artifact-dir is missing",
		"aiperf profile --artifact-dir x --endpoint-type embeddings": "only chat and completions are simulated",
		"aiperf profile --artifact-dir x --concurrency 1.5":          "want a whole number",
	} {
		_, code, said := aiperfProcess(t, line)
		require.Equal(t, program.Usage, code, line)
		require.Contains(t, said, want)
	}
}
