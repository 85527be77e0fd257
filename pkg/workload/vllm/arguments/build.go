package arguments

import (
	"cmp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/source"
)

// A Difference is how an option of a build of vLLM differs from that of its release.
type Difference struct {
	Option string // its long name, with dashes
	Lacks  bool   // the build does not have it
	Form   Form   // what is set replaces what the release has
	Whole  bool   // nothing of the release stays
}

// With is the program of a build: its options differ from those of every release in the same way.
func (p *Program) With(list []Difference) *Program {
	if len(list) == 0 {
		return p
	}
	d, lacking := p.stored(), map[string]bool{}
	d.Options = slices.Clone(d.Options)
	for _, one := range list {
		i := slices.IndexFunc(d.Options, func(o Option) bool { return o.Name == one.Option })
		switch {
		case one.Lacks:
			lacking[one.Option] = true
		case i >= 0 && one.Whole:
			d.Options[i].Forms = []Form{one.Form.over(Form{}, d.Releases[0])}
		case i >= 0:
			forms := d.Options[i].Forms
			d.Options[i].Forms, d.Options[i].Successor = []Form{one.Form.over(forms[len(forms)-1], d.Releases[0])}, ""
		default:
			d.Options = append(d.Options, Option{Name: one.Option, Forms: []Form{one.Form.over(Form{}, d.Releases[0])}})
		}
	}
	b := derived(p.Name, p.model, func() data { return d })
	b.lacking = lacking
	return b
}

// over is another form with what is set here, from the oldest release on.
func (f Form) over(other Form, since string) Form {
	other.Since, other.Until = since, ""
	other.Values, other.Type = cmp.Or(f.Values, other.Values), cmp.Or(f.Type, other.Type)
	if f.Values == one {
		other.Values = ""
	}
	if f.Names != nil {
		other.Names = f.Names
	}
	if f.Choices != nil {
		other.Choices, other.Type = f.Choices, ""
	}
	return other
}

// one is how a difference says that an option takes one value.
const one = "1"

// written is an option in the table of a test.
type written struct {
	Type    string `toml:"type"`
	Values  string `toml:"values"`
	Choices string `toml:"choices"`
	Names   string `toml:"names"`
}

var (
	counts = lazyregexp.New(`^([0-9]{1,3}|\?|\+|\*)$`)
	types  = []string{"int", "float", "bool", "json", "json-or-string", "human_readable_int", "human_readable_int_or_auto"}
)

// ReadDifferences reads the table of a test that says how the options of its build differ: false for
// one that the build lacks, else a table.
func ReadDifferences(t *source.Table) ([]Difference, error) {
	var c source.Complaints
	var list []Difference
	for _, key := range t.Keys() {
		v := t.Get(key)
		d := Difference{Option: "--" + strings.ReplaceAll(strings.TrimLeft(key, "-"), "_", "-")}
		switch x := v.Any.(type) {
		case bool:
			d.Lacks = !x
		case *source.Table:
			var w written
			c.Add(source.Decode(x, &w))
			c.Add(w.check(x))
			d.Form = Form{Type: w.Type, Values: w.Values, Names: split(w.Names), Choices: split(w.Choices)}
		default:
			c.Add(source.Errorf(v.Pos, "%s must be a table or false, not %s", key, v.Describe()).
				Hintf("write %s = {} for an option with one value, %s = false for one that the build lacks", key, key))
		}
		list = append(list, d)
	}
	return list, c.Err()
}

func (w written) check(t *source.Table) error {
	if w.Values != "" && !counts.MatchString(w.Values) {
		return source.Errorf(t.PosOf("values"), "values is %q, but a number of values is a number, ?, + or *", w.Values)
	}
	if w.Type != "" && !slices.Contains(types, w.Type) {
		return source.Errorf(t.PosOf("type"), "unknown type %q", w.Type).Hintf("%s", source.Suggest(w.Type, types))
	}
	return nil
}

// split reads a list such as "a, b"; a list of TOML would be a dimension of a sweep.
func split(list string) (parts []string) {
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// Build says how the options of a help differ from the release's, as far as that decides what a
// command line may have.
func (r *Release) Build(help []Option) (list []Difference) {
	shown := map[string]Form{}
	for _, o := range help {
		shown[o.Name] = o.Forms[0]
	}
	seen := map[string]bool{}
	for _, change := range r.Differences(help) {
		if seen[Key(change.Option)] {
			continue // --a_b beside --a-b
		}
		seen[Key(change.Option)] = true
		d := Difference{Option: change.Option, Lacks: change.Kind == "removed", Form: shown[change.Option]}
		d.Form.Default = nil
		if o, ok := r.program.Find(change.Option); ok && change.Kind == "changed" {
			before, _ := o.FormAt(r.Version)
			before, now := alike(before, d.Form)
			before.Default = nil
			if len(differences(before, now)) == 0 {
				continue // the default only
			}
			if d.Form.Values == "" && before.Values != "" {
				d.Form.Values = one
			}
		}
		list = append(list, d)
	}
	return list
}

// TOML is a difference as a line of the table that ReadDifferences reads.
func (d Difference) TOML() string {
	key := Key(d.Option)
	if d.Lacks {
		return inTOML(key, false)
	}
	var parts []string
	for _, p := range [][2]string{{"type", d.Form.Type}, {"values", d.Form.Values},
		{"choices", strings.Join(d.Form.Choices, ", ")}, {"names", strings.Join(d.Form.Names, ", ")}} {
		if p[1] != "" {
			parts = append(parts, inTOML(p[0], p[1]))
		}
	}
	name, _ := strings.CutSuffix(inTOML(key, false), "false")
	if parts == nil {
		return name + "{}"
	}
	return name + "{ " + strings.Join(parts, ", ") + " }"
}

// Key is a long option's name as a key: without its dashes, underscores within.
func Key(option string) string {
	return strings.ReplaceAll(strings.TrimPrefix(option, "--"), "-", "_")
}

// inTOML is a line of TOML.
func inTOML(key string, value any) string {
	if text, ok := value.(string); ok {
		value = strings.ToValidUTF8(text, "?")
	}
	data, err := toml.Marshal(map[string]any{strings.ToValidUTF8(key, "?"): value})
	if err != nil {
		panic("arguments: " + err.Error()) // a text or a bool
	}
	return strings.TrimSuffix(string(data), "\n")
}
