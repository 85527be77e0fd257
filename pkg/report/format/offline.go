package format

import (
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/report"
)

// offlineBlock shows the benchmarks without a server; ok is false if there are none.
func offlineBlock(r *report.Report) (b block, ok bool) {
	times := table{header: []string{"case", "verdict", "what", "n", "mean s", "median", "P99"}}
	rates := table{header: []string{"case", "verdict", "requests/s", "total tok/s", "output tok/s"}}
	for i := range r.Runs {
		e := &r.Runs[i]
		if !e.Usable || e.Run.Result.Results.Offline == nil {
			continue
		}
		for _, timing := range metric.Timings {
			if t := timing.Of(e.Run.Result); t != nil {
				size := cell{"n/a", num}
				if t.N != nil {
					size = count(*t.N)
				}
				cells := []cell{{text: e.Label}, {text: shown(e)}, {text: timing.Name}, size}
				times.row(e.Group, append(cells, values(e, timing.Metrics(), 4)...)...)
				times.leads(e.Dir)
			}
		}
		if e.Run.Result.Results.Offline.Throughput != nil {
			cells := []cell{{text: e.Label}, {text: shown(e)}}
			rates.row(e.Group, append(cells, values(e, metric.OfflineRates, 2)...)...)
			rates.leads(e.Dir)
		}
	}
	b = block{heading: "Benchmarks without a server"}
	for _, t := range []table{times, rates} {
		if len(t.rows) > 0 {
			b.tables = append(b.tables, t)
		}
	}
	return b, len(b.tables) > 0
}

// values are what a run has for metrics, with that many decimals.
func values(e *report.Entry, metrics []metric.Metric, digits int) []cell {
	var cells []cell
	for _, m := range metrics {
		cells = append(cells, value(m.Of(e.Run.Result), digits))
	}
	return cells
}
