package vllmserve

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// A reader turns one document's fields into metrics.
type reader struct {
	file string
	part *result.Part
	m    *result.Metrics
}

func (r *reader) warn(kind result.WarningKind, f field, text string) {
	r.part.Warnings = append(r.part.Warnings, result.Warning{
		Kind: kind, File: r.file, Line: f.line, Col: f.col, Key: f.key, Text: text,
	})
}

func (r *reader) document(fields []field) {
	seen := map[string]int{}
	for _, f := range fields {
		if seen[f.key]++; seen[f.key] == 2 {
			r.warn(result.Contradicts, f, pyjson.TwiceMessage)
		}
		// Early releases spelled one key with a colon: "request_goodput:".
		f.key = strings.TrimSuffix(f.key, ":")
		switch {
		case r.float(f), r.integer(f), r.latency(f), r.list(f), r.identity(f):
		case ignored[f.key]:
		default:
			r.part.UnknownKeys++
		}
	}
}

// ignored are keys that are known and kept out: texts, copies, and series no
// check asks for.
var ignored = map[string]bool{
	"date": true, "label": true, "tokenizer_id": true, "best_of": true, "use_beam_search": true,
	"generated_texts": true, "queue_times": true, "rps_change_events": true, "max_model_len": true,
	"ramp_up_start_rps": true, "ramp_up_end_rps": true,
}

func (r *reader) float(f field) bool {
	to := floatKey(r.m, f.key)
	if to == nil {
		return false
	}
	if v, ok := r.finite(f); ok {
		*to = &v
	}
	return true
}

func floatKey(m *result.Metrics, key string) **float64 {
	switch key {
	case "duration":
		return &m.Duration
	case "request_throughput":
		return &m.RequestThroughput
	case "request_goodput":
		return &m.RequestGoodput
	case "input_throughput":
		return &m.InputThroughput
	case "input_sequence_throughput":
		return &m.InputSequenceThroughput
	case "output_throughput":
		return &m.OutputThroughput
	case "total_token_throughput":
		return &m.TotalTokenThroughput
	case "max_output_tokens_per_s":
		return &m.MaxOutputTokensPerS
	case "max_concurrent_requests":
		return &m.MaxConcurrentRequests
	case "rtfx":
		return &m.RTFx
	case "spec_decode_acceptance_rate":
		return &m.AcceptanceRate
	case "spec_decode_acceptance_length":
		return &m.AcceptanceLength
	case "diffusion_committed_throughput":
		return &m.CommittedThroughput
	case "diffusion_steps_per_canvas":
		return &m.StepsPerCanvas
	case "diffusion_committed_per_step":
		return &m.CommittedPerStep
	case "probe_median_e2el_ms":
		return &m.ProbeMedianE2EL
	case "probe_p99_e2el_ms":
		return &m.ProbeP99E2EL
	case "probe_max_e2el_ms":
		return &m.ProbeMaxE2EL
	}
	return nil
}

func (r *reader) integer(f field) bool {
	small, large := integerKey(r.m, f.key)
	if small == nil && large == nil {
		return false
	}
	v, ok := r.finite(f)
	if !ok {
		return true
	}
	if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
		r.warn(result.NoNumber, f, fmt.Sprintf("not a whole number: %.40s", f.raw))
		return true
	}
	if small != nil {
		*small = new(int(v))
	} else {
		*large = new(int64(v))
	}
	return true
}

func integerKey(m *result.Metrics, key string) (**int, **int64) {
	switch key {
	case "num_prompts":
		return &m.NumPrompts, nil
	case "completed":
		return &m.CompletedRequests, nil
	case "failed":
		return &m.FailedRequests, nil
	case "max_concurrency":
		return &m.MaxConcurrency, nil
	case "probe_completed":
		return &m.ProbeCompleted, nil
	case "probe_failed":
		return &m.ProbeFailed, nil
	case "total_input_tokens":
		return nil, &m.TotalInputTokens
	case "total_output_tokens":
		return nil, &m.TotalOutputTokens
	case "total_input_sequences":
		return nil, &m.TotalInputSequences
	case "spec_decode_num_drafts":
		return nil, &m.NumDrafts
	case "spec_decode_draft_tokens":
		return nil, &m.DraftTokens
	case "spec_decode_accepted_tokens":
		return nil, &m.AcceptedTokens
	case "diffusion_committed_tokens":
		return nil, &m.CommittedTokens
	case "diffusion_denoising_steps":
		return nil, &m.DenoisingSteps
	case "diffusion_canvas_positions":
		return nil, &m.CanvasPositions
	}
	return nil, nil
}

func (r *reader) latency(f field) bool {
	family, stat, ok := result.SplitKey(f.key)
	if !ok {
		return false
	}
	if v, ok := r.finite(f); ok {
		_ = r.m.SetLatency(family, stat, v) // SplitKey accepted the name
	}
	return true
}

// finite decodes a measured number; null means that there is none.
func (r *reader) finite(f field) (float64, bool) {
	if isNull(f.raw) {
		return 0, false
	}
	v, err := number(f.raw)
	switch {
	case err != nil:
		r.warn(result.NoNumber, f, err.Error())
		return 0, false
	case math.IsNaN(v) || math.IsInf(v, 0):
		r.warn(result.NotFinite, f, fmt.Sprintf("is %v", v))
		return 0, false
	}
	return v, true
}

// identity reads what the client says it was asked to do.
func (r *reader) identity(f field) bool {
	b := &r.part.Benchmark
	switch f.key {
	case "backend":
		b.Backend = r.text(f)
	case "endpoint_type":
		if b.Backend == "" {
			b.Backend = r.text(f)
		}
	case "model_id":
		r.part.Model = r.text(f)
	case "request_rate":
		b.RequestRate = r.rate(f)
		r.m.RequestRate = b.RequestRate
	case "burstiness":
		b.Burstiness = r.rate(f)
	case "ramp_up_strategy":
		if !isNull(f.raw) {
			b.Arrivals = result.Rising
		}
	case "steady_state":
		r.steadyState(f)
	case "profllm":
		r.client(f)
	case "simulated": // our label; --metadata writes text
		r.part.Simulated = r.part.Simulated || result.Labelled(f.raw)
	default:
		return false
	}
	return true
}

func (r *reader) text(f field) string {
	var s *string
	if err := json.Unmarshal(f.raw, &s); err != nil {
		r.warn(result.BadValue, f, fmt.Sprintf("not a string: %.40s", f.raw))
	}
	if s == nil {
		return ""
	}
	return *s
}

// rate reads a number that may be infinite, as "inf" or as a bare token.
func (r *reader) rate(f field) *result.Rate {
	if isNull(f.raw) {
		return nil
	}
	v, err := number(f.raw)
	if err != nil || math.IsNaN(v) || math.IsInf(v, -1) {
		r.warn(result.BadValue, f, fmt.Sprintf("not a rate: %.40s", f.raw))
		return nil
	}
	return new(result.Rate(v))
}

// client reads what profllm's own client says of itself.
func (r *reader) client(f field) {
	fields, err := document(f.open())
	if err != nil {
		r.warn(result.BadValue, f, pyjson.PlaceOf(err).Text)
		return
	}
	c := &result.Client{}
	for _, g := range fields {
		switch g.key {
		case "client":
			c.Program = r.text(g)
		case "partial":
			if string(g.raw) == "true" {
				r.warn(result.CutShort, g, "the client was stopped; its numbers cover a part of the load")
			}
		case "processes":
			c.Processes = r.count(g)
		case "clock_error_ms":
			c.ClockError = r.optional(g)
		case "loops":
			c.Threads = r.count(g)
		case "started":
			if at, err := time.Parse(time.RFC3339Nano, r.text(g)); err == nil {
				c.Started = new(at.UTC())
			}
		case "cpu_s":
			c.CPUSeconds = r.optional(g)
		case "send_delay_p99_ms":
			c.SendDelayP99 = r.optional(g)
		case "lag_p99_ms":
			c.LagP99 = r.optional(g)
		case "first_send_s":
			c.FirstSend = r.optional(g)
		case "last_send_s":
			c.LastSend = r.optional(g)
		case "last_end_s":
			c.LastEnd = r.optional(g)
		case "warnings":
			r.lenient(g)
		case "retried":
			c.Resent = r.count(g)
		case "usage_missing":
			c.UsageMissing = r.count(g)
		case "warmups_failed":
			c.WarmUpsFailed = r.count(g)
		case "steady":
			r.ownSteadyState(g)
		}
	}
	r.m.Client = c
}

// lenient reads what profllm's client accepted of the servers.
func (r *reader) lenient(f field) {
	var list []string
	if err := json.Unmarshal(f.raw, &list); err != nil {
		r.warn(result.BadValue, f, "no list of texts")
		return
	}
	for _, text := range list[:min(len(list), 8)] {
		r.warn(result.Lenient, f, fmt.Sprintf("%.200s", text))
	}
}

// steadyState reads the block that vllm-rs adds.
func (r *reader) steadyState(f field) {
	if isNull(f.raw) {
		return
	}
	fields, err := document(f.open())
	if err != nil {
		r.warn(result.BadValue, f, pyjson.PlaceOf(err).Text)
		return
	}
	s := &result.SteadyState{}
	for _, g := range fields {
		switch g.key {
		case "window":
			window, err := document(g.open())
			if err != nil {
				r.warn(result.BadValue, g, pyjson.PlaceOf(err).Text)
			}
			for _, w := range window {
				r.window(s, w)
			}
		case "request_throughput":
			s.RequestThroughput = r.optional(g)
		case "output_throughput":
			s.OutputThroughput = r.optional(g)
		case "total_token_throughput":
			s.TotalTokenThroughput = r.optional(g)
		}
	}
	r.m.SteadyState = s
}

// ownSteadyState reads the steady part that profllm's client reports.
func (r *reader) ownSteadyState(f field) {
	if isNull(f.raw) {
		return
	}
	fields, err := document(f.open())
	if err != nil {
		r.warn(result.BadValue, f, pyjson.PlaceOf(err).Text)
		return
	}
	s := &result.SteadyState{}
	var begin, end *float64
	for _, g := range fields {
		switch g.key {
		case "none":
			return
		case "begin_s":
			begin = r.optional(g)
		case "end_s":
			end = r.optional(g)
		case "sent":
			s.RequestsStarted = r.count(g)
		case "completed":
			s.RequestsCompleted = r.count(g)
		case "request_throughput":
			s.RequestThroughput = r.optional(g)
		case "output_throughput":
			s.OutputThroughput = r.optional(g)
		case "total_token_throughput":
			s.TotalTokenThroughput = r.optional(g)
		}
	}
	if begin != nil && end != nil {
		s.Duration = new(*end - *begin)
	}
	r.m.SteadyState = s
}

func (r *reader) window(s *result.SteadyState, f field) {
	switch f.key {
	case "duration_s":
		s.Duration = r.optional(f)
	case "requests_started_in_window":
		s.RequestsStarted = r.count(f)
	case "requests_completed_in_window":
		s.RequestsCompleted = r.count(f)
	case "warning":
		s.Warning = r.text(f)
	}
}

func (r *reader) optional(f field) *float64 {
	if v, ok := r.finite(f); ok {
		return &v
	}
	return nil
}

func (r *reader) count(f field) *int {
	v, ok := r.finite(f)
	switch {
	case !ok:
		return nil
	case v != math.Trunc(v) || math.Abs(v) > 1<<53:
		r.warn(result.NoNumber, f, fmt.Sprintf("not a whole number: %.40s", f.raw))
		return nil
	}
	return new(int(v))
}

// Known reports whether a key of a result file has a place in the record.
func Known(key string) bool {
	r := reader{part: &result.Part{}, m: &result.Metrics{}}
	f := field{key: strings.TrimSuffix(key, ":"), raw: []byte("null")}
	return r.float(f) || r.integer(f) || r.latency(f) || r.list(f) || r.identity(f)
}
