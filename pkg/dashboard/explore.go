package dashboard

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/profllm/profllm/pkg/explore"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/metric"
)

// exploreInput asks what settings do to one metric.
type exploreInput struct {
	Body struct {
		Filter *filter.Filter `json:"filter,omitempty"`
		Metric string         `json:"metric" example:"output_throughput"`
	}
}

type impactAnswer struct{ Body *explore.ImpactReport }

type scalingAnswer struct{ Body *explore.ScalingReport }

type capacityInput struct {
	Body struct {
		Filter *filter.Filter `json:"filter,omitempty"`
		Metric string         `json:"metric,omitempty" default:"output_throughput" doc:"what the target is of"`
		Target float64        `json:"target,omitempty" minimum:"0" doc:"in the metric's unit; 0: none"`
		Limits []string       `json:"limits,omitempty" maxItems:"20" doc:"such as p99_ttft_ms=500: at most, or at least where more is better"`
	}
}

type capacityAnswer struct{ Body *explore.Capacity }

func (d *Server) addExplore() {
	op := func(id, summary string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: http.MethodPost, Path: "/api/analysis/" + id, Summary: summary, MaxBodyBytes: maxQuery,
		}
	}
	huma.Register(d.api, op("impact", "Which setting moves a metric, in pairs of runs that differ in nothing else"),
		analysed(d, func(ctx context.Context, in *exploreInput) (*impactAnswer, error) {
			m, err := metric.Find(in.Body.Metric)
			if err != nil {
				return nil, refused(err)
			}
			runs, err := d.these(ctx, in.Body.Filter)
			if err != nil {
				return nil, err
			}
			return &impactAnswer{explore.Impacts(runs, m)}, nil
		}))
	huma.Register(d.api, op("scaling", "How throughput grows with the number of GPUs"),
		analysed(d, func(ctx context.Context, in *exploreInput) (*scalingAnswer, error) {
			m, err := metric.Find(in.Body.Metric)
			if err != nil {
				return nil, refused(err)
			}
			runs, err := d.these(ctx, in.Body.Filter)
			if err != nil {
				return nil, err
			}
			return &scalingAnswer{explore.Scalings(runs, m)}, nil
		}))
	huma.Register(d.api, op("capacity", "Which configuration serves a load within limits, on how many GPUs"), analysed(d, d.capacity))
}

func (d *Server) capacity(ctx context.Context, in *capacityInput) (*capacityAnswer, error) {
	m, err := metric.Find(in.Body.Metric)
	if err != nil {
		return nil, refused(err)
	}
	var limits []metric.Limit
	for _, text := range in.Body.Limits {
		l, err := metric.ReadLimit(text)
		if err != nil {
			return nil, refused(err)
		}
		limits = append(limits, l)
	}
	runs, err := d.these(ctx, in.Body.Filter)
	if err != nil {
		return nil, err
	}
	return &capacityAnswer{explore.Capacities(runs, m, limits, in.Body.Target)}, nil
}
