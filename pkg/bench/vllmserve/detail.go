package vllmserve

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/profllm/profllm/pkg/result"
)

// list reads the per-request lists of a detailed result.
func (r *reader) list(f field) bool {
	s := r.part.Samples
	if s == nil {
		s = &result.Samples{}
	}
	var err error
	switch f.key {
	case "ttfts":
		s.TTFT, err = floats(f.raw)
	case "latencies":
		s.Latency, err = floats(f.raw)
	case "start_times":
		s.Start, err = floats(f.raw)
	case "itls":
		s.ITL, err = nested(f.raw)
	case "input_lens":
		s.InputLen, err = integers(f.raw)
	case "output_lens":
		s.OutputLen, err = integers(f.raw)
	case "errors":
		s.Errors, err = messages(f.raw)
	case "spec_decode_per_position_acceptance_rates":
		r.m.PerPosition, err = floats(f.raw)
		if err != nil {
			r.warn(result.BadValue, f, err.Error())
		}
		return true
	default:
		return false
	}
	if err != nil {
		r.warn(result.BadValue, f, err.Error())
	}
	r.part.Samples = s
	return true
}

// floats reads a list of numbers. A bad element makes the whole list
// unusable, since requests are matched by index.
func floats(raw []byte) ([]float64, error) {
	if isNull(raw) {
		return nil, nil
	}
	items, err := elements(raw)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(items))
	for i, item := range items {
		if out[i], err = number(item); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		if math.IsNaN(out[i]) || math.IsInf(out[i], 0) {
			return nil, fmt.Errorf("element %d is %v", i, out[i])
		}
	}
	return out, nil
}

func nested(raw []byte) ([][]float64, error) {
	if isNull(raw) {
		return nil, nil
	}
	items, err := elements(raw)
	if err != nil {
		return nil, err
	}
	out := make([][]float64, len(items))
	for i, item := range items {
		if out[i], err = floats(item); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return out, nil
}

func integers(raw []byte) ([]int, error) {
	var out []int
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("no list of whole numbers: %w", err)
	}
	return out, nil
}

// messages reads the list of errors; a null in it is no error.
func messages(raw []byte) ([]string, error) {
	var items []*string
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fmt.Errorf("no list of texts: %w", err)
	}
	if items == nil {
		return nil, nil
	}
	out := make([]string, len(items))
	for i, item := range items {
		if item != nil {
			out[i] = *item
		}
	}
	return out, nil
}

// finish adds what follows from the document: the number of failures where
// the client has none, sample sizes, and doubts about its sums.
func finish(part *result.Part) {
	m := part.Metrics
	part.Benchmark.Kind = "vllm-serve"
	part.Benchmark.NumPrompts = m.NumPrompts
	part.Benchmark.MaxConcurrency = m.MaxConcurrency
	doubt := func(key, format string, args ...any) {
		part.Warnings = append(part.Warnings, result.Warning{
			Kind: result.Contradicts, File: m.Source, Key: key, Text: fmt.Sprintf(format, args...),
		})
	}
	if lengths := part.Samples.Lengths(); len(lengths) > 1 {
		doubt("samples", "the lists per request have %v entries; they were left out", lengths)
		part.Samples = nil
	}
	done := *m.CompletedRequests
	if s := part.Samples; s != nil && s.Errors != nil {
		failed := 0
		for _, e := range s.Errors {
			if e != "" {
				failed++
			}
		}
		if n := len(s.Errors) - failed; n != done {
			doubt("completed", "%d completed, %d requests without an error", done, n)
		}
		if m.FailedRequests != nil && *m.FailedRequests != failed {
			doubt("failed", "%d failed, %d requests with an error", *m.FailedRequests, failed)
		}
	}
	if s := part.Samples; s != nil && s.OutputLen != nil && m.TotalOutputTokens != nil {
		var sum int64
		for i, n := range s.OutputLen {
			if !s.Failed(i) {
				sum += int64(n)
			}
		}
		if sum != *m.TotalOutputTokens {
			doubt("total_output_tokens", "%d in total, %d by request", *m.TotalOutputTokens, sum)
		}
	}
	if m.FailedRequests == nil && m.NumPrompts != nil && *m.NumPrompts >= done {
		m.FailedRequests = new(*m.NumPrompts - done)
		m.NoteDerived("failed_requests")
	}
	sampleSizes(part)
}

// sampleSizes notes how many values are behind each family and leaves out
// statistics over nothing.
func sampleSizes(part *result.Part) {
	m := part.Metrics
	done := *m.CompletedRequests
	for _, f := range result.Families() {
		d, ok := m.Latency[f]
		if !ok {
			continue
		}
		switch f {
		case result.TPOT:
			d.N = answersOfSeveral(part)
		case result.ITL:
			if n, ok := part.Samples.Gaps(); ok {
				d.N = &n
			}
		default:
			d.N = &done
		}
		if done == 0 || d.N != nil && *d.N == 0 {
			delete(m.Latency, f)
			part.Warnings = append(part.Warnings, result.Warning{
				Kind: result.EmptySample, File: m.Source, Key: string(f), Text: "statistics over an empty sample were left out",
			})
			continue
		}
		m.Latency[f] = d
	}
}

// answersOfSeveral returns the number of answers of two tokens or more, which
// alone have a TPOT; nil if it is not known.
func answersOfSeveral(part *result.Part) *int {
	if s := part.Samples; s != nil && s.OutputLen != nil {
		n := 0
		for i, tokens := range s.OutputLen {
			if tokens > 1 && !s.Failed(i) {
				n++
			}
		}
		return &n
	}
	m := part.Metrics
	if m.TotalOutputTokens != nil && *m.TotalOutputTokens <= int64(*m.CompletedRequests) {
		return new(0)
	}
	return nil
}
