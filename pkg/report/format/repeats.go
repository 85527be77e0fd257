package format

import (
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
)

func repeatsBlock(r *report.Report) block {
	b := block{heading: "Repeats"}
	t := table{header: []string{
		"test", "metric", "n", "median", "interval of the median", "CV %", "median-throughput run",
	}}
	for _, x := range r.Repeats {
		for _, line := range x.Mixed {
			b.say("%s: suspect, the runs of %s are not alike: %s", report.MixedHardware, x.Test, line)
		}
		name, run := x.Test+x.Kind.Suffix(), x.MedianRun
		for _, m := range metric.Usual {
			s, ok := x.Metrics[m.Key]
			if !ok {
				continue
			}
			digits := precision(m)
			interval := "none below 6 runs"
			if s.Low != nil {
				interval = "[" + number(s.Low, digits).text + ", " + number(s.High, digits).text + "]"
			}
			t.row("", cell{text: name}, cell{text: title(m)}, count(s.N),
				number(s.Median, digits), cell{interval, num}, formatted("%.2f", s.CV), cell{text: run})
			name, run = "", "" // once for each test
		}
		for _, s := range x.Series {
			b.say("%s", seriesLine(x.Test+x.Kind.Suffix(), s))
		}
	}
	b.tables = []table{t}
	return b
}

// seriesLine says how many repeats ran, why no more, and what that saved.
func seriesLine(test string, s result.Series) string {
	text := fmt.Sprintf("%s: %d repeats, to know the median of %s to ±%g %%",
		test, s.Done, strings.Join(s.Metrics, ", "), s.Percent)
	if s.Stopped == "" {
		return text + "; the job ended first"
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
