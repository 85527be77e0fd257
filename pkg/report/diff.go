package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/terminal"
)

// DiffSchema is the version of a Delta's JSON.
const DiffSchema = "profllm.diff/1"

// Delta is what two runs differ in, and how much of them is the same.
type Delta struct {
	Schema string `json:"schema"`
	First  string `json:"first"` // directories
	Second string `json:"second"`
	// Same is set if both are of one configuration: their fingerprints are the same.
	Same         bool      `json:"same_configuration"`
	Simulated    bool      `json:"simulated,omitempty"` // at least one of the two
	Fingerprints [2]string `json:"fingerprints"`        // "" for a record that does not know what was asked
	// NotComparable is why their numbers must not be compared.
	NotComparable []Unlike `json:"not_comparable,omitempty"`
	// Causal says what the differences mean for whoever looks for a reason, as compare
	// does; "" if none could be one.
	Causal  string       `json:"causal,omitempty"`
	Groups  []DeltaGroup `json:"groups"`
	Numbers []Row        `json:"numbers"`
}

// DeltaGroup is one kind of fields.
type DeltaGroup struct {
	Name    string   `json:"name"`
	Same    int      `json:"same"` // fields with one value
	Differs []Unlike `json:"differs"`
}

// Diff says what two runs differ in. Both need a record.
func Diff(a, b *Run) (*Delta, error) {
	d := &Delta{Schema: DiffSchema, First: a.Dir, Second: b.Dir}
	for i, r := range []*Run{a, b} {
		if r.Result == nil {
			return nil, fmt.Errorf("%s: %s", r.Dir, r.Problem)
		}
		d.Simulated = d.Simulated || r.Result.Simulated
		asked := *r.Result
		if r.pieced {
			continue
		}
		asked.Config.Settings = r.Settings // of an older record they are the plan's
		var err error
		if d.Fingerprints[i], err = asked.Fingerprint(); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Dir, err)
		}
	}
	d.Same = d.Fingerprints[0] != "" && d.Fingerprints[0] == d.Fingerprints[1]
	var differs []Unlike
	d.NotComparable, differs = unlike([]*Run{a}, []*Run{b})
	d.Causal = causal(differs)
	first, second := a.fields(), b.fields()
	for _, name := range groupsOf(first, second) {
		g := DeltaGroup{Name: name, Differs: []Unlike{}}
		keys := map[string]bool{}
		for _, fields := range []map[string]string{first[name], second[name]} {
			for k := range fields {
				keys[k] = true
			}
		}
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			if x, y := first[name][k], second[name][k]; x != y {
				g.Differs = append(g.Differs, Unlike{k, x, y})
			} else {
				g.Same++
			}
		}
		d.Groups = append(d.Groups, g)
	}
	seen := map[string]bool{}
	for _, s := range sections {
		for _, m := range s.metrics {
			row := newRow(m, []*Run{a, b})
			if !seen[m.Key] && (row.Values[0] != Value{} || row.Values[1] != Value{}) {
				d.Numbers = append(d.Numbers, row)
			}
			seen[m.Key] = true
		}
	}
	return d, nil
}

// The groups of fields, in the order in which they are shown; the flags of a role
// have one each, behind the engine.
const (
	groupLoad      = "load"
	groupEngine    = "engine"
	groupFlags     = "flags of "
	groupEnv       = "environment"
	groupPlacement = "placement"
	groupHardware  = "hardware"
	groupSoftware  = "software"
	groupValidity  = "validity"
)

func groupsOf(a, b map[string]map[string]string) []string {
	have := map[string]bool{}
	for _, m := range []map[string]map[string]string{a, b} {
		for k, fields := range m {
			have[k] = len(fields) > 0 || have[k]
		}
	}
	order := []string{groupLoad, groupEngine, groupFlags, groupEnv, groupPlacement, groupHardware, groupSoftware, groupValidity}
	rank := func(name string) int {
		return slices.IndexFunc(order, func(g string) bool { return g == name || strings.HasSuffix(g, " ") && strings.HasPrefix(name, g) })
	}
	return slices.SortedFunc(func(yield func(string) bool) {
		for k, ok := range have {
			if ok && !yield(k) {
				return
			}
		}
	}, func(x, y string) int { return cmp.Or(rank(x)-rank(y), strings.Compare(x, y)) })
}

// fields is all that is known of a run but its numbers, times and ids: group → name →
// value.
func (r *Run) fields() map[string]map[string]string {
	out := map[string]map[string]string{}
	set := func(group, name, value string) {
		if value == "" {
			return
		}
		if out[group] == nil {
			out[group] = map[string]string{}
		}
		out[group][name] = value
	}
	for k, v := range r.Settings {
		group, name := settingGroup(k)
		set(group, name, v)
	}
	res := r.Result
	set(groupLoad, "client", res.Config.Benchmark.Kind)
	set(groupValidity, "status", string(res.Status))
	if v := res.Validity; v != nil {
		set(groupValidity, "verdict", string(v.Verdict))
		set(groupValidity, "thresholds of its own", strings.Join(v.Set, "; "))
		for _, c := range v.Checks {
			set(groupValidity, c.Word, string(c.Outcome))
		}
	}
	if f := res.Failure; f != nil {
		set(groupValidity, "cause", f.Cause)
	}
	if p := res.Placement; p != nil {
		set(groupPlacement, "nodes", hostlist.Format(p.Nodes))
		set(groupPlacement, "topology", p.Topology())
	}
	if s := res.Slurm; s != nil {
		set(groupPlacement, "partition", s.Partition)
		set(groupPlacement, "account", s.Account)
	}
	if s := res.System; s != nil {
		for k, v := range scalars(s.HardwareInfo) {
			set(groupHardware, k, v)
		}
		for _, n := range s.Nodes { // what they have in common is said once
			all := scalars(s.HardwareInfo)
			for k, v := range scalars(n) {
				if all[k] == "" && k != "host" {
					set(groupHardware, n.Host+" "+k, v)
				}
			}
		}
	}
	if p := res.Provenance; p != nil {
		r.software(p, set)
	}
	if res.MetricsVersion > 0 {
		set(groupSoftware, "metrics_version", fmt.Sprint(res.MetricsVersion))
	}
	if res.Simulated {
		set(groupEngine, "simulated", "yes")
		if res.SimulatedSpeed > 1 {
			set(groupEngine, "simulated speed", fmt.Sprintf("%dx", res.SimulatedSpeed))
		}
	}
	if p := res.Profiling; p != nil && p.Enabled {
		set(groupEngine, "profiled", "yes")
	}
	return out
}

// whereabouts matches variables that say where a process is.
var whereabouts = regexp.MustCompile(`_(HOST|IP|PORT|ADDR|ADDRESS)$`)

// software adds what ran.
func (r *Run) software(p *result.Provenance, set func(group, name, value string)) {
	for name, value := range map[string]string{
		"engine": p.Engine, "version": p.EngineVersion, "installed": p.EngineInstalled, "image": p.Image, "image digest": p.ImageDigest,
		"model revision": p.ModelRevision, "tokenizer digest": p.TokenizerDigest,
	} {
		set(groupEngine, name, value)
	}
	set(groupSoftware, "profllm", p.Profllm)
	set(groupSoftware, "launcher", p.Launcher)
	set(groupSoftware, "definitions", p.Git)
	for _, c := range p.Repositories {
		set(groupSoftware, c.URL, c.Commit)
	}
	for _, x := range p.Packages {
		set(groupSoftware, strings.TrimSpace(strings.Join([]string{x.Name, x.Role, x.Node}, " ")), x.Version)
	}
	for _, e := range p.Environment {
		for name, value := range e.Vars {
			if whereabouts.MatchString(name) {
				continue // differs between any two runs
			}
			set(groupEnv, strings.Join(slices.DeleteFunc([]string{e.Role, e.Node, name}, func(s string) bool { return s == "" }), " "), value)
		}
	}
}

// settingGroup is the group of a setting, and its name there.
func settingGroup(key string) (group, name string) {
	head, rest, _ := strings.Cut(key, ".")
	switch {
	case key == plan.NodesSetting:
		return groupPlacement, key
	case key == result.ModelSetting:
		return groupEngine, "model"
	case key == result.ImageSetting:
		return groupEngine, "image as asked"
	case head == "bench_cmd_args":
		return groupLoad, rest
	case head == "extra_env_vars":
		return groupEnv, rest
	case head == "cmd_args":
		if role, option, ok := strings.Cut(rest, "."); ok {
			return groupFlags + role, option
		}
		return groupEngine, rest
	}
	return groupEngine, key
}

// scalars are the fields of a flat object by their names in JSON.
func scalars(v any) map[string]string {
	out := map[string]string{}
	data, err := json.Marshal(v)
	if err != nil {
		return out
	}
	var m map[string]any
	if json.Unmarshal(data, &m) == nil {
		for k, x := range m {
			out[k] = plan.SettingText(x)
		}
	}
	return out
}

// Write prints the delta as text, json or markdown.
func (d *Delta) Write(w io.Writer, format string) error {
	if format == "json" {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(d)
	}
	return d.write(w, format, terminal.Screen{})
}

// Show prints the delta as text on a screen.
func (d *Delta) Show(w io.Writer, s terminal.Screen) error { return d.write(w, "text", s) }

func (d *Delta) write(w io.Writer, format string, screen terminal.Screen) error {
	var b strings.Builder
	plain := func(s string) string { return screen.Fold(printable.Line(s)) }
	heading, item := "== ", ""
	if format == "markdown" {
		plain = func(s string) string { return markdown.Replace(printable.Line(s)) }
		heading, item = "## ", "- "
	}
	for _, line := range d.summary() {
		b.WriteString(item + plain(line) + "\n")
	}
	for _, u := range d.NotComparable {
		b.WriteString(item + plain("not comparable: "+u.String()) + "\n")
	}
	show := func(t table) {
		if format == "markdown" {
			t.markdown(&b)
			return
		}
		b.WriteString("\n" + t.text(screen) + "\n")
	}
	for _, g := range d.Groups {
		if len(g.Differs) == 0 {
			continue
		}
		b.WriteString("\n" + heading + plain(fmt.Sprintf("%s: %d differ, %d the same", g.Name, len(g.Differs), g.Same)) + "\n")
		if format == "markdown" {
			b.WriteString("\n")
		}
		t := table{header: []string{"field", "first", "second"}}
		for _, u := range g.Differs {
			t.row("", cell{text: u.Field}, cell{text: cut(cmp.Or(u.First, "-"))}, cell{text: cut(cmp.Or(u.Second, "-"))})
		}
		show(t)
	}
	if len(d.Numbers) > 0 {
		b.WriteString("\n" + heading + plain("numbers: one beside one, no significance is claimed") + "\n")
		if format == "markdown" {
			b.WriteString("\n")
		}
		t := table{header: []string{"metric", "first", "second", "second against first %"}}
		for _, row := range d.Numbers {
			change := row.Difference.cells()[1]
			t.row("", cell{text: row.title()}, cell{row.Values[0].text(row.precision()), num}, cell{row.Values[1].text(row.precision()), num}, change)
		}
		show(t)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// summary is the answer in some lines.
func (d *Delta) summary() []string {
	differ, same := 0, []string{}
	for _, g := range d.Groups {
		differ += len(g.Differs)
		if len(g.Differs) == 0 {
			same = append(same, fmt.Sprintf("%s %d", g.Name, g.Same))
		}
	}
	head := "another configuration"
	switch {
	case d.Same:
		head = "the same configuration, fingerprint " + d.Fingerprints[0]
	case d.Fingerprints[0] == "" || d.Fingerprints[1] == "":
		head = "whether it is one configuration is not known: a record does not say what was asked"
	}
	var lines []string
	if d.Simulated {
		lines = append(lines, "SIMULATED: at least one of the two had a simulated engine; its numbers are not measurements")
	}
	lines = append(lines, "first: "+d.First, "second: "+d.Second, head+"; "+quantity.Clause(differ, "field", "differ"))
	if d.Causal != "" {
		lines = append(lines, d.Causal)
	}
	if len(same) > 0 {
		lines = append(lines, "nothing differs in: "+strings.Join(same, ", "))
	}
	return lines
}
