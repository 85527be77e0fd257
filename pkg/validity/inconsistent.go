package validity

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// inconsistent finds every way in which a report can contradict itself.
func inconsistent(c *facts) answer {
	bad := append(c.warnings(result.NotFinite), c.warnings(result.Contradicts)...)
	bad = append(bad, negatives(c.m)...)
	if o := c.m.Offline; o != nil {
		more, compared := offlineContradictions(o, c.m.FromLog, c.limit("rate_deviation"))
		if bad = append(bad, more...); len(bad) > 0 {
			return fail("%s", list(bad))
		}
		return pass("%d means and rates agree with their totals", compared)
	}
	if len(bad) == 0 && c.m.CompletedRequests == nil && !(c.imported() && c.m.Measured()) {
		return notPossible("no benchmark result")
	}
	bad = append(bad, disorders(c)...)
	rates, compared := c.rateContradictions()
	bad = append(bad, rates...)
	if done := c.m.CompletedRequests; done != nil {
		bad = append(append(bad, c.impossibleExtras(*done)...), c.otherLoad()...)
	}
	bad = append(bad, c.withoutWindow()...)
	if len(bad) > 0 {
		return fail("%s", list(bad))
	}
	return pass("%d rates agree with totals, %d latencies are in order", compared, len(c.m.Latency))
}

// rateContradictions compares each rate times the window with its total.
func (c *facts) rateContradictions() (bad []string, compared int) {
	m := c.m
	if m.Duration == nil || m.CompletedRequests == nil {
		return nil, 0
	}
	d := *m.Duration
	if d <= 0 && *m.CompletedRequests > 0 {
		return []string{fmt.Sprintf("%d requests in %v s", *m.CompletedRequests, d)}, 0
	}
	var in, out float64
	if m.TotalInputTokens != nil {
		in = float64(*m.TotalInputTokens)
	}
	if m.TotalOutputTokens != nil {
		out = float64(*m.TotalOutputTokens)
	}
	for _, x := range []struct {
		key   string
		rate  *float64
		total float64
		known bool
	}{
		{"request_throughput", m.RequestThroughput, float64(*m.CompletedRequests), true},
		{"output_throughput", m.OutputThroughput, out, m.TotalOutputTokens != nil},
		{"input_throughput", m.InputThroughput, in, m.TotalInputTokens != nil},
		{"total_token_throughput", m.TotalTokenThroughput, in + out, m.TotalInputTokens != nil},
	} {
		if x.rate == nil || !x.known {
			continue
		}
		compared++
		off := math.Abs(*x.rate*d - x.total)
		allowed := c.limit("rate_deviation") * math.Abs(x.total)
		if cut := m.CutRequests; cut != nil && *m.CompletedRequests > 0 {
			allowed += *cut * math.Abs(x.total) / float64(*m.CompletedRequests)
		}
		if m.FromLog { // both factors were rounded to two decimals
			allowed += logRounding*d + logRounding*math.Abs(*x.rate)
		}
		if !(off <= allowed) {
			bad = append(bad, fmt.Sprintf("%s %.4g x %.4g s is %.6g, not %.6g", x.key, *x.rate, d, *x.rate*d, x.total))
		}
	}
	return bad, compared
}

// negatives lists measured values below zero, whatever they are: counts, rates, latencies,
// times. Counters of servers may fall, and are judged as such.
func negatives(m *result.Metrics) []string {
	var bad []string
	note := func(key string, v float64) {
		if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			bad = append(bad, fmt.Sprintf("%s is %v", key, v))
		}
	}
	for _, part := range []any{m.Counts, m.Rates, m.Peaks, m.Speculation, m.Diffusion, m.Probes} {
		eachNumber(reflect.ValueOf(part), "", note)
	}
	eachNumber(reflect.ValueOf(m.SteadyState), "steady_state", note)
	eachNumber(reflect.ValueOf(m.Offline), "offline", note)
	eachNumber(reflect.ValueOf(m.Client), "client", note)
	for f, d := range m.Latency {
		if d.N != nil {
			note("n_"+string(f), float64(*d.N))
		}
		for _, s := range d.Statistics() {
			note(f.Key(s.Name), s.Value)
		}
	}
	slices.Sort(bad)
	return bad
}

// eachNumber visits the numbers of a part of a record by their keys. A Rate, which was
// asked for and may be infinite, is none.
func eachNumber(v reflect.Value, key string, visit func(key string, v float64)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && v.Type() != reflect.TypeFor[*result.Rate]() {
			eachNumber(v.Elem(), key, visit)
		}
	case reflect.Float64:
		visit(key, v.Float())
	case reflect.Int, reflect.Int64:
		visit(key, float64(v.Int()))
	case reflect.Slice:
		for i := range v.Len() {
			eachNumber(v.Index(i), key, visit)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			eachNumber(v.MapIndex(k), key+"."+k.String(), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if name != "" {
				eachNumber(v.Field(i), strings.TrimPrefix(key+"."+name, "."), visit)
			}
		}
	}
}

// disorders lists percentiles that fall with their rank, and means outside
// of the sample's range.
func disorders(c *facts) []string {
	var bad []string
	for _, f := range result.Families() {
		d := c.m.Latency[f]
		lo, hi := c.bounds(f, d)
		type point struct{ rank, value float64 }
		points := []point{{-1, lo}}
		for _, rank := range slices.Sorted(maps.Keys(d.Percentiles)) {
			points = append(points, point{rank, d.Percentiles[rank]})
		}
		if d.Median != nil {
			points = append(points, point{50, *d.Median})
		}
		points = append(points, point{101, hi})
		slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.rank, b.rank) })
		for i := 1; i < len(points); i++ {
			a, b := points[i-1], points[i]
			if b.value < a.value && !c.nearly(a.value, b.value) {
				bad = append(bad,
					fmt.Sprintf("%s: %.6g ms at rank %g is above %.6g ms at rank %g", f, a.value, a.rank, b.value,
						b.rank))
			}
		}
		if d.Mean != nil && (*d.Mean < lo && !c.nearly(*d.Mean, lo) || *d.Mean > hi && !c.nearly(*d.Mean, hi)) {
			bad = append(bad, fmt.Sprintf("mean %s %.6g ms is outside %.6g to %.6g ms", f, *d.Mean, lo, hi))
		}
	}
	return bad
}

// bounds returns the least and largest value of a family's sample as far as
// they are known, in ms.
func (c *facts) bounds(f result.Family, d result.Distribution) (lo, hi float64) {
	lo, hi = math.Inf(-1), math.Inf(1)
	if v := d.Min; v != nil {
		lo = *v
	} else if v, ok := d.Percentiles[0]; ok {
		lo = v
	}
	if v := d.Max; v != nil {
		hi = *v
	} else if v, ok := d.Percentiles[100]; ok {
		hi = v
	}
	s := c.e.Samples
	if s == nil || d.Min != nil || d.Max != nil {
		return lo, hi
	}
	var values []float64
	switch f {
	case result.TTFT:
		values = s.TTFT
	case result.E2EL:
		values = s.Latency
	}
	var good []float64
	for i, v := range values {
		if !s.Failed(i) {
			good = append(good, v*1000)
		}
	}
	if len(good) > 0 {
		lo, hi = slices.Min(good), slices.Max(good)
	}
	return lo, hi
}

// nearly allows for the last bits of a float, and for two decimals in a log.
func (c *facts) nearly(a, b float64) bool {
	off := math.Abs(a - b)
	return off <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) || c.m.FromLog && off <= 2*logRounding
}
