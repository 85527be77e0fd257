package interchange

import (
	"errors"
	"fmt"
	"time"

	"github.com/profllm/profllm/pkg/result"
)

// benchmark-rollup.json of srt-slurm: one row for each concurrency (sa-bench, aiperf)
// or for each run of LoadGen (mlperf), from src/srtctl/benchmarks/scripts/*/rollup.py.

func isSRTSlurm(n *node) bool { return n.has("benchmark_type", "runs") }

func readSRTSlurm(s *source) error {
	doc := s.docs[0]
	runs := doc.get("runs")
	if runs == nil || runs.kind != list {
		return doc.errorf(s.file, "runs is not a list")
	}
	tool := doc.get("benchmark_type").str()
	var errs []error
	for i, n := range runs.items {
		errs = append(errs, s.rollup(i, n, doc, tool))
	}
	return errors.Join(errs...)
}

func (s *source) rollup(index int, n, doc *node, tool string) error {
	if n.kind != table {
		return n.errorf(s.file, "want a run, an object")
	}
	it := s.add(index, "")
	m := &result.Metrics{}
	p := result.Part{Metrics: m}
	b := &p.Benchmark
	b.Kind = tool
	config := doc.get("config")
	p.Model = config.get("model").str()
	b.InputTokens, b.OutputTokens = config.get("isl").whole(), config.get("osl").whole()
	b.MaxConcurrency = n.get("concurrency").whole()
	m.MaxConcurrency = b.MaxConcurrency
	m.OutputThroughput = it.rate(s, n.get("throughput_toks"), "throughput_toks", 1)
	m.RequestThroughput = it.rate(s, n.get("request_throughput"), "request_throughput", 1)
	m.CompletedRequests = it.count(s, n.get("completed_requests"), "completed_requests")
	m.TotalInputTokens = total(it.count(s, n.get("total_input_tokens"), "total_input_tokens"))
	m.TotalOutputTokens = total(it.count(s, n.get("total_output_tokens"), "total_output_tokens"))
	for _, f := range result.Families() {
		if f == result.ITL && tool == "aiperf" {
			continue // AIPerf's is the time per token of a request: srt-slurm writes it twice
		}
		for _, stat := range []string{"mean", "p99"} {
			key := fmt.Sprintf("%s_%s_ms", f, stat)
			if v := it.rate(s, n.get(key), key, 1); v != nil {
				_ = m.SetLatency(f, stat, *v) // both are known statistics
			}
		}
	}
	if !m.Measured() {
		s.items = s.items[:len(s.items)-1]
		return n.errorf(s.file, "no latency and no throughput in this run")
	}
	if valid, known := n.get("valid").truth(); known && !valid {
		it.warn(s, n.get("valid"), result.Contradicts, "valid", "%s says that this run is not valid", tool)
	}
	if stamp := doc.get("timestamp"); stamp != nil && stamp.kind == text {
		if t, err := time.Parse(time.RFC3339, stamp.text); err == nil {
			it.Record.Timestamp = t.UTC() // of the roll-up: the runs have none
		}
	}
	it.Name = []string{"run"}
	switch scenario, mode := n.get("scenario"), n.get("mode"); {
	case b.MaxConcurrency != nil:
		it.Name = []string{fmt.Sprintf("conc-%d", *b.MaxConcurrency)}
	case scenario != nil && scenario.kind == text && mode != nil && mode.kind == text:
		it.Name = []string{scenario.text + "-" + mode.text}
	}
	it.finish(n, p)
	return nil
}

// total is a number of tokens.
func total(n *int) *int64 {
	if n == nil {
		return nil
	}
	return new(int64(*n))
}
