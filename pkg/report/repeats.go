package report

import (
	"slices"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// Repeats are the runs that measured the same thing more than once: how much they
// vary, and which of them stands for all.
type Repeats struct {
	Test    string            `json:"test"` // with phase and step
	Kind    records.Kind      `json:"kind,omitempty"`
	Key     string            `json:"key"`
	Runs    []string          `json:"runs"` // directories
	Metrics map[string]Spread `json:"metrics"`
	// MedianRun is the directory of the run with the median throughput.
	MedianRun string `json:"median_run,omitempty"`
	// Mixed are the GPUs or drivers, if the runs had several: mixed-hardware.
	Mixed []string `json:"mixed_hardware,omitempty"`
	// Series are those whose number was not fixed, one for each start of the server.
	Series []result.Series `json:"series,omitempty"`

	scenario string
	runs     []*records.Run
}

// addRepeats finds the runs that are alike, of those whose numbers may be shown.
func (r *Report) addRepeats() {
	var list []Repeats
	for i := range r.Runs {
		e := &r.Runs[i]
		if !e.Usable {
			continue
		}
		c := e.Case
		c.Iteration, c.Repeat = 0, 0
		x := Repeats{Test: c.Title(), Kind: e.Kind, Key: e.Run.Key(), scenario: c.Scenario}
		at := slices.IndexFunc(list, func(y Repeats) bool {
			return x.Test == y.Test && x.Kind == y.Kind && x.Key == y.Key && x.scenario == y.scenario
		})
		if at < 0 {
			at, list = len(list), append(list, x)
		}
		list[at].runs, list[at].Runs = append(list[at].runs, e.Run), append(list[at].Runs, e.Dir)
	}
	for _, x := range list {
		if len(x.runs) < 2 {
			continue
		}
		x.Metrics, x.Mixed = map[string]Spread{}, mixed(x.runs)
		for _, m := range metric.Usual {
			numbers := numbersOf(m, x.runs)
			if len(numbers) < 2 {
				continue
			}
			if s, err := spread(numbers); err == nil { // what is not finite made its run invalid
				x.Metrics[m.Key] = s
			}
		}
		if i := throughputMedian(x.runs); i >= 0 {
			x.MedianRun = x.Runs[i]
		}
		x.Series = seriesOf(x.runs)
		r.Repeats = append(r.Repeats, x)
	}
}

// seriesOf lists the series that runs belong to, in their order.
func seriesOf(runs []*records.Run) []result.Series {
	var list []result.Series
	seen := map[string]bool{}
	for _, r := range runs {
		if x := r.Result.Repeats; x != nil && x.Series != nil && !seen[x.Group] {
			seen[x.Group] = true
			list = append(list, *x.Series)
		}
	}
	return list
}
