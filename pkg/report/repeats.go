package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/result"
)

// Repeats are the runs that measured the same thing more than once: how much they
// vary, and which of them stands for all.
type Repeats struct {
	Test    string            `json:"test"` // with phase and step
	Kind    Kind              `json:"kind,omitempty"`
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
	runs     []*Run
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
		x := Repeats{Test: c.Title(), Kind: e.Kind, Key: e.run.Key(), scenario: c.Scenario}
		at := slices.IndexFunc(list, func(y Repeats) bool {
			return x.Test == y.Test && x.Kind == y.Kind && x.Key == y.Key && x.scenario == y.scenario
		})
		if at < 0 {
			at, list = len(list), append(list, x)
		}
		list[at].runs, list[at].Runs = append(list[at].runs, e.run), append(list[at].Runs, e.Dir)
	}
	for _, x := range list {
		if len(x.runs) < 2 {
			continue
		}
		x.Metrics, x.Mixed = map[string]Spread{}, mixed(x.runs)
		for _, m := range judgedMetrics {
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
func seriesOf(runs []*Run) []result.Series {
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

// seriesLine says how many repeats ran, why no more, and what that saved.
func seriesLine(test string, s result.Series) string {
	text := fmt.Sprintf("%s: %d repeats, to know the median of %s to ±%g %%", test, s.Done, strings.Join(s.Metrics, ", "), s.Percent)
	if s.Stopped == "" {
		return text + "; not ended by themselves"
	}
	text += "; stopped: " + s.Stopped
	if s.Why != "" {
		text += ", " + s.Why
	}
	if s.SavedRepeats > 0 {
		text += fmt.Sprintf("; saved %d repeats, %.1f node-minutes", s.SavedRepeats, s.SavedNodeMinutes)
	}
	return text
}

func (r *Report) repeatsBlock() block {
	var lines []string
	t := table{header: []string{"test", "metric", "n", "median", "interval of the median", "CV %", "median-throughput run"}}
	for _, x := range r.Repeats {
		for _, line := range x.Mixed {
			lines = append(lines, printable.Line(fmt.Sprintf("%s: suspect, the runs of %s are not alike: %s", MixedHardware, x.Test, line)))
		}
		name, run := x.Test+kindSuffix(x.Kind), x.MedianRun
		for _, m := range judgedMetrics {
			s, ok := x.Metrics[m.Key]
			if !ok {
				continue
			}
			interval := "none below 6 runs"
			if s.Low != nil {
				interval = "[" + Value{Number: s.Low}.text(m.precision()) + ", " + Value{Number: s.High}.text(m.precision()) + "]"
			}
			t.row("", cell{text: name}, cell{text: m.title()}, cell{strconv.Itoa(s.N), num},
				cell{Value{Number: s.Median}.text(m.precision()), num}, cell{interval, num}, cell{decimals("%.2f", s.CV), num}, cell{text: run})
			name, run = "", "" // once for each test
		}
		for _, s := range x.Series {
			lines = append(lines, printable.Line(seriesLine(x.Test+kindSuffix(x.Kind), s)))
		}
	}
	return block{heading: "Repeats", tables: []table{t}, lines: lines}
}
