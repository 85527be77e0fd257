package report

import (
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// offlineStats are what is shown of a timing, by the end of its key.
var offlineStats = []struct{ key, name string }{{"mean_s", "mean"}, {"percentiles_s.50", "median"}, {"percentiles_s.99", "P99"}}

// offlineNames are the timings of benchmarks without a server, by their keys, in the
// order of the record.
var offlineNames = []struct{ key, name string }{
	{"batch.latency", "batch latency"},
	{"startup.cold", "cold start"}, {"startup.cold_compilation", "compilation, cold"}, {"startup.cold_encoder_compilation", "encoder compilation, cold"},
	{"startup.warm", "warm start"}, {"startup.warm_compilation", "compilation, warm"}, {"startup.warm_encoder_compilation", "encoder compilation, warm"},
}

// offlineRates are those of vllm bench throughput.
var offlineRates = []Metric{
	offlineRate("request_throughput", "offline requests", "1/s", func(t *result.OfflineThroughput) *float64 { return t.RequestThroughput }),
	offlineRate("total_token_throughput", "offline total throughput", "tok/s", func(t *result.OfflineThroughput) *float64 { return t.TotalTokenThroughput }),
	offlineRate("output_throughput", "offline throughput", "tok/s", func(t *result.OfflineThroughput) *float64 { return t.OutputThroughput }),
}

func offlineRate(key, name, unit string, of func(*result.OfflineThroughput) *float64) Metric {
	return rate("offline.throughput."+key, name, unit, func(m *result.Metrics) *float64 {
		if m.Offline == nil || m.Offline.Throughput == nil {
			return nil
		}
		return of(m.Offline.Throughput)
	})
}

// offlineMetrics are all that may be asked for, as in a record below results.
func offlineMetrics() []Metric {
	var all []Metric
	for _, n := range offlineNames {
		for _, s := range offlineStats {
			all = append(all, timingMetric(n.key, s.key, n.name+" "+s.name))
		}
	}
	return append(all, offlineRates...)
}

func timingMetric(timing, stat, name string) Metric {
	return Metric{Key: "offline." + timing + "." + stat, Name: name, Unit: "s", Better: Lower, digits: 4, of: func(r *result.Result) *float64 {
		t := timingOf(r, timing)
		if t == nil {
			return nil
		}
		rank, percentile := strings.CutPrefix(stat, "percentiles_s.")
		if !percentile {
			return t.Mean
		}
		if v, ok := t.Percentiles[rank]; ok {
			return &v
		}
		return nil
	}}
}

// timingOf is nil if the record has no such timing.
func timingOf(r *result.Result, name string) *result.Timing {
	if r.Results.Offline == nil {
		return nil
	}
	for _, t := range r.Results.Offline.Timings() {
		if t.Name == name {
			return t.Timing
		}
	}
	return nil
}

// offlineOnly reports whether a run has no numbers of a served load, so that it has
// nothing to show beside runs that have.
func (e *Entry) offlineOnly() bool {
	r := e.run.Result
	return r != nil && r.Results.Offline != nil && r.Results.CompletedRequests == nil
}

// offlineBlock shows the benchmarks without a server.
func (r *Report) offlineBlock() (block, bool) {
	times := table{header: []string{"case", "verdict", "what", "n", "mean s", "median", "P99"}}
	rates := table{header: []string{"case", "verdict", "requests/s", "total tok/s", "output tok/s"}}
	for i := range r.Runs {
		e := &r.Runs[i]
		if !e.Usable || e.run.Result.Results.Offline == nil {
			continue
		}
		for _, n := range offlineNames {
			t := timingOf(e.run.Result, n.key)
			if t == nil {
				continue
			}
			size := cell{"n/a", num}
			if t.N != nil {
				size = cell{Value{Number: new(float64(*t.N))}.text(0), num}
			}
			cells := []cell{{text: e.Label}, {text: e.shown()}, {text: n.name}, size}
			for _, s := range offlineStats {
				cells = append(cells, cell{timingMetric(n.key, s.key, "").Of(e.run.Result).text(4), num})
			}
			times.row(e.Group, cells...)
		}
		if e.run.Result.Results.Offline.Throughput != nil {
			cells := []cell{{text: e.Label}, {text: e.shown()}}
			for _, m := range offlineRates {
				cells = append(cells, cell{m.Of(e.run.Result).text(2), num})
			}
			rates.row(e.Group, cells...)
		}
	}
	b := block{heading: "Benchmarks without a server"}
	for _, t := range []table{times, rates} {
		if len(t.rows) > 0 {
			b.tables = append(b.tables, t)
		}
	}
	return b, len(b.tables) > 0
}

// offlineTiming takes the key of a timing apart: its name as programs write names,
// and the statistic as latencies have it.
func offlineTiming(key string) (name, stat string, ok bool) {
	for _, n := range offlineNames {
		if rest, found := strings.CutPrefix(key, "offline."+n.key+"."); found {
			stat := map[string]string{"mean_s": "mean", "percentiles_s.50": "median"}[rest]
			if p, found := strings.CutPrefix(rest, "percentiles_s."); found && stat == "" {
				stat = "p" + p
			}
			return strings.ReplaceAll(n.key, ".", "_"), stat, true
		}
	}
	return "", "", false
}
