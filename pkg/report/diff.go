package report

import (
	"fmt"
	"maps"
	"slices"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
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
func Diff(a, b *records.Run) (*Delta, error) {
	d := &Delta{Schema: DiffSchema, First: a.Dir, Second: b.Dir}
	for i, r := range []*records.Run{a, b} {
		if r.Result == nil {
			return nil, fmt.Errorf("%s: %s", r.Dir, r.Problem)
		}
		d.Simulated = d.Simulated || r.Result.Simulated
		var err error
		if d.Fingerprints[i], err = fingerprint(r); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Dir, err)
		}
	}
	d.Same = d.Fingerprints[0] != "" && d.Fingerprints[0] == d.Fingerprints[1]
	var differs []Unlike
	d.NotComparable, differs = unlike([]*records.Run{a}, []*records.Run{b})
	d.Causal = Causal(differs)
	first, second := fieldsOf(a), fieldsOf(b)
	for _, name := range groupsOf(first, second) {
		d.Groups = append(d.Groups, newGroup(name, first[name], second[name]))
	}
	d.addNumbers([]*records.Run{a, b})
	return d, nil
}

// fingerprint is that of a run's configuration; "" if the record does not know all
// that was asked.
func fingerprint(r *records.Run) (string, error) {
	if r.Pieced {
		return "", nil
	}
	asked := *r.Result
	asked.Config.Settings = r.Settings // of an older record they are the plan's
	return asked.Fingerprint()
}

func newGroup(name string, first, second map[string]string) DeltaGroup {
	g := DeltaGroup{Name: name, Differs: []Unlike{}}
	keys := map[string]bool{}
	for _, fields := range []map[string]string{first, second} {
		for k := range fields {
			keys[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if x, y := first[k], second[k]; x != y {
			g.Differs = append(g.Differs, Unlike{Field: k, First: x, Second: y})
		} else {
			g.Same++
		}
	}
	return g
}

// addNumbers takes the metrics of a comparison that a run has.
func (d *Delta) addNumbers(runs []*records.Run) {
	seen := map[string]bool{}
	for _, s := range sections {
		for _, m := range s.metrics {
			row := newRow(m, runs)
			if !seen[m.Key] && (row.Values[0] != metric.Value{} || row.Values[1] != metric.Value{}) {
				d.Numbers = append(d.Numbers, row)
			}
			seen[m.Key] = true
		}
	}
}
