package sweep

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/source"
)

func ints(n int) (out []*source.Value) {
	for i := range n {
		out = append(out, &source.Value{Any: int64(i)})
	}
	return out
}

// The vectors of C.5, and others that CPython 3.11.7 gave for
// random.Random(f"{seed}:{name}:{t}").choice(range(n)), or
// .choices(range(n), weights=w)[0], t from 1.
//
// covers: C.5
func TestDrawsAreCPythons(t *testing.T) {
	for _, c := range []struct {
		seed    int64
		name    string
		n       int
		weights []float64
		want    []int64
	}{
		{42, "x", 4, nil, []int64{0, 1, 2, 1, 3, 0, 0}}, // C.5 draws from 1 up
		{0, "x", 2, []float64{.9, .1}, []int64{0, 1, 0, 0, 0, 0, 0}},
		{0, "decode.gpu_memory_utilization", 5, nil, []int64{0, 3, 0, 1, 1, 0, 1, 0, 3, 4, 4, 4}},
		{-7, "größe", 1000, nil, []int64{907, 345, 33, 864, 531, 142, 606, 897}},
		{7, "y", 3, []float64{.2, .5, .3}, []int64{1, 1, 1, 1, 1, 1, 1, 2, 1, 2, 2, 2, 1, 1, 1, 2, 0, 2, 2, 1}},
		{7, "z", 4, []float64{.1, .2, .3, .4}, []int64{3, 1, 3, 1, 2, 3, 2, 1, 2, 2, 3, 3, 3, 3, 2, 2, 2, 3, 1, 0}},
		{7, "q", 3, []float64{0, 1, 0}, []int64{1, 1, 1}},
	} {
		p := EnvParam{Name: c.name, Values: ints(c.n), Weights: c.weights}
		var got []int64
		for step := range c.want {
			got = append(got, p.Draw(c.seed, step+1).Any.(int64))
		}
		require.Equal(t, c.want, got, "%d:%s", c.seed, c.name)
	}
}

func TestEnvParams(t *testing.T) {
	s := load(t, `
agent = "random"
agent_steps = 4
cmd_args.top = [1, 2]
cmd_args.mode = ["a", "a", "b"]
cmd_args.decode.x = [1, 2]
cmd_args.decode.y = [1, 2]
cmd_args.decode.z = [1, 2]
[env_params]
mode = { weights = [0.5, 0.25, 0.25], encoding = { type = "categorical" } }
"decode.x" = {}
[env_params.decode.y]
weights = [1, 0]
`)
	require.Equal(t, []string{"decode.z", "top"}, paths(s.Dimensions))
	var names []string
	for _, p := range s.Env {
		names = append(names, p.Name)
	}
	require.Equal(t, []string{"mode", "decode.x", "decode.y"}, names)
	points, err := s.Next(nil, 9)
	require.NoError(t, err)
	require.Len(t, points, 4)
	for i, p := range points {
		require.Equal(t, i+1, p.Step)
		require.Equal(t, s.Env[0].Draw(0, p.Step), p.Env[0].Value, "the draw's seed is 0 when random_seed is not given")
		require.Equal(t, int64(1), p.Env[2].Value.Any)
	}
	one, err := Apply(table(t,
		"cmd_args = { top = [1, 2], mode = [\"a\", \"b\"], decode = { x = [1, 2], y = [1, 2], z = [1, 2] } }\n[env_params]\nmode = {}"), points[0])
	require.NoError(t, err)
	require.False(t, one.Has("env_params"))
	require.Equal(t, points[0].Env[0].Value, one.Table("cmd_args").Get("mode"))
}

func TestEnvParamComplaints(t *testing.T) {
	for _, c := range []struct{ toml, want string }{
		{"env_params.y = {}", `env_params: cmd_args.y is not in this test`},
		{"env_params.one = {}", "env_params: cmd_args.one is one integer (t.toml:"},
		{"env_params.decode = {}", "env_params: cmd_args.decode is one table"},
		{"env_params.decode = { weights = [1] }", "env_params: cmd_args.decode is one table"},
		{"env_params.short = {}", "cmd_args.short has too few values to draw from (1 at t.toml:"},
		{"env_params.x = 3", "env_params.x must be a table, found: integer"},
		{"env_params = 3", "env_params must be a table"},
		{"env_params.x = { weights = [0.5, 0.25, 0.25] }", "cmd_args.x has 2 values and 3 weights"},
		{"env_params.x = { weights = [0.5, 0.4] }", "the weights of cmd_args.x add up to 0.9, must be 1"},
		{"env_params.x = { weights = [1.5, -0.5] }", "weight -0.5 of cmd_args.x must be a finite number, 0 or more"},
		{"env_params.x = { weights = [inf, 0] }", "weight +Inf"},
		{"env_params.x = { wieghts = [1, 0] }", `did you mean "weights"?`},
		{"env_params.x = { encoding = { type = \"log\" } }", `unknown encoding "log" of cmd_args.x`},
		{"env_params.\"decode.z\" = {}\nenv_params.decode.z = {}", "env_params: cmd_args.decode.z is annotated twice"},
	} {
		text := "agent = \"random\"\nagent_steps = 3\n" + c.toml +
			"\ncmd_args = { x = [1, 2], one = 1, short = [1], decode = { z = [1, 2] }, s = [1, 2] }"
		_, err := Load(table(t, text), nil, nil)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\nt.toml", "one complaint")
	}
	_, err := Load(table(t, "cmd_args = { x = [1, 2], y = [1, 2] }\nenv_params.x = {}"), nil, nil)
	require.ErrorContains(t, err,
		"t.toml:2:1: env_params need an agent that supports a changing environment; grid_search does not")
}

func TestRewards(t *testing.T) {
	three := []string{"mean_ttft_ms", "mean_itl_ms", "throughput"}
	obs := []float64{250, 12.5, 800}
	zero := []float64{0, 12.5, 800}
	for _, c := range []struct {
		name    string
		metrics []string
		obs     []float64
		want    float64
	}{
		{RewardInverse, three[:1], []float64{250}, 0.004},
		{RewardInverse, three[:1], []float64{0}, 0},
		{RewardInverse, nil, nil, 0},
		{RewardNegative, three[:1], []float64{250}, -250},
		{RewardNegative, nil, nil, 0},
		{RewardIdentity, three[2:], []float64{800}, 800},
		{RewardIdentity, nil, nil, 0},
		// Computed with CloudAI's formulas (spec 4.6) for 0.25 s, 0.0125 s, 800/s.
		{RewardWeighted, three, obs, 7.9},
		{RewardRatio, three, obs, 7.68},
		{RewardLog, three, obs, 6.5284182091485565},
		{RewardWeighted, three, zero, -1},
		{RewardRatio, three, zero, 0},
		{RewardLog, three, zero, -0.001},
		{RewardWeighted, three[:2], obs[:2], -1},
		{RewardRatio, three[:2], obs[:2], 0},
		{RewardLog, three[:2], obs[:2], 0},
	} {
		got, err := Reward(c.name, c.metrics, c.obs)
		require.NoError(t, err)
		require.InDelta(t, c.want, got, 1e-12, "%s of %v", c.name, c.obs)
	}
	for _, name := range Rewards() {
		for i := range obs {
			broken := append([]float64{}, obs...)
			broken[i] = math.NaN()
			got, err := Reward(name, three, broken)
			require.NoError(t, err)
			require.Equal(t, !isSimple(name) || i == 0, math.IsNaN(got), "%s without %s", name, three[i])
		}
	}
	_, err := Reward("best", nil, nil)
	require.ErrorContains(t, err, `unknown agent_reward_function "best"`)
}

func TestMetricDirections(t *testing.T) {
	for m, want := range map[string]bool{
		"default": true, "tps-per-user": true, "accuracy": true, "request_throughput": true,
		"mean_ttft_ms": false, "p99.9_e2el_ms": false, "p100_itl_ms": false, "duration_s": false,
	} {
		higher, known := HigherIsBetter(m)
		require.True(t, known, m)
		require.Equal(t, want, higher, m)
	}
	for _, m := range []string{"", "ttft", "p101_ttft_ms", "p_ttft_ms", "mean_ttft_s", "Throughput", "num_prompts"} {
		_, known := HigherIsBetter(m)
		require.False(t, known, m)
	}
	for _, m := range Metrics() {
		_, known := HigherIsBetter(m)
		require.True(t, known, m)
	}
	require.Equal(t, "output_throughput_per_gpu", ResultKey("tps-per-gpu"))
	require.Equal(t, "p99_ttft_ms", ResultKey("p99_ttft_ms"))
}
