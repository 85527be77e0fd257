package report

import (
	"fmt"

	"github.com/profllm/profllm/pkg/result"
)

// What the GPUs that served did in the client's window.
var (
	gpuUse = Metric{Key: "avg_gpu_utilization", Name: "GPU use", Unit: "%", Better: Higher, digits: 1, of: func(r *result.Result) *float64 {
		if r.System == nil {
			return nil
		}
		return r.System.AvgGPUUtilization
	}}
	gpuPower   = drawn("gpu_power_w", "GPU power", "W", 0, func(m *result.Metrics) *float64 { return m.GPUPower })
	gpuEnergy  = drawn("gpu_energy_j", "GPU energy", "J", 0, func(m *result.Metrics) *float64 { return m.GPUEnergy })
	perToken   = drawn("joules_per_output_token", "Energy/output token", "J", 3, func(m *result.Metrics) *float64 { return m.JoulesPerOutputToken })
	gpuMetrics = []Metric{gpuUse, gpuPower, gpuEnergy, perToken}
)

func drawn(key, name, unit string, digits int, of func(*result.Metrics) *float64) Metric {
	return Metric{Key: key, Name: name, Unit: unit, Better: Lower, digits: digits, of: func(r *result.Result) *float64 { return of(&r.Results) }}
}

// gpusBlock shows what GPUs did; ok is false if no run sampled any.
func (r *Report) gpusBlock() (b block, ok bool) {
	t := table{header: []string{"case", "GPUs"}}
	for _, m := range gpuMetrics {
		t.header = append(t.header, m.title())
	}
	t.header = append(t.header, "peak memory (GB)", "slowed (% of samples)")
	for i := range r.Runs {
		e := &r.Runs[i]
		if !e.Usable || e.run.Result.System == nil || e.run.Result.System.GPUSamples == nil {
			continue
		}
		s := e.run.Result.System
		n, slowed := 0, Value{}
		for _, u := range s.GPUSamples.GPUs {
			if u.Role == "" {
				continue
			}
			n++
			if x := u.Slowed; x != nil && (slowed.Number == nil || *slowed.Number < 100**x) {
				slowed.Number = new(100 * *x)
			}
		}
		cells := []cell{{text: e.Label}, {fmt.Sprint(n), num}}
		for _, m := range gpuMetrics {
			cells = append(cells, cell{m.Of(e.run.Result).text(m.digits), num})
		}
		t.row(e.Group, append(cells, cell{Value{Number: s.PeakGPUMemoryGB}.text(1), num}, cell{slowed.text(1), num})...)
	}
	return block{heading: "GPUs in the client's window", tables: []table{t}}, len(t.rows) > 0
}
