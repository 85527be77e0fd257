package sweep

import (
	"fmt"
	"math"
	"slices"

	"github.com/profllm/profllm/pkg/pyrand"
	"github.com/profllm/profllm/pkg/source"
)

// An EnvParam is an argument that the environment draws at every point, instead
// of an agent searching it (CloudAI's domain randomisation).
type EnvParam struct {
	Name    string // a path as in Dimension; CloudAI takes keys of cmd_args only
	Pos     source.Pos
	Values  []*source.Value // at least two
	Weights []float64       // as many as Values, sum 1; nil for equal chances
}

// Draw returns the value at a step, counted from 1: the one that CloudAI draws,
// which is what CPython's random.Random(f"{seed}:{name}:{step}") gives for
// choice, or for choices where there are weights.
func (p EnvParam) Draw(seed int64, step int) *source.Value {
	rng := pyrand.FromText(fmt.Sprintf("%d:%s:%d", seed, p.Name, step))
	if p.Weights != nil {
		return p.Values[rng.Weighted(p.Weights)]
	}
	return p.Values[rng.Below(len(p.Values))]
}

// annotation is one [env_params.NAME].
type annotation struct {
	Weights  []float64 `toml:"weights"`
	Encoding *struct {
		Type string `toml:"type,required"`
	} `toml:"encoding"`
}

// envParams reads [env_params]. A name may be a path in quotes, or spelt as
// tables: [env_params.decode.x] is [env_params."decode.x"].
func envParams(t *source.Table, c *source.Complaints) []EnvParam {
	v := t.Get("env_params")
	if v == nil {
		return nil
	}
	top, ok := v.Any.(*source.Table)
	if !ok {
		c.Addf(v.Pos, "env_params must be a table, found: %s", v.Kind())
		return nil
	}
	r := envReader{test: t, c: c}
	for _, k := range top.Keys() {
		keys, err := locate(k)
		if err != nil {
			c.Addf(top.PosOf(k), "env_params: %v", err)
			continue
		}
		r.read(keys, top.Get(k))
	}
	return r.params
}

type envReader struct {
	test   *source.Table
	c      *source.Complaints
	params []EnvParam
}

func (r *envReader) read(keys []string, v *source.Value) {
	path := joinPath(keys)
	note, ok := v.Any.(*source.Table)
	if !ok {
		r.c.Addf(v.Pos, "env_params.%s must be a table, found: %s", name(keys), v.Kind())
		return
	}
	field := lookup(r.test, keys)
	if field == nil {
		r.c.Add(source.Errorf(v.Pos, "env_params: %s is not in this test", path).
			Hintf("%s", source.Suggest(path, allPaths(r.test, cmdArgs, benchArgs, envVars))))
		return
	}
	sub, isTable := field.Any.(*source.Table)
	if isTable && len(note.Keys()) > 0 &&
		!slices.ContainsFunc(note.Keys(),
			func(k string) bool { return !sub.Has(k) && (k == "weights" || k == "encoding") }) {
		for _, k := range note.Keys() {
			r.read(append(slices.Clip(keys), k), note.Get(k))
		}
		return
	}
	list, isList := field.Any.([]*source.Value)
	switch {
	case !isList:
		r.c.Add(source.Errorf(v.Pos, "env_params: %s is one %s (%s), not a list of values to draw from", path,
			field.Kind(), field.Pos).
			Hintf("write a list of two or more values, or remove the annotation"))
		return
	case len(list) < 2:
		r.c.Addf(v.Pos, "env_params: %s has too few values to draw from (%d at %s)", path, len(list), field.Pos)
		return
	}
	p := EnvParam{Name: name(keys), Pos: v.Pos, Values: list}
	if i := slices.IndexFunc(r.params, func(o EnvParam) bool { return o.Name == p.Name }); i >= 0 {
		r.c.Addf(v.Pos, "env_params: %s is annotated twice (%s)", path, r.params[i].Pos)
		return
	}
	p.Weights = r.weights(path, note, len(list))
	for _, e := range list {
		if kind := unwritable(e); kind != "" {
			r.c.Add(source.Errorf(e.Pos, "%s: %s cannot be drawn", path, kind).Hintf("write it as a string"))
		}
	}
	r.params = append(r.params, p)
}

// weights reads the annotation and returns its weights, nil if it has none.
func (r *envReader) weights(path string, note *source.Table, want int) []float64 {
	var a annotation
	r.c.Add(source.Decode(note, &a))
	if a.Encoding != nil && a.Encoding.Type != "" && a.Encoding.Type != "categorical" {
		r.c.Add(source.Errorf(note.PosOf("encoding"), "env_params: unknown encoding %q of %s", a.Encoding.Type, path).
			Hintf("%s", source.Suggest(a.Encoding.Type, []string{"categorical"})))
	}
	if !note.Has("weights") {
		return nil
	}
	pos, sum := note.PosOf("weights"), 0.0
	for _, w := range a.Weights {
		if math.IsNaN(w) || math.IsInf(w, 0) || w < 0 {
			r.c.Addf(pos, "env_params: weight %v of %s must be a finite number, 0 or more", w, path)
			return nil
		}
		sum += w
	}
	switch {
	case len(a.Weights) != want:
		r.c.Addf(pos, "env_params: %s has %d values and %d weights", path, want, len(a.Weights))
		return nil
	case math.Abs(sum-1) > 1e-6:
		r.c.Addf(pos, "env_params: the weights of %s add up to %v, must be 1", path, sum)
		return nil
	}
	return a.Weights
}
