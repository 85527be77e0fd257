package dashboard

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/profllm/profllm/pkg/plot/runfiles"
)

type seriesAnswer struct {
	Body struct {
		Tracks   []track          `json:"tracks"`
		Phases   []runfiles.Phase `json:"phases,omitempty"`
		Problems []string         `json:"problems,omitempty"`
	}
}

// track is one number over time.
type track struct {
	Name   string     `json:"name" example:"requests running"`
	Unit   string     `json:"unit,omitempty"`
	Of     string     `json:"of" doc:"a role, a GPU, or a node"`
	Node   string     `json:"node,omitempty"`
	Times  []float64  `json:"times" doc:"Unix milliseconds"`
	Values []*float64 `json:"values" doc:"null where samples are missing before the next"`
}

func (d *Server) series(ctx context.Context, in *experimentInput) (*seriesAnswer, error) {
	s, err := d.store.Get(ctx, in.ID)
	if err != nil {
		return nil, d.failed(err)
	}
	dir, err := d.folderOf(&s.Run)
	if err != nil {
		return nil, huma.Error404NotFound(err.Error())
	}
	over := runfiles.Over(dir, []string{s.Run.Dir})
	a := &seriesAnswer{}
	a.Body.Tracks, a.Body.Phases, a.Body.Problems = []track{}, over.Phases, over.Problems
	const percent, perGiB, perMB = 100, 1.0 / 1024, 1e-6
	for _, x := range []struct {
		name, unit string
		list       []runfiles.Track
		factor     float64
	}{
		{"requests running", "", over.Running, 1}, {"requests waiting", "", over.Waiting, 1},
		{"KV cache in use", "%", over.Cache, percent}, {"tokens generated", "tok/s", over.Tokens, 1},
		{"GPU utilization", "%", over.Use, 1}, {"GPU memory", "GiB", over.Memory, perGiB}, {"GPU power", "W", over.Power, 1},
		{"CPU utilization", "%", over.CPU, 1}, {"memory in use", "GiB", over.HostMemory, perGiB},
		{"network received", "MB/s", over.Received, perMB}, {"network sent", "MB/s", over.Sent, perMB},
		{"disk read", "MB/s", over.Read, perMB}, {"disk written", "MB/s", over.Written, perMB},
	} {
		for _, t := range x.list {
			a.Body.Tracks = append(a.Body.Tracks, trackOf(x.name, x.unit, t, x.factor))
		}
	}
	return a, nil
}

func trackOf(name, unit string, t runfiles.Track, factor float64) track {
	out := track{Name: name, Unit: unit, Of: t.Of, Node: t.Node, Times: []float64{}, Values: []*float64{}}
	before := 0.0
	for i, s := range thinned(t.Samples) {
		if s.Gap && i > 0 {
			out.Times = append(out.Times, before*1000+1)
			out.Values = append(out.Values, nil)
		}
		out.Times, out.Values = append(out.Times, s.At*1000), append(out.Values, new(s.Value*factor))
		before = s.At
	}
	return out
}

// mostSamples is how many samples of a track are sent: more than a chart has pixels.
const mostSamples = 4000

// thinned keeps at most about mostSamples: of each part of the time, the lowest and the highest, so that no
// peak is lost, and every gap.
func thinned(list []runfiles.Sample) []runfiles.Sample {
	if len(list) <= mostSamples {
		return list
	}
	part := (2*len(list) + mostSamples - 1) / mostSamples
	out := make([]runfiles.Sample, 0, mostSamples+2)
	for begin := 0; begin < len(list); {
		end := begin + 1
		for end < len(list) && end < begin+part && !list[end].Gap {
			end++
		}
		low, high := begin, begin
		for i := begin; i < end; i++ {
			if list[i].Value < list[low].Value {
				low = i
			}
			if list[i].Value > list[high].Value {
				high = i
			}
		}
		first, last := list[min(low, high)], list[max(low, high)]
		first.Gap = list[begin].Gap
		if out = append(out, first); low != high {
			out = append(out, last)
		}
		begin = end
	}
	return out
}
