// Package inline is the dashboard's page inside one HTML file: its script and style, and some runs as
// columns, from which the script answers what a server would be asked. It needs no server and no
// network. Statistics are not computed again there: what the page has of them was computed here, for all
// of its runs.
//
//	data, err := inline.Pack(runs)
//	fmt.Fprintf(w, `<script type="application/json" id="runs">%s</script>`, data)
//
// web/src/inline.tsx builds the script; web/src/local answers.
package inline

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/profllm/profllm/pkg/columns"
	"github.com/profllm/profllm/pkg/explore"
	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// What web/ builds. The script looks for the elements root, runs, report-style and page-style.
var (
	//go:embed dist/inline.js
	Script string
	//go:embed dist/inline.css
	Style string
)

// Run is a run of the page.
type Run struct {
	Run  *records.Run
	Link string // to its folder; "" for none
}

// data is what the script reads, see web/src/local/source.ts. Script and data are of one build.
type data struct {
	Options   *query.Options          `json:"options"`
	Fixed     map[field.Kind][]string `json:"fixed"` // names of all fields of the release
	IDs       []string                `json:"ids"`
	Columns   []column                `json:"columns"` // of Options.Fields
	Details   []detail                `json:"details"`
	Checks    []result.Check          `json:"checks"`
	Failures  []json.RawMessage       `json:"failures"`
	Frontiers []frontier              `json:"frontiers"`
	// Of all runs, by metric; none of more runs than an analysis reads.
	Impacts  map[string]*explore.ImpactReport  `json:"impacts,omitempty"`
	Scalings map[string]*explore.ScalingReport `json:"scalings,omitempty"`
}

// detail is what is known of a run besides its values.
type detail struct {
	Link     string   `json:"link,omitempty"`
	Problem  string   `json:"problem,omitempty"`
	Speed    int      `json:"simulated_speed,omitempty"`
	Words    []string `json:"words,omitempty"`
	Withheld []string `json:"withheld,omitempty"`
	Checks   []int    `json:"checks,omitempty"`  // places in data.Checks
	Failure  *int     `json:"failure,omitempty"` // place in data.Failures
}

// frontier is that of all runs in two of the metrics that a page shows at first.
type frontier struct {
	X    string `json:"x"`
	Y    string `json:"y"`
	Kind string `json:"kind"`
	Runs []int  `json:"runs"`
}

// Pack gives runs as the script reads them: JSON without <, so that no text of a run ends the block it stands
// in. The same runs give the same bytes.
func Pack(runs []Run) ([]byte, error) {
	list := make([]query.Run, len(runs))
	ids := map[string]bool{}
	for i, r := range runs {
		list[i] = query.Run{ID: idOf(r.Run, ids), Cells: field.Of(r.Run)}
	}
	d, err := pack(list)
	if err != nil {
		return nil, err
	}
	d.addDetails(runs)
	d.addFrontiers(list)
	d.addAnalyses(runs)
	return json.Marshal(d)
}

// idOf is the run's id in the page, as a store gives ids: the run id, with ~2 for another run that has the same.
func idOf(r *records.Run, had map[string]bool) string {
	name := cmp.Or(r.Dir, "run")
	if r.Result != nil {
		name = cmp.Or(r.Result.RunID, name)
	}
	id := name
	for n := 2; had[id]; n++ {
		id = fmt.Sprintf("%s~%d", name, n)
	}
	had[id] = true
	return id
}

// pack gives the values of runs.
func pack(runs []query.Run) (*data, error) {
	table := columns.New()
	table.PutAll(runs)
	options, err := query.OptionsOf(context.Background(), table)
	if err != nil {
		return nil, err
	}
	d := &data{Options: options, Fixed: map[field.Kind][]string{}, IDs: make([]string, len(runs)), Columns: []column{}}
	for _, f := range field.All() {
		d.Fixed[f.Kind] = append(d.Fixed[f.Kind], f.Name)
	}
	places := map[string]int{}
	for i := range options.Fields {
		options.Fields[i].Values = nil // the script counts them
		places[options.Fields[i].Name] = i
	}
	values := make([][]field.Value, len(options.Fields))
	for i := range values {
		values[i] = make([]field.Value, len(runs))
	}
	for i, r := range runs {
		d.IDs[i] = r.ID
		for _, c := range r.Cells {
			if v := &values[places[c.Field.Name]][i]; !v.Has() && c.Value.Has() {
				*v = c.Value
			}
		}
	}
	for _, list := range values {
		d.Columns = append(d.Columns, columnOf(list))
	}
	return d, nil
}

// column is the values of one field: of each run, or a list of the different ones and each run's place in it.
type column struct {
	List   []field.Value `json:"list,omitempty"`
	Values []field.Value `json:"values,omitempty"`
	Codes  []int         `json:"codes,omitempty"` // from 1, 0 for no value; none if all runs have the only value
}

func columnOf(list []field.Value) column {
	places := map[field.Value]int{}
	c := column{Codes: make([]int, len(list))}
	gaps := false
	for i, v := range list {
		if !v.Has() {
			gaps = true
			continue
		}
		if places[v] == 0 {
			c.Values = append(c.Values, v)
			places[v] = len(c.Values)
		}
		c.Codes[i] = places[v]
	}
	switch {
	case len(c.Values) == 1 && !gaps:
		c.Codes = nil
	case 2*len(c.Values) > len(list):
		return column{List: list}
	}
	return c
}

func (d *data) addDetails(runs []Run) {
	checks, failures := map[result.Check]int{}, map[string]int{}
	d.Details, d.Checks, d.Failures = make([]detail, len(runs)), []result.Check{}, []json.RawMessage{}
	for i, r := range runs {
		one := &d.Details[i]
		one.Link = r.Link
		res := r.Run.Result
		if res == nil {
			one.Problem = problem(r.Run)
			continue
		}
		one.Speed = res.SimulatedSpeed
		if v := res.Validity; v != nil {
			one.Words, one.Withheld = v.Words, v.Withheld
			for _, c := range v.Checks {
				c.OldID = ""
				one.Checks = append(one.Checks, place(checks, &d.Checks, c, c))
			}
		}
		if res.Failure != nil {
			if text, err := json.Marshal(res.Failure); err == nil {
				one.Failure = new(place(failures, &d.Failures, string(text), text))
			}
		}
	}
}

// place is the place of a thing in a list, to which it is added if it is new.
func place[K comparable, T any](known map[K]int, list *[]T, key K, thing T) int {
	at, ok := known[key]
	if !ok {
		at = len(*list)
		known[key], *list = at, append(*list, thing)
	}
	return at
}

// problem says why a run has no record.
func problem(r *records.Run) string {
	switch {
	case r.NoJob != "" && r.Refusal != "":
		return r.NoJob + ": " + r.Refusal
	case r.NoJob != "":
		return r.NoJob
	case r.Problem != "":
		return "no record: " + r.Problem
	}
	return "no record"
}

// mostAnalysed is the greatest number of runs of which a page has analyses, as in the dashboard.
const mostAnalysed = 5000

// addAnalyses adds what all runs say of their settings, for each metric that the page shows at first.
func (d *data) addAnalyses(runs []Run) {
	if len(runs) > mostAnalysed {
		return
	}
	list := make([]explore.Run, len(runs))
	for i := range runs {
		list[i] = explore.Run{ID: d.IDs[i], Run: *runs[i].Run}
	}
	d.Impacts, d.Scalings = map[string]*explore.ImpactReport{}, map[string]*explore.ScalingReport{}
	for _, name := range d.Options.Defaults.Metrics {
		if m, err := metric.Find(name); err == nil {
			d.Impacts[name], d.Scalings[name] = explore.Impacts(list, m), explore.Scalings(list, m)
		}
	}
}

// addFrontiers adds those of each two metrics that the page shows at first.
func (d *data) addFrontiers(runs []query.Run) {
	d.Frontiers = []frontier{}
	metrics := d.Options.Defaults.Metrics
	for i, x := range metrics {
		for _, y := range metrics[i+1:] {
			if f := frontierOf(runs, x, y); len(f.Runs) > 0 {
				d.Frontiers = append(d.Frontiers, f)
			}
		}
	}
}

func frontierOf(runs []query.Run, x, y string) frontier {
	out := frontier{X: x, Y: y}
	fx, errX := field.Find(x)
	fy, errY := field.Find(y)
	if errX != nil || errY != nil {
		return out
	}
	best := explore.NewFrontier[int](fx, fy)
	for i := range runs {
		if r := &runs[i]; r.Of("verdict").Text == string(result.VerdictValid) {
			best.Add(r.Of("kind").Text, r.Of(x), r.Of(y), func() int { return i })
		}
	}
	out.Runs, out.Kind = best.Runs(func(i, j int) int { // as the dashboard orders them
		a, b := &runs[i], &runs[j]
		return cmp.Or(cmp.Compare(b.Of("timestamp").Number, a.Of("timestamp").Number), cmp.Compare(a.ID, b.ID))
	})
	return out
}
