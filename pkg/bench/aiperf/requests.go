package aiperf

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/profllm/profllm/pkg/clientfile"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// RequestsFile has a line for each request.
const RequestsFile = "profile_export.jsonl"

// requests reads the requests behind a summary. They are used if they are all there;
// that they cannot be read is a warning: the summary stands without them.
func (s *summary) requests(dir fs.FS, p *result.Part) {
	all := &result.Samples{}
	usable, streamed := true, true
	f := clientfile.File{Name: RequestsFile}
	err := f.Read(dir, func(in *pyjson.Reader) error {
		for in.Kind() != pyjson.Absent {
			v, err := in.Value()
			if err != nil {
				return err
			}
			if v.At("metadata", "benchmark_phase").Str != "profiling" {
				continue // a warm-up
			}
			q := requestOf(v)
			usable = usable && q.usable
			streamed = streamed && (q.err != "" || q.ttft != 0)
			all.Start, all.Latency, all.TTFT = append(all.Start, q.start), append(all.Latency,
				q.latency), append(all.TTFT, q.ttft)
			all.ITL, all.InputLen, all.OutputLen = append(all.ITL, q.gaps), append(all.InputLen,
				q.in), append(all.OutputLen, q.out)
			all.Errors = append(all.Errors, q.err)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	p.Warnings = append(p.Warnings, f.Warnings...)
	done, failed := p.Metrics.CompletedRequests, p.Metrics.FailedRequests
	switch {
	case err != nil || len(all.Start) == 0 || done == nil || failed == nil:
		return
	case !usable:
		p.Warnings = append(p.Warnings,
			result.Warning{Kind: result.BadValue, File: f.Name,
				Text: "a request lacks a time or a count of tokens: the single requests were not used"})
		return
	case len(all.Start) != *done+*failed:
		p.Warnings = append(p.Warnings, result.Warning{Kind: result.BadValue, File: f.Name,
			Text: fmt.Sprintf("%d requests, %d in the summary: the single requests were not used", len(all.Start),
				*done+*failed)})
		return
	}
	if !streamed {
		all.TTFT, all.ITL = nil, nil
	}
	p.Samples = all
}

// noneCompleted is what the requests say of a load of which all failed: AIPerf then writes no
// summary. ok is false if one completed, since its numbers would be of a part of a load.
func noneCompleted(dir fs.FS) (p result.Part, ok bool) {
	failed, completed := 0, 0
	var kinds errorCounts
	f := clientfile.File{Name: RequestsFile}
	err := f.Read(dir, func(in *pyjson.Reader) error {
		for in.Kind() != pyjson.Absent {
			v, err := in.Value()
			if err != nil {
				return err
			}
			switch q := requestOf(v); {
			case v.At("metadata", "benchmark_phase").Str != "profiling":
			case q.err == "":
				completed++
			default:
				failed++
				kinds.add(q.err)
			}
		}
		return nil
	})
	if err != nil || completed > 0 || failed == 0 {
		return p, false
	}
	p.Metrics = &result.Metrics{Source: f.Name}
	p.Metrics.CompletedRequests, p.Metrics.FailedRequests = new(0), &failed
	p.Benchmark, p.Warnings = result.Benchmark{Kind: kind}, f.Warnings
	p.Warnings = append(p.Warnings, kinds.warnings(f.Name)...)
	return p, true
}

// mostErrors is how many different errors a record lists, and longestError the most characters of one.
const (
	mostErrors   = 5
	longestError = 300
)

// errorCounts counts requests by their error. It keeps the first mostErrors different ones.
type errorCounts struct {
	texts  []string
	counts []int
	others int // requests with another error than these
}

func (e *errorCounts) add(text string) {
	text = fmt.Sprintf("%.*s", longestError, text)
	switch i := slices.Index(e.texts, text); {
	case i >= 0:
		e.counts[i]++
	case len(e.texts) < mostErrors:
		e.texts, e.counts = append(e.texts, text), append(e.counts, 1)
	default:
		e.others++
	}
}

func (e *errorCounts) warnings(file string) (list []result.Warning) {
	say := func(n int, text string) {
		list = append(list,
			result.Warning{Kind: "client-error", File: file, Key: fmt.Sprintf("%d requests", n), Text: text})
	}
	for i, text := range e.texts {
		say(e.counts[i], text)
	}
	if e.others > 0 {
		say(e.others, "other errors")
	}
	return list
}

// A request is one line; times in s.
type request struct {
	start, latency, ttft float64
	gaps                 []float64
	in, out              int
	err                  string
	usable               bool
}

func requestOf(v pyjson.Value) (q request) {
	start, started := v.At("metadata", "request_start_ns").Finite()
	q.start = start / 1e9
	metrics := v.At("metrics")
	q.in, _ = count(metrics.At("input_sequence_length", "value"))
	if e := v.At("error"); e.Kind == pyjson.Object {
		q.err, q.usable = e.At("type").Str+": "+e.At("message").Str, started
		return q
	}
	latency, timed := seconds(metrics.At("request_latency"))
	tokens, counted := count(metrics.At("output_sequence_length", "value"))
	q.latency, q.out, q.usable = latency, tokens, started && timed && counted
	q.ttft, _ = seconds(metrics.At("time_to_first_token"))
	gaps := metrics.At("inter_chunk_latency")
	for _, x := range gaps.At("value").Items {
		gap, ok := inSeconds(x, gaps.At("unit"))
		q.usable = q.usable && ok
		q.gaps = append(q.gaps, gap)
	}
	return q
}

// seconds is a metric of a time.
func seconds(v pyjson.Value) (float64, bool) { return inSeconds(v.At("value"), v.At("unit")) }

// inSeconds is any number, also one that no clock can have seen: that is judged.
func inSeconds(value, unit pyjson.Value) (float64, bool) {
	ms, known := toMS[unit.Str]
	return value.Num * ms / 1000, known && value.Kind == pyjson.Number
}

func count(v pyjson.Value) (int, bool) {
	x, ok := v.Finite()
	if !ok || x < 0 || x > 1<<40 || x != math.Trunc(x) {
		return 0, false
	}
	return int(x), true
}
