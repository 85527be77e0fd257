package collect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/promtext"
	"github.com/profllm/profllm/pkg/result"
)

// Names of NVIDIA Dynamo's pages of counters (dynamo/prometheus_names.py of 1.6.1).
const (
	dynamoFrontend  = "dynamo_frontend_"
	dynamoComponent = "dynamo_component_"
	dynamoRouter    = "dynamo_router_"
)

// countedNames are how the names of the counters begin that a record keeps: of vLLM, and of Dynamo's frontend, router,
// workers and block manager.
var countedNames = []string{"vllm:", dynamoFrontend, dynamoComponent, dynamoRouter, "kvbm_"}

// counted reports whether a record keeps a counter.
func counted(name string) bool {
	if strings.HasSuffix(name, "_bucket") || strings.HasSuffix(name, "_created") {
		return false
	}
	return slices.ContainsFunc(countedNames, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// routing reads what a frontend of Dynamo counted, nil if the page is of another router.
func routing(d *change, others bool) *result.Routing {
	ofDynamo := func(s promtext.Sample) bool { return strings.HasPrefix(s.Name, dynamoFrontend) }
	if !slices.ContainsFunc(d.Samples(), ofDynamo) {
		return nil
	}
	r := &result.Routing{Reset: d.Reset(), Others: others}
	for _, s := range d.Samples() {
		n := int64(s.Value)
		switch name, _ := strings.CutPrefix(s.Name, dynamoFrontend); name {
		case "requests_total":
			r.Requests += n
			if s.Label("status") == "error" && n > 0 {
				r.FailedRequests += n
				if r.Errors == nil {
					r.Errors = map[string]int64{}
				}
				r.Errors[cmp.Or(s.Label("error_type"), "unknown")] += n
			}
		case "model_migration_total":
			r.Migrations += n
		case "model_rejection_total":
			r.Rejected += n
		}
	}
	r.InputTokens = sumOf(d, dynamoFrontend+"input_sequence_tokens_sum")
	r.CachedTokens = sumOf(d, dynamoFrontend+"cached_tokens_sum")
	r.ExpectedTokens = sumOf(d, dynamoComponent+"router_kv_selected_cached_prefix_tokens_total")
	r.BestTokens = sumOf(d, dynamoComponent+"router_kv_best_eligible_cached_prefix_tokens_total")
	if in := r.InputTokens; in != nil && *in > 0 && r.CachedTokens != nil {
		r.HitRate = new(*r.CachedTokens / *in)
	}
	const overhead = dynamoRouter + "overhead_total_ms"
	if n, ok := d.Sum(overhead + "_count"); ok && n > 0 && !d.Reset() {
		ms, _ := d.Sum(overhead + "_sum")
		r.OverheadMS = new(ms / n)
	}
	return r
}

// sumOf is the sum of a counter, nil if the page has none.
func sumOf(d *change, name string) *float64 {
	if v, ok := d.Sum(name); ok {
		return &v
	}
	return nil
}
