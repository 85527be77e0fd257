package aiperf

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

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
	count, order := map[string]int{}, []string{}
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
				if count[q.err]++; count[q.err] == 1 {
					order = append(order, q.err)
				}
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
	for _, text := range order[:min(len(order), mostErrors)] {
		p.Warnings = append(p.Warnings, result.Warning{Kind: "client-error", File: f.Name,
			Key: fmt.Sprintf("%d requests", count[text]), Text: fmt.Sprintf("%.300s", text)})
	}
	return p, true
}

// mostErrors is how many different errors a record lists.
const mostErrors = 5

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
