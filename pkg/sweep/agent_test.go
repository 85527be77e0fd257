package sweep

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/source"
)

const searched = `
agent_metrics = ["throughput"]
[cmd_args]
a = [0, 1, 2, 3, 4]
b = [0, 1, 2, 3, 4]
c = [0, 1, 2, 3, 4]
d = ["x", "y", "z"]
`

// run explores until the sweep is over or steps points are seen, judging by f.
func run(t *testing.T, s *Sweep, batch int, f func(p Point) (float64, Verdict)) []Observed {
	t.Helper()
	var history []Observed
	for range 1000 {
		points, err := s.Next(history, batch)
		require.NoError(t, err)
		if len(points) == 0 {
			return history
		}
		for _, p := range points {
			r, v := f(p)
			history = append(history, Observed{Point: p, Reward: r, Verdict: v})
		}
	}
	t.Fatal("the sweep does not end")
	return nil
}

// hill is highest, 0, at a = 3, b = 1, c = 4, d = y.
func hill(p Point) (float64, Verdict) {
	r := 0.0
	for i, want := range []int64{3, 1, 4} {
		d := float64(p.Values[i].Value.Any.(int64) - want)
		r -= d * d
	}
	if p.Values[3].Value.Any != "y" {
		r -= 5
	}
	return r, Passed
}

func TestGridTriesEveryPointOnceAndTakesUpAgain(t *testing.T) {
	s := load(t, "agent_steps = 1\n"+searched)
	all := run(t, s, 7, hill)
	want, err := Grid(s.Dimensions)
	require.NoError(t, err)
	require.Len(t, all, 375)
	for i, o := range all {
		require.Equal(t, want[i], o.Point)
	}
	// A trajectory of CloudAI's lacks refused points: they come again at the end,
	// under new steps.
	gaps := append(append([]Observed{}, all[:10]...), all[12:]...)
	rest, err := s.Next(gaps, 9)
	require.NoError(t, err)
	require.Equal(t, []Point{{Step: 376, Values: want[10].Values}, {Step: 377, Values: want[11].Values}}, rest)
}

// ran are the different points that ran.
func ran(history []Observed) map[string]bool {
	points := map[string]bool{}
	for _, o := range history {
		if o.Verdict == Passed || o.Verdict == Failed {
			points[o.Key()] = true
		}
	}
	return points
}

func TestRandomDoesNotRepeat(t *testing.T) {
	text := "agent = \"random\"\nagent_steps = 1000\n" + searched
	s := load(t, text)
	all := run(t, s, 10, hill)
	require.Len(t, all, 375, "it ends when all were tried, whatever agent_steps says")
	require.Len(t, ran(all), 375)
	require.Equal(t, all, run(t, load(t, text), 1, hill), "seeded, and the same one at a time")
	other := run(t, load(t, "agent_config.random_seed = 43\n"+text), 10, hill)
	require.NotEqual(t, all[:10], other[:10])
	first := run(t, load(t, "agent_config.start_action = \"first\"\n"+text), 10, hill)
	require.Equal(t, "a=0 b=0 c=0 d=x", first[0].Label())
	require.Len(t, ran(first), 375)
	require.Len(t, run(t, load(t, "agent = \"random\"\nagent_steps = 20\n"+searched), 7, hill), 20)
}

// A space far too large for a grid can be searched.
func TestRandomInALargeSpace(t *testing.T) {
	text := "agent = \"random\"\nagent_steps = 50\n[cmd_args]\n"
	for i := range 15 {
		text += fmt.Sprintf("k%d = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n", i)
	}
	all := run(t, load(t, text), 1, func(Point) (float64, Verdict) { return 0, Passed })
	require.Len(t, ran(all), 50)
}

// Where the environment changes, a point tried again is another trial.
func TestRandomStartsOverInAChangingEnvironment(t *testing.T) {
	s := load(t, "agent = \"random\"\nagent_steps = 7\ncmd_args = { a = [1, 2, 3], e = [1, 2, 3, 4] }\nenv_params.e = {}")
	all := run(t, s, 2, func(Point) (float64, Verdict) { return 0, Passed })
	require.Len(t, all, 7)
	count := map[any]int{}
	for _, o := range all {
		count[o.Values[0].Value.Any]++
	}
	for _, n := range count {
		require.GreaterOrEqual(t, n, 2)
	}
	only := load(t, "agent = \"random\"\nagent_steps = 4\ncmd_args = { e = [1, 2, 3, 4] }\nenv_params.e = {}")
	require.Len(t, run(t, only, 1, func(Point) (float64, Verdict) { return 0, Passed }), 4)
}

func TestTPE(t *testing.T) {
	best := func(agent string, seed int) (reward float64, history []Observed) {
		s := load(t, fmt.Sprintf("agent = %q\nagent_steps = 40\nagent_config.random_seed = %d\n", agent, seed)+searched)
		history = run(t, s, 1, hill)
		require.Len(t, history, 40)
		require.Len(t, ran(history), 40, "no point twice")
		reward = math.Inf(-1)
		for _, o := range history {
			if o.Verdict == Passed {
				reward = max(reward, o.Reward)
			}
		}
		return reward, history
	}
	tpe, random := 0.0, 0.0
	for seed := range 20 {
		r, history := best(TPE, seed)
		tpe += r
		_, again := best(TPE, seed)
		require.Equal(t, history, again)
		r, plain := best(Random, seed)
		random += r
		require.Equal(t, plain[:10], history[:10], "the first points are random")
	}
	require.Greater(t, tpe, random/2, "over 20 seeds the best point is at most half as far from the top: %v, %v", tpe,
		random)
}

func TestTPETriesTheWholeSpaceAndEnds(t *testing.T) {
	s := load(t, "agent = \"tpe\"\nagent_steps = 500\n"+searched)
	all := run(t, s, 3, func(p Point) (float64, Verdict) {
		if p.Values[0].Value.Any == int64(0) {
			return 99, Refused
		}
		return hill(p)
	})
	require.Len(t, all, 375)
	require.Len(t, ran(all), 300)
}

// A value that always fails is left alone, whatever its reward says.
func TestTPEAvoidsFailures(t *testing.T) {
	s := load(t, "agent = \"tpe\"\nagent_steps = 60\n"+searched)
	failed := 0
	for i, o := range run(t, s, 1, func(p Point) (float64, Verdict) {
		if p.Values[0].Value.Any == int64(3) || p.Values[0].Value.Any == int64(2) {
			return 1000, Failed
		}
		return hill(p)
	}) {
		if i >= 20 && o.Verdict == Failed {
			failed++
		}
	}
	require.Less(t, failed, 8, "of 40 points; 16 by chance")
}

func TestHistoryOfAnotherSweepIsAnError(t *testing.T) {
	for _, agent := range []string{GridSearch, Random, TPE} {
		s := load(t, fmt.Sprintf("agent = %q\nagent_steps = 40\ncmd_args = { a = [1, 2], b = [1, 2] }", agent))
		at := func(list ...Assignment) []Observed { return []Observed{{Point: Point{Step: 1, Values: list}}} }
		one := &source.Value{Any: int64(1)}
		_, err := s.Next(at(Assignment{"a", one}), 1)
		require.ErrorContains(t, err, "step 1 sets 1 dimensions, this sweep has 2")
		_, err = s.Next(at(Assignment{"a", one}, Assignment{"c", one}), 1)
		require.ErrorContains(t, err, "step 1 does not set b")
		_, err = s.Next(at(Assignment{"a", one}, Assignment{"b", &source.Value{Any: "1"}}), 1)
		require.ErrorContains(t, err, `step 1 set b = "1", which is not in the list (t.toml:3:`)
		_, err = s.Next(at(Assignment{"b", one}, Assignment{"a", one}), 1)
		require.NoError(t, err, "the order of the keys does not matter")
	}
}
