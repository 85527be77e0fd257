package runfiles

import (
	"strings"

	"github.com/profllm/profllm/pkg/host"
	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/regular"
)

// hosts takes the samples of a node. The share of CPU time in use is that since the sample before.
func (r *Run) hosts(dir, name string) error {
	f, _, err := packed.Open(regular.DirFS(dir), name)
	if err != nil {
		return err
	}
	defer f.Close()
	node := strings.TrimSuffix(strings.TrimPrefix(name, "host-"), ".csv")
	var before host.Sample
	return host.Read(f, func(s host.Sample) {
		at := seconds(s.Time)
		if v, ok := busy(before, s); ok {
			add(&r.CPU, node, node, Sample{At: at, Value: v})
		}
		before = s
		if s.Used != nil {
			add(&r.HostMemory, node, node, Sample{At: at, Value: float64(*s.Used) / 1024})
		}
		for _, x := range []struct {
			list  *[]Track
			value *uint64
		}{{&r.Received, s.In}, {&r.Sent, s.Out}, {&r.Read, s.Read}, {&r.Written, s.Write}} {
			if x.value != nil {
				add(x.list, node, node, Sample{At: at, Value: float64(*x.value)})
			}
		}
	})
}

// busy is the share of CPU time in use between two samples, in %. There is none if a counter fell,
// because the node restarted.
func busy(a, b host.Sample) (float64, bool) {
	if a.Busy == nil || a.Ticks == nil || b.Busy == nil || b.Ticks == nil || *b.Ticks <= *a.Ticks || *b.Busy < *a.Busy {
		return 0, false
	}
	return 100 * float64(*b.Busy-*a.Busy) / float64(*b.Ticks-*a.Ticks), true
}
