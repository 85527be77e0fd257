package sim

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/sim/program"
)

const launchServer = "sglang.launch_server"

// launch starts a simulated SGLang server on a free port and returns its URL.
func launch(t testing.TB, settings map[string]string, flags ...string) (*command, string) {
	t.Helper()
	c := start(t, settings, append([]string{"python3", "-m", launchServer, "--model-path", "m", "--port", "0"},
		flags...)...)
	line := c.await(t, `Starting SGLang server \(profllm sim\) on (http://\S+)`)
	return c, line[strings.LastIndex(line, "http://"):]
}

func get(t testing.TB, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(body)
}

func TestSGLangServer(t *testing.T) {
	c, url := launch(t, nil, "--tp", "4", "--enable-metrics")
	for path, want := range map[string]string{
		"/health": "", "/health_generate": "", "/v1/models": `"id":"m"`, "/get_model_info": `"simulated":true`, "/model_info": `"model_path":"m"`,
		"/get_server_info": `"tp_size":4`, "/server_info": `"simulated":true`,
	} {
		code, body := get(t, url+path)
		require.Equal(t, http.StatusOK, code, path)
		require.Contains(t, strings.ReplaceAll(body, ": ", ":"), want, path)
	}
	for _, path := range []string{"/metrics", "/ping", "/version"} {
		code, _ := get(t, url+path)
		require.Equal(t, http.StatusNotFound, code, "%s is vLLM's, or has vLLM's names", path)
	}
	res, err := http.Post(url+"/v1/completions", "application/json",
		strings.NewReader(`{"model":"m","prompt":"a b c","max_tokens":3}`))
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Contains(t, c.out.String(), "simulated by profllm")
	c.cancel()
	require.Equal(t, 0, c.exit(t))
}

// What SGLang's parser would not take ends the stand-in too.
func TestSGLangRefuses(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{launchServer + " --model-path m --enable-metrics True", "unrecognized arguments: True"},
		{launchServer + " m", "unrecognized arguments: m"},
		{launchServer, "--model-path"},
		{launchServer + " --model-path m --nnodes 2", "--nnodes above 1 needs --dist-init-addr"},
		{launchServer + " --model-path m --nnodes 2 --dist-init-addr h:1 --node-rank 2", "--node-rank=2"},
		{launchServer + " --model-path m --disaggregation-mode both", "want null, prefill or decode"},
		{"sglang_router.launch_router --prefill http://a", "is not simulated"},
		{"sglang.bench_serving --dataset-name sharegpt", "only random and random-ids are simulated"},
		{"sglang.bench_serving --dataset-name random", "--output-file is missing"},
		{"sglang.bench_serving --random-range-ratio 2", "want a number from 0 to 1"},
		{"sglang.test.run_eval", "only gsm8k is simulated"},
		{"json.tool", "python3 -m json.tool is not simulated"},
	} {
		code, _, errs := run(t, nil, append([]string{"python3", "-m"}, strings.Fields(c.args)...)...)
		require.NotZero(t, code, c.args)
		require.Contains(t, errs, c.want, c.args)
	}
}

// freeAddress is an address that nobody listens at.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// The head opens its port once every other rank has joined, each once, and its end is theirs.
func TestSGLangNodes(t *testing.T) {
	dist := freeAddress(t)
	node := func(rank string) *command {
		return start(t, nil, "python3", "-m", launchServer, "--model-path", "m", "--port", "0", "--dist-init-addr",
			dist, "--nnodes", "3", "--node-rank", rank)
	}
	two := node("2")
	head := node("0")
	two.await(t, "joined")
	require.NotContains(t, head.out.String(), "Starting SGLang server")
	one := node("1")
	head.await(t, "Starting SGLang server")
	head.cancel()
	require.Equal(t, 0, head.exit(t))
	for _, c := range []*command{one, two} {
		require.Equal(t, 1, c.exit(t))
		require.Contains(t, c.out.String(), "the head at "+dist+" is gone")
	}
}

func TestSGLangRanksAreDifferent(t *testing.T) {
	dist := freeAddress(t)
	node := func(rank string) *command {
		return start(t, nil, "python3", "-m", launchServer, "--model-path", "m", "--port", "0", "--dist-init-addr",
			dist, "--nnodes", "3", "--node-rank", rank)
	}
	head := node("0")
	node("1")
	node("1")
	require.Equal(t, 1, head.exit(t))
	require.Contains(t, head.out.String(), "want each of 1-2 once")
}

// The client's options and its line: lengths and rates are translated, nothing else is invented.
func TestSGLangClient(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.jsonl")
	var given []string
	bench := func(_ context.Context, args []string, _ func() time.Time, _, _ io.Writer) int {
		given = args
		dir, name := after(args, "--result-dir"), after(args, "--result-filename")
		const text = `{"backend":"openai","max_concurrency":4,"duration":2.0,"completed":1,"total_input_tokens":12,"total_output_tokens":8,
			"request_throughput":0.5,"output_throughput":4.0,"total_token_throughput":10.0,"latencies":[1.0,0.0],"input_lens":[12,12],"output_lens":[8,0],
			"ttfts":[0.5,0.0],"itls":[[0.1],[]],"generated_texts":["x",""],"errors":["","gone"],"mean_ttft_ms":500.0,"mean_e2el_ms":1000.0}`
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		return 0
	}
	for i := range 2 {
		var out, errs output
		code := Main(t.Context(), program.Process{
			Args: strings.Fields("python3 -m sglang.bench_serving --backend sglang --base-url http://h:1 --model m --dataset-name random --num-prompts 2 " +
				"--max-concurrency 4 --random-input-len 16 --random-output-len 8 --warmup-requests 1 --random-range-ratio 0.5 --output-file " + file + " --output-details --pd-separated"),
			Env: env(nil), Stdout: &out, Stderr: &errs, Bench: bench,
		})
		require.Equal(t, 0, code, errs.String())
		require.Contains(t, out.String(), "profllm sim")
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, i+1, strings.Count(string(data), "\n"), "a line is added")
	}
	require.Equal(t, []string{"12", "6", "0.3333333333333333", "1"},
		[]string{after(given, "--random-input-len"), after(given, "--random-output-len"),
			after(given, "--random-range-ratio"), after(given, "--num-warmups")}, "8 to 16, as 12 -+ a third")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	line, _, _ := strings.Cut(string(data), "\n")
	require.Contains(t, line, `"request_rate": Infinity,`, "as Python writes it")
	var keys map[string]any
	require.NoError(t, json.Unmarshal([]byte(strings.Replace(line, "Infinity", "null", 1)), &keys))
	require.Equal(t, true, keys["simulated"])
	require.Equal(t, 1000.0, keys["mean_e2e_latency_ms"])
	require.Equal(t, 500.0, keys["mean_ttft_ms"])
	require.Equal(t, 6.0, keys["input_throughput"])
	require.Equal(t, 0.5, keys["concurrency"])
	require.Equal(t, []any{"", "gone"}, keys["errors"])
	require.Equal(t, 16.0, keys["random_input_len"])
}

func after(args []string, name string) string {
	for i, a := range args {
		if a == name && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// A failing load client is a failing stand-in, without a line.
func TestSGLangClientFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.jsonl")
	var out, errs output
	code := Main(t.Context(), program.Process{
		Args: strings.Fields("python3 -m sglang.bench_serving --dataset-name random --output-file " + file),
		Env:  env(nil), Stdout: &out, Stderr: &errs,
		Bench: func(context.Context, []string, func() time.Time, io.Writer, io.Writer) int { return 7 },
	})
	require.Equal(t, 7, code)
	require.NoFileExists(t, file)
}

func TestSGLangEvaluation(t *testing.T) {
	_, url := launch(t, map[string]string{"PROFLLM_SIM_ACCURACY": "1"}, "--host", "127.0.0.1")
	port := url[strings.LastIndexByte(url, ':')+1:]
	code, out, errs := run(t, nil, "python3", "-m", "sglang.test.run_eval", "--host", "127.0.0.1", "--port", port,
		"--eval-name", "gsm8k", "--num-examples", "20", "--num-threads", "8", "--model", "m")
	require.Equal(t, 0, code, errs)
	require.Contains(t, out, "profllm sim: 20 generated questions")
	require.Contains(t, out, "\nScore: 1.000\n")
}

func TestSGLangRouter(t *testing.T) {
	var given []string
	var out output
	p := program.Process{Env: env(map[string]string{"PROFLLM_NODE_ADDR": "127.0.1.1"}), Stdout: &out, Stderr: &out,
		Proxy: func(_ context.Context, args []string, _, _ io.Writer) int { given = args; return 0 }}
	p.Args = strings.Fields("python3 -m sglang_router.launch_router --pd-disaggregation --prefill http://a:1 8998 --prefill http://c:1 9098 --decode http://b:2 --host 0.0.0.0 --port 8300")
	require.Equal(t, 0, Main(t.Context(), p))
	require.Equal(t, strings.Fields("--host 127.0.1.1 --port 8300 --prefill http://a:1 --prefill http://c:1 --decode http://b:2"), given)
	require.Contains(t, out.String(), "simulated by profllm's proxy")
}
