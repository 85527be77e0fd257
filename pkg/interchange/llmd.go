package interchange

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/result"
)

// The benchmark report of llm-d-benchmark, schema 0.2 and its revision 0.2.1, which
// adds keys only (llmd_benchmark_report 0.2.1, schema_v0_2.py). Every statistic
// names its unit, and keys that the schema does not name are forbidden in it, except
// below results.observability.

// llmdVersions are the versions that are read.
var llmdVersions = []string{"0.2", "0.2.1"}

func isLLMD(n *node) bool { return n.has("version", "run", "results") }

// llmdLatencies maps keys of aggregate.latency to families.
var llmdLatencies = []struct {
	key    string
	family result.Family
	token  bool // per token
}{
	{"time_to_first_token", result.TTFT, false},
	{"time_per_output_token", result.TPOT, true},
	{"inter_token_latency", result.ITL, true},
	{"request_latency", result.E2EL, false},
}

// llmdStats maps keys of a statistic to ours; in the order in which they are
// written. p50 is the median.
var llmdStats = []struct{ key, stat string }{
	{"mean", "mean"}, {"stddev", "std"}, {"min", "min"}, {"p0p1", "p0.1"}, {"p1", "p1"}, {"p5", "p5"}, {"p10", "p10"},
	{"p25", "p25"},
	{"p50", "median"}, {"p75", "p75"}, {"p90", "p90"}, {"p95", "p95"}, {"p99", "p99"}, {"p99p9", "p99.9"},
	{"max", "max"},
}

// toMS is what a unit has of ms.
func toMS(unit string, token bool) (float64, bool) {
	if token {
		switch unit {
		case "ms/token":
			return 1, true
		case "s/token":
			return 1000, true
		}
		return 0, false
	}
	switch unit {
	case "ms":
		return 1, true
	case "s":
		return 1000, true
	}
	return 0, false
}

func readLLMD(s *source) error {
	if len(s.docs) > 1 {
		return s.docs[1].errorf(s.file, "more than one report in the file")
	}
	doc := s.docs[0]
	version := doc.get("version")
	said := ""
	if version != nil && (version.kind == text || version.kind == scalar) {
		said = version.text
	}
	if !slices.Contains(llmdVersions, said) {
		e := version.errorf(s.file, "benchmark report of version %.20q; 0.2 and 0.2.1 are read", said)
		e.Hint = "convert it with llm-d-benchmark's own program: benchmark-report"
		return e
	}
	version.take()
	aggregate := doc.get("results").get("request_performance").get("aggregate")
	if aggregate == nil || aggregate.kind != table {
		return doc.get("results").errorf(s.file, "no results.request_performance.aggregate")
	}
	it := s.add(0, version.text)
	r := it.Record
	m := &result.Metrics{}
	p := result.Part{Metrics: m}
	s.llmdRun(it, doc.get("run"))
	s.llmdRequests(it, aggregate.get("requests"), m)
	latency := aggregate.get("latency")
	for _, l := range llmdLatencies {
		s.llmdLatency(it, latency.get(l.key), l.key, l.family, l.token, m)
	}
	throughput := aggregate.get("throughput")
	for _, x := range []struct {
		key, unit string
		to        **float64
	}{
		{"input_token_rate", "tokens/s", &m.InputThroughput}, {"output_token_rate", "tokens/s", &m.OutputThroughput},
		{"total_token_rate", "tokens/s", &m.TotalTokenThroughput}, {"request_rate", "queries/s", &m.RequestThroughput},
	} {
		*x.to = s.llmdMean(it, throughput.get(x.key), x.key, x.unit)
	}
	if !m.Measured() {
		s.items = nil
		return aggregate.errorf(s.file, "no request count, latency or throughput that a record can hold")
	}
	p.Benchmark = llmdLoad(doc.get("scenario").get("load").get("standardized"))
	m.MaxConcurrency, m.RequestRate = p.Benchmark.MaxConcurrency, p.Benchmark.RequestRate
	s.llmdStack(it, doc.get("scenario").get("stack"), m)
	s.llmdForbidden(it, aggregate)
	if r.Simulated = slices.Contains(llmdKeywords(doc.get("run")), "simulated"); r.Simulated {
		p.Warnings = append(p.Warnings,
			result.Warning{Kind: "labelled", File: s.file, Key: "run.keywords",
				Text: "the report is labelled simulated"})
	}
	it.finish(doc, p)
	return nil
}

func llmdKeywords(run *node) []string {
	var words []string
	if list := run.get("keywords"); list != nil {
		for _, w := range list.items {
			words = append(words, strings.ToLower(w.text))
		}
	}
	return words
}

// llmdRun reads the name and the time.
func (s *source) llmdRun(it *Item, run *node) {
	it.ID = run.get("uid").str()
	at := run.get("time")
	if start := at.get("start"); start != nil && start.kind == text {
		if t, err := time.Parse(time.RFC3339, start.text); err == nil {
			it.Record.Timestamp = t.UTC()
			start.take()
		} else {
			it.warn(s, start, result.BadValue, "run.time.start", "not a time: %.40q", start.text)
		}
	}
	if d := at.get("duration"); d != nil && d.kind == text {
		if sec, ok := parseISODuration(d.text); ok {
			it.Record.Duration = &sec
			d.take()
		} else {
			it.warn(s, d, result.BadValue, "run.time.duration", "not an ISO 8601 duration: %.40q", d.text)
		}
	}
}

// llmdRequests reads counts. The lengths are means, so that totals are their
// products, where these are whole.
func (s *source) llmdRequests(it *Item, n *node, m *result.Metrics) {
	m.NumPrompts = it.count(s, n.get("total"), "requests.total")
	failures, incomplete := it.count(s, n.get("failures"), "requests.failures"), it.count(s, n.get("incomplete"),
		"requests.incomplete")
	if m.NumPrompts == nil || failures == nil {
		return
	}
	lost := *failures + value(incomplete)
	if lost > *m.NumPrompts {
		it.warn(s, n, result.Contradicts, "requests", "%d of %d requests failed or were not completed", lost,
			*m.NumPrompts)
		return
	}
	m.FailedRequests, m.CompletedRequests = &lost, new(*m.NumPrompts-lost)
	m.NoteDerived("completed_requests")
	for _, x := range []struct {
		key, ours string
		to        **int64
	}{{"input_length", "total_input_tokens", &m.TotalInputTokens},
		{"output_length", "total_output_tokens", &m.TotalOutputTokens}} {
		mean := s.llmdMean(it, n.get(x.key), x.key, "count")
		if mean == nil {
			continue
		}
		sum := *mean * float64(*m.CompletedRequests)
		if whole := math.Round(sum); math.Abs(sum-whole) <= 1e-6*max(1, math.Abs(sum)) && math.Abs(sum) < 1<<53 {
			*x.to = new(int64(whole))
			m.NoteDerived(x.ours)
		}
	}
}

// llmdMean takes the mean of a statistic of the given unit.
func (s *source) llmdMean(it *Item, n *node, key, unit string) *float64 {
	if n == nil {
		return nil
	}
	if u := n.get("units"); u == nil || u.text != unit {
		s.llmdUnit(it, n, key, unit)
		return nil
	}
	v := it.rate(s, n.get("mean"), key+".mean", 1)
	if v != nil && (len(n.keys) == 2 || unit != "count") {
		n.get("units").take() // else it is kept with the statistics that nobody takes
	}
	return v
}

func (s *source) llmdUnit(it *Item, n *node, key, want string) {
	have := "none"
	if u := n.get("units"); u != nil {
		have = fmt.Sprintf("%.20q", u.text)
	}
	it.warn(s, n, result.BadValue, key, "the unit is %s, want %s: left out", have, want)
}

// llmdLatency reads the statistics of a latency by their unit.
func (s *source) llmdLatency(it *Item, n *node, key string, f result.Family, token bool, m *result.Metrics) {
	if n == nil {
		return
	}
	unit := n.get("units")
	ms, ok := 0.0, false
	if unit != nil {
		ms, ok = toMS(unit.text, token)
	}
	if !ok {
		want := "ms or s"
		if token {
			want = "ms/token or s/token"
		}
		s.llmdUnit(it, n, key, want)
		return
	}
	unit.take()
	for _, x := range llmdStats {
		v := n.get(x.key)
		if v == nil {
			continue
		}
		number := v.times(ms)
		if number == nil {
			it.noNumber(s, v, key+"."+x.key)
			continue
		}
		_ = m.SetLatency(f, x.stat, *number) // the names are known ones
	}
}

// llmdKeys are the keys that the schema has below aggregate.
var llmdKeys = map[string][]string{
	"":         {"requests", "latency", "throughput"},
	"requests": {"total", "failures", "incomplete", "input_length", "output_length", "request_size", "multimodal"},
	"latency": {"time_to_first_token", "normalized_time_per_output_token", "time_per_output_token",
		"inter_token_latency", "request_latency"},
	"throughput": {"input_token_rate", "output_token_rate", "total_token_rate", "request_rate", "image_rate",
		"video_rate", "audio_rate"},
}

// llmdForbidden notes keys that the schema forbids: a typing error there loses a
// number.
func (s *source) llmdForbidden(it *Item, aggregate *node) {
	for _, section := range []string{"", "requests", "latency", "throughput"} {
		n := aggregate
		if section != "" {
			n = aggregate.get(section)
		}
		if n == nil {
			continue
		}
		for i, key := range n.keys {
			if !slices.Contains(llmdKeys[section], key) {
				it.warn(s, n.items[i], "unknown-key", strings.TrimPrefix(section+"."+key, "."),
					"the schema forbids this key; its value is kept in provenance.imported.fields")
			}
		}
	}
}

// llmdLoad reads what was asked for. A length that is not fixed is kept, not read.
func llmdLoad(n *node) result.Benchmark {
	var b result.Benchmark
	if tool := n.get("tool").str(); tool != unknown {
		b.Kind = tool
	}
	if rate := n.get("rate_qps").float(); rate != nil {
		b.RequestRate = new(result.Rate(*rate))
	}
	b.MaxConcurrency = n.get("concurrency").whole() // .inf is no cap
	for key, to := range map[string]**int{"input_seq_len": &b.InputTokens, "output_seq_len": &b.OutputTokens} {
		length := n.get(key)
		if d := length.get("distribution"); d != nil && d.text == "fixed" {
			if *to = length.get("value").whole(); *to != nil {
				d.take()
			}
		}
	}
	if source := n.get("source"); source != nil && source.text == "random" {
		b.DatasetName = source.str()
	}
	return b
}

// llmdStack reads the engines: the first of each role is the role's configuration.
func (s *source) llmdStack(it *Item, stack *node, m *result.Metrics) {
	if stack == nil || stack.kind != list {
		return
	}
	r := it.Record
	gpus, counted := 0, false
	for _, c := range stack.items {
		std := c.get("standardized")
		role := "replica"
		switch k := std.get("kind"); {
		case k == nil:
			continue
		case k.text == "inference_engine":
			if v := std.get("role"); v != nil {
				role = v.text
			}
		case k.text != "generic" || std.get("model").get("name") == nil:
			continue
		}
		if r.Provenance.Engine == "" {
			r.Provenance.Engine = std.get("tool").str()
			if v := std.get("tool_version"); v != nil && v.kind == text {
				if strings.ContainsRune(v.text, '/') { // they write the image
					r.Provenance.Image = v.str()
				} else if v.text != unknown {
					r.Provenance.EngineVersion = v.str()
				}
			}
		}
		if name := std.get("model").get("name").str(); name != "" && r.Config.Server["model"] == nil {
			r.Config.Server["model"] = name
		}
		accelerator := std.get("accelerator")
		if gpu := accelerator.get("model").str(); gpu != "" && r.System == nil {
			r.System = &result.System{HardwareInfo: &result.Hardware{GPU: gpu}}
		}
		n, replicas := accelerator.get("count").whole(), std.get("replicas").whole()
		if counted = n != nil && (replicas == nil || *replicas == 1) && (counted || gpus == 0); counted {
			gpus += *n
		}
		it.llmdEngine(role, c, accelerator)
	}
	if counted && gpus > 0 {
		m.GPUs = &gpus
	}
}

// llmdEngine takes the options of an engine.
func (it *Item) llmdEngine(role string, c, accelerator *node) {
	options := map[string]any{}
	if args := c.get("native").get("args"); args != nil && args.kind == table {
		for i, key := range args.keys {
			options[strings.ReplaceAll(strings.TrimLeft(key, "-"), "-", "_")] = args.items[i].plain()
		}
		args.take()
	}
	for key, option := range map[string]string{"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size",
		"dp": "data_parallel_size"} {
		if n := accelerator.get("parallelism").get(key).whole(); n != nil && options[option] == nil {
			options[option] = *n
		}
	}
	r := it.Record
	if role == "prefill" || role == "decode" {
		if !slices.ContainsFunc(r.Config.Roles, func(x result.RoleConfig) bool { return x.Role == role }) {
			r.Config.Roles = append(r.Config.Roles, result.RoleConfig{Role: role, Server: options})
		}
		it.Evidence.Planned.Disaggregated = len(r.Config.Roles) > 1
		return
	}
	for k, v := range options {
		if _, ok := r.Config.Server[k]; !ok {
			r.Config.Server[k] = v
		}
	}
}

var isoDuration = lazyregexp.New(`^P(?:(\d+(?:\.\d+)?)D)?(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?$`)

// parseISODuration reads a duration of days, hours, minutes and seconds, in s.
func parseISODuration(text string) (float64, bool) {
	m := isoDuration.FindStringSubmatch(text)
	if m == nil || strings.Join(m[1:], "") == "" {
		return 0, false
	}
	sum := 0.0
	for i, factor := range []float64{86400, 3600, 60, 1} {
		if m[i+1] != "" {
			v, err := strconv.ParseFloat(m[i+1], 64)
			if err != nil {
				return 0, false
			}
			sum += v * factor
		}
	}
	return sum, !math.IsInf(sum, 0)
}
