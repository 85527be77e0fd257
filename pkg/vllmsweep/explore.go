package vllmsweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// Explore says how the points between no load and the most load are found, as
// `vllm bench sweep serve_workload` does.
type Explore struct {
	Var   string // request_rate or max_concurrency
	Iters int    // levels of each combination, with the two ends; at least 2

	// Between are the levels between the ends of each combination (Point.Base), once both ends
	// were measured.
	Between map[string][]int64
}

// explored are the levels of an entry on a server: one request at a time, those between, all at
// once.
func (s *Sweep) explored(server *Server, item Item, taken names) ([]*Point, error) {
	x := s.Explore
	for _, key := range item.Params.Keys() {
		if arguments.Key("--"+key) == x.Var {
			return nil, source.Errorf(item.Params.PosOf(key), "%s is explored, so a point must not set it", x.Var).
				Hintf("remove it")
		}
	}
	size, err := s.size(item)
	if err != nil {
		return nil, err
	}
	var points []*Point
	var c source.Complaints
	add := func(in Item, level int64) {
		name := fmt.Sprintf("%s=%d", x.Var, level)
		p, err := s.point(in.with(x.Var, level), taken.id(strings.TrimPrefix(in.Name+"-"+name, "-"), ""))
		c.Add(err)
		p.Folder = Folder(server.Item, "BENCH", in, "WL-", name)
		p.Base = Folder(server.Item, "BENCH", item)
		points = append(points, p)
	}
	serial, batch := item.with(maxConcurrency, 1), item.with(maxConcurrency, size)
	add(serial, 1)
	for _, level := range x.Between[Folder(server.Item, "BENCH", item)] {
		if !item.Named || level != 1 && level != size { // else its folder would be that of an end
			add(item, level)
		}
	}
	if size > 1 {
		add(batch, size)
	}
	return points, c.Err()
}

const maxConcurrency = "max_concurrency"

// size is how many requests a load of an entry has.
func (s *Sweep) size(item Item) (int64, error) {
	v := item.Params.Get("num_prompts")
	if v == nil {
		v = s.bench.options.Get("num_prompts")
	}
	if v == nil {
		return defaultPrompts, nil
	}
	n, ok := v.Int()
	if !ok || n < 1 {
		return 0, source.Errorf(v.Pos, "num_prompts must be a number of requests, not %s", pythonText(v))
	}
	return n, nil
}

// with is an entry that sets one more parameter.
func (i Item) with(key string, n int64) Item {
	over := source.NewTable(i.Pos)
	over.Set(key, &source.Value{Pos: i.Pos, Any: n})
	i.Params = source.Merge(i.Params, over)
	if !i.Named {
		i.Name = label(i.Params)
	}
	return i
}

// Interior are the levels between the ends, by the results of one request at a time and of all at
// once: an evenly spaced grid without its ends, rounded as Python rounds.
func (x *Explore) Interior(serial, batch []Measured) []int64 {
	low, high := math.Ceil(x.estimate(serial)), math.Floor(x.estimate(batch))
	var levels []int64
	for i := 1; i < x.Iters-1; i++ {
		level := int64(math.RoundToEven(low + float64(i)*(high-low)/float64(x.Iters-1)))
		if !slices.Contains(levels, level) && level > 0 {
			levels = append(levels, level)
		}
	}
	slices.Sort(levels)
	return levels
}

// Measured are the numbers of one run by which levels are chosen.
type Measured struct{ RequestThroughput, MeanE2ELms float64 }

// estimate is the mean of the variable over runs: the rate, or by Little's law the concurrency.
func (x *Explore) estimate(runs []Measured) float64 {
	sum := 0.0
	for _, r := range runs {
		v := r.RequestThroughput
		if x.Var == maxConcurrency {
			v *= r.MeanE2ELms / 1000
		}
		sum += v
	}
	return sum / float64(len(runs))
}

// measuredOf takes the numbers out of the result of a run; false if one is missing.
func measuredOf(r record) (m Measured, ok bool) {
	m.RequestThroughput, ok = r.number("request_throughput")
	if !ok {
		return m, false
	}
	m.MeanE2ELms, ok = r.number("mean_e2el_ms")
	return m, ok
}

// number is a number of a record; false if it has none.
func (r record) number(key string) (float64, bool) {
	for _, f := range r {
		if f.key == key {
			n, err := strconv.ParseFloat(f.text, 64)
			return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
		}
	}
	return 0, false
}

// Between is the sweep with levels between the ends of its combinations.
func (s *Sweep) Between(levels map[string][]int64) (*Sweep, error) {
	in, x := s.Serve, *s.Explore
	x.Between = levels
	in.Explore = &x
	return in.Sweep()
}

// Levels are the levels between the ends of each combination, of those whose ends have all of
// their results in the folder of the experiment.
func (s *Sweep) Levels(dir string) (map[string][]int64, error) {
	between := map[string][]int64{}
	ends := map[string][][]Measured{}
	for _, p := range s.Points() {
		var list []Measured
		for n := range s.Runs {
			rec, err := s.writeRun(dir, nil, p, n)
			if err != nil {
				return nil, err
			}
			if m, ok := measuredOf(rec); ok {
				list = append(list, m)
			}
		}
		ends[p.Base] = append(ends[p.Base], list)
	}
	for base, list := range ends {
		if first, last := list[0], list[len(list)-1]; len(list) > 1 && len(first) == s.Runs && len(last) == s.Runs {
			between[base] = s.Explore.Interior(first, last)
		}
	}
	return between, nil
}
