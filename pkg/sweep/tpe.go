package sweep

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/profllm/profllm/pkg/pyrand"
)

// Parameters of the estimator. The share and the candidates are those of its
// authors' Hyperopt; the share is taken of all finished points, not of their root,
// because sweeps are short.
const (
	tpeStartup    = 10   // random points first, but at most half of agent_steps
	tpeGoodShare  = 0.25 // of the finished points count as good
	tpeMaxGood    = 25
	tpeCandidates = 24
)

// tpeAgent is a tree-structured Parzen estimator (Bergstra, Bardenet, Bengio,
// Kégl: "Algorithms for Hyper-Parameter Optimization", 2011) over categorical
// dimensions.
//
// After some random points the finished ones are split by reward into good and
// bad. In each group and each dimension by itself, the frequency of a value,
// with one added for every value, estimates how likely it is there. Candidates
// are drawn from the good estimate; the one whose likelihood in the good group is
// highest relative to the bad one is tried. Points that failed or were refused
// are bad whatever their reward. Values are names: that 2 lies between 1 and 4 is
// not used. Nothing is tried twice while something is untried.
type tpeAgent struct {
	randomAgent
	startup int
}

func newTPE(r randomAgent, steps int) tpeAgent {
	return tpeAgent{randomAgent: r, startup: min(tpeStartup, (steps+1)/2)}
}

func (t tpeAgent) next(history []Observed, n int) ([][]Assignment, error) {
	seen, err := t.numbers(history)
	if err != nil {
		return nil, err
	}
	good, bad, err := t.split(history)
	if err != nil {
		return nil, err
	}
	var out [][]Assignment
	for tried := len(history); len(out) < n; tried++ {
		i, ok := -1, false
		if len(good) > 0 && len(good)+len(bad) >= t.startup {
			rng := pyrand.FromText(fmt.Sprintf("%d:%s:%d", t.seed, TPE, tried))
			i, ok = t.candidate(rng, good, bad, seen)
		}
		if !ok {
			for i = range t.unseen(maps.Clone(seen)) {
				ok = true
				break
			}
		}
		if !ok {
			break
		}
		seen[i]++
		out = append(out, t.at(i))
	}
	return out, nil
}

// split returns the choices of the finished points, by whether they are good.
func (t tpeAgent) split(history []Observed) (good, bad [][]int, err error) {
	var passed []Observed
	for _, o := range history {
		i, err := t.find(o.Point)
		if err != nil {
			return nil, nil, err
		}
		switch o.Verdict {
		case Passed:
			passed = append(passed, o)
		case Failed, Refused:
			bad = append(bad, t.choices(i))
		}
	}
	sort.SliceStable(passed, func(i, j int) bool { return passed[i].Reward > passed[j].Reward })
	cut := int(math.Ceil(tpeGoodShare * float64(len(passed)+len(bad))))
	cut = min(cut, tpeMaxGood, len(passed))
	for k, o := range passed {
		i, _ := t.find(o.Point) // found above
		if k < cut {
			good = append(good, t.choices(i))
		} else {
			bad = append(bad, t.choices(i))
		}
	}
	return good, bad, nil
}

// candidate returns the most promising of some draws; ok is false if all of
// them were tried before.
func (t tpeAgent) candidate(rng *pyrand.Python, good, bad [][]int, seen map[int]int) (best int, ok bool) {
	l, g := t.likelihoods(good), t.likelihoods(bad)
	highest := math.Inf(-1)
	choices := make([]int, len(t.axes))
	for range tpeCandidates {
		score := 0.0
		for d := range t.axes {
			c := rng.Weighted(l[d])
			choices[d] = c
			score += math.Log(l[d][c]) - math.Log(g[d][c])
		}
		if i := t.number(choices); seen[i] == 0 && score > highest {
			best, highest, ok = i, score, true
		}
	}
	return best, ok
}

// likelihoods are, by axis, the chances of its places in group; none is 0.
func (t tpeAgent) likelihoods(group [][]int) [][]float64 {
	out := make([][]float64, len(t.axes))
	for d, size := range t.sizes {
		counts := slices.Repeat([]float64{1}, size)
		for _, choices := range group {
			counts[choices[d]]++
		}
		for i := range counts {
			counts[i] /= float64(len(group) + size)
		}
		out[d] = counts
	}
	return out
}
