// Package vllmoffline reads what vLLM's benchmarks without a server leave behind:
// `vllm bench latency`, `throughput` and `startup`, as JSON (--output-json) or as
// the console text where there is no file.
//
// All three may lie in one folder: together they fill one record's offline part,
// and none of a load client's keys. The package does not judge the numbers.
//
//	part, err := vllmoffline.Parser{}.Parse(os.DirFS("run/raw"))
package vllmoffline

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"

	"github.com/profllm/profllm/pkg/bench/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// kind is what the record calls the benchmarks, each by its own name.
const kind = "vllm-offline"

// benches are the three, by the names of their files, and how each is read.
var benches = []struct {
	name string
	file func(*reader, pyjson.Value, *result.Offline) error
	log  func(*reader, []line, *result.Offline) bool
}{
	{"latency", (*reader).latency, (*reader).latencyLog},
	{"throughput", (*reader).throughput, (*reader).throughputLog},
	{"startup", (*reader).startup, (*reader).startupLog},
}

// A Parser reads latency.json, throughput.json and startup.json of a folder, or the
// same with .xz, and .log for each of them that is not there.
type Parser struct {
	Dir string // below the folder given to Parse; default the folder itself
}

// errNoBench is a file that is of something else.
var errNoBench = errors.New("not of vllm bench")

// Parse returns what was measured, and a warning for everything it had to go past.
// The error is fs.ErrNotExist if nothing of the three is there, or a file of that
// name is another program's.
func (p Parser) Parse(out fs.FS) (result.Part, error) {
	dir := p.Dir
	if dir == "" {
		dir = "."
	}
	sub, err := fs.Sub(out, dir)
	if err != nil {
		return result.Part{}, err
	}
	var part result.Part
	m := &result.Metrics{Offline: &result.Offline{}}
	var found, sources []string
	var errs []error
	for _, b := range benches {
		r := &reader{part: &part, file: b.name + ".json"}
		err := r.read(sub, func(v pyjson.Value) error { return b.file(r, v, m.Offline) })
		source := r.file
		missing := errors.Is(err, fs.ErrNotExist)
		if err == nil && b.name == "throughput" {
			r.complete(sub, m.Offline.Throughput)
		}
		if err != nil {
			r.file = b.name + ".log"
			lines, name := consoleLines(sub, r.file)
			if r.file = name; !b.log(r, lines, m.Offline) {
				if !missing && !errors.Is(err, errNoBench) {
					errs = append(errs, err)
				}
				continue
			}
			source, m.FromLog = name, true
			r.warn(result.Recovered, pyjson.Value{}, b.name, "read from console text")
		}
		found, sources = append(found, "vllm-"+b.name), append(sources, source)
	}
	if len(found) == 0 {
		if len(errs) > 0 {
			return part, errors.Join(errs...)
		}
		return part, fmt.Errorf("no latency, throughput or startup of vllm bench: %w", fs.ErrNotExist)
	}
	part.Benchmark.Kind = kind
	if len(found) == 1 {
		part.Benchmark.Kind = found[0]
	}
	m.Source = strings.Join(sources, ", ")
	part.Metrics = m
	return part, nil
}

// A reader reads one file.
type reader struct {
	part *result.Part
	file string
}

func (r *reader) warn(k result.WarningKind, v pyjson.Value, key, format string, args ...any) {
	r.part.Warnings = append(r.part.Warnings, result.Warning{
		Kind: k, File: r.file, Line: v.Line, Col: v.Col, Key: key, Text: fmt.Sprintf(format, args...),
	})
}

// read opens the file and hands its document on. A file that is cut short has a
// warning with its place.
func (r *reader) read(dir fs.FS, use func(pyjson.Value) error) error {
	f, name, err := pyjson.Open(dir, r.file)
	if r.file = name; err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	defer f.Close()
	in := pyjson.NewReader(f)
	v, err := in.Value()
	if err == nil {
		err = in.End()
	}
	if err == nil {
		err = use(v)
	}
	var at *pyjson.Error
	if errors.As(err, &at) {
		k := result.BadValue
		if at.Cut {
			k = result.Truncated
		}
		r.warn(k, pyjson.Value{Line: at.Line, Col: at.Col}, "", "%s", at.Text)
	}
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	return nil
}

// number is a measured value; nil where there is none.
func (r *reader) number(doc pyjson.Value, key string) *float64 {
	v := doc.At(key)
	x, finite := v.Finite()
	switch {
	case finite:
		return &x
	case v.Kind == pyjson.Number:
		r.warn(result.NotFinite, v, key, "is %v", v.Num)
	case v.Kind != pyjson.Absent && v.Kind != pyjson.Null:
		r.warn(result.BadValue, v, key, "no number")
	}
	return nil
}

// whole is a count.
func (r *reader) whole(doc pyjson.Value, key string) *int64 {
	x := r.number(doc, key)
	if x == nil {
		return nil
	}
	if *x != math.Trunc(*x) || math.Abs(*x) > 1<<53 {
		r.warn(result.BadValue, doc.At(key), key, "no whole number: %v", *x)
		return nil
	}
	return new(int64(*x))
}

// timing reads a mean, a list and percentiles; nil if there is nothing of them. One
// value that is no number makes the list useless.
func (r *reader) timing(doc pyjson.Value, mean, std, values, percentiles string) *result.Timing {
	t := &result.Timing{Mean: r.number(doc, mean), Std: r.number(doc, std)}
	if list := doc.At(values); list.Kind == pyjson.List {
		n := len(list.Items)
		t.N = &n
		for _, v := range list.Items {
			x, finite := v.Finite()
			if !finite {
				r.warn(result.BadValue, v, values, "no number in the list, which was left out")
				t.Values = nil
				break
			}
			t.Values = append(t.Values, x)
		}
	}
	for _, f := range doc.At(percentiles).Fields {
		if x := r.number(doc.At(percentiles), f.Key); x != nil && isRank(f.Key) {
			if t.Percentiles == nil {
				t.Percentiles = map[string]float64{}
			}
			t.Percentiles[f.Key] = *x
		}
	}
	if t.N != nil && *t.N == 0 {
		r.warn(result.EmptySample, doc.At(values), values, "statistics over an empty sample were left out")
		return nil
	}
	if t.Mean == nil && t.N == nil && t.Percentiles == nil {
		return nil
	}
	return t
}

// isRank accepts whole ranks and such as 99.9, as vLLM writes them.
func isRank(s string) bool {
	return s != "" && len(s) < 8 && strings.Trim(s, "0123456789.") == ""
}

// identify counts keys that nobody knows, and takes the model.
func (r *reader) identify(doc pyjson.Value, known func(key string) bool) {
	if v := doc.At("model_id"); v.Kind == pyjson.Text {
		r.part.Model = v.Str
	}
	for _, f := range doc.Fields {
		if f.Key != "model_id" && !known(f.Key) {
			r.part.UnknownKeys++
		}
	}
}

func (r *reader) latency(doc pyjson.Value, o *result.Offline) error {
	t := r.timing(doc, "avg_latency", "std_latency", "latencies", "percentiles")
	if t == nil || t.Mean == nil {
		return errNoBench
	}
	r.identify(doc, func(key string) bool {
		return key == "avg_latency" || key == "std_latency" || key == "latencies" || key == "percentiles"
	})
	o.Batch = &result.BatchLatency{Latency: t}
	return nil
}

func (r *reader) throughput(doc pyjson.Value, o *result.Offline) error {
	t := &result.OfflineThroughput{
		Duration: r.number(doc, "elapsed_time"), Requests: r.whole(doc, "num_requests"), TotalTokens: r.whole(doc, "total_num_tokens"),
		RequestThroughput: r.number(doc, "requests_per_second"), TotalTokenThroughput: r.number(doc, "tokens_per_second"),
	}
	if t.Duration == nil || t.RequestThroughput == nil {
		return errNoBench
	}
	r.identify(doc, func(key string) bool {
		return key == "elapsed_time" || key == "num_requests" || key == "total_num_tokens" || key == "requests_per_second" || key == "tokens_per_second"
	})
	o.Throughput = t
	return nil
}

// complete takes from the console text what the file never has: the output tokens.
func (r *reader) complete(dir fs.FS, t *result.OfflineThroughput) {
	lines, name := consoleLines(dir, "throughput.log")
	log := &result.Offline{}
	text := &reader{part: r.part, file: name}
	if !text.throughputLog(lines, log) || log.Throughput.OutputThroughput == nil {
		return
	}
	// Another run's text would be noticed by the rate that both have.
	if a, b := *t.RequestThroughput, *log.Throughput.RequestThroughput; math.Abs(a-b) > 0.00501 {
		text.warn(result.Contradicts, pyjson.Value{}, "request_throughput", "%.2f in the text, %.2f in %s: its output tokens were left out", b, a, r.file)
		return
	}
	t.OutputThroughput, t.InputTokens, t.OutputTokens = log.Throughput.OutputThroughput, log.Throughput.InputTokens, log.Throughput.OutputTokens
	text.warn(result.Recovered, pyjson.Value{}, "output_throughput", "output tokens were read from console text, rounded to two decimals")
}

func (r *reader) startup(doc pyjson.Value, o *result.Offline) error {
	s := &result.Startup{}
	known := map[string]bool{}
	for key, to := range phases(s) {
		mean, values, percentiles := "avg_"+key+"_time", key+"_times", key+"_percentiles"
		known[mean], known[values], known[percentiles] = true, true, true
		*to = r.timing(doc, mean, "", values, percentiles)
	}
	if s.Cold == nil && s.Warm == nil {
		return errNoBench
	}
	r.identify(doc, func(key string) bool { return known[key] })
	o.Startup = s
	return nil
}

// phases are the parts of a start by the names that vLLM gives them.
func phases(s *result.Startup) map[string]**result.Timing {
	return map[string]**result.Timing{
		"cold_startup": &s.Cold, "cold_compilation": &s.ColdCompilation, "cold_encoder_compilation": &s.ColdEncoder,
		"warm_startup": &s.Warm, "warm_compilation": &s.WarmCompilation, "warm_encoder_compilation": &s.WarmEncoder,
	}
}
