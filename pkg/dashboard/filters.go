package dashboard

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/query"
)

// Options are what a page can be built from.
type optionsAnswer struct {
	Body struct {
		Runs     int           `json:"runs"`
		Fields   []fieldOption `json:"fields" doc:"fields that any run has"`
		Defaults defaults      `json:"defaults"`
		Version  string        `json:"version"`
		Demo     bool          `json:"demo"`
		ReadOnly bool          `json:"readonly"`
		Auth     bool          `json:"auth" doc:"writes need a token"`
	}
}

// fieldOption is a field with what is known of its values.
type fieldOption struct {
	*field.Field
	Runs     int           `json:"runs" doc:"runs that have a value"`
	Distinct int           `json:"distinct" doc:"different values; 1000 stands for that many or more"`
	Values   []query.Count `json:"values,omitempty" doc:"the most frequent values, if there are few"`
	Min      *float64      `json:"min"`
	Max      *float64      `json:"max"`
}

// defaults are the fields that a page shows at first.
type defaults struct {
	Facets  []string `json:"facets"`
	Metrics []string `json:"metrics"`
	Columns []string `json:"columns"`
}

// few is the greatest number of values that options list.
const few = 50

// The fields that a page shows at first, of which a store has some.
var (
	firstFacets = []string{
		"verdict", "status", "kind", "cmd_args.model", "gpu", "engine", "engine_version", "scenario", "test", "gpus",
		"cmd_args.tensor_parallel_size", "cmd_args.data_parallel_size", "bench_cmd_args.max_concurrency",
		"bench_cmd_args.request_rate", "cause", "timestamp",
	}
	firstMetrics = []string{
		"output_throughput", "output_throughput_per_gpu", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "accuracy",
	}
	firstColumns = []string{
		"timestamp", "case", "verdict", "cmd_args.model", "gpu", "gpus", "cmd_args.tensor_parallel_size",
		"bench_cmd_args.max_concurrency", "output_throughput", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "accuracy",
	}
)

func (d *Server) addFilters() {
	huma.Register(d.api, huma.Operation{
		OperationID: "filter-options", Method: http.MethodGet, Path: "/api/filters/options",
		Summary: "The fields that runs have, and their values",
	}, func(ctx context.Context, _ *struct{}) (*optionsAnswer, error) { return d.options(ctx) })
	huma.Register(d.api, huma.Operation{
		OperationID: "apply-filter", Method: http.MethodPost, Path: "/api/filters/apply",
		Summary: "The runs that meet a filter: how many, counts of values, statistics, rows", MaxBodyBytes: maxQuery,
	}, d.apply)
	d.addPresets()
}

func (d *Server) options(ctx context.Context) (*optionsAnswer, error) {
	fields, err := d.store.Fields(ctx)
	if err != nil {
		return nil, failed(err)
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	got, err := d.store.Query(ctx, query.Query{Facets: names, Metrics: names})
	if err != nil {
		return nil, failed(err)
	}
	a := &optionsAnswer{}
	b := &a.Body
	b.Runs, b.Version, b.Demo, b.ReadOnly, b.Auth = got.Runs, d.opts.Version, d.opts.Demo, d.opts.ReadOnly, d.opts.Token != ""
	for i, f := range fields {
		facet, s := got.Facets[i], got.Metrics[i]
		o := fieldOption{
			Field: f, Runs: got.Runs - facet.Missing, Distinct: len(facet.Values), Min: s.Min, Max: s.Max,
		}
		switch {
		case facet.Others > 0:
			o.Distinct = query.MaxValues
		case len(facet.Values) <= few:
			o.Values = facet.Values
		}
		b.Fields = append(b.Fields, o)
	}
	had := func(list []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !slices.Contains(names, name) })
	}
	b.Defaults = defaults{had(firstFacets), had(firstMetrics), had(firstColumns)}
	return a, nil
}

type applyInput struct{ Body query.Query }

type applyAnswer struct{ Body applied }

type applied struct {
	query.Answer
	TookMS float64 `json:"took_ms" doc:"time in the store"`
}

// writeJSON writes the rows by themselves: encoding/json would read their text once more, which takes longer than to
// write it.
func (a applied) writeJSON(w io.Writer) error {
	rows := a.Rows
	a.Rows = nil
	text, err := json.Marshal(a)
	if err == nil && rows != nil {
		var table []byte
		table, err = rows.MarshalJSON()
		text = append(append(append(text[:len(text)-1], `,"rows":`...), table...), '}')
	}
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	return err
}

func (d *Server) apply(ctx context.Context, in *applyInput) (*applyAnswer, error) {
	if err := in.Body.Check(); err != nil {
		return nil, refused(err)
	}
	began := time.Now()
	got, err := d.store.Query(ctx, in.Body)
	if err != nil {
		return nil, failed(err)
	}
	a := &applyAnswer{}
	a.Body.Answer, a.Body.TookMS = *got, float64(time.Since(began).Microseconds())/1000
	return a, nil
}
