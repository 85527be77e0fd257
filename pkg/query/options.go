package query

import (
	"context"
	"slices"

	"github.com/profllm/profllm/pkg/field"
)

// Options are what a page of runs is built from.
type Options struct {
	Runs     int           `json:"runs"`
	Fields   []FieldOption `json:"fields" doc:"fields that any run has"`
	Defaults Defaults      `json:"defaults"`
}

// FieldOption is a field with what is known of its values.
type FieldOption struct {
	*field.Field
	Runs     int      `json:"runs" doc:"runs that have a value"`
	Distinct int      `json:"distinct" doc:"different values; 1000 stands for that many or more"`
	Values   []Count  `json:"values,omitempty" doc:"the most frequent values, if there are few"`
	Min      *float64 `json:"min"`
	Max      *float64 `json:"max"`
}

// Defaults are the fields that a page shows at first.
type Defaults struct {
	Facets  []string `json:"facets"`
	Metrics []string `json:"metrics"`
	Columns []string `json:"columns"`
}

// few is the greatest number of values that options list.
const few = 50

// First are the fields that a page shows at first, of which a store has some.
var First = Defaults{
	Facets: []string{
		"verdict", "status", "kind", "cmd_args.model", "gpu", "engine", "engine_version", "scenario", "test", "gpus",
		"cmd_args.tensor_parallel_size", "cmd_args.data_parallel_size", "bench_cmd_args.max_concurrency",
		"bench_cmd_args.request_rate", "cause", "timestamp",
	},
	Metrics: []string{
		"output_throughput", "output_throughput_per_gpu", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "accuracy",
	},
	Columns: []string{
		"timestamp", "case", "verdict", "cmd_args.model", "gpu", "gpus", "cmd_args.tensor_parallel_size",
		"bench_cmd_args.max_concurrency", "output_throughput", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "accuracy",
	},
}

// OptionsOf are the options of a set of runs.
func OptionsOf(ctx context.Context, e Engine) (*Options, error) {
	fields, err := e.Fields(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	got, err := e.Query(ctx, Query{Facets: names, Metrics: names})
	if err != nil {
		return nil, err
	}
	had := func(list []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !slices.Contains(names, name) })
	}
	o := &Options{Runs: got.Runs, Defaults: Defaults{had(First.Facets), had(First.Metrics), had(First.Columns)}}
	for i, f := range fields {
		o.Fields = append(o.Fields, optionOf(f, got.Runs, &got.Facets[i], &got.Metrics[i]))
	}
	return o, nil
}

func optionOf(f *field.Field, runs int, facet *Facet, s *Stats) FieldOption {
	o := FieldOption{
		Field: f, Runs: runs - facet.Missing, Distinct: len(facet.Values), Min: s.Min, Max: s.Max,
	}
	switch {
	case facet.Others > 0:
		o.Distinct = MaxValues
	case len(facet.Values) <= few:
		o.Values = facet.Values
	}
	return o
}
