package sweep

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/source"
)

func table(t testing.TB, text string) *source.Table {
	t.Helper()
	tab, err := source.Parse("t.toml", []byte(text))
	require.NoError(t, err)
	return tab
}

// vllmOrder is the order of the vLLM workload's own keys (spec 4.1).
func vllmOrder(table string) []string {
	switch table {
	case "":
		return []string{"docker_image_url", "model", "port", "prefill", "decode", "proxy_script"}
	case "decode", "prefill":
		return []string{"gpu_ids", "num_nodes", "ray_head", "ray_worker", "nixl_threads"}
	}
	return nil
}

func paths(dims []Dimension) (out []string) {
	for _, d := range dims {
		out = append(out, d.Path)
	}
	return out
}

func load(t testing.TB, text string) *Sweep {
	t.Helper()
	s, err := Load(table(t, text), vllmOrder, nil)
	require.NoError(t, err)
	return s
}

// A test file may exclude what only some scenarios set; that is said, not refused.
//
// covers: PL-D4
func TestIdleExclusion(t *testing.T) {
	s := load(t, "dse_excluded_args = [\"cmd_args.aiperf_phases\", \"cmd_args.a\"]\ncmd_args.a = [1, 2]\n")
	require.Empty(t, s.Dimensions)
	require.Len(t, s.Warnings, 1)
	require.Contains(t, s.Warnings[0],
		`t.toml:1:22: dse_excluded_args: "cmd_args.aiperf_phases" is not in this test, so it excludes nothing`)
}

// covers: C.7
func TestGridOfConformanceVector(t *testing.T) {
	dims, err := dimensionsOf(table(t, `
extra_env_vars.B = ["x", "y"]
[cmd_args.decode]
tensor_parallel_size = [1, 2]
gpu_ids = ["0", "0,1"]
`), vllmOrder)
	require.NoError(t, err)
	points, err := Grid(dims)
	require.NoError(t, err)
	var labels []string
	for _, p := range points {
		labels = append(labels, fmt.Sprint(p.Step, " ", p.Label()))
	}
	const gpu, tp, b = "decode.gpu_ids=", " decode.tensor_parallel_size=", " extra_env_vars.B="
	require.Equal(t, []string{
		"1 " + gpu + `"0"` + tp + "1" + b + "x", "2 " + gpu + `"0"` + tp + "1" + b + "y",
		"3 " + gpu + `"0"` + tp + "2" + b + "x", "4 " + gpu + `"0"` + tp + "2" + b + "y",
		"5 " + gpu + "0,1" + tp + "1" + b + "x", "6 " + gpu + "0,1" + tp + "1" + b + "y",
		"7 " + gpu + "0,1" + tp + "2" + b + "x", "8 " + gpu + "0,1" + tp + "2" + b + "y",
	}, labels)
}

const everything = `
num_nodes = [1, 2]
extra_env_vars = { B = ["x", "y"], A = "one", C = ["z"] }
dse_excluded_args = [" cmd_args.decode.skip ", "cmd_args.lists", "bench_cmd_args.percentiles"]
[cmd_args]
zeta = [1, 2]
model = ["a", "b"]
lists = [1, 2]
phases = [{ x = [1, 2] }, { x = 3 }]
[cmd_args.decode]
extra = [1, 2]
skipped = [true, false]
nixl_threads = [4]
skip = { deep = [1, 2], deeper = { x = [1] } }
shapes = [[1, 2], [3]]
ray_head.b = [1, 2]
gpu_ids = ["0"]
[bench_cmd_args]
max_concurrency = [1, 16]
percentiles = [50, 99]
`

// covers: CD-29
func TestDimensionsInOrder(t *testing.T) {
	dims, err := dimensionsOf(table(t, everything), vllmOrder)
	require.NoError(t, err)
	require.Equal(t, []string{
		"model", "decode.gpu_ids", "decode.ray_head.b", "decode.nixl_threads", "decode.extra", "decode.skipped", "decode.shapes", "zeta",
		"extra_env_vars.B", "extra_env_vars.C", "NUM_NODES", "bench_cmd_args.max_concurrency",
	}, paths(dims))
	for _, d := range dims {
		require.Equal(t, d.Path == "bench_cmd_args.max_concurrency", d.Client, d.Path)
	}
	require.Equal(t, "t.toml:7:1", dims[0].Pos.String())
	plain, err := dimensionsOf(table(t, everything), nil)
	require.NoError(t, err)
	require.Equal(t, "zeta", plain[0].Path, "file order without a schema")
}

// covers: CD-45, PL-D4
func TestDimensionComplaints(t *testing.T) {
	for _, c := range []struct{ toml, want string }{
		{"[cmd_args]\na = []", `t.toml:2:1: cmd_args.a is an empty list: a sweep over it has no points
	hint: write one or more values, or add "cmd_args.a" to dse_excluded_args`},
		{"num_nodes = []", "t.toml:1:1: num_nodes is an empty list"},
		{"extra_env_vars.A = []", "extra_env_vars.A is an empty list: a sweep over it has no points\n\thint: write one or more values, or leave it out"},
		{"cmd_args.a = [1, 2, 1]", "t.toml:1:21: cmd_args.a lists 1 twice (t.toml:1:15)"},
		{"cmd_args.a = [1, {b = 2}]", "cmd_args.a mixes tables and values in a list"},
		{"cmd_args.a = [1.0, nan]", "cmd_args.a: a number that is not finite cannot be swept"},
		{"cmd_args.a = [[2020-01-01]]", "cmd_args.a: a date cannot be swept\n\thint: write it as a string"},
		{"cmd_args.NUM_NODES = [1, 2]", `cmd_args.NUM_NODES cannot be swept: "NUM_NODES" has another meaning`},
		{"dse_excluded_args = [\"cmd_args.decod\"]\n[cmd_args.decode]\na = 1", `t.toml:1:22: dse_excluded_args: "cmd_args.decod" is not in this test, so it excludes nothing
	hint: did you mean "cmd_args.decode"?`},
		{"dse_excluded_args = \"decode.a\"", "does not name a key below cmd_args or bench_cmd_args\n\thint: write cmd_args.decode.a"},
		{"dse_excluded_args = \"cmd_args\"", "does not name a key below cmd_args"},
		{"dse_excluded_args = \"cmd_args.\"", "is not a path"},
		{"dse_excluded_args = \"cmd_args.a..b\"", "is not a path"},
		{"dse_excluded_args = [3]", "must hold strings, not the integer 3"},
	} {
		_, err := dimensionsOf(table(t, c.toml), nil)
		require.ErrorContains(t, err, c.want)
	}
	_, err := dimensionsOf(table(t,
		"dse_excluded_args = [\"x\", \"cmd_args.q\"]\ncmd_args.a = []\ncmd_args.b = [1, 1]"), nil)
	require.Equal(t, 4, strings.Count(err.Error(), "t.toml:")-1,
		"every complaint at once, one names a second place:\n%v", err)
}

// An excluded prefix ends at a dot: "cmd_args.skip" leaves "cmd_args.skipped".
func TestExclusionIsBySegments(t *testing.T) {
	dims, err := dimensionsOf(table(t,
		"dse_excluded_args = \"cmd_args.skip\"\ncmd_args = { skip.a = [1], skipped = [1], \"skip.b\" = [1] }"), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"skipped", `"skip.b"`}, paths(dims))
}

func TestGridIsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("[cmd_args]\n")
	for i := range 6 {
		fmt.Fprintf(&b, "k%d = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n", i)
	}
	dims, err := dimensionsOf(table(t, b.String()), nil)
	require.NoError(t, err)
	_, err = Grid(dims)
	require.ErrorContains(t, err, "the sweep has 1000000 points, more than 100000: k0 (10) × k1 (10)")
	five, err := Grid(dims[:5])
	require.NoError(t, err)
	require.Len(t, five, MaxGrid)
	many := make([]Dimension, 20)
	for i := range many {
		many[i] = dims[0]
	}
	_, err = Size(many)
	require.ErrorContains(t, err, "too many points to count")
}

// covers: CD-29
func TestApplySetsTypedValuesWithTheirPositions(t *testing.T) {
	test := table(t, everything)
	dims, err := dimensionsOf(test, vllmOrder)
	require.NoError(t, err)
	points, err := Grid(dims)
	require.NoError(t, err)
	last, err := Apply(test, points[len(points)-1])
	require.NoError(t, err)
	require.Equal(t, int64(2), last.Get("num_nodes").Any)
	require.Equal(t, "t.toml:2:17", last.Get("num_nodes").Pos.String())
	require.Equal(t, int64(16), last.Table("bench_cmd_args").Get("max_concurrency").Any)
	decode := last.Table("cmd_args").Table("decode")
	require.Equal(t, false, decode.Get("skipped").Any)
	require.Equal(t, []any{int64(3)}, decode.Get("shapes").Plain(), "a list of lists is swept by its elements")
	require.Equal(t, map[string]any{"B": "y", "A": "one", "C": "z"}, last.Table("extra_env_vars").Plain())
	require.Equal(t, []any{int64(50), int64(99)}, last.Table("bench_cmd_args").Get("percentiles").Plain(),
		"excluded: as it was")
}

// covers: PL-D4
func TestApplyRefusesAPathThatIsNotThere(t *testing.T) {
	test := table(t, "[cmd_args.decode]\nsize = [1]")
	_, err := Apply(test, Point{Values: []Assignment{{"decode.siz", &source.Value{Any: int64(1)}}}})
	require.ErrorContains(t, err, `the point sets "cmd_args.decode.siz", which is not in this test`)
	require.ErrorContains(t, err, `did you mean "cmd_args.decode.size"?`)
}

// randomTest writes a test with lists in random places.
func randomTest(r *rand.Rand) string {
	values := []string{`1`, `"1"`, `1.0`, `true`, `"true"`, `"a b"`, `"x=y"`, `""`, `"é\n"`, `-3`, `1e300`, `"[1]"`,
		`"\""`, `"0,1"`}
	list := func() string {
		n := 1 + r.IntN(3)
		var out []string
		for _, i := range r.Perm(len(values))[:n] {
			out = append(out, values[i])
		}
		if n == 1 && r.IntN(2) == 0 {
			return out[0]
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	var b strings.Builder
	if r.IntN(2) == 0 {
		b.WriteString("num_nodes = [1, 2]\n")
	}
	for _, section := range []string{"cmd_args", "cmd_args.decode", `cmd_args.decode."a.b"`, "bench_cmd_args",
		"extra_env_vars"} {
		fmt.Fprintf(&b, "[%s]\n", section)
		for i := range r.IntN(3) {
			fmt.Fprintf(&b, "k%d = %s\n", i, list())
		}
	}
	return b.String()
}

func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		text := randomTest(r)
		test := table(t, text)
		before := fmt.Sprint(test.Plain())
		dims, err := dimensionsOf(test, vllmOrder)
		require.NoError(t, err)
		product := 1
		for _, d := range dims {
			product *= len(d.Values)
		}
		points, err := Grid(dims)
		require.NoError(t, err)
		require.Len(t, points, product)
		labels, keys := map[string]bool{}, map[string]bool{}
		for i, p := range points {
			labels[p.Label()], keys[p.Key()] = true, true
			if i%17 != 0 {
				continue
			}
			one, err := Apply(test, p)
			require.NoError(t, err)
			left, err := dimensionsOf(one, vllmOrder)
			require.NoError(t, err)
			require.Empty(t, left, text)
			require.Len(t, one.Keys(), len(test.Keys()))
			for _, a := range p.Values {
				keys, err := locate(a.Path)
				require.NoError(t, err)
				require.Same(t, a.Value, lookup(one, keys))
			}
		}
		require.Len(t, labels, product, "labels tell points apart:\n%s", text)
		require.Len(t, keys, product, "keys tell points apart:\n%s", text)
		require.Equal(t, before, fmt.Sprint(test.Plain()), "Apply does not change the test")
	}
}

func TestKeyKeepsTypesApartAndForgetsOrder(t *testing.T) {
	point := func(list ...any) Point {
		var p Point
		for i := 0; i < len(list); i += 2 {
			p.Values = append(p.Values, Assignment{list[i].(string), &source.Value{Any: list[i+1]}})
		}
		return p
	}
	seen := map[string]bool{}
	for _, v := range []any{int64(1), 1.0, "1", true, "true", "True"} {
		seen[point("a", v).Key()] = true
	}
	require.Len(t, seen, 6)
	require.Equal(t, point("a", "x", "b", "y").Key(), point("b", "y", "a", "x").Key())
	require.NotEqual(t, point("a", "x").Key(), Point{Env: point("a", "x").Values}.Key())
	require.Equal(t, `{"a":"x","b":1.0}{}`, point("b", 1.0, "a", "x").Key(), "the key is kept in files: it must stay")
}

func TestLabelShortensTheClient(t *testing.T) {
	p := Point{Values: []Assignment{
		{"decode.tensor_parallel_size", &source.Value{Any: int64(2)}}, {"bench_cmd_args.max_concurrency", &source.Value{Any: int64(16)}},
	}}
	require.Equal(t, "decode.tensor_parallel_size=2 max_concurrency=16", p.Label())
	p.Values = append(p.Values, Assignment{"max_concurrency", &source.Value{Any: "1"}})
	require.Equal(t, `decode.tensor_parallel_size=2 bench_cmd_args.max_concurrency=16 max_concurrency="1"`, p.Label())
}

func TestShippedDefinitions(t *testing.T) {
	loaded := 0
	root := filepath.Join("..", "..")
	for _, pattern := range []string{"conf/*.toml", "scenarios/*.toml", "scenarios/*/*.toml", "examples/*/*.toml"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, f := range files {
			data, err := os.ReadFile(f)
			require.NoError(t, err)
			top, err := source.Parse(f, data)
			require.NoError(t, err)
			tests := []*source.Table{top}
			if list, ok := listOf(top.Get("Tests")); ok {
				tests = nil
				for _, e := range list {
					tests = append(tests, e.Any.(*source.Table))
				}
			}
			for _, test := range tests {
				_, err := Load(test, vllmOrder, nil)
				require.NoError(t, err, f)
				loaded++
			}
		}
	}
	require.Positive(t, loaded)
}

func TestLoadSettings(t *testing.T) {
	s := load(t, "cmd_args.a = [1, 2]")
	require.Equal(t, GridSearch, s.Agent)
	require.Equal(t, []string{"default"}, s.Metrics)
	require.Equal(t, RewardIdentity, s.Reward, "the default metric is a throughput: the fastest point is the best")
	require.Equal(t, []any{int64(42), int64(0), -1.0, -1.0},
		[]any{s.Seed, s.EnvSeed, s.ConstraintFailure, s.MetricFailure})
	require.Empty(t, s.Warnings)
	require.True(t, s.Active())
	require.False(t, load(t, "cmd_args.a = 1").Active())

	s = load(t, `
agent = "bo"
agent_steps = 7
agent_metrics = ["p99_ttft_ms", "tps-per-gpu"]
cmd_args.a = [1, 2]
[agent_config]
random_seed = 7
start_action = "first"
rewards = { constraint_failure = -5, metric_failure = 0.5 }
`)
	require.Equal(t, TPE, s.Agent)
	require.Equal(t, RewardInverse, s.Reward, "a latency: the lowest is the best")
	require.Equal(t, []any{7, int64(7), int64(7), true, -5.0, 0.5},
		[]any{s.Steps, s.Seed, s.EnvSeed, s.StartFirst, s.ConstraintFailure, s.MetricFailure})
	require.Len(t, s.Warnings, 1)
	require.Contains(t, s.Warnings[0], `t.toml:2:1: agent "bo" means the tree-structured Parzen estimator`)
}

func TestLoadComplaints(t *testing.T) {
	for _, c := range []struct{ toml, want string }{
		{`agent = "grid-search"`, `unknown agent "grid-search"` + "\n\thint: did you mean \"grid_search\"?"},
		{`agent = "random"`, `agent "random" needs agent_steps`},
		{"agent = \"random\"\nagent_steps = 0", "t.toml:2:1: agent_steps is 0, must be 1 or more"},
		{`agent_metrics = ["througput"]`, `t.toml:1:18: unknown metric "througput"` + "\n\thint: did you mean \"throughput\"?"},
		{`agent_metrics = ["p99_ttft"]`, `unknown metric "p99_ttft"`},
		{`agent_metrics = []`, "agent_metrics names no metric"},
		{`agent_metrics = "throughput"`, "agent_metrics must be a list, not the string"},
		{`agent_metrics = ["throughput", "throughput"]`, `metric "throughput" occurs twice`},
		{`agent_metrics = ["accuracy"]`, "add [semantic_eval_cmd_args]"},
		{`agent_reward_function = "inverted"`, `unknown agent_reward_function "inverted"`},
		{`agent_reward_function = "ai_dynamo_log_scale"`, `needs a TTFT, an ITL or TPOT and a token throughput as agent_metrics, not ["default"]`},
		{`agent_config = { random_sead = 1 }`, `unknown key "random_sead"`},
		{`agent_config.rewards = { failure = 1 }`, `unknown key "failure" in [agent_config.rewards]`},
		{`agent_config = { start_action = "frist" }`, "did you mean \"first\"?"},
		{`agent_config.rewards = { metric_failure = inf }`, "must be a finite number"},
	} {
		_, err := Load(table(t, c.toml+"\ncmd_args.a = [1, 2]"), nil, nil)
		require.ErrorContains(t, err, c.want)
		require.Equal(t, 1, strings.Count(err.Error(), "t.toml:"), "one complaint:\n%v", err)
	}
}

func TestLoadWarnings(t *testing.T) {
	for _, c := range []struct{ toml, want string }{
		{`agent_reward_function = "inverse"`, `t.toml:1:1: agent_reward_function "inverse" rewards the lowest default: the best point would be the worst; write "identity", or leave the key out`},
		{"agent_reward_function = \"identity\"\nagent_metrics = [\"mean_tpot_ms\"]", `rewards the highest mean_tpot_ms`},
		{`agent_reward_function = "negative"`, `rewards the lowest default`},
		{`agent_steps = 5`, "agent_steps has no effect: grid_search tries every point (2)"},
		{`agent_config.start_action = "first"`, "start_action has no effect"},
	} {
		s := load(t, c.toml+"\ncmd_args.a = [1, 2]")
		require.Len(t, s.Warnings, 1, c.toml)
		require.Contains(t, s.Warnings[0], c.want)
	}
	for _, quiet := range []string{
		`agent_reward_function = "identity"`, "agent_steps = 2",
		"agent_reward_function = \"negative\"\nagent_metrics = [\"p99_ttft_ms\"]",
		"agent_reward_function = \"ai_dynamo_log_scale\"\nagent_metrics = [\"mean_ttft_ms\", \"mean_itl_ms\", \"throughput\"]",
	} {
		require.Empty(t, load(t, quiet+"\ncmd_args.a = [1, 2]").Warnings, quiet)
	}
}

func TestObserve(t *testing.T) {
	s := load(t, "agent_metrics = [\"throughput\", \"p99_ttft_ms\"]\nagent_config.rewards.metric_failure = -9.0\ncmd_args.a = [1, 2]")
	points, err := s.Next(nil, 1)
	require.NoError(t, err)
	o, err := s.Observe(points[0], []float64{120, 30}, "0/1")
	require.NoError(t, err)
	require.Equal(t, Observed{Point: points[0], Observation: []float64{120, 30}, Reward: 120, Verdict: Passed,
		Dir: "0/1"}, o)
	o, err = s.Observe(points[0], []float64{math.NaN(), 30}, "0/1")
	require.NoError(t, err)
	require.Equal(t, -9.0, o.Reward)
	require.Equal(t, Failed, o.Verdict)
	o, err = s.Observe(points[0], []float64{120, math.Inf(1)}, "0/1")
	require.NoError(t, err)
	require.Equal(t, 120.0, o.Reward, "the reward does not look at the second metric")
	require.Equal(t, Failed, o.Verdict)
	_, err = s.Observe(points[0], []float64{1}, "")
	require.ErrorContains(t, err, "1 values for 2 metrics")
}

// covers: CD-30
func TestARefusedPointUsesUpItsStepAndTheSweepGoesOn(t *testing.T) {
	s := load(t, "agent_config.rewards.constraint_failure = -3\nagent_metrics = [\"throughput\", \"p99_ttft_ms\"]\ncmd_args.a = [1, 2]")
	points, err := s.Next(nil, 1)
	require.NoError(t, err)
	o := s.Refuse(points[0])
	require.Equal(t, []any{1, -3.0, Refused, 2}, []any{o.Step, o.Reward, o.Verdict, len(o.Observation)})
	points, err = s.Next([]Observed{o}, 1)
	require.NoError(t, err)
	require.Equal(t, "2 a=2", fmt.Sprint(points[0].Step, " ", points[0].Label()))
	points, err = s.Next([]Observed{o, s.Refuse(points[0])}, 1)
	require.NoError(t, err)
	require.Empty(t, points)
}

func thousand(b *testing.B) *source.Table {
	return table(b, `
name = "n"
test_template_name = "vllm"
num_nodes = 2
extra_env_vars = { A = "1", B = "2", C = "3" }
bench_cmd_args = { random_input_len = 128, max_concurrency = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], num_prompts = 1000 }
[cmd_args]
docker_image_url = "x"
model = "m"
[cmd_args.prefill]
gpu_ids = "0,1"
tensor_parallel_size = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
[cmd_args.decode]
gpu_ids = "2,3"
a = 1
b = 2
c = 3
tensor_parallel_size = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
`)
}

func BenchmarkThousandPoints(b *testing.B) {
	test := thousand(b)
	b.ReportAllocs()
	for b.Loop() {
		dims, _ := dimensionsOf(test, vllmOrder)
		points, _ := Grid(dims)
		for _, p := range points {
			if _, err := Apply(test, p); err != nil {
				b.Fatal(err)
			}
		}
		if len(points) != 1000 {
			b.Fatal(len(points))
		}
	}
}

func BenchmarkThousandLabelsAndKeys(b *testing.B) {
	dims, _ := dimensionsOf(thousand(b), vllmOrder)
	points, _ := Grid(dims)
	for b.Loop() {
		for _, p := range points {
			_, _ = p.Label(), p.Key()
		}
	}
}

func BenchmarkNextAfterThousand(b *testing.B) {
	for _, agent := range []string{Random, TPE} {
		b.Run(agent, func(b *testing.B) {
			s, err := Load(source.Merge(thousand(b), table(b, "agent_steps = 1000\nagent = \""+agent+"\"")), vllmOrder, nil)
			require.NoError(b, err)
			points, _ := Grid(s.Dimensions)
			var history []Observed
			for _, p := range points[:999] {
				history = append(history, Observed{Point: p, Verdict: Passed, Reward: float64(p.Step % 7)})
			}
			for b.Loop() {
				if next, err := s.Next(history, 1); err != nil || len(next) != 1 {
					b.Fatal(next, err)
				}
			}
		})
	}
}

// dimensionsOf are the dimensions of a test.
func dimensionsOf(t *source.Table, order func(table string) []string) ([]Dimension, error) {
	var c source.Complaints
	env := map[string]bool{}
	for _, p := range envParams(t, &source.Complaints{}) {
		env[p.Name] = true
	}
	dims, _ := dimensions(t, order, nil, env, &c)
	return dims, c.Err()
}

// A list within a table that is one value is a part of that value.
func TestListsWithinValues(t *testing.T) {
	read := table(t, `
[cmd_args.decode]
block_size = [16, 32]
hf_overrides = { architectures = ["X"], rope = { sizes = [1, 2] } }
`)
	whole := func(keys []string) bool { return keys[len(keys)-1] == "hf_overrides" }
	s, err := Load(read, nil, whole)
	require.NoError(t, err)
	require.Len(t, s.Dimensions, 1)
	require.Equal(t, "decode.block_size", s.Dimensions[0].Path)
	require.Len(t, s.Warnings, 1, "a list of one value is no sweep to anybody")
	require.Contains(t, s.Warnings[0], "decode.hf_overrides.rope.sizes is a list within JSON")
}
