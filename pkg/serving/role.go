package serving

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// The kinds of a role.
const (
	Prefill = "prefill"
	Decode  = "decode"
)

// single is the name of the role of a test without prefill.
const single = "serve"

// maxReplicas is far above what one proxy is meant for.
const maxReplicas = 64

// RoleConfig holds the keys of [cmd_args.prefill] and [cmd_args.decode] that every
// engine has.
type RoleConfig struct {
	// Local GPU ids on each node: "0,1" or "0-3". A test with prefill and decode sets gpu_ids
	// of both roles, or of neither.
	GPUIDs   *source.Value `toml:"gpu_ids"`
	NumNodes *source.Value `toml:"num_nodes"` // Size of the role in nodes; with replicas, of one instance.
	Replicas *source.Value `toml:"replicas"`  // Instances of the role behind the proxy (profllm); default 1.
}

// Role is prefill, decode, or, as decode, the single server.
type Role struct {
	Kind     string
	Options  *source.Table // of the engine; not nil
	IDs      []int         // of GPUs, as they are set; nil if they are not
	table    *source.Table // as it was written, nil if it was not
	engine   *Engine
	nodes    int // of an instance, 0 if they are not set
	replicas int
}

func (e *Engine) role(kind string, t *source.Table, c *source.Complaints) Role {
	r := Role{Kind: kind, Options: source.NewTable(source.Pos{}), table: t, engine: e, replicas: 1}
	if t == nil {
		return r
	}
	var cfg RoleConfig
	r.Take(&cfg, c)
	r.Options = Once(t.Without(r.own()...), c)
	if v := cfg.GPUIDs; v != nil {
		s, ok := v.Any.(string)
		if !ok {
			c.Addf(v.Pos, "%s.gpu_ids must be a string such as \"0,1\", not %s", kind, v.Describe())
		} else if s != "" {
			ids, err := plan.ParseGPUs(s)
			if err != nil {
				c.Addf(v.Pos, "%s.gpu_ids: %v", kind, err)
			}
			r.IDs = ids
		}
	}
	if v := cfg.NumNodes; v != nil {
		n, ok := v.Int()
		if !ok || n < 1 {
			c.Add(source.Errorf(v.Pos, "%s.num_nodes must be a number of nodes, 1 or more, not %s", kind, v.Shown()).
				Hintf("%s", v.Integer("num_nodes = ")))
		}
		r.nodes = int(max(n, 0))
	}
	if v := cfg.Replicas; v != nil {
		n, ok := v.Int()
		if !ok || n < 1 || n > maxReplicas {
			c.Add(source.Errorf(v.Pos, "%s.replicas must be a number of instances, 1 to %d, not %s", kind, maxReplicas,
				v.Shown()).Hintf("%s", v.Integer("replicas = ")))
			n = 1
		}
		r.replicas = int(n)
	}
	return r
}

// own are the keys that are no options of the engine.
func (r *Role) own() []string { return append(source.Fields(RoleConfig{}), r.engine.Keys...) }

// Take decodes those keys of the role that are fields of into.
func (r *Role) Take(into any, c *source.Complaints) {
	if r.table == nil {
		return
	}
	known := source.NewTable(r.table.Pos)
	for _, k := range source.Fields(into) {
		if v := r.table.Get(k); v != nil && !refuseList(v, c) {
			known.Set(k, v)
		}
	}
	c.Add(source.Decode(known, into))
}

// PosOf is where a key of the role stands.
func (r *Role) PosOf(key string) source.Pos { return r.table.PosOf(key) }

// refuseList complains of a list where one value is wanted.
func refuseList(v *source.Value, c *source.Complaints) bool {
	if _, list := v.Any.([]*source.Value); !list {
		return false
	}
	c.Add(source.Errorf(v.Pos, "a list makes a sweep, but this key takes one value only").
		Hintf("write one value, or remove the key from dse_excluded_args"))
	return true
}

func underscores(name string) string { return strings.ReplaceAll(name, "-", "_") }

// Option returns an option of the engine by the first of its names that is set, in
// either spelling, or nil.
func (r *Role) Option(names ...string) *source.Value {
	for _, name := range names {
		for _, key := range []string{name, strings.ReplaceAll(name, "_", "-")} {
			if v := r.Options.Get(key); v != nil {
				return v
			}
		}
	}
	return nil
}

// Flag says that an option that takes no value is set.
func (r *Role) Flag(name string) bool {
	v := r.Option(name)
	if v == nil {
		return false
	}
	on, isBool := v.Bool()
	return v.Any == "" || isBool && on
}

func (r *Role) size(names []string) int {
	if v := r.Option(names...); v != nil {
		if n, ok := v.Int(); ok {
			return int(max(n, 1))
		}
	}
	return 1
}

// Parallel returns the parallel sizes that cost GPUs: an instance needs their
// product.
func (r *Role) Parallel() (tp, pp, dp int) {
	tp, pp, dp = r.size(r.engine.TP), r.size(r.engine.PP), r.size(r.engine.DP)
	if r.engine.Attention != "" && r.Flag(r.engine.Attention) {
		dp = 1
	}
	return tp, pp, dp
}

// sizes are the keys that Parallel reads, where they are set.
func (r *Role) sizes() []plan.Sized {
	tp, pp, dp := r.Parallel()
	var list []plan.Sized
	for _, x := range []struct {
		names []string
		value int
	}{{r.engine.TP, tp}, {r.engine.PP, pp}, {r.engine.DP, dp}} {
		if v := r.Option(x.names...); v != nil {
			list = append(list, plan.Sized{Key: r.Kind + "." + r.nameOf(v), Value: x.value, Pos: v.Pos})
		}
	}
	return list
}

// nameOf is the key of one of the role's options, as it is written.
func (r *Role) nameOf(v *source.Value) string {
	for _, k := range r.Options.Keys() {
		if r.Options.Get(k) == v {
			return k
		}
	}
	return ""
}

// idsKey is the key of the role's GPUs, none if it is not set.
func (r *Role) idsKey() plan.Sized {
	if set, _ := r.table.Get("gpu_ids").Text(); r.IDs == nil || set == "" {
		return plan.Sized{}
	}
	return plan.Sized{Key: r.Kind + ".gpu_ids", Pos: r.table.PosOf("gpu_ids")}
}

// gpusOfInstance is how many GPUs one instance needs.
func (r *Role) gpusOfInstance() int {
	tp, pp, dp := r.Parallel()
	return tp * pp * dp
}

// near is the option of the engine that an option of the role nearly is, "" for none.
func (r *Role) near(key string) string {
	const long = 8 // short names are near to too much: ep_size to tp_size
	sizes := r.engine.sizes()
	if slices.Contains(sizes, underscores(key)) {
		return ""
	}
	for _, name := range sizes {
		if len(key) >= long && strings.HasPrefix(name, underscores(key)) {
			return name // argparse takes the beginning of a name
		}
	}
	if r.engine.has(key) {
		return ""
	}
	words := slices.DeleteFunc(slices.Concat(sizes, r.engine.Known()), func(name string) bool { return len(name) < long })
	return source.Nearest(key, words)
}

// misspelt refuses options that are nearly one that the engine has: the engine would
// refuse them, but only in the job, or the role would have another size. Unchecked ones are noted.
func (s *Test) misspelt(r *Role, c *source.Complaints) {
	for _, k := range r.Options.Keys() {
		near, pos := r.near(k), r.Options.KeyPos(k)
		switch {
		case near == "":
		case !s.Unchecked(k):
			c.Add(source.Errorf(pos, "%s is not a known option of `%s`", r.Path(k), r.engine.Server).
				Hintf("did you mean %s? If your release has it, add it to cmd_args.unchecked_options", near))
		default:
			does := "goes to the engine as it is"
			if slices.Contains(r.engine.sizes(), near) {
				does += " and does not size the role"
			}
			note := fmt.Sprintf("%s: %s %s; did you mean %s?", pos, r.Path(k), does, near)
			if !slices.Contains(s.Notes, note) { // extra_cmd_args are of every role
				s.Notes = append(s.Notes, note)
			}
		}
	}
}

// Unchecked reports whether an option goes to the engine without a check.
func (s *Test) Unchecked(key string) bool {
	return slices.Contains(Names(s.UncheckedOptions), underscores(key))
}

// Names are the options of a list such as "x, --y-z": x and y_z.
func Names(list string) (names []string) {
	for o := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		names = append(names, underscores(strings.TrimLeft(o, "-")))
	}
	return names
}

// Misspelt reports whether an option was refused because it is nearly another.
func (s *Test) Misspelt(r *Role, key string) bool { return r.near(key) != "" && !s.Unchecked(key) }

// sizes are the options that say how many GPUs an instance needs.
func (e *Engine) sizes() []string { return slices.Concat(e.TP, e.PP, e.DP) }

// has reports whether the engine is known to have an option, perhaps by the beginning of
// its name or with a part of a JSON value behind a dot.
func (e *Engine) has(key string) bool {
	name, _, _ := strings.Cut(underscores(key), ".")
	if slices.Contains(e.sizes(), name) || e.Planned[name] != "" {
		return true
	}
	return slices.ContainsFunc(e.Known(), func(known string) bool { return strings.HasPrefix(known, name) })
}

// Path is the key of an option in the test.
func (r *Role) Path(key string) string {
	if r.table == nil || r.table.Get(key) == nil {
		return "extra_cmd_args." + key
	}
	return r.Kind + "." + key
}

// checkNear refuses options that are nearly a key of profllm's: the role would be planned
// without it. An option of that name goes into extra_cmd_args.
func (r *Role) checkNear(c *source.Complaints) {
	for _, k := range r.Options.Keys() {
		if near := source.Nearest(k, r.own()); near != "" && !r.engine.has(k) && r.table.Get(k) != nil {
			c.Add(source.Errorf(r.table.KeyPos(k), "%s.%s is neither a key of profllm nor a known option of `%s`",
				r.Kind, k, r.engine.Server).
				Hintf("did you mean %s? If the engine has an option %s, write it in [extra_cmd_args]", near, k))
		}
	}
}

func (r *Role) check(c *source.Complaints) {
	r.checkNear(c)
	for _, k := range r.Options.Keys() {
		if mend := r.engine.Planned[underscores(k)]; mend != "" {
			c.Add(source.Errorf(r.Options.KeyPos(k), "%s.%s: profllm sets the %s of every server itself", r.Kind, k, k).
				Hintf("%s", mend))
		}
		name := underscores(k)
		if here, foreign := r.engine.Foreign[name]; foreign {
			hint := "remove it"
			if here != "" {
				hint = "write " + here
			}
			c.Add(source.Errorf(r.Options.KeyPos(k), "%s.%s is an option of another engine; `%s` has no such option",
				r.Kind, k, r.engine.Server).Hintf("%s", hint))
		}
		if !slices.Contains(r.engine.sizes(), name) {
			continue
		}
		v := r.Options.Get(k)
		if n, ok := v.Int(); !refuseList(v, c) && (!ok || n < 1) {
			c.Add(source.Errorf(v.Pos, "%s.%s must be an integer, 1 or more, not %s", r.Kind, k, v.Shown()).
				Hintf("%s", v.Integer(k+" = ")))
		}
	}
}
