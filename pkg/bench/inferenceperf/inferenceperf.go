// Package inferenceperf reads the reports of inference-perf (kubernetes-sigs):
// summary_lifecycle_metrics.json, stage_N_lifecycle_metrics.json and
// per_request_lifecycle_metrics.json.
//
// A load may have several stages, each with a rate of its own, and the summary mixes
// them. A record is of one load: the last stage with a completed request is taken, the
// summary only where there is no stage, and a warning says so. All its times are in s.
// The package does not judge the numbers.
//
//	part, err := inferenceperf.Parser{}.Parse(os.DirFS("run/raw"))
package inferenceperf

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/clientfile"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// kind is what the record calls the client.
const kind = "inference-perf"

// The reports of a folder; those of stages have a number in their name.
const (
	SummaryFile    = "summary_lifecycle_metrics.json"
	PerRequestFile = "per_request_lifecycle_metrics.json"
)

var stageFile = lazyregexp.New(`^stage_([0-9]{1,6})_lifecycle_metrics\.json(\.xz)?$`)

// A Parser reads the reports of one folder.
type Parser struct {
	Dir string // below the folder given to Parse; default the folder itself
}

// errNoReport is a file of that name that is of another program.
var errNoReport = errors.New("no report of inference-perf")

// Parse returns what the client measured, and a warning for everything it had to go
// past. The error is fs.ErrNotExist if there is no report. A stage that cannot be read
// spoils the others: which one is the last would not be known.
func (p Parser) Parse(out fs.FS) (result.Part, error) {
	sub, err := fs.Sub(out, cmp.Or(p.Dir, "."))
	if err != nil {
		return result.Part{}, err
	}
	names := stages(sub)
	several := len(names)
	if several == 0 {
		names = []string{SummaryFile}
	}
	var taken *report
	for _, name := range names {
		r := &report{File: clientfile.File{Name: name}}
		if err := r.Read(sub, r.read); err != nil {
			return result.Part{Warnings: r.Warnings}, err
		}
		if taken == nil || r.completed() > 0 {
			taken = r
		}
	}
	if several > 1 {
		taken.Warn(result.Appended, pyjson.Value{}, "", "%d stages, this one was used", several)
	}
	part := taken.part()
	if several < 2 {
		taken.requests(sub, &part)
	}
	part.Warnings = taken.Warnings
	part.Finish()
	return part, nil
}

// stages lists the reports of stages in their order.
func stages(dir fs.FS) []string {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil
	}
	byNumber := map[int]string{}
	var numbers []int
	for _, e := range entries {
		m := stageFile.FindStringSubmatch(e.Name())
		if m == nil || e.IsDir() {
			continue
		}
		n, _ := strconv.Atoi(m[1]) // six digits
		if byNumber[n] == "" {
			numbers = append(numbers, n)
		}
		byNumber[n] = strings.TrimSuffix(e.Name(), ".xz")
	}
	slices.Sort(numbers)
	names := make([]string, len(numbers))
	for i, n := range numbers {
		names[i] = byNumber[n]
	}
	return names
}

// A report is one file.
type report struct {
	clientfile.File
	doc pyjson.Value
}

func (r *report) read(in *pyjson.Reader) error {
	var err error
	if r.doc, err = in.Value(); err != nil {
		return err
	}
	if r.doc.At("successes", "count").Kind != pyjson.Number || r.doc.At("load_summary").Kind != pyjson.Object {
		return fmt.Errorf("%w: neither successes.count nor load_summary: %w", errNoReport, fs.ErrNotExist)
	}
	return nil
}

func (r *report) completed() float64 {
	n, _ := r.doc.At("successes", "count").Finite()
	return n
}

// at is a number of the document, nil where there is none.
func (r *report) at(keys ...string) *float64 {
	return r.Number(r.doc.At(keys...), strings.Join(keys, "."))
}

// count is a whole one.
func (r *report) count(keys ...string) *int { return r.Int(r.doc.At(keys...), strings.Join(keys, ".")) }

// latencies maps the metrics to families.
var latencies = map[string]result.Family{
	"time_to_first_token": result.TTFT, "time_per_output_token": result.TPOT, "inter_token_latency": result.ITL,
	"request_latency": result.E2EL, "normalized_time_per_output_token": result.NTPOT,
}

func (r *report) part() result.Part {
	m := &result.Metrics{Source: r.Name}
	p := result.Part{Metrics: m}
	if m.CompletedRequests = r.count("successes", "count"); m.CompletedRequests == nil {
		m.CompletedRequests = new(0)
	}
	m.FailedRequests, m.NumPrompts = r.count("failures", "count"), r.count("load_summary", "count")
	m.RequestThroughput = r.at("successes", "throughput", "requests_per_sec")
	m.InputThroughput = r.at("successes", "throughput", "input_tokens_per_sec")
	m.OutputThroughput = r.at("successes", "throughput", "output_tokens_per_sec")
	m.TotalTokenThroughput = r.at("successes", "throughput", "total_tokens_per_sec")
	m.RequestGoodput = r.at("successes", "goodput_metrics", "request_goodput")
	if m.Duration = r.at("benchmark_time_seconds"); m.Duration == nil && m.RequestThroughput != nil &&
		*m.RequestThroughput > 0 {
		// Until 2026 the window stood in the rates only.
		if d := float64(*m.CompletedRequests) / *m.RequestThroughput; !math.IsInf(d, 0) {
			m.Duration = &d
			m.NoteDerived("duration_s")
		}
	}
	m.TotalInputTokens = r.tokens(m, "total_input_tokens", r.at("successes", "prompt_tokens", "total"),
		r.at("successes", "prompt_len", "mean"))
	m.TotalOutputTokens = r.tokens(m, "total_output_tokens", nil, r.at("successes", "output_len", "mean"))
	if served := r.at("successes", "output_tokens", "total"); served != nil && *served > 0 &&
		m.TotalOutputTokens != nil &&
		math.Abs(float64(*m.TotalOutputTokens) / *served - 1) > 0.01 {
		r.Warn(result.Contradicts, r.doc.At("successes", "output_tokens", "total"), "successes.output_len",
			"%d output tokens by the client's tokenizer, %.0f by the server's usage", *m.TotalOutputTokens, *served)
	}
	for name, family := range latencies {
		r.latency(m, name, family)
	}
	r.load(&p)
	p.Benchmark.Kind = kind
	p.UnknownKeys = r.unknown()
	return p
}

// tokens is a total, or a mean times the number of requests where that is whole.
func (r *report) tokens(m *result.Metrics, key string, total, mean *float64) *int64 {
	for _, x := range []*float64{total, mean} {
		if x != nil && *x < 0 {
			r.Warn(result.NoNumber, pyjson.Value{}, key, "not a count: %v", *x)
			return nil
		}
	}
	switch {
	case total != nil && *total == math.Trunc(*total) && *total < 1<<53:
		return new(int64(*total))
	case mean == nil || *m.CompletedRequests == 0:
		return nil
	}
	sum := *mean * float64(*m.CompletedRequests)
	whole := math.Round(sum)
	if !(math.Abs(sum-whole) < 0.1 && whole >= 0 && whole < 1<<53) {
		return nil // the mean is not of all requests
	}
	m.NoteDerived(key)
	return new(int64(whole))
}

// latency reads one distribution; null is one that was not measured.
func (r *report) latency(m *result.Metrics, name string, family result.Family) {
	for _, f := range r.doc.At("successes", "latency", name).Fields {
		stat := f.Key
		if _, _, ok := result.SplitKey(family.Key(stat)); !ok || stat == "std" {
			continue
		}
		if x := r.Number(f.Value, "successes.latency."+name+"."+stat); x != nil {
			_ = m.SetLatency(family, stat, *x*1000) // SplitKey accepted the name
			if stat == "p50" {
				_ = m.SetLatency(family, "median", *x*1000)
			}
		}
	}
}

// load is what was asked for, and how the client kept to it: the delay of a send is
// the server's only under a cap.
func (r *report) load(p *result.Part) {
	m := p.Metrics
	if rate := r.at("load_summary", "requested_rate"); rate != nil && *rate > 0 {
		p.Benchmark.RequestRate = new(result.Rate(*rate))
	}
	if n := r.count("load_summary", "concurrency"); n != nil && *n > 0 {
		p.Benchmark.MaxConcurrency = n
	}
	m.RequestRate, m.MaxConcurrency = p.Benchmark.RequestRate, p.Benchmark.MaxConcurrency
	if m.MaxConcurrency != nil {
		return
	}
	c := &result.Client{Program: kind}
	if delay := r.at("load_summary", "schedule_delay", "p99"); delay != nil {
		c.SendDelayP99 = new(*delay * 1000)
	}
	if took := r.at("load_summary", "send_duration"); took != nil {
		c.FirstSend, c.LastSend = new(0.0), took
	}
	if c.SendDelayP99 != nil || c.LastSend != nil {
		m.Client = c
	}
}

// unknown counts keys that the record has no place for.
func (r *report) unknown() int {
	known := map[string]bool{
		"load_summary": true, "successes": true, "failures": true, "benchmark_time_seconds": true,
		"successes.count": true, "successes.latency": true, "successes.throughput": true, "successes.prompt_len": true,
		"successes.output_len":    true,
		"successes.prompt_tokens": true, "successes.output_tokens": true, "successes.goodput_metrics": true,
		"successes.request_size_bytes": true, "successes.image": true, "successes.video": true, "successes.audio": true,
	}
	n := 0
	for _, f := range r.doc.Fields {
		if !known[f.Key] {
			n++
		}
	}
	for _, f := range r.doc.At("successes").Fields {
		if !known["successes."+f.Key] {
			n++
		}
	}
	return n
}
