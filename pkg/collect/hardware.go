package collect

import (
	"math"
	"reflect"
	"slices"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/node"
	"github.com/profllm/profllm/pkg/result"
)

// givenHardware is what all nodes have in common, nil if nobody saw anything, and each of
// them where they are not alike.
func hardware(nodes []node.Report) (*result.Hardware, []result.NodeHardware) {
	var each []result.NodeHardware
	var all []result.Hardware
	differ := false
	for _, n := range nodes {
		h := hardwareOf(n)
		if reflect.DeepEqual(h, result.Hardware{}) {
			continue
		}
		differ = differ || len(all) > 0 && !reflect.DeepEqual(h, all[0])
		all = append(all, h)
		each = append(each, result.NodeHardware{Host: n.Host, Hardware: h})
	}
	if len(all) == 0 {
		return nil, nil
	}
	common := reflect.New(reflect.TypeFor[result.Hardware]()).Elem()
	for i := range common.NumField() {
		var values []any
		for _, h := range all {
			if v := reflect.ValueOf(h).Field(i); !v.IsZero() {
				values = append(values, reflect.Indirect(v).Interface())
			}
		}
		if len(values) == 0 || slices.ContainsFunc(values, func(v any) bool { return v != values[0] }) {
			continue // not known, or not the same: then each node has its own
		}
		for _, h := range all {
			if v := reflect.ValueOf(h).Field(i); !v.IsZero() {
				common.Field(i).Set(v)
				break
			}
		}
	}
	h := common.Interface().(result.Hardware)
	if !differ {
		each = nil
	}
	return &h, each
}

// hardwareOf is one node; what its GPUs have not in common is left out.
func hardwareOf(n node.Report) result.Hardware {
	var h result.Hardware
	if len(n.GPUs) > 0 {
		h.GPUs = new(len(n.GPUs))
		h.GPU = of(n.GPUs, func(d gpu.Device) string { return d.Name })
		h.Driver = of(n.GPUs, func(d gpu.Device) string { return d.Driver })
		h.GPUReader = of(n.GPUs, func(d gpu.Device) string { return d.Reader })
		if total := of(n.GPUs, func(d gpu.Device) int64 { return d.Total }); total > 0 {
			h.GPUMemoryGB = new(float64(total) / 1e9)
		}
		setup := func(d gpu.Device) gpu.Setup {
			if d.Setup == nil {
				return gpu.Setup{}
			}
			return *d.Setup
		}
		h.CUDA = of(n.GPUs, func(d gpu.Device) string { return setup(d).CUDA })
		h.GPUPersistence = of(n.GPUs, func(d gpu.Device) string { return setup(d).Persistence })
		h.GPUMIG = of(n.GPUs, func(d gpu.Device) string { return setup(d).MIG })
		h.GPUPowerLimitW = known(of(n.GPUs, func(d gpu.Device) float64 { return setup(d).PowerLimit }))
		h.GPUMaxClockMHz = known(of(n.GPUs, func(d gpu.Device) float64 { return setup(d).MaxClock }))
	}
	if m := n.Is; m != nil {
		h.Kernel, h.OS, h.CPU, h.CPUs, h.NUMANodes = m.Kernel, m.OS, m.CPU, known(m.CPUs), known(m.NUMA)
		h.MemoryGB = known(math.Round(float64(m.Memory) / 1e9)) // what the kernel keeps differs by some MB
	}
	return h
}

// of is the value that all of a list have, the zero value if they differ.
func of[T any, V comparable](list []T, value func(T) V) V {
	first := value(list[0])
	if slices.ContainsFunc(list, func(x T) bool { return value(x) != first }) {
		var none V
		return none
	}
	return first
}

// known is nil for the zero value.
func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
