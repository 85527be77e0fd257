package sweep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// axes are the places in dims of what varies independently: a dimension by itself, or
// those of a zip group, in the order of the first of each.
func axes(dims []Dimension) [][]int {
	var out [][]int
	of := map[int]int{}
	for i, d := range dims {
		if at, ok := of[d.Zip]; ok && d.Zip > 0 {
			out[at] = append(out[at], i)
			continue
		}
		of[d.Zip] = len(out)
		out = append(out, []int{i})
	}
	return out
}

// zipped reads sweep.zip, lists of keys whose values go together, and marks the
// dimensions that it names. Those of a group follow its first one. Errors are
// a key that is not swept, or is in two groups, lists of unequal length, points that are
// there twice.
func zipped(t *source.Table, dims []Dimension, env map[string]bool) ([]Dimension, error) {
	v := t.Table("sweep").Get("zip")
	if v == nil {
		return dims, nil
	}
	groups, err := zipGroups(v)
	if err != nil {
		return dims, err
	}
	var c source.Complaints
	z := zipper{test: t, dims: dims, env: env}
	for i, group := range groups {
		c.Add(z.group(i+1, group))
	}
	var out []Dimension
	for _, axis := range axes(z.dims) {
		for _, i := range axis {
			out = append(out, z.dims[i])
		}
	}
	return out, c.Err()
}

// zipGroups are the lists of keys of sweep.zip. A list of keys is one group.
func zipGroups(v *source.Value) ([][]*source.Value, error) {
	list, ok := listOf(v)
	if len(list) > 0 {
		if _, isText := list[0].Text(); isText {
			list = []*source.Value{v}
		}
	}
	var out [][]*source.Value
	for _, g := range list {
		keys, isList := listOf(g)
		ok = ok && isList
		out = append(out, keys)
	}
	if !ok || len(list) == 0 {
		return nil, source.Errorf(v.Pos, "sweep.zip must be a list of lists of keys").
			Hintf(`write zip = [["max_concurrency", "num_prompts"]]`)
	}
	return out, nil
}

type zipper struct {
	test *source.Table
	dims []Dimension
	env  map[string]bool
}

// group marks the dimensions of one zip group.
func (z *zipper) group(n int, keys []*source.Value) error {
	var c source.Complaints
	var at []int
	for _, k := range keys {
		i, err := z.find(k)
		switch {
		case err != nil:
			c.Add(err)
		case z.dims[i].Zip > 0:
			c.Addf(k.Pos, "sweep.zip names %s twice", fullPath(z.dims[i].Path))
		default:
			z.dims[i].Zip = n
			at = append(at, i)
		}
	}
	if c.Err() != nil {
		return c.Err()
	}
	slices.Sort(at)
	if len(at) < 2 {
		pos := z.test.Table("sweep").PosOf("zip")
		if len(keys) > 0 {
			pos = keys[0].Pos
		}
		return source.Errorf(pos, "a group of sweep.zip needs two keys or more").
			Hintf("a list by itself is swept without zip")
	}
	a := z.dims[at[0]]
	for _, i := range at[1:] {
		if b := z.dims[i]; len(b.Values) != len(a.Values) {
			return source.Errorf(b.Pos, "%s has %d values, and %s, which sweep.zip pairs with it, %d (%s)",
				fullPath(b.Path), len(b.Values), fullPath(a.Path), len(a.Values), a.Pos).
				Hintf("give both lists the same length")
		}
	}
	return z.distinct(at)
}

// distinct complains about points of a group that cannot be told apart.
func (z *zipper) distinct(at []int) error {
	var c source.Complaints
	seen := map[string]source.Pos{}
	for i, v := range z.dims[at[0]].Values {
		key := ""
		words := make([]string, len(at))
		for j, d := range at {
			value := string(appendJSON(nil, z.dims[d].Values[i]))
			key += value + "\x00"
			words[j] = fullPath(z.dims[d].Path) + " = " + value
		}
		if p, ok := seen[key]; ok {
			c.Add(source.Errorf(v.Pos, "sweep.zip has the point %s twice (%s)", strings.Join(words, ", "), p).
				Hintf("remove one of each list: the point would run once anyway"))
			continue
		}
		seen[key] = v.Pos
	}
	return c.Err()
}

// find returns the place of the dimension that a key of sweep.zip names, in full or by
// its last parts.
func (z *zipper) find(v *source.Value) (int, error) {
	key, ok := v.Text()
	if !ok {
		return 0, source.Errorf(v.Pos, "sweep.zip must hold keys, not the %s %v", v.Kind(), v.Plain())
	}
	var swept, ends []string
	found := -1
	for i, d := range z.dims {
		full := fullPath(d.Path)
		swept = append(swept, full)
		if key == full || key == d.Path {
			return i, nil
		}
		if strings.HasSuffix(full, "."+key) {
			found, ends = i, append(ends, full)
		}
	}
	switch {
	case len(ends) == 1:
		return found, nil
	case len(ends) > 1:
		return 0, source.Errorf(v.Pos, "sweep.zip: %q may be %s", key, strings.Join(ends, " or ")).
			Hintf("write the key in full")
	}
	return 0, z.unknown(v, key, swept)
}

// unknown says why a key of sweep.zip names no list.
func (z *zipper) unknown(v *source.Value, key string, swept []string) error {
	for _, full := range append(allPaths(z.test, cmdArgs, benchArgs, envVars), numNodes) {
		keys, err := splitPath(full)
		if err != nil || full != key && name(keys) != key && !strings.HasSuffix(full, "."+key) {
			continue
		}
		if z.env[name(keys)] {
			return source.Errorf(v.Pos, "sweep.zip: %s is drawn (env_params), not swept", full).
				Hintf("leave it out of zip, or out of env_params")
		}
		value := lookup(z.test, keys)
		if value == nil {
			continue
		}
		return source.Errorf(v.Pos, "sweep.zip: %s is not swept: it has one value (%s)", full, value.Pos).
			Hintf("write a list, as long as those it is paired with")
	}
	if len(swept) == 0 {
		return source.Errorf(v.Pos, "sweep.zip: %q is not a key of this test", key).
			Hintf("no key of it has a list of values")
	}
	words := slices.Clone(swept) // a word is nearest in the form that it is written in
	for _, s := range swept {
		keys, err := splitPath(s)
		if err == nil && strings.Count(key, ".") == 0 {
			words = append(words, keys[len(keys)-1])
		}
	}
	hint := "swept: " + strings.Join(swept, ", ")
	if near := source.Nearest(key, words); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return source.Errorf(v.Pos, "sweep.zip: %q is not a key of this test", key).Hintf("%s", hint)
}
