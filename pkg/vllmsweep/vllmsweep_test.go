package vllmsweep

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/source"
)

// Names of points and folders are those of vLLM.
//
// covers: SWP-5
func TestReadParams(t *testing.T) {
	items, err := ReadParams("p.json", []byte(`[{}, {"a": 1, "b_c": 2.0, "d": true, "e": null, "f": ["x", 1], "g": {"h": "i"}},
		{"_benchmark_name": "n/a..b", "x": 1e3}, {"x": Infinity}]`))
	require.NoError(t, err)
	var names []string
	for _, i := range items {
		names = append(names, i.Name)
	}
	require.Equal(t, []string{"", "a=1-b_c=2.0-d=True-e=None-f=['x', 1]-g={'h': 'i'}", "n/a..b", "x=inf"}, names)
	require.Equal(t, "", Folder(items[0], "BENCH", items[0]))
	require.Equal(t, "SERVE--n_a__b", Folder(items[2], "BENCH", items[0]))
	require.Equal(t, "BENCH--x=inf-WL--v=1", Folder(items[0], "BENCH", items[3], "WL-", "v=1"))
	byName, err := ReadParams("p.json", []byte(`{"quiet": {"a": 1}, "busy": {"a": 2}}`))
	require.NoError(t, err)
	require.Equal(t, "SERVE--quiet-BENCH--busy", Folder(byName[0], "BENCH", byName[1]))
	require.Equal(t, source.Pos{File: "p.json", Line: 1, Col: 11}, byName[0].Pos)
}

func TestReadParamsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "p.json:1:1: ",
		"3":                    "p.json:1:1: parameters are a list of objects",
		"[]":                   "p.json:1:1: the file has no point",
		"[1]":                  "p.json:1:2: a point is an object of parameters",
		`{"a": 1}`:             "p.json:1:7: a point is an object of parameters",
		`[{"a": 1},]`:          "p.json:1:",
		`[{"a": 1, "a": 2}]`:   `p.json:1:15: "a" stands twice`,
		`[{"a": 1}, {"a": 1}]`: "p.json:1:12: this point is p.json:1:2 once more",
		`[{"_benchmark_name": "x"}, {"_benchmark_name": "x", "a": 1}]`: `p.json:1:28: _benchmark_name "x" is taken (p.json:1:2)`,
		`[{"a": NaN}]`: "p.json:1:8: NaN is no value of an option",
	} {
		_, err := ReadParams("p.json", []byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzReadParams(f *testing.F) {
	for _, name := range []string{"serve.json", "bench.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`[{"a": null, "b": [1, {"c": -Infinity}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		items, err := ReadParams("p.json", data)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, i := range items {
			require.False(t, seen[i.Name])
			seen[i.Name] = true
			require.True(t, json.Valid([]byte(overrides(i))), overrides(i))
		}
		_, _ = Serve{Model: "m", ServeParams: items, BenchParams: items, Runs: 1}.Sweep()
	})
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"a": [1, {"b": NaN}], "c": "d", "e": null, "f": {}, "g": []}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRecord(data)
		if err != nil {
			return
		}
		text, err := r.json("")
		require.NoError(t, err)
		again, err := parseRecord([]byte(text))
		require.NoError(t, err, "%s", text)
		second, err := again.json("")
		require.NoError(t, err)
		require.Equal(t, text, second)
		_, err = summaryCSV([]record{r, again})
		require.NoError(t, err)
	})
}

// sweepOf is a sweep of parameter files in text; "" for the command as it is.
func sweepOf(t *testing.T, in Serve, serve, bench string) (*Sweep, error) {
	t.Helper()
	read := func(name, text string) ([]Item, error) {
		if text == "" {
			return Unchanged(), nil
		}
		return ReadParams(name, []byte(text))
	}
	in.Name, in.Runs = "e", max(in.Runs, 1)
	if in.ServeCmd == "" {
		in.ServeCmd, in.BenchCmd = "vllm serve m", "vllm bench serve --model m --ignore-eos"
	}
	var err error
	if in.ServeParams, err = read("serve.json", serve); err != nil {
		return nil, err
	}
	if in.BenchParams, err = read("bench.json", bench); err != nil {
		return nil, err
	}
	return in.Sweep()
}

// folders are those of all points.
func folders(s *Sweep) (list []string) {
	for _, p := range s.Points() {
		list = append(list, p.Folder)
	}
	return list
}

// Linked parameters are compared as Python compares: a pair without both of them is left out.
//
// covers: SWP-5
func TestLinks(t *testing.T) {
	links, err := ParseLinks("max_num_seqs=max_concurrency, seed = seed")
	require.NoError(t, err)
	s, err := sweepOf(t, Serve{Links: links}, `[{"max_num_seqs": 4, "seed": 1}, {"max_num_seqs": 8, "seed": true}, {"seed": 1}]`,
		`[{"max_concurrency": 4, "seed": 1.0}, {"max_concurrency": 8, "seed": 1}, {"max_concurrency": 8}]`)
	require.NoError(t, err)
	require.Equal(t, []string{"SERVE--max_num_seqs=4-seed=1-BENCH--max_concurrency=4-seed=1.0",
		"SERVE--max_num_seqs=8-seed=True-BENCH--max_concurrency=8-seed=1"}, folders(s))
	require.Equal(t, 7, s.Dropped)
	_, err = sweepOf(t, Serve{Links: links}, `[{"max_num_seqs": 4}]`, `[{"max_concurrency": 4}]`)
	require.ErrorContains(t, err, "no pair of points has the same values")
	for _, text := range []string{"a", "a=b=c", "=b", "a=b,"} {
		_, err := ParseLinks(text)
		require.Error(t, err, text)
	}
}

// A scenario of what is missing: repeats where every run of a server is, else a phase for each run.
func TestScenario(t *testing.T) {
	s, err := sweepOf(t, Serve{Runs: 3, Client: "profllm", Nodes: 2, TimeLimit: "1h"}, `[{"lora_modules": ["a=b", "c=d"]}, {"seed": 2}]`,
		`[{"ignore_eos": false, "max_concurrency": 4}, {"num_prompts": 7}]`)
	require.NoError(t, err)
	top := s.Scenario(func(p *Point, n int) bool { return p.Server.ID != "seed-2" || p.ID == "num_prompts-7" && n == 1 })
	data, err := json.Marshal(top.Plain())
	require.NoError(t, err)
	var got struct {
		Name  string
		Tests []struct {
			ID          string
			Repeat      int
			NumNodes    int            `json:"num_nodes"`
			BenchArgs   map[string]any `json:"bench_cmd_args"`
			DSEExcluded []string       `json:"dse_excluded_args"`
			Phases      []struct {
				Name, Cache string
				BenchArgs   map[string]any `json:"bench_cmd_args"`
			}
		}
	}
	require.NoError(t, json.Unmarshal(data, &got))
	require.Equal(t, "e", got.Name)
	require.Len(t, got.Tests, 2)
	first, second := got.Tests[0], got.Tests[1]
	require.Equal(t, 3, first.Repeat)
	require.Equal(t, 2, first.NumNodes)
	require.Equal(t, []string{"cmd_args.decode.lora_modules"}, first.DSEExcluded)
	require.Equal(t, map[string]any{"num_prompts": 1000., "random_input_len": 1024., "random_output_len": 128.,
		"max_concurrency": "none"}, first.BenchArgs)
	require.Len(t, first.Phases, 2)
	require.Equal(t, map[string]any{"max_concurrency": 4.}, first.Phases[0].BenchArgs, "the switch is taken away")
	require.Equal(t, map[string]any{"num_prompts": 7., "ignore_eos": true}, first.Phases[1].BenchArgs)
	require.Equal(t, "reset", first.Phases[1].Cache)
	require.Equal(t, 0, second.Repeat)
	require.Len(t, second.Phases, 1)
	require.Equal(t, "num_prompts-7.run1", second.Phases[0].Name)
	require.Nil(t, s.Scenario(func(*Point, int) bool { return false }))
}

// A warm-up is a run of its own before each point.
func TestWarmup(t *testing.T) {
	s, err := sweepOf(t, Serve{Runs: 2, Warmup: 5, AfterLoad: "true"}, "", `{"a": {"num_prompts": 7}}`)
	require.NoError(t, err)
	data, err := json.Marshal(s.Scenario(nil).Plain())
	require.NoError(t, err)
	for _, want := range []string{`"name":"a.warmup"`, `"num_prompts":5`, `"name":"a.run0"`, `"name":"a.run1"`,
		`"after_load":"true"`, `"cache":"keep"`} {
		require.Contains(t, string(data), want)
	}
	require.NotContains(t, string(data), "repeat")
}

// What a client would not find, or what the sweep sets itself, is refused.
func TestSweepRefuses(t *testing.T) {
	for _, c := range []struct{ serveCmd, benchCmd, serve, bench, want string }{
		{"vllm serve m", "vllm bench serve --port 9000", "", "", "--bench-cmd: the client asks port 9000, and the server listens on 8000"},
		{"vllm serve m --port 9000", "vllm bench serve --base-url http://localhost:9001", "", "", "the client asks port 9001"},
		{"vllm serve m", "vllm bench serve --host gpu1", "", "", "the client asks gpu1, which is not the host"},
		{"vllm serve m", "vllm bench serve --model n", "", "", "the client asks for the model n, but the server has m"},
		{"vllm serve m", "vllm bench serve", "", `[{"result_dir": "x"}]`, "bench.json:1:17: result_dir cannot be swept"},
		{"vllm serve m --no-such 3", "vllm bench serve", "", "", "--serve-cmd: no_such is an option of `vllm serve` in no release"},
		{"vllm serve m 'x", "vllm bench serve", "", "", "--serve-cmd: a ' is not closed"},
		{"vllm serve m n", "vllm bench serve", "", "", `--serve-cmd: unexpected argument "n"`},
		{"vllm serve m", "vllm bench latency", "", "", `--bench-cmd: "vllm bench latency" is not a command of the form vllm bench serve`},
		{"vllm serve m", "vllm bench serve", `[{"max_num_seqs": null}]`, "", "serve.json:1:"},
		{"vllm serve m", "vllm bench serve", "", `[{"seed": 1}, {"seed": "1"}]`, "bench.json:1:15: this point is bench.json:1:2 once more"},
		{"vllm serve m", "vllm bench serve", "", `[{"metadata": "` + strings.Repeat("x", 300) + `"}]`, "the folder of this point would have a name of"},
	} {
		_, err := sweepOf(t, Serve{ServeCmd: c.serveCmd, BenchCmd: c.benchCmd}, c.serve, c.bench)
		require.ErrorContains(t, err, c.want, c.want)
	}
	s, err := sweepOf(t, Serve{ServeCmd: "/opt/v/bin/vllm serve m --served-model-name n -O3 --compilation-config.mode=2",
		BenchCmd: "vllm bench serve --model n --host localhost"}, `[{"compilation_config.level_x": true, "language_model_only": false}]`, "")
	require.NoError(t, err)
	data, err := json.Marshal(s.Scenario(nil).Plain())
	require.NoError(t, err)
	for _, want := range []string{`"custom_bash":"export PATH=/opt/v/bin:\"$PATH\""`, `"optimization_level":3`,
		`"compilation_config.mode":2`, `"compilation_config.level_x":"true"`, `"language_model_only":false`} {
		require.Contains(t, string(data), want)
	}
}

// Levels are chosen as `vllm bench sweep serve_workload` does: from the ceiling of one end to the
// floor of the other, rounded to even, without the ends.
func TestLevels(t *testing.T) {
	x := &Explore{Var: "request_rate", Iters: 5}
	serial := []Measured{{RequestThroughput: 2.1}, {RequestThroughput: 2.3}}
	require.Equal(t, []int64{7, 12, 16}, x.Interior(serial, []Measured{{RequestThroughput: 20.9}}))
	require.Equal(t, []int64{3}, x.Interior(serial, []Measured{{RequestThroughput: 3.2}}))
	x = &Explore{Var: "max_concurrency", Iters: 4}
	require.Equal(t, []int64{11, 22}, x.Interior([]Measured{{10, 100}}, []Measured{{100, 325}}))
	x.Iters = 2
	require.Empty(t, x.Interior([]Measured{{10, 100}}, []Measured{{100, 325}}))

	s, err := sweepOf(t, Serve{Explore: &Explore{Var: "request_rate", Iters: 3}}, "", `{"a": {"num_prompts": 40}}`)
	require.NoError(t, err)
	require.Equal(t, []string{"BENCH--a-WL--request_rate=1", "BENCH--a-WL--request_rate=40"}, folders(s))
	s.Explore.Between = map[string][]int64{"BENCH--a": {1, 7}}
	s, err = s.Serve.Sweep()
	require.NoError(t, err)
	require.Equal(t, []string{"BENCH--a-WL--request_rate=1", "BENCH--a-WL--request_rate=7", "BENCH--a-WL--request_rate=40"}, folders(s))
	s, err = sweepOf(t, Serve{Explore: &Explore{Var: "request_rate", Iters: 3}}, "", `[{"num_prompts": 40}]`)
	require.NoError(t, err)
	require.Equal(t, "BENCH--num_prompts=40-max_concurrency=1-WL--request_rate=1", folders(s)[0])
	_, err = sweepOf(t, Serve{Explore: &Explore{Var: "request_rate", Iters: 3}}, "", `[{"request-rate": 4}]`)
	require.ErrorContains(t, err, "bench.json:1:19: request_rate is explored")
}

// A sweep of starts is a test for each run; what the benchmark lacks is left out, or refused.
func TestStartup(t *testing.T) {
	read := func(text string) []Item {
		items, err := ReadParams("p.json", []byte(text))
		require.NoError(t, err)
		return items
	}
	in := Startup{Name: "e", Runs: 2, StartupCmd: "vllm bench startup --model m --output-json x --num-iters-cold 2",
		ServeParams: read(`[{"enforce_eager": true, "port": 9}, {"dtype": "half"}]`), StartupParams: read(`{"q": {"num_iters_cold": 1}}`)}
	s, ignored, err := in.Sweep()
	require.NoError(t, err)
	require.Equal(t, []string{"p.json:1:34: port is no option of the startup benchmark and is left out"}, ignored)
	require.Equal(t, []string{"SERVE--enforce_eager=True-STARTUP--q", "SERVE--dtype=half-STARTUP--q"}, folders(s))
	data, err := json.Marshal(s.Scenario(func(p *Point, n int) bool { return p.Server.Name == "dtype=half" && n == 1 }).Plain())
	require.NoError(t, err)
	require.JSONEq(t, `{"name": "e", "Tests": [{"id": "dtype-half-q.run1", "test_template_name": "vllm-offline",
		"cmd_args": {"benchmark": "startup", "model": "m", "engine": {"dtype": "half"}, "options": {"num_iters_cold": 1}}}]}`, string(data))
	in.Strict = true
	_, _, err = in.Sweep()
	require.ErrorContains(t, err, "p.json:1:34: port is no option of `vllm bench startup`")
	in.Strict, in.ServeParams = false, read(`[{"enforce_eagre": true}]`)
	_, _, err = in.Sweep()
	require.ErrorContains(t, err, "did you mean \"enforce_eager\"?", "a slip of the pen is never left out")
}

// A sweep is resumed only as the one that its results are of: each setting that its numbers depend on
// is in the book. A book of an older release says nothing of the settings.
func TestBook(t *testing.T) {
	dir := t.TempDir()
	in := Serve{Client: "profllm", Nodes: 1, Warmup: 4}
	bench := `[{"_benchmark_name": "a b", "seed": 1}, {"seed": 2}]`
	s, err := sweepOf(t, in, "", bench)
	require.NoError(t, err)
	require.NoError(t, s.Check(dir), "no book refuses nothing")
	require.NoError(t, s.Keep(dir))
	for flag, change := range map[string]func(in *Serve){
		"":                     func(in *Serve) { in.Nodes, in.TimeLimit = 0, "2h" },
		"--client":             func(in *Serve) { in.Client = "" },
		"--image":              func(in *Serve) { in.Image = "i" },
		"--nodes":              func(in *Serve) { in.Nodes = 2 },
		"--simulate":           func(in *Serve) { in.Simulate = true },
		"--after-bench-cmd":    func(in *Serve) { in.AfterLoad = "true" },
		"--warmup-num-prompts": func(in *Serve) { in.Warmup = 0 },
	} {
		other := in
		change(&other)
		s, err := sweepOf(t, other, "", bench)
		require.NoError(t, err)
		if flag == "" {
			require.NoError(t, s.Check(dir))
			continue
		}
		require.ErrorContains(t, s.Check(dir), "the sweep was begun with another "+flag)
	}
	for text, want := range map[string]string{
		`[{"_benchmark_name": "a b", "seed": 3}]`: "the point BENCH--a b had other parameters",
		`[{"_benchmark_name": "a-b", "seed": 1}]`: "the runs of BENCH--a b would be taken for those of BENCH--a-b",
	} {
		s, err := sweepOf(t, in, "", text)
		require.NoError(t, err)
		require.ErrorContains(t, s.Check(dir), want)
	}

	var book Book
	file := filepath.Join(dir, BookFile)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &book))
	book.Settings = nil
	data, err = json.Marshal(book)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o644))
	s, err = sweepOf(t, Serve{}, "", bench)
	require.NoError(t, err)
	require.NoError(t, s.Check(dir))
}

// A point whose name is that of a run or of a warm-up of another has an id of its own.
func TestIDsOfRuns(t *testing.T) {
	for _, warmup := range []int{0, 3} {
		s, err := sweepOf(t, Serve{Runs: 2, Warmup: warmup}, "", `{"x": {"seed": 1}, "x.run0": {"seed": 2}, "x.warmup": {"seed": 3}}`)
		require.NoError(t, err)
		var ids []string
		for _, p := range s.Points() {
			ids = append(ids, p.ID)
		}
		require.Equal(t, []string{"x", "x-run0", "x-warmup"}, ids)
	}
}

// resultOf puts a result of a run into the folder of an experiment.
func resultOf(t *testing.T, dir string, p *Point, run int, rate string) {
	t.Helper()
	file := filepath.Join(dir, p.runFile(run))
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(`{"request_throughput": `+rate+`, "mean_e2el_ms": 10}`), 0o644))
}

// The levels between two ends wait for every run of both: with some of them, a resumed sweep would
// choose others.
func TestLevelsOfAllRuns(t *testing.T) {
	dir := t.TempDir()
	s, err := sweepOf(t, Serve{Runs: 2, Explore: &Explore{Var: "request_rate", Iters: 3}}, "", `{"a": {"num_prompts": 40}}`)
	require.NoError(t, err)
	ends := s.Points()
	resultOf(t, dir, ends[0], 0, "2")
	resultOf(t, dir, ends[0], 1, "2")
	resultOf(t, dir, ends[1], 0, "20")
	between, err := s.Levels(dir)
	require.NoError(t, err)
	require.Empty(t, between)
	resultOf(t, dir, ends[1], 1, "20")
	between, err = s.Levels(dir)
	require.NoError(t, err)
	require.Equal(t, map[string][]int64{"BENCH--a": {11}}, between)
	all, err := s.Between(between)
	require.NoError(t, err)
	require.Len(t, all.Points(), 3)
	require.Len(t, s.Points(), 2)
}

// A place that cannot be looked at is an error, and not a run without a result.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	s, err := sweepOf(t, Serve{}, "", `{"a": {"seed": 1}, "b": {"seed": 2}}`)
	require.NoError(t, err)
	resultOf(t, dir, s.Points()[0], 0, "2")
	missing, err := s.Lacking(dir)
	require.NoError(t, err)
	require.False(t, missing(s.Points()[0], 0))
	require.True(t, missing(s.Points()[1], 0))
	loop := filepath.Join(dir, "BENCH--b")
	require.NoError(t, os.Symlink(loop, loop))
	_, err = s.Lacking(dir)
	require.ErrorIs(t, err, syscall.ELOOP)
	root := t.TempDir()
	below := filepath.Join(root, s.Servers[0].ID)
	require.NoError(t, os.Symlink(below, below))
	require.NoError(t, os.Remove(loop))
	_, err = s.Write(dir, []string{root})
	require.ErrorIs(t, err, syscall.ELOOP)
}
