package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/run"
)

// finishedScenario is rehearsed once; what it leaves is multiplied.
const finishedScenario = `name = "finished"

[[Tests]]
id = "plain"
test_template_name = "vllm"
  [Tests.cmd_args]
  docker_image_url = "vllm/vllm-openai:v0.32.0"
  model = "Qwen/Qwen3-8B"
  decode.tensor_parallel_size = 4
  [Tests.bench_cmd_args]
  random_input_len = 256
  random_output_len = 48
  max_concurrency = 32
  num_prompts = 200

[[Tests]]
id = "detailed"
test_template_name = "vllm"
  [Tests.cmd_args]
  docker_image_url = "vllm/vllm-openai:v0.32.0"
  model = "Qwen/Qwen3-8B"
  decode.tensor_parallel_size = 4
  [Tests.bench_cmd_args]
  random_input_len = 256
  random_output_len = 48
  max_concurrency = 32
  num_prompts = 200
  save_detailed = true

[[Tests]]
id = "disaggregated"
test_template_name = "vllm"
num_nodes = 2
  [Tests.cmd_args]
  docker_image_url = "vllm/vllm-openai:v0.32.0"
  model = "Qwen/Qwen3-8B"
  prefill.tensor_parallel_size = 4
  decode.tensor_parallel_size = 4
  [Tests.bench_cmd_args]
  random_input_len = 256
  random_output_len = 48
  max_concurrency = 32
  num_prompts = 200
  [Tests.semantic_eval_cmd_args]
`

// finished is the scenario directory of synthetic finished runs. All of them are
// labelled simulated.
type finished struct {
	root  string
	kinds map[string]string // by run directory: what became of it
	bytes int64             // of all files
}

// kindsOfRuns are what becomes of a hundred runs, spread evenly over all.
var kindsOfRuns = []struct {
	kind, test string
	of         int
}{
	{"plain", "plain", 79}, {"detailed", "detailed", 6}, {"disaggregated", "disaggregated", 5},
	{"failed", "plain", 4}, {"partial", "plain", 3}, {"packed", "plain", 3},
}

// finishedRuns writes n finished runs below a new directory: each a copy of a
// rehearsal with its own name, times and latencies.
func finishedRuns(t testing.TB, n int) finished {
	t.Helper()
	dir := t.TempDir()
	seed := rehearsedSeed.made(t)
	f := finished{root: filepath.Join(dir, "results", filepath.Base(seed)), kinds: map[string]string{}}
	copyTree(t, filepath.Join(seed, run.DefinitionDir), filepath.Join(f.root, run.DefinitionDir))
	var sc run.Scenario
	require.NoError(t, run.ReadJSON(filepath.Join(seed, run.ScenarioFile), &sc))
	sc.Runs, sc.Units = nil, nil
	draw := rand.New(rand.NewPCG(1, 2))
	written := 0
	for _, k := range kindsOfRuns {
		s := readSeed(t, filepath.Join(seed, k.test, "0"))
		s.become(t, k.kind)
		for i := range n * k.of / 100 {
			below := filepath.Join(k.kind, fmt.Sprint(i))
			f.bytes += s.write(t, filepath.Join(f.root, below), fmt.Sprintf("exp_%s_%d", k.kind, i), draw)
			f.kinds[filepath.Join(f.root, below)] = k.kind
			sc.Runs, sc.Units = append(sc.Runs, below), append(sc.Units, below)
			written++
		}
	}
	require.Equal(t, n, written, "a hundred, or a multiple of it")
	require.NoError(t, run.WriteJSON(filepath.Join(f.root, run.ScenarioFile), sc))
	return f
}

// seedRun is one rehearsed run.
type seedRun struct {
	dir, id string
	files   map[string][]byte
	bench   map[string]any // the client's result, nil without one
	packed  map[string]bool
	claimed time.Time
}

const benchFile = "raw/vllm-bench.json"

func readSeed(t testing.TB, dir string) *seedRun {
	t.Helper()
	p, err := run.ReadPlan(dir)
	require.NoError(t, err)
	claim, err := os.Stat(filepath.Join(dir, run.ClaimFile))
	require.NoError(t, err)
	s := &seedRun{dir: dir, id: p.RunID, files: map[string][]byte{}, packed: map[string]bool{},
		claimed: claim.ModTime()}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == run.ResultFile || strings.HasPrefix(path, "bin/") {
			return err
		}
		s.files[path], err = os.ReadFile(filepath.Join(dir, path))
		return err
	}))
	require.NoError(t, json.Unmarshal(s.files[benchFile], &s.bench))
	delete(s.files, benchFile)
	// The last page of a run with one client says what the page before it said: ten
	// thousand of them would fill a disk.
	delete(s.files, "raw/metrics-serve-after.prom")
	return s
}

// become makes of a run that was well what another may be.
func (s *seedRun) become(t testing.TB, kind string) {
	t.Helper()
	switch kind {
	case "failed":
		s.bench = nil
		delete(s.files, "raw/metrics-serve-bench.prom")
		line := "(APIServer pid=7) INFO [loggers.py:236] Engine 000: Avg prompt throughput: 99.5 tokens/s, Avg generation throughput: 8.1 tokens/s, Running: 3 reqs, Waiting: 0 reqs\n"
		s.files["logs/serve-0.log"] = []byte(strings.Repeat(line, 500) + outOfMemory)
		s.files["logs/bench-0.log"] = []byte("ConnectionRefusedError: [Errno 111] Connect call failed\n")
		s.end(t, 1)
		s.files[run.EventFile] = append(s.files[run.EventFile], s.died()...)
		s.replace(t, run.StateFile, `"state": "succeeded"`, `"state": "failed"`)
	case "partial":
		s.bench["completed"], s.bench["failed"] = 180, 20
		for _, key := range []string{"total_input_tokens", "total_output_tokens", "request_throughput",
			"output_throughput", "total_token_throughput"} {
			s.bench[key] = scaled(s.bench[key], 0.9)
		}
	case "packed":
		for _, name := range []string{"logs/serve-0.log", "logs/bench-0.log"} {
			s.files[name+".xz"] = pack(t, s.files[name])
			delete(s.files, name)
		}
		data, err := json.Marshal(s.bench)
		require.NoError(t, err)
		s.files[benchFile+".xz"], s.bench = pack(t, data), nil
	}
}

const outOfMemory = "(EngineCore pid=9) ERROR [core.py:700] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.06 GiB is free.\n"

func (s *seedRun) replace(t testing.TB, name, old, by string) {
	t.Helper()
	require.Contains(t, string(s.files[name]), old)
	s.files[name] = bytes.ReplaceAll(s.files[name], []byte(old), []byte(by))
}

// end gives the benchmark, its server and the job that exit code.
func (s *seedRun) end(t testing.TB, code int) {
	t.Helper()
	var end run.Sentinel
	require.NoError(t, json.Unmarshal(s.files[run.SentinelFile], &end))
	end.Code, end.Phases[1].Code, end.Roles[0].Code = code, code, code
	data, err := json.MarshalIndent(end, "", "  ")
	require.NoError(t, err)
	s.files[run.SentinelFile] = data
}

// died is the event of a server that ended by itself.
func (s *seedRun) died() string {
	_, event, _ := strings.Cut(string(s.files[run.EventFile]), "\"event\":\"client-begins\"")
	_, event, _ = strings.Cut(event, "\"time\":\"")
	at, _, _ := strings.Cut(event, "\"")
	return fmt.Sprintf("{\"time\":%q,\"event\":\"role-died\",\"role\":\"serve\"}\n", at)
}

func pack(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	require.NoError(t, err)
	_, err = w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// write makes one run of a seed, and returns its bytes.
func (s *seedRun) write(t testing.TB, dir, id string, draw *rand.Rand) int64 {
	t.Helper()
	sum := int64(0)
	put := func(name string, data []byte) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, data, 0o644))
		}
		sum += int64(len(data))
	}
	for name, data := range s.files {
		data = bytes.ReplaceAll(data, []byte(s.dir), []byte(dir))
		put(name, bytes.ReplaceAll(data, []byte(s.id), []byte(id)))
	}
	if s.bench != nil {
		data, err := json.Marshal(slower(s.bench, 1+draw.Float64()/20))
		require.NoError(t, err)
		put(benchFile, data)
	}
	// A claim that is younger than the known end is one of a job that was queued again.
	require.NoError(t, os.Chtimes(filepath.Join(dir, run.ClaimFile), time.Time{}, s.claimed))
	return sum
}

// slower is a client's result whose times are all f times as long.
func slower(bench map[string]any, f float64) map[string]any {
	out := map[string]any{}
	for key, v := range bench {
		switch {
		case strings.HasSuffix(key, "throughput"):
			v = scaled(v, 1/f)
		case strings.HasSuffix(key, "_ms") || key == "duration" || key == "ttfts" || key == "itls" ||
			key == "latencies" || key == "start_times":
			v = scaled(v, f)
		case key == "profllm": // what the client says of itself
			v = slowerClient(v.(map[string]any), f)
		}
		out[key] = v
	}
	return out
}

// slowerClient has first and last requests at times that go with the window.
func slowerClient(client map[string]any, f float64) map[string]any {
	out := maps.Clone(client)
	for key, v := range client {
		if strings.HasSuffix(key, "_s") {
			out[key] = scaled(v, f)
		}
	}
	return out
}

func scaled(v any, f float64) any {
	switch x := v.(type) {
	case float64:
		return x * f
	case []any:
		list := make([]any, len(x))
		for i := range x {
			list[i] = scaled(x[i], f)
		}
		return list
	}
	return v
}

func copyTree(t testing.TB, from, to string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
}
