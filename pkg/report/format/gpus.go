package format

import (
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
)

// gpusBlock shows what GPUs did; ok is false if no run sampled any.
func gpusBlock(r *report.Report) (b block, ok bool) {
	t := table{header: []string{"case", "GPUs"}}
	for _, m := range metric.GPU {
		t.header = append(t.header, title(m))
	}
	t.header = append(t.header, "peak memory (GB)", "slowed (% of samples)")
	for i := range r.Runs {
		e := &r.Runs[i]
		if !e.Usable || e.Run.Result.System == nil || e.Run.Result.System.GPUSamples == nil {
			continue
		}
		s := e.Run.Result.System
		n, slowed := serving(s.GPUSamples.GPUs)
		cells := []cell{{text: e.Label}, count(n)}
		for _, m := range metric.GPU {
			cells = append(cells, value(m.Of(e.Run.Result), m.Digits))
		}
		t.row(e.Group, append(cells, number(s.PeakGPUMemoryGB, 1), number(slowed, 1))...)
		t.leads(e.Dir)
	}
	return block{heading: "GPUs in the client's window", tables: []table{t}}, len(t.rows) > 0
}

// serving counts the GPUs that served; slowed is the largest share of samples, in
// percent, in which one of them was slowed, nil if it is not known.
func serving(gpus []result.GPUUse) (n int, slowed *float64) {
	for _, u := range gpus {
		if u.Role == "" {
			continue
		}
		n++
		if x := u.Slowed; x != nil && (slowed == nil || *slowed < 100**x) {
			slowed = new(100 * *x)
		}
	}
	return n, slowed
}
