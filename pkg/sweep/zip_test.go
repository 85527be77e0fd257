package sweep

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const paired = `
[cmd_args.decode]
tensor_parallel_size = [1, 2]
[bench_cmd_args]
random_input_len = [128, 256]
max_concurrency = [1, 4, 16]
num_prompts = [40, 40, 80]
[sweep]
zip = [["max_concurrency", "bench_cmd_args.num_prompts"]]
`

func labels(points []Point) (out []string) {
	for _, p := range points {
		out = append(out, p.Label())
	}
	return out
}

// A zip group counts as one dimension: its values go together, and the product is of
// the groups.
func TestZip(t *testing.T) {
	s := load(t, `
[bench_cmd_args]
max_concurrency = [1, 4, 16]
num_prompts = [40, 40, 80]
[sweep]
zip = ["max_concurrency", "num_prompts"]
`)
	points, err := s.Next(nil, MaxGrid)
	require.NoError(t, err)
	require.Equal(t, []string{"max_concurrency=1 num_prompts=40", "max_concurrency=4 num_prompts=40",
		"max_concurrency=16 num_prompts=80"}, labels(points))

	s = load(t, paired)
	n, err := Size(s.Dimensions)
	require.NoError(t, err)
	require.Equal(t, 2*2*3, n)
	points, err = s.Next(nil, MaxGrid)
	require.NoError(t, err)
	require.Len(t, points, n)
	require.Equal(t, []string{
		"decode.tensor_parallel_size=1 random_input_len=128 max_concurrency=1 num_prompts=40",
		"decode.tensor_parallel_size=1 random_input_len=128 max_concurrency=4 num_prompts=40",
		"decode.tensor_parallel_size=1 random_input_len=128 max_concurrency=16 num_prompts=80",
		"decode.tensor_parallel_size=1 random_input_len=256 max_concurrency=1 num_prompts=40",
	}, labels(points)[:4])
}

// A group stands where its first dimension does, also if others stand between.
func TestZipOfServerAndClient(t *testing.T) {
	s := load(t, `
[cmd_args.decode]
tensor_parallel_size = [1, 2]
pipeline_parallel_size = [1, 2]
[bench_cmd_args]
max_concurrency = [4, 8]
[sweep]
zip = [["max_concurrency", "decode.tensor_parallel_size"]]
`)
	require.Equal(t, []string{"decode.tensor_parallel_size", "bench_cmd_args.max_concurrency",
		"decode.pipeline_parallel_size"}, paths(s.Dimensions))
	points, err := s.Next(nil, MaxGrid)
	require.NoError(t, err)
	require.Equal(t, []string{
		"decode.tensor_parallel_size=1 max_concurrency=4 decode.pipeline_parallel_size=1",
		"decode.tensor_parallel_size=1 max_concurrency=4 decode.pipeline_parallel_size=2",
		"decode.tensor_parallel_size=2 max_concurrency=8 decode.pipeline_parallel_size=1",
		"decode.tensor_parallel_size=2 max_concurrency=8 decode.pipeline_parallel_size=2",
	}, labels(points))
}

// Agents choose among pairs only, try each once, and take up a sweep from what was tried.
func TestZipOfAgents(t *testing.T) {
	for _, agent := range []string{GridSearch, Random, TPE} {
		steps := "agent_steps = 12\n"
		if agent == GridSearch {
			steps = ""
		}
		s := load(t, "agent = \""+agent+"\"\n"+steps+paired)
		all, err := Grid(s.Dimensions)
		require.NoError(t, err)
		left := map[string]bool{}
		for _, p := range all {
			left[p.Key()] = true
		}
		var history []Observed
		for range all {
			points, err := s.Next(history, 1)
			require.NoError(t, err)
			require.Len(t, points, 1)
			require.True(t, left[points[0].Key()], "%s: %s", agent, points[0].Label())
			delete(left, points[0].Key())
			o, err := s.Observe(points[0], []float64{float64(len(history))}, "0/1")
			require.NoError(t, err)
			history = append(history, o)
		}
		require.Empty(t, left, agent)
		if agent == GridSearch {
			points, err := s.Next(history, 1)
			require.NoError(t, err)
			require.Empty(t, points)
		}
	}
}

// A trajectory that pairs otherwise is of another sweep.
func TestZipOfAnotherSweep(t *testing.T) {
	s := load(t, paired)
	other := load(t, strings.Replace(paired, "[40, 40, 80]", "[40, 80, 40]", 1))
	points, err := other.Next(nil, 2)
	require.NoError(t, err)
	o, err := other.Observe(points[1], []float64{1}, "0/2")
	require.NoError(t, err)
	_, err = s.Next([]Observed{o}, 1)
	require.ErrorContains(t, err,
		"step 2 set bench_cmd_args.max_concurrency = 4, bench_cmd_args.num_prompts = 80, which is not among the pairs of sweep.zip (t.toml:6:1)")
}

func TestZipComplaints(t *testing.T) {
	for name, x := range map[string]struct{ bench, zip, want string }{
		"lengths": {
			"max_concurrency = [1, 4]\nnum_prompts = [40, 40, 80]", `[["max_concurrency", "num_prompts"]]`,
			"t.toml:3:1: bench_cmd_args.num_prompts has 3 values, and bench_cmd_args.max_concurrency, which sweep.zip pairs with it, 2 (t.toml:2:1)\n\thint: give both lists the same length",
		},
		"unknown": {
			"max_concurrency = [1, 4]\nnum_prompts = [40, 80]", `[["max_concurency", "num_prompts"]]`,
			"t.toml:5:9: sweep.zip: \"max_concurency\" is not a key of this test\n\thint: did you mean \"max_concurrency\"?",
		},
		"far": {
			"max_concurrency = [1, 4]\nnum_prompts = [40, 80]", `[["max_concurrency", "zebra"]]`,
			"t.toml:5:28: sweep.zip: \"zebra\" is not a key of this test\n\thint: swept: bench_cmd_args.max_concurrency, bench_cmd_args.num_prompts",
		},
		"one value": {
			"max_concurrency = [1, 4]\nnum_prompts = 40", `[["max_concurrency", "num_prompts"]]`,
			"t.toml:5:28: sweep.zip: bench_cmd_args.num_prompts is not swept: it has one value (t.toml:3:1)\n\thint: write a list, as long as those it is paired with",
		},
		"alone":    {"max_concurrency = [1, 4]\nnum_prompts = 40", `[["max_concurrency"]]`, "t.toml:5:9: a group of sweep.zip needs two keys or more"},
		"twice":    {"max_concurrency = [1, 4]\nnum_prompts = [40, 80]", `[["max_concurrency", "max_concurrency"]]`, "t.toml:5:28: sweep.zip names bench_cmd_args.max_concurrency twice"},
		"no list":  {"max_concurrency = [1, 4]", `"max_concurrency"`, "t.toml:4:1: sweep.zip must be a list of lists of keys"},
		"no group": {"max_concurrency = [1, 4]", `[]`, "t.toml:4:1: sweep.zip must be a list of lists of keys"},
		"number":   {"max_concurrency = [1, 4]\nnum_prompts = [40, 80]", `[["max_concurrency", 3]]`, "t.toml:5:28: sweep.zip must hold keys, not the integer 3"},
		"point": {
			"max_concurrency = [1, 4, 1]\nnum_prompts = [40, 40, 40]", `[["max_concurrency", "num_prompts"]]`,
			"t.toml:2:26: sweep.zip has the point bench_cmd_args.max_concurrency = 1, bench_cmd_args.num_prompts = 40 twice (t.toml:2:20)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(table(t, "[bench_cmd_args]\n"+x.bench+"\n[sweep]\nzip = "+x.zip+"\n"), vllmOrder, nil)
			require.ErrorContains(t, err, x.want)
		})
	}
	_, err := Load(table(t, "[bench_cmd_args]\nmax_concurrency = [1, 1]\nnum_prompts = [1, 2]\n[sweep]\nzip = [[\"max_concurrency\", \"numprompts\"]]\n"), vllmOrder, nil)
	require.ErrorContains(t, err, `did you mean "num_prompts"?`)
	require.NotContains(t, err.Error(), "twice", "the list would be paired")
	_, err = Load(table(t, "cmd_args.prefill.tp = [1, 2]\ncmd_args.decode.tp = [1, 2]\nbench_cmd_args.max_concurrency = [1, 2]\nsweep.zip = [[\"tp\", \"max_concurrency\"]]\n"), vllmOrder, nil)
	require.ErrorContains(t, err, `t.toml:4:15: sweep.zip: "tp" may be cmd_args.prefill.tp or cmd_args.decode.tp`)
	_, err = Load(table(t, "agent = \"random\"\nagent_steps = 2\ncmd_args.a = [1, 2]\ncmd_args.b = [1, 2]\nenv_params.a = {}\nsweep.zip = [[\"a\", \"b\"]]\n"), vllmOrder, nil)
	require.ErrorContains(t, err, "t.toml:6:15: sweep.zip: cmd_args.a is drawn (env_params), not swept")
}
