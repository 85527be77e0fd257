// Package aiperf drives NVIDIA's load clients, AIPerf and its predecessor GenAI-Perf, and reads their
// summaries: AIPerf's JSON and CSV, and the CSV of GenAI-Perf; beside AIPerf's also its requests.
//
// AIPerf's names differ from vLLM's: its inter-token latency is a request's time
// per output token (TPOT here), its inter-chunk latency is the gap between chunks
// (ITL here). It exits with 0 whatever became of the requests (0.13.0: unless
// all failed), so a file says nothing about success. The package does not judge the numbers.
//
//	part, err := aiperf.Parser{}.Parse(os.DirFS("run/raw"))
package aiperf

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
)

// kind is what the record calls the client.
const kind = "aiperf"

// files are the summaries in the order in which they are looked for. AIPerf
// rounds in its CSV, so the JSON comes first.
var files = []string{"profile_export_aiperf.json", "profile_export_aiperf.csv", "profile_export_genai_perf.csv"}

// A Parser reads one client's summary.
type Parser struct {
	Dir string // below the folder given to Parse; default the folder itself
}

// Parse returns what the client measured, and a warning for everything it had to
// go past. The error is fs.ErrNotExist if there is no summary.
func (p Parser) Parse(out fs.FS) (result.Part, error) {
	sub, err := fs.Sub(out, cmp.Or(p.Dir, "."))
	if err != nil {
		return result.Part{}, err
	}
	for _, name := range slices.Concat(files, p.below(sub)) {
		data, read, err := load(sub, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return result.Part{}, fmt.Errorf("read %s: %w", read, err)
		}
		s := &summary{file: read, table: map[string]row{}}
		if strings.HasSuffix(name, ".json") {
			err = s.json(data)
		} else {
			err = s.csv(data)
		}
		if err != nil {
			return result.Part{Warnings: s.warnings}, fmt.Errorf("parse %s: %w", read, err)
		}
		part := s.part()
		part.Simulated = s.simulated
		s.requests(sub, &part)
		return part, nil
	}
	if p.Dir != "" {
		if part, ok := noneCompleted(sub); ok {
			return part, nil
		}
	}
	return result.Part{}, fmt.Errorf("no summary of AIPerf: %w", fs.ErrNotExist)
}

// below are the summaries of GenAI-Perf in folders of the folder of a run: its last releases make
// one there for each load.
func (p Parser) below(dir fs.FS) []string {
	if p.Dir == "" {
		return nil
	}
	found, _ := fs.Glob(dir, "*/*_genai_perf.csv*") // the pattern is well-formed
	for i, name := range found {
		found[i] = strings.TrimSuffix(name, ".xz")
	}
	return slices.Compact(found)
}

// load reads a file, or the same with .xz.
func load(dir fs.FS, name string) (data []byte, read string, err error) {
	data, name, err = packed.Read(dir, name, regular.Result)
	return bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), name, err
}

// A summary is one file, whatever its form.
type summary struct {
	file     string
	table    map[string]row // by tag
	warnings []result.Warning
	version  string
	model    string
	endpoint string // the kind of requests, such as chat
	asked    asked

	began, ended string // of the measurement, in local time

	simulated bool
}

// asked is what the file says of the load.
type asked struct {
	requests, concurrency *int
	rate                  *float64
	cancelled             bool
	burstiness            *result.Rate
	serverCounts          bool // tokens are taken from the server's usage
	errors                *int // listed in the error summary; nil: there is none
}

// A row is one metric: its unit, and statistics by name.
type row struct {
	unit  string
	stats map[string]float64
}

func (s *summary) warn(k result.WarningKind, key, format string, args ...any) {
	s.warnings = append(s.warnings, result.Warning{Kind: k, File: s.file, Key: key, Text: fmt.Sprintf(format, args...)})
}

// latencies maps tags to families of latencies.
var latencies = map[string]result.Family{
	"time_to_first_token": result.TTFT, "inter_token_latency": result.TPOT, "inter_chunk_latency": result.ITL,
	"request_latency": result.E2EL,
}

// window is the time over which the rates are, s: that of the requests, or since 0.13 sometimes the whole time of the
// measurement, from before the first request on.
func (s *summary) window(ofRequests float64) float64 {
	const layout, near = "2006-01-02T15:04:05.999999", 1e-3
	began, err := time.Parse(layout, s.began)
	ended, err2 := time.Parse(layout, s.ended)
	count, counted := s.scalar("request_count")
	rate, rated := s.scalar("request_throughput")
	if err != nil || err2 != nil || !counted || !rated || rate <= 0 {
		return ofRequests
	}
	whole, of := ended.Sub(began).Seconds(), count/rate
	if math.Abs(whole-of) <= near*of && math.Abs(ofRequests-of) > near*of {
		return whole
	}
	return ofRequests
}

// toMS has what a unit of time is in ms.
var toMS = map[string]float64{"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1, "s": 1000, "sec": 1000, "seconds": 1000}

func (s *summary) part() result.Part {
	m := &result.Metrics{Source: s.file, Latency: map[result.Family]result.Distribution{}}
	m.NumPrompts, m.MaxConcurrency = s.asked.requests, s.asked.concurrency
	m.CompletedRequests = s.whole("request_count")
	m.FailedRequests = s.whole("error_request_count")
	if m.FailedRequests == nil && m.CompletedRequests != nil { // it is left out when it is zero
		if all := s.whole("completed_request_count"); all != nil && *all >= *m.CompletedRequests {
			m.FailedRequests = new(*all - *m.CompletedRequests)
		} else {
			m.FailedRequests = s.asked.errors
		}
	}
	if v, ok := s.scalar("benchmark_duration"); ok {
		if ms, known := toMS[s.table["benchmark_duration"].unit]; known {
			m.Duration = new(s.window(v * ms / 1000))
		} else {
			s.warn(result.NoNumber, "benchmark_duration", "unknown unit %q", s.table["benchmark_duration"].unit)
		}
	}
	m.TotalInputTokens, m.TotalOutputTokens = s.total("total_isl"), s.total("total_osl")
	m.RequestThroughput, m.RequestGoodput = s.float("request_throughput"), s.float("goodput")
	m.InputThroughput, m.OutputThroughput, m.TotalTokenThroughput = s.float("input_token_throughput"), s.float("output_token_throughput"), s.float("total_token_throughput")
	for tag, family := range latencies {
		if d, ok := s.distribution(tag); ok {
			m.Latency[family] = d
		}
	}
	if served := s.total("total_usage_completion_tokens"); served != nil && m.TotalOutputTokens != nil && *served > 0 {
		m.UsageOutputTokens = served
		s.countedApart(*m.TotalOutputTokens, *served)
	}
	s.compareSums(m.CompletedRequests)
	if s.asked.cancelled {
		s.warn(result.CutShort, "was_cancelled", "the client was stopped; its numbers cover a part of the load")
	}
	p := result.Part{Model: s.model, Metrics: m, Warnings: s.warnings}
	p.Benchmark = result.Benchmark{Kind: kind, NumPrompts: s.asked.requests, MaxConcurrency: s.asked.concurrency,
		Backend: s.endpoint}
	if r := s.asked.rate; r != nil {
		p.Benchmark.RequestRate = new(result.Rate(*r))
		p.Benchmark.Burstiness, p.Benchmark.Arrivals = s.asked.burstiness, result.Drawn
		m.RequestRate = p.Benchmark.RequestRate
	}
	p.UnknownKeys = s.unknown()
	slices.SortFunc(p.Warnings, func(a, b result.Warning) int { return strings.Compare(a.Key, b.Key) })
	return p
}

// countedApart warns if the client's count of output tokens is not the server's. A
// client that counts for itself contradicts nothing: it counts what its tokenizer finds
// in the text. One that was told to take the server's counts does.
func (s *summary) countedApart(client, server int64) {
	kind, by := result.Retokenized, "the client's tokenizer"
	if s.asked.serverCounts {
		kind, by = result.Contradicts, "the client, which was told to take the server's"
	}
	if math.Abs(float64(client)/float64(server)-1) > 0.01 {
		s.warn(kind, "total_osl", "%d output tokens by %s, %d by the server's usage", client, by, server)
	}
}

// known are the metrics that a record has a place for, or that say nothing more.
var known = []string{
	"request_count", "error_request_count", "benchmark_duration", "total_isl", "total_osl", "total_output_tokens",
	"request_throughput", "goodput",
	"input_token_throughput", "output_token_throughput", "total_token_throughput", "total_usage_completion_tokens",
	"output_sequence_length", "input_sequence_length", "output_token_count", "completed_request_count",
	"request_error_rate",
}

// has reports whether a record has a place for a metric.
func (s *summary) has(tag string) bool {
	_, latency := latencies[tag]
	return latency || slices.Contains(known, tag)
}

func (s *summary) unknown() int {
	n := 0
	for tag := range s.table {
		if !s.has(tag) {
			n++
		}
	}
	return n
}

func (s *summary) scalar(tag string) (float64, bool) {
	v, ok := s.table[tag].stats["avg"]
	return v, ok
}

func (s *summary) float(tag string) *float64 {
	v, ok := s.scalar(tag)
	if !ok {
		return nil
	}
	_, unit, _ := strings.Cut(s.table[tag].unit, "/")
	return new(v * cmp.Or(perSecond[unit], 1))
}

// perSecond has what a rate is in 1/s, of the units that are not 1/s.
var perSecond = map[string]float64{"ms": 1000, "min": 1. / 60, "minute": 1. / 60, "h": 1. / 3600, "hr": 1. / 3600,
	"hour": 1. / 3600}

// What a sum may be off the mean times the count: as rounded to two decimals.
const (
	sumDeviation = 0.01
	sumRounding  = 0.005
)

// compareSums holds the sums of the metrics against means and counts, and the counts
// against the requests.
func (s *summary) compareSums(requests *int) {
	for _, tag := range slices.Sorted(maps.Keys(s.table)) {
		r := s.table[tag]
		sum, hasSum := r.stats["sum"]
		avg, hasMean := r.stats["avg"]
		count, hasCount := r.stats["count"]
		if hasSum && hasMean && hasCount && s.has(tag) &&
			math.Abs(avg*count-sum) > sumDeviation*math.Abs(sum)+sumRounding*count {
			s.warn(result.Contradicts, tag, "mean %.6g of %g values gives %.6g, not the sum %.6g", avg, count,
				avg*count, sum)
		}
		if tag == "request_latency" && hasCount && requests != nil && count != float64(*requests) {
			s.warn(result.Contradicts, tag, "%g latencies of %d requests", count, *requests)
		}
	}
}

func (s *summary) total(tag string) *int64 {
	v, ok := s.scalar(tag)
	if !ok {
		return nil
	}
	if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
		s.warn(result.NoNumber, tag, "not a whole number: %v", v)
		return nil
	}
	return new(int64(v))
}

func (s *summary) whole(tag string) *int {
	if n := s.total(tag); n != nil {
		return new(int(*n))
	}
	return nil
}

// distribution reads the statistics of a latency.
func (s *summary) distribution(tag string) (result.Distribution, bool) {
	r, ok := s.table[tag]
	if !ok {
		return result.Distribution{}, false
	}
	ms, known := toMS[r.unit]
	if !known {
		s.warn(result.NoNumber, tag, "unknown unit %q", r.unit)
		return result.Distribution{}, false
	}
	d := result.Distribution{Percentiles: map[float64]float64{}}
	for name, v := range r.stats {
		x := v * ms
		switch name {
		case "avg":
			d.Mean = &x
		case "std":
			d.Std = &x
		case "min":
			d.Min = &x
		case "max":
			d.Max = &x
		case "count":
			d.N = new(int(v))
		default:
			if p, err := strconv.ParseFloat(strings.TrimPrefix(name, "p"), 64); err == nil && name[0] == 'p' && p > 0 &&
				p < 100 {
				d.Percentiles[p] = x
				if p == 50 {
					d.Median = &x
				}
			}
		}
	}
	return d, d.Mean != nil
}
