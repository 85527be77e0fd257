package sweep

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/source"
)

// A Dimension is one list of the definition whose values are tried one by one.
type Dimension struct {
	// Path is CloudAI's key of the dimension in an action:
	// decode.tensor_parallel_size for cmd_args.decode.tensor_parallel_size,
	// extra_env_vars.NAME, NUM_NODES for num_nodes; and profllm's own
	// bench_cmd_args.max_concurrency.
	Path   string
	Pos    source.Pos
	Values []*source.Value // at least one; no two alike, unless Zip is set
	// Client says that only the load client's arguments change: between points
	// that differ in such dimensions alone, a server can stay up.
	Client bool
	// Zip is the number, from 1, of the zip group that the dimension belongs to; 0: none.
	// Dimensions of one group have equally many values and take them together, the
	// first with the first.
	Zip int
}

// dimensions finds the lists of a merged test that make it a sweep, slowest
// first: cmd_args, then extra_env_vars, then num_nodes, which is CloudAI's
// order, and last bench_cmd_args, which CloudAI cannot sweep. Last means
// fastest, so that points that differ only in the load are neighbours and can
// share a server.
//
// order answers the known keys of a table, named as a path without cmd_args
// ("" for cmd_args itself, "decode", "bench_cmd_args"); known keys come first, in
// that order, the others in the order of the file. It may be nil. whole reports whether a table, by its
// keys from the test's down, is one value, such as an option that takes JSON: no list in it is a dimension.
// It may be nil too.
//
// No dimension is: a list below dse_excluded_args, a list that env_params
// annotates, a list of tables and what is in it. A list of lists is a dimension
// whose values are lists. Complaints go into c: an empty list, a
// value that occurs twice, an excluded path that is not in the test and
// looks like a slip of one that is.
func dimensions(t *source.Table, order func(string) []string, whole func([]string) bool, env map[string]bool,
	c *source.Complaints) (dims []Dimension, values []Value) {
	f := finder{order: order, whole: whole, excluded: excluded(t, c), env: env, c: c}
	if sub := t.Table(cmdArgs); sub != nil {
		f.table(sub, []string{cmdArgs})
	}
	for _, k := range t.Table(envVars).Keys() {
		f.list(t.Table(envVars).Get(k), []string{envVars, k})
	}
	if v := t.Get(numNodes); v != nil {
		f.list(v, []string{numNodes})
	}
	if sub := t.Table(benchArgs); sub != nil {
		f.table(sub, []string{benchArgs})
	}
	for _, d := range f.dims {
		f.writable(d)
	}
	dims, err := zipped(t, f.dims, env)
	if c.Add(err); err == nil { // else a list may be in a group that could not be read
		f.distinct(dims)
	}
	return dims, f.values
}

// A Value is a list of several values within a table that is one value.
type Value struct {
	Path string // CloudAI's key
	Pos  source.Pos
}

type finder struct {
	order    func(string) []string
	whole    func([]string) bool
	excluded [][]string // keys from the test's table down
	env      map[string]bool
	c        *source.Complaints
	dims     []Dimension
	values   []Value
}

func (f *finder) table(t *source.Table, at []string) {
	path := ""
	if len(at) > 1 || at[0] != cmdArgs {
		path = name(at)
	}
	for _, k := range f.keys(t, path) {
		keys := append(slices.Clip(at), k)
		v := t.Get(k)
		if sub, ok := v.Any.(*source.Table); ok {
			if f.whole != nil && f.whole(keys) {
				f.lists(sub, keys)
			} else {
				f.table(sub, keys)
			}
			continue
		}
		f.list(v, keys)
	}
}

// lists finds the lists of several values in a table that is one value.
func (f *finder) lists(t *source.Table, at []string) {
	for _, k := range t.Keys() {
		keys := append(slices.Clip(at), k)
		switch x := t.Get(k).Any.(type) {
		case *source.Table:
			f.lists(x, keys)
		case []*source.Value:
			if len(x) > 1 && !f.isExcluded(keys) && !slices.ContainsFunc(x, isTable) {
				f.values = append(f.values, Value{name(keys), t.Get(k).Pos})
			}
		}
	}
}

func isTable(v *source.Value) bool {
	_, is := v.Any.(*source.Table)
	return is
}

// keys are t's keys, those that order names first.
func (f *finder) keys(t *source.Table, path string) []string {
	if f.order == nil {
		return t.Keys()
	}
	var out []string
	for _, k := range f.order(path) {
		if t.Has(k) && !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	known := len(out)
	for _, k := range t.Keys() {
		if !slices.Contains(out[:known], k) {
			out = append(out, k)
		}
	}
	return out
}

func (f *finder) list(v *source.Value, keys []string) {
	list, ok := v.Any.([]*source.Value)
	path := name(keys)
	switch {
	case !ok, f.env[path], f.isExcluded(keys):
		return
	case len(list) == 0:
		f.c.Add(source.Errorf(v.Pos, "%s is an empty list: a sweep over it has no points", joinPath(keys)).
			Hintf("write one or more values, or %s", leaveOut(keys)))
		return
	}
	tables := 0
	for _, e := range list {
		if isTable(e) {
			tables++
		}
	}
	switch {
	case tables == len(list):
		return
	case tables > 0:
		f.c.Add(source.Errorf(v.Pos, "%s mixes tables and values in a list", joinPath(keys)).
			Hintf("a list of tables is one value, a list of values is a sweep"))
		return
	case keys[0] == cmdArgs && slices.Contains(reserved, keys[1]):
		f.c.Add(source.Errorf(v.Pos, "%s cannot be swept: %q has another meaning in a trajectory", joinPath(keys),
			keys[1]).
			Hintf("write one value, or %s", leaveOut(keys)))
		return
	}
	f.dims = append(f.dims, Dimension{Path: path, Pos: v.Pos, Values: list, Client: ofClient(keys)})
}

// ofClient reports whether a key is an argument of the load client. CloudAI has those of AIDynamo in cmd_args.
func ofClient(keys []string) bool {
	return keys[0] == benchArgs || keys[0] == cmdArgs && (keys[1] == "aiperf" || keys[1] == "genai_perf")
}

// writable complains about values that cannot be written down.
func (f *finder) writable(d Dimension) {
	for _, e := range d.Values {
		if kind := unwritable(e); kind != "" {
			f.c.Add(source.Errorf(e.Pos, "%s: %s cannot be swept", fullPath(d.Path), kind).
				Hintf("write it as a string"))
		}
	}
}

// distinct complains about points that cannot be told apart.
func (f *finder) distinct(dims []Dimension) {
	for _, axis := range axes(dims) {
		first := dims[axis[0]]
		if first.Zip > 0 {
			continue // zipped has said it
		}
		seen := map[string]source.Pos{}
		for _, e := range first.Values {
			if unwritable(e) != "" {
				continue
			}
			k := string(appendJSON(nil, e))
			if at, ok := seen[k]; ok {
				f.c.Add(source.Errorf(e.Pos, "%s lists %s twice (%s)", fullPath(first.Path), k, at).
					Hintf("remove one: the point would run once anyway"))
				continue
			}
			seen[k] = e.Pos
		}
	}
}

// unwritable names what neither JSON nor a Python literal can say, or "".
func unwritable(v *source.Value) string {
	switch x := v.Any.(type) {
	case nil:
		return "no value"
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return "a number that is not finite"
		}
	case time.Time:
		return "a date"
	case []*source.Value:
		for _, e := range x {
			if s := unwritable(e); s != "" {
				return s
			}
		}
	case *source.Table:
		for _, k := range x.Keys() {
			if s := unwritable(x.Get(k)); s != "" {
				return s
			}
		}
	}
	return ""
}

func leaveOut(keys []string) string {
	if keys[0] == cmdArgs || keys[0] == benchArgs {
		return `add "` + joinPath(keys) + `" to dse_excluded_args`
	}
	return "leave it out"
}

func (f *finder) isExcluded(keys []string) bool {
	return slices.ContainsFunc(f.excluded, func(ex []string) bool {
		return len(ex) <= len(keys) && slices.Equal(ex, keys[:len(ex)])
	})
}

// excluded reads dse_excluded_args: a list of paths or one path. Unlike CloudAI
// it takes paths below bench_cmd_args, since those can be swept here, and
// refuses a path that is not in the test: it would exclude nothing.
func excluded(t *source.Table, c *source.Complaints) [][]string {
	v := t.Get("dse_excluded_args")
	if v == nil {
		return nil
	}
	list, ok := v.Any.([]*source.Value)
	if !ok {
		list = []*source.Value{v}
	}
	var out [][]string
	for _, e := range list {
		s, ok := e.Text()
		if !ok {
			c.Addf(e.Pos, "dse_excluded_args must hold strings, not the %s %v", e.Kind(), e.Plain())
			continue
		}
		s = strings.TrimSpace(s)
		keys, err := splitPath(s)
		switch {
		case strings.HasSuffix(s, "."), strings.Contains(s, ".."), err != nil:
			c.Add(source.Errorf(e.Pos, "dse_excluded_args: %q is not a path", s).
				Hintf(`write it like "cmd_args.decode.gpu_ids"`))
		case len(keys) < 2 || keys[0] != cmdArgs && keys[0] != benchArgs:
			c.Add(source.Errorf(e.Pos, "dse_excluded_args: %q does not name a key below cmd_args or bench_cmd_args", s).
				Hintf("write cmd_args.%s", s))
		case lookup(t, keys) == nil && source.Nearest(s, allPaths(t, cmdArgs, benchArgs)) == "":
			// A test file excludes what only some scenarios set; CloudAI's samples do.
			// Load warns of it.
		case lookup(t, keys) == nil:
			c.Add(source.Errorf(e.Pos, "dse_excluded_args: %q is not in this test, so it excludes nothing", s).
				Hintf("%s", source.Suggest(s, allPaths(t, cmdArgs, benchArgs))))
		default:
			out = append(out, keys)
		}
	}
	return out
}

func listOf(v *source.Value) ([]*source.Value, bool) {
	if v == nil {
		return nil, false
	}
	list, ok := v.Any.([]*source.Value)
	return list, ok
}
