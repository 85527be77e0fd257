package format

import (
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
)

// hostsBlock shows what the nodes did: of each number, that of the busiest node. ok is false if no
// node was sampled.
func hostsBlock(r *report.Report) (b block, ok bool) {
	t := table{header: []string{
		"case", "nodes", "CPU use (%)", "peak CPU (%)", "peak memory (GB)", "net in (MB/s)", "net out (MB/s)",
		"disk read (MB/s)", "disk write (MB/s)",
	}, drop: []int{8, 7, 1}}
	for i := range r.Runs {
		e := &r.Runs[i]
		if !e.Usable || e.Run.Result.System == nil || len(e.Run.Result.System.Host) == 0 {
			continue
		}
		hosts := e.Run.Result.System.Host
		most := func(unit float64, of func(*result.HostUse) *float64) *float64 {
			var most *float64
			for i := range hosts {
				if v := of(&hosts[i]); v != nil && (most == nil || *v*unit > *most) {
					most = new(*v * unit)
				}
			}
			return most
		}
		const mega = 1e-6
		t.row(e.Group, cell{text: e.Label}, count(len(hosts)),
			number(most(1, func(h *result.HostUse) *float64 { return h.CPU }), 1),
			number(most(1, func(h *result.HostUse) *float64 { return h.PeakCPU }), 1),
			number(most(1, func(h *result.HostUse) *float64 { return h.PeakMemory }), 1),
			number(most(mega, func(h *result.HostUse) *float64 { return h.NetIn }), 2),
			number(most(mega, func(h *result.HostUse) *float64 { return h.NetOut }), 2),
			number(most(mega, func(h *result.HostUse) *float64 { return h.DiskRead }), 2),
			number(most(mega, func(h *result.HostUse) *float64 { return h.DiskWrite }), 2))
		t.leads(e.Dir)
	}
	return block{heading: "Busiest node in the client's window", tables: []table{t}}, len(t.rows) > 0
}
