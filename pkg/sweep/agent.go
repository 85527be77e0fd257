package sweep

import (
	"fmt"
	"iter"
	"strings"

	"github.com/profllm/profllm/pkg/pyrand"
	"github.com/profllm/profllm/pkg/source"
)

// The agents.
const (
	GridSearch = "grid_search" // every point, in the order of Grid
	Random     = "random"      // points drawn without repetition
	TPE        = "tpe"         // a tree-structured Parzen estimator
)

// Agents lists the names that a test may give as its agent. bo and
// bayesian_optimization are other names of tpe, for tests written for plug-ins
// of CloudAI.
func Agents() []string {
	return []string{GridSearch, Random, TPE, "bo", "bayesian_optimization"}
}

// An Agent answers up to n points that should be tried after history: a value
// for each dimension, in the order of the dimensions. No answer means that it
// knows nothing more to try. It must depend on nothing but its arguments and its
// seed, so that a sweep can be interrupted.
type Agent func(history []Observed, n int) ([][]Assignment, error)

func newAgent(s *Sweep) (Agent, error) {
	if s.Agent == GridSearch {
		if _, err := Grid(s.Dimensions); err != nil {
			return nil, err
		}
	}
	sp, err := newSpace(s.Dimensions)
	if err != nil {
		return nil, err
	}
	r := randomAgent{space: sp, seed: s.Seed, first: s.StartFirst, again: len(s.Env) > 0}
	switch s.Agent {
	case Random:
		return r.next, nil
	case TPE:
		return newTPE(r, s.Steps).next, nil
	}
	return gridAgent{sp}.next, nil
}

// A space numbers the combinations of dims from 0, as Grid does. What an agent
// chooses is a place on each axis: in the list of a dimension, or in those of a zip
// group.
type space struct {
	dims  []Dimension
	axes  [][]int // places in dims
	sizes []int   // by axis
	size  int
	index []map[string]int // by axis: JSON of its values to their place
}

func newSpace(dims []Dimension) (space, error) {
	n, err := Size(dims)
	if err != nil {
		return space{}, err
	}
	s := space{dims: dims, axes: axes(dims), size: n}
	for _, axis := range s.axes {
		m := map[string]int{}
		s.sizes = append(s.sizes, len(dims[axis[0]].Values))
		for i := range dims[axis[0]].Values {
			m[axisKey(axis, func(d int) *source.Value { return dims[d].Values[i] })] = i
		}
		s.index = append(s.index, m)
	}
	return s, nil
}

// axisKey is the same for the same values of the dimensions of an axis.
func axisKey(axis []int, value func(d int) *source.Value) string {
	var b []byte
	for _, d := range axis {
		b = append(appendJSON(b, value(d)), '\n')
	}
	return string(b)
}

func (s space) at(i int) []Assignment {
	values := make([]Assignment, len(s.dims))
	combination(s.dims, s.axes, i, values)
	return values
}

// number is the inverse of choices.
func (s space) number(choices []int) int {
	n := 0
	for a, c := range choices {
		n = n*s.sizes[a] + c
	}
	return n
}

// choices are the places of the i-th combination's values in their lists.
func (s space) choices(i int) []int {
	out := make([]int, len(s.axes))
	for a := len(s.axes) - 1; a >= 0; a-- {
		out[a] = i % s.sizes[a]
		i /= s.sizes[a]
	}
	return out
}

// find returns the number of a point that was tried.
func (s space) find(p Point) (int, error) {
	if len(p.Values) != len(s.dims) {
		return 0, fmt.Errorf("step %d sets %d dimensions, this sweep has %d", p.Step, len(p.Values), len(s.dims))
	}
	for d, dim := range s.dims {
		if value(p.Values, d, dim.Path) == nil {
			return 0, fmt.Errorf("step %d does not set %s, which this sweep explores", p.Step, dim.Path)
		}
	}
	choices := make([]int, len(s.axes))
	for a, axis := range s.axes {
		c, ok := s.index[a][axisKey(axis, func(d int) *source.Value { return value(p.Values, d, s.dims[d].Path) })]
		if !ok {
			return 0, s.strange(p, axis)
		}
		choices[a] = c
	}
	return s.number(choices), nil
}

// strange says which values of a point are not in the lists of an axis.
func (s space) strange(p Point, axis []int) error {
	words := make([]string, len(axis))
	for i, d := range axis {
		path := s.dims[d].Path
		words[i] = fmt.Sprintf("%s = %s", path, appendJSON(nil, value(p.Values, d, path)))
	}
	where := "in the list"
	if len(axis) > 1 {
		where = "among the pairs of sweep.zip"
	}
	return fmt.Errorf("step %d set %s, which is not %s (%s)", p.Step, strings.Join(words, ", "), where,
		s.dims[axis[0]].Pos)
}

// value finds path in list, most likely at place i.
func value(list []Assignment, i int, path string) *source.Value {
	if i < len(list) && list[i].Path == path {
		return list[i].Value
	}
	for _, a := range list {
		if a.Path == path {
			return a.Value
		}
	}
	return nil
}

// numbers counts how often each combination occurs in history.
func (s space) numbers(history []Observed) (map[int]int, error) {
	seen := make(map[int]int, len(history))
	for _, o := range history {
		i, err := s.find(o.Point)
		if err != nil {
			return nil, err
		}
		seen[i]++
	}
	return seen, nil
}

type gridAgent struct{ space }

func (g gridAgent) next(history []Observed, n int) ([][]Assignment, error) {
	seen, err := g.numbers(history)
	if err != nil {
		return nil, err
	}
	var out [][]Assignment
	for i := 0; i < g.size && len(out) < n; i++ {
		if seen[i] == 0 {
			out = append(out, g.at(i))
		}
	}
	return out, nil
}

// randomAgent walks a seeded permutation of the combinations and leaves out what
// was tried. Where the environment changes, it starts over with another
// permutation when all were tried.
type randomAgent struct {
	space
	seed  int64
	first bool // start with combination 0
	again bool
}

func (r randomAgent) next(history []Observed, n int) ([][]Assignment, error) {
	seen, err := r.numbers(history)
	if err != nil {
		return nil, err
	}
	var out [][]Assignment
	for i := range r.unseen(seen) {
		if len(out) >= n {
			break
		}
		out = append(out, r.at(i))
	}
	return out, nil
}

// unseen yields combinations that are not in seen, in random order. It takes
// from seen what it passes.
func (r randomAgent) unseen(seen map[int]int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for round := 0; round == 0 || r.again; round++ {
			rng := pyrand.FromText(fmt.Sprintf("%d:%s:%d", r.seed, Random, round))
			for i := range permutation(rng, r.size, r.first && round == 0) {
				if seen[i] > 0 {
					seen[i]--
					continue
				}
				if !yield(i) {
					return
				}
			}
		}
	}
}

// permutation yields 0 to n-1 in random order, by the shuffle of Fisher and
// Yates with only the moved places in memory. zero puts 0 first.
func permutation(rng *pyrand.Python, n int, zero bool) iter.Seq[int] {
	return func(yield func(int) bool) {
		moved := map[int]int{}
		at := func(i int) int {
			if v, ok := moved[i]; ok {
				return v
			}
			return i
		}
		for i := range n {
			j := i + rng.Below(n-i)
			if zero && i == 0 {
				j = 0
			}
			v := at(j)
			moved[j] = at(i)
			delete(moved, i)
			if !yield(v) {
				return
			}
		}
	}
}
