package sglang

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// record is one line of the file.
type record struct {
	file string
	line int
	part result.Part
	lens lengths
}

// lengths are what the client was told to make; nil where it does not say so.
type lengths struct{ input, output, ratio *float64 }

var errNoResult = errors.New("the number of completed requests or the duration is missing")

// parseLine reads one object. A key of the wrong type costs only itself.
func parseLine(line []byte, file string, number int) (*record, error) {
	in := pyjson.NewPart(line, number, 1)
	if in.Kind() != pyjson.Object {
		return nil, &pyjson.Error{Line: number, Col: 1, Text: fmt.Sprintf("want an object, got %.20q", line)}
	}
	r := &record{file: file, line: number}
	r.part.Metrics = &result.Metrics{Source: file}
	seen := map[string]int{}
	err := in.Object(func(name string) error {
		in.Kind() // to the place of the value
		_, col := in.Place()
		raw, err := in.Raw()
		if err != nil {
			return err
		}
		if seen[name]++; seen[name] == 2 {
			r.warn(result.Contradicts, name, col, pyjson.TwiceMessage)
		}
		r.key(name, raw, col)
		return nil
	})
	if err == nil {
		err = in.End()
	}
	if err != nil {
		return nil, err
	}
	m := r.part.Metrics
	if m.CompletedRequests == nil || m.Duration == nil {
		return nil, errNoResult
	}
	r.countRequests()
	r.forgetServersLengths()
	r.compare()
	return r, nil
}

// countRequests counts in the lists what the client gives no sum of.
func (r *record) countRequests() {
	m, s := r.part.Metrics, r.part.Samples
	if s == nil {
		return
	}
	if m.NumPrompts == nil && s.InputLen != nil {
		m.NumPrompts = new(len(s.InputLen))
		m.NoteDerived("num_prompts")
	}
	if s.Errors != nil {
		failed := 0
		for _, e := range s.Errors {
			if e != "" {
				failed++
			}
		}
		m.FailedRequests = &failed
	}
}

// forgetServersLengths leaves out the prompt lengths of the single requests where they may be the
// server's count: since 0.5.21 they are, while the total of the same file stays the client's own. The
// p95 of TTFT came a little before, with 0.5.14.
func (r *record) forgetServersLengths() {
	_, recent := r.part.Metrics.Latency[result.TTFT].Percentile(95)
	if r.part.Samples != nil && recent {
		r.part.Samples.InputLen = nil
	}
}

func (r *record) warn(kind result.WarningKind, key string, col int, text string) {
	r.part.Warnings = append(r.part.Warnings,
		result.Warning{Kind: kind, File: r.file, Line: r.line, Col: col, Key: key, Text: text})
}

// ignored are keys that are known and kept out: what was asked for, texts, and
// counts of another tokenizer.
var ignored = map[string]bool{
	"tag": true, "sharegpt_output_len": true,
	// Since 0.5.23: of --goodput, beside request_goodput, and of --cache-report.
	"goodput_slos_ms": true, "slo_attainment": true, "slo_attainment_by_metric": true,
	"cache_report": true, "cached_tokens": true, "cached_tokens_details": true,
	"total_input_text_tokens": true, "total_input_vision_tokens": true, "total_output_tokens_retokenized": true,
	"generated_texts": true, "output_throughput_retokenized": true, "total_throughput_retokenized": true,
}

func (r *record) key(name string, raw []byte, col int) {
	m := r.part.Metrics
	if string(raw) == "null" {
		return
	}
	// SGLang's e2e_latency is the family e2el.
	if family, stat, ok := result.SplitKey(strings.Replace(name, "_e2e_latency_ms", "_e2el_ms", 1)); ok {
		if v, ok := r.finite(name, raw, col); ok {
			_ = m.SetLatency(family, stat, v) // SplitKey accepted the name
		}
		return
	}
	switch {
	case r.asked(name, raw):
	case r.float(name, raw, col), r.integer(name, raw, col), r.list(name, raw, col), r.identity(name, raw, col),
		ignored[name]:
	default:
		r.part.UnknownKeys++
	}
}

func (r *record) float(name string, raw []byte, col int) bool {
	m := r.part.Metrics
	to, ok := map[string]**float64{
		"duration": &m.Duration, "request_throughput": &m.RequestThroughput, "input_throughput": &m.InputThroughput,
		"output_throughput": &m.OutputThroughput, "total_throughput": &m.TotalTokenThroughput,
		"accept_length": &m.AcceptanceLength, "request_goodput": &m.RequestGoodput,
		"max_output_tokens_per_s": &m.MaxOutputTokensPerS, "max_concurrent_requests": &m.MaxConcurrentRequests,
		"concurrency": &m.MeanConcurrentRequests, // measured; max_concurrency is the cap
	}[name]
	if !ok {
		return false
	}
	if v, ok := r.finite(name, raw, col); ok {
		*to = &v
	}
	return true
}

func (r *record) integer(name string, raw []byte, col int) bool {
	m := r.part.Metrics
	small, ok := map[string]**int{
		"num_prompts": &m.NumPrompts, "completed": &m.CompletedRequests, "max_concurrency": &m.MaxConcurrency,
	}[name]
	large, okLarge := map[string]**int64{
		"total_input_tokens": &m.TotalInputTokens, "total_output_tokens": &m.TotalOutputTokens,
	}[name]
	if !ok && !okLarge {
		return false
	}
	v, finite := r.finite(name, raw, col)
	switch {
	case !finite:
	case v != math.Trunc(v) || math.Abs(v) > 1<<53:
		r.warn(result.NoNumber, name, col, fmt.Sprintf("not a whole number: %.40s", raw))
	case ok:
		*small = new(int(v))
	default:
		*large = new(int64(v))
	}
	return true
}

// finite decodes a measured number.
func (r *record) finite(name string, raw []byte, col int) (float64, bool) {
	v, err := number(raw)
	switch {
	case err != nil:
		r.warn(result.NoNumber, name, col, err.Error())
		return 0, false
	case math.IsNaN(v) || math.IsInf(v, 0):
		r.warn(result.NotFinite, name, col, fmt.Sprintf("is %v", v))
		return 0, false
	}
	return v, true
}

// number reads a JSON number, or one of Python's words, also in quotes.
func number(raw []byte) (float64, error) {
	switch string(bytes.Trim(raw, `"`)) {
	case "NaN":
		return math.NaN(), nil
	case "Infinity", "inf":
		return math.Inf(1), nil
	case "-Infinity":
		return math.Inf(-1), nil
	}
	if v, ok := pyjson.ParseNumber(raw); ok && !math.IsInf(v, 0) {
		return v, nil
	}
	return 0, fmt.Errorf("not a number: %.40s", raw)
}

// list reads the lists of --output-details.
func (r *record) list(name string, raw []byte, col int) bool {
	s := r.part.Samples
	if s == nil {
		s = &result.Samples{}
	}
	var err error
	switch name {
	case "input_lens":
		err = json.Unmarshal(raw, &s.InputLen)
	case "output_lens":
		err = json.Unmarshal(raw, &s.OutputLen)
	case "ttfts":
		err = json.Unmarshal(raw, &s.TTFT)
	case "itls":
		err = json.Unmarshal(raw, &s.ITL)
	case "errors":
		err = json.Unmarshal(raw, &s.Errors)
	default:
		return false
	}
	if err != nil { // requests are matched by index, so the whole list is of no use
		kind, text := result.NoNumber, err.Error()
		if bytes.Contains(raw, []byte("NaN")) || bytes.Contains(raw, []byte("Infinity")) {
			kind, text = result.NotFinite, "an element is not a finite number"
		}
		r.warn(kind, name, col, text)
		drop(s, name)
	}
	r.part.Samples = s
	return true
}

func drop(s *result.Samples, name string) {
	switch name {
	case "input_lens":
		s.InputLen = nil
	case "output_lens":
		s.OutputLen = nil
	case "ttfts":
		s.TTFT = nil
	case "itls":
		s.ITL = nil
	case "errors":
		s.Errors = nil
	}
}

// identity reads what the client says it was asked to do.
func (r *record) identity(name string, raw []byte, col int) bool {
	b := &r.part.Benchmark
	var to *string
	switch name {
	case "backend":
		to = &b.Backend
	case "dataset_name":
		to = &b.DatasetName
	case "server_info": // of the engine, whatever it says; a simulated one says so
		in := pyjson.NewBytes(raw)
		_ = in.Object(func(key string) error { // of another type it says nothing
			value, err := in.Raw()
			r.part.Simulated = r.part.Simulated || key == "simulated" && result.Labelled(value)
			return err
		})
		return true
	case "simulated":
		r.part.Simulated = r.part.Simulated || result.Labelled(raw)
		return true
	case "request_rate":
		v, err := number(raw)
		switch {
		case string(raw) == `"trace"`: // the times of a trace: there is no rate
		case err != nil || math.IsNaN(v) || math.IsInf(v, -1):
			r.warn(result.BadValue, name, col, fmt.Sprintf("not a rate: %.40s", raw))
		default:
			b.RequestRate = new(result.Rate(v))
			b.Arrivals = result.Drawn // numpy's exponential gaps, as they come
			r.part.Metrics.RequestRate = b.RequestRate
		}
		return true
	default:
		return false
	}
	if err := json.Unmarshal(raw, to); err != nil {
		r.warn(result.BadValue, name, col, fmt.Sprintf("not a string: %.40s", raw))
	}
	return true
}
