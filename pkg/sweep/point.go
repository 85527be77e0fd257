package sweep

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// MaxGrid is the largest number of points that Grid makes.
const MaxGrid = 100_000

// An Assignment is the value that a dimension takes.
type Assignment struct {
	Path  string // as in Dimension
	Value *source.Value
}

// A Point is one combination to try. Its slices are shared; do not change them.
type Point struct {
	Step   int          // counts from 1, by every point tried, refused ones included
	Values []Assignment // what the agent chose, in the order of the dimensions
	Env    []Assignment // what the environment drew (env_params), in the order of the file
}

// Label is the point in a few words, such as "decode.tensor_parallel_size=2
// max_concurrency=16". bench_cmd_args is left out where nothing is confused by
// that. Within a sweep, points of different Key have different labels.
func (p Point) Label() string {
	all := slices.Concat(p.Values, p.Env)
	taken := map[string]int{}
	for _, a := range all {
		taken[strings.TrimPrefix(a.Path, benchArgs+".")]++
	}
	words := make([]string, len(all))
	for i, a := range all {
		short := strings.TrimPrefix(a.Path, benchArgs+".")
		if taken[short] > 1 {
			short = a.Path
		}
		words[i] = short + "=" + labelText(a.Value)
	}
	return strings.Join(words, " ")
}

// Key is the same for two points if, and only if, they set the same paths to
// the same values of the same types, in whatever order: 1, 1.0 and "1" differ.
// The number does not count.
func (p Point) Key() string {
	return string(appendAssignments(appendAssignments(nil, p.Values, true), p.Env, true))
}

// Size is the number of combinations: 1 for no dimension, for then the test is
// one point; a zip group counts as one dimension. A number beyond int is an error.
func Size(dims []Dimension) (int, error) {
	n := 1
	for _, d := range dims {
		if len(d.Values) == 0 {
			return 0, source.Errorf(d.Pos, "%s has no values", d.Path)
		}
	}
	for _, axis := range axes(dims) {
		d := dims[axis[0]]
		if n > math.MaxInt/len(d.Values) {
			return 0, source.Errorf(d.Pos, "the sweep has too many points to count: %s", sizes(dims)).
				Hintf("shorten a list")
		}
		n *= len(d.Values)
	}
	return n, nil
}

func sizes(dims []Dimension) string {
	all := axes(dims)
	words := make([]string, len(all))
	for i, axis := range all {
		var paths []string
		for _, d := range axis {
			paths = append(paths, dims[d].Path)
		}
		words[i] = fmt.Sprintf("%s (%d)", strings.Join(paths, " with "), len(dims[axis[0]].Values))
	}
	return strings.Join(words, " × ")
}

// Grid returns every combination, the last dimension fastest, steps from 1.
// More than MaxGrid points are an error.
func Grid(dims []Dimension) ([]Point, error) {
	n, err := Size(dims)
	if err != nil {
		return nil, err
	}
	if n > MaxGrid {
		return nil, source.Errorf(dims[0].Pos, "the sweep has %d points, more than %d: %s", n, MaxGrid, sizes(dims)).
			Hintf("shorten a list, or set agent = %q or %q and agent_steps", Random, TPE)
	}
	points := make([]Point, n)
	all := axes(dims)
	block := make([]Assignment, n*len(dims))
	for i := range points {
		values := block[i*len(dims) : (i+1)*len(dims) : (i+1)*len(dims)]
		combination(dims, all, i, values)
		points[i] = Point{Step: i + 1, Values: values}
	}
	return points, nil
}

// combination fills into with the i-th combination, i from 0.
func combination(dims []Dimension, all [][]int, i int, into []Assignment) {
	for a := len(all) - 1; a >= 0; a-- {
		n := len(dims[all[a][0]].Values)
		for _, d := range all[a] {
			into[d] = Assignment{dims[d].Path, dims[d].Values[i%n]}
		}
		i /= n
	}
}

// Apply returns the test at one point: a copy of t in which every path of p
// has its one value, typed as it stands in the definition and with the position
// it has there. env_params is left out, for it has been drawn from; t does not
// change, and the tables that p does not touch are shared with it. A path that
// is not in t is an error. Whether the values make sense together is for
// whoever reads the copy to say; such a point is refused, and the sweep goes on.
func Apply(t *source.Table, p Point) (*source.Table, error) {
	out := t.Without("env_params")
	mine := map[*source.Table]bool{out: true}
	var c source.Complaints
	for _, a := range slices.Concat(p.Values, p.Env) {
		keys, err := locate(a.Path)
		if err != nil {
			c.Addf(t.Pos, "%v", err)
			continue
		}
		if lookup(out, keys) == nil {
			known := append(allPaths(t, cmdArgs, benchArgs, envVars), numNodes)
			c.Add(source.Errorf(t.Pos, "the point sets %q, which is not in this test", joinPath(keys)).
				Hintf("%s", source.Suggest(joinPath(keys), known)))
			continue
		}
		at := out
		for _, k := range keys[:len(keys)-1] {
			sub := at.Table(k)
			if !mine[sub] {
				pos := at.PosOf(k)
				sub = sub.Without()
				mine[sub] = true
				at.Set(k, &source.Value{Pos: pos, Any: sub})
			}
			at = sub
		}
		at.SetElement(keys[len(keys)-1], a.Value)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

// appendAssignments writes a JSON object, its keys sorted if asked.
func appendAssignments(b []byte, list []Assignment, sorted bool) []byte {
	if sorted && !sort.SliceIsSorted(list, func(i, j int) bool { return list[i].Path < list[j].Path }) {
		list = slices.Clone(list)
		sort.Slice(list, func(i, j int) bool { return list[i].Path < list[j].Path })
	}
	b = append(b, '{')
	for i, a := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, a.Path)
		b = append(b, ':')
		b = appendJSON(b, a.Value)
	}
	return append(b, '}')
}
