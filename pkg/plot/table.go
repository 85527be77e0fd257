package plot

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/source"
)

// Value is what a run has in a column.
type Value struct {
	Number *float64
	Text   string
}

// Row is one run.
type Row struct {
	Values map[string]Value
	// Run is nil for a run of a sweep of vLLM, which has no record and no verdict.
	Run    *records.Run
	Chosen []records.Setting // by the sweep, with short keys
	Kind   records.Kind
	Hollow bool // suspect: the numbers stand, and are in doubt
	Title  string

	scenario, test string
	withheld       []string // columns whose numbers the checks do not believe
	same           string   // equal for the repeats of a configuration
}

// Number is the number of a row in a column, nil for none.
func (r *Row) Number(column string) *float64 { return r.Values[column].Number }

// Table is runs as rows of named columns.
type Table struct {
	Rows    []*Row
	columns map[string]bool

	gone     map[string]int // by verdict: runs that are not drawn
	filtered int
}

// NewTable makes a table of records and of sweeps of vLLM. Runs whose numbers must not stand beside
// others are left out, and counted.
func NewTable(runs []records.Run, sweeps []interchange.Sweep) *Table {
	t := &Table{columns: map[string]bool{}, gone: map[string]int{}}
	short := shortKeys(runs)
	r := report.Build(runs, report.Options{Without: []report.Part{report.PartComparison, report.PartSweeps}})
	for i := range r.Runs {
		e := &r.Runs[i]
		if !e.Usable {
			t.gone[string(e.Verdict)]++
			continue
		}
		t.add(ofRecord(e, short))
	}
	for _, s := range sweeps {
		for _, row := range s.Rows {
			t.add(ofSweep(s.File, row))
		}
	}
	return t
}

func (t *Table) add(r *Row) {
	t.Rows = append(t.Rows, r)
	for k := range r.Values {
		t.columns[k] = true
	}
}

// shortKeys are the short names of all settings of runs.
func shortKeys(runs []records.Run) map[string]string {
	have := map[string]bool{}
	for i := range runs {
		for k := range runs[i].Settings {
			have[k] = true
		}
	}
	keys := slices.Sorted(maps.Keys(have))
	out := map[string]string{}
	for i, s := range plan.ShortKeys(keys) {
		out[keys[i]] = s
	}
	return out
}

// ofRecord is the row of a record: its settings by their names and short names, and what it
// measured, which wins where both have a name.
func ofRecord(e *report.Entry, short map[string]string) *Row {
	run, res := e.Run, e.Run.Result
	r := &Row{
		Values: map[string]Value{}, Run: run, Kind: e.Kind, Hollow: !e.Best(), Title: e.Label,
		scenario: e.Case.Scenario, test: strings.TrimSpace(e.Case.Test + " " + e.Case.Phase),
	}
	for k, v := range run.Settings {
		r.Values[k], r.Values[short[k]] = textual(v), textual(v)
	}
	for _, v := range run.Values {
		key := strings.TrimPrefix(short[v.Key], "bench_cmd_args.")
		r.Chosen = append(r.Chosen, records.Setting{Key: key, Value: v.Value})
	}
	for k, v := range map[string]string{
		"scenario": e.Case.Scenario, "test": e.Case.Test, "phase": e.Case.Phase, "verdict": string(e.Verdict),
		"kind": e.Kind.Word(), "engine": run.Engine(), "gpu": run.GPU(), "image": run.Surrounding("image"),
		"engine_version": run.Surrounding("engine"), "nodes": run.Surrounding("nodes"), "run_id": e.RunID,
		"iteration": strconv.Itoa(e.Case.Iteration), "step": strconv.Itoa(e.Case.Step),
		"repeat": strconv.Itoa(e.Case.Repeat), "execution": filepath.Base(execution(run.Dir)),
	} {
		r.Values[k] = textual(v)
	}
	r.measured(res)
	r.same = strings.Join([]string{r.scenario, r.test, string(e.Kind), run.Key(), run.Surrounding("image"),
		run.Surrounding("digest"), run.Surrounding("engine")}, "\x00")
	return r
}

// execution is the folder of a run's scenario, as far as its place shows that.
func execution(dir string) string {
	for range 4 {
		if strings.Contains(filepath.Base(dir), "_20") {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return "" // base is "."
}

// vllmNames are vLLM's names of what a record calls otherwise.
var vllmNames = map[string]string{
	"duration_s": "duration", "completed_requests": "completed", "failed_requests": "failed",
}

// measured adds what a record measured: its results as in result.json, and every metric. Withheld
// numbers are no numbers.
func (r *Row) measured(res *result.Result) {
	var flat map[string]any
	if data, err := json.Marshal(&res.Results); err == nil && json.Unmarshal(data, &flat) == nil {
		for k, v := range flat {
			switch x := v.(type) {
			case float64:
				r.Values[k] = Value{Number: &x, Text: strconv.FormatFloat(x, 'g', -1, 64)}
			case string:
				r.Values[k] = textual(x)
			}
			if name, ok := vllmNames[k]; ok {
				r.Values[name] = r.Values[k]
			}
		}
	}
	for _, m := range metric.All {
		if v := m.Of(res); v.Number != nil {
			r.Values[m.Key] = Value{Number: v.Number, Text: strconv.FormatFloat(*v.Number, 'g', -1, 64)}
		}
	}
	if res.Validity != nil {
		for _, k := range res.Validity.Withheld {
			k = strings.TrimSuffix(k, ".value")
			delete(r.Values, k)
			r.withheld = append(r.withheld, k)
		}
	}
	if res.Results.MaxConcurrency == nil {
		r.Values["max_concurrency"] = Value{Text: "None"} // as vLLM writes a load without a limit
	}
}

// textual is a text as a value: a number, if it reads as one.
func textual(s string) Value {
	v := Value{Text: s}
	if x, err := strconv.ParseFloat(s, 64); err == nil {
		v.Number = &x
	}
	return v
}

// ofSweep is the row of a run of a sweep of vLLM.
func ofSweep(file string, row interchange.Row) *Row {
	r := &Row{Values: map[string]Value{}, test: filepath.Base(filepath.Dir(filepath.Dir(file)))}
	if row.Simulated {
		r.Kind = records.Simulated
	}
	same := []string{r.test, string(r.Kind)}
	for i, c := range row.Cells {
		r.Values[c.Key] = Value{Number: c.Number, Text: c.Text}
		if i >= row.Chosen && !strings.HasPrefix(c.Key, "_") {
			r.Chosen = append(r.Chosen, records.Setting{Key: c.Key, Value: c.Text})
		}
		if i >= row.Chosen || slices.Contains(loadKeys, c.Key) {
			same = append(same, c.Key+"="+c.Text)
		}
	}
	r.Title, r.same = filepath.Base(filepath.Dir(file)), strings.Join(same, "\x00")
	return r
}

// Columns are the names of all columns, sorted.
func (t *Table) Columns() []string { return slices.Sorted(maps.Keys(t.columns)) }

// need refuses columns that no run has. option is where they were named.
func (t *Table) need(option string, names ...string) error {
	for _, name := range names {
		if !t.columns[name] {
			return fmt.Errorf("%s: no run has %q\n\thint: %s\n\tcolumns: %s", option, name,
				source.Suggest(name, t.Columns()), strings.Join(t.short(), ", "))
		}
	}
	return nil
}

// short are the columns without those that also have a shorter name.
func (t *Table) short() []string {
	return slices.DeleteFunc(t.Columns(), func(c string) bool {
		return strings.HasPrefix(c, "cmd_args.") || strings.HasPrefix(c, "bench_cmd_args.")
	})
}

// loadKeys are the columns that say how much load there is, the first that varies first.
var loadKeys = []string{"max_concurrency", "request_rate", "concurrency"}

// Gone counts the runs that are not drawn by their verdicts.
func (t *Table) Gone() string {
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(t.gone)) {
		parts = append(parts, fmt.Sprintf("%d %s", t.gone[why], why))
	}
	return strings.Join(parts, "; ")
}

// remarks says in sentences which runs are not drawn, and what the others are.
func (t *Table) remarks(rows []*Row) []string {
	var list []string
	hollow, simulated, unjudged := 0, 0, 0
	for _, r := range rows {
		if r.Hollow {
			hollow++
		}
		if r.Kind.Simulated() {
			simulated++
		}
		if r.Run == nil {
			unjudged++
		}
	}
	switch {
	case simulated == len(rows) && simulated > 0:
		list = append(list, "Simulated engine: the numbers are no measurements.")
	case simulated > 0:
		list = append(list, fmt.Sprintf("%d of %s are of a simulated engine: no measurements.", simulated,
			quantity.Count(len(rows), "run")))
	}
	if hollow > 0 {
		list = append(list, fmt.Sprintf("Hollow: with suspect runs (%d of %d).", hollow, len(rows)))
	}
	if unjudged > 0 {
		list = append(list, fmt.Sprintf("Not judged, because vLLM's sweep was not monitored: %s.",
			quantity.Count(unjudged, "run")))
	}
	if len(t.gone) > 0 {
		list = append(list, "Left out: "+t.Gone()+".")
	}
	if t.filtered > 0 {
		list = append(list, fmt.Sprintf("Not within the filter: %s.", quantity.Count(t.filtered, "run")))
	}
	return list
}

// without says of rows that have no number in one of some columns why.
func without(rows []*Row, columns ...string) []string {
	withheld, absent := 0, 0
	for _, r := range rows {
		lacks := func(c string) bool { v := r.Number(c); return v == nil || math.IsNaN(*v) }
		switch {
		case !slices.ContainsFunc(columns, lacks):
		case slices.ContainsFunc(columns, func(c string) bool { return slices.Contains(r.withheld, c) }):
			withheld++
		default:
			absent++
		}
	}
	var list []string
	names := strings.Join(columns, " or ")
	if withheld > 0 {
		list = append(list, fmt.Sprintf("Withheld by the checks of the record: %s of %s.", names,
			quantity.Count(withheld, "run")))
	}
	if absent > 0 {
		list = append(list, fmt.Sprintf("Without a number in %s: %s.", names, quantity.Count(absent, "run")))
	}
	return list
}

// distinct are the values of rows, each once, in their order.
func distinct(rows []*Row, of func(*Row) string) []string {
	var list []string
	seen := map[string]bool{}
	for _, r := range rows {
		if v := of(r); !seen[v] {
			seen[v] = true
			list = append(list, v)
		}
	}
	return list
}

// source names what rows are of, for a title: their scenarios, or else their sweeps.
func sourceOf(rows []*Row) string {
	names := distinct(rows, func(r *Row) string {
		if r.scenario != "" {
			return r.scenario
		}
		return r.test
	})
	if len(names) > 3 {
		names = append(names[:3], fmt.Sprintf("%d more", len(names)-3))
	}
	text := strings.Join(names, ", ")
	if kinds := distinct(rows, func(r *Row) string { return string(r.Kind) }); len(kinds) == 1 && kinds[0] != "" {
		text += " (" + kinds[0] + ")"
	}
	return text
}

// title is the title of a figure about rows.
func title(what string, rows []*Row) string {
	if s := sourceOf(rows); s != "" {
		return what + ": " + s
	}
	return what
}
