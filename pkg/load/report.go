package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/load/sender"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/quantity"
)

// A Report is the result of a run. Its JSON has vLLM's keys in vLLM's order, then ours under
// "profllm".
type Report struct {
	Date      string // local time, YYYYMMDD-HHMMSS
	Backend   string
	Label     string // empty is null
	ModelID   string
	Tokenizer string // empty is null
	Metadata  []Pair

	NumPrompts     int
	RequestRate    float64 // requests/s, may be infinite
	Burstiness     float64
	MaxConcurrency *int
	RampUpStrategy string
	RampUpStartRPS *int
	RampUpEndRPS   *int

	// s, from the first send, or from before it if it was not due at once, to the end of the
	// last request
	Duration          float64
	Completed         int
	Failed            int
	Pooling           *Pooling // nil if answers are text
	InputTokens       int      // of completed requests, as all sums
	OutputTokens      int
	RequestThroughput float64  // completed requests/s
	Goodput           *float64 // requests/s that met every limit; nil without limits
	OutputThroughput  float64  // tokens/s
	TotalThroughput   float64  // tokens/s, both ways
	PeakTokens        int      // most token events in one second
	PeakRequests      int      // most requests in flight
	Families          []Family // in the order of the table

	Probes *Probes // nil if nothing was probed
	Client Client

	detailed bool
	ended    []answer.Outcome // completed and failed requests in the order of the schedule
	changes  []rateChange
}

// Pooling is what a run of a model that embeds or ranks has in place of generated tokens.
type Pooling struct {
	InputSequences          int     // texts that were embedded or ranked
	InputSequenceThroughput float64 // of them per second
}

// Client is what vLLM's result lacks: how the client fared, and how far the run got.
type Client struct {
	Program string `json:"client"`
	Version string `json:"version"`
	Engine  string `json:"engine"` // epoll or goroutines
	Loops   int    `json:"loops"`  // threads that send and read
	// Processes share the load. The clocks of all but the first may be off by ClockError.
	Processes    int      `json:"processes"`
	ClockError   float64  `json:"clock_error_ms,omitempty"`
	Started      string   `json:"started"`
	CPUSeconds   float64  `json:"cpu_s"`             // of the whole process during the run
	SendDelayP99 float64  `json:"send_delay_p99_ms"` // from when a request could be sent to its first byte
	LagP99       float64  `json:"lag_p99_ms"`        // how late the time of an event may be, because it was read late
	FirstSend    float64  `json:"first_send_s"`      // from the start of the run
	LastSend     float64  `json:"last_send_s"`
	LastEnd      float64  `json:"last_end_s"`         // last token of all completed requests
	Warnings     []string `json:"warnings,omitempty"` // what servers sent that the protocol does not have
	Partial      bool     `json:"partial"`            // the run was interrupted
	Interrupted  int      `json:"interrupted"`
	NotSent      int      `json:"not_sent"`
	// Retried counts requests that were sent again: the server had closed their connection
	// before it can have read them. Their times count from the first send.
	Retried         int   `json:"retried"`
	RetriedRequests []int `json:"retried_requests,omitempty"` // their places in the arrays over requests
	// output tokens counted by events, as the server named no usage
	UsageMissing  int     `json:"usage_missing"`
	WarmUpsFailed int     `json:"warmups_failed"`
	Prompts       Prompts `json:"prompts"`
	Samples       Samples `json:"samples"`
	Steady        *Steady `json:"steady"`
	Turns         *Turns  `json:"conversations,omitempty"`
}

// Samples says over how many values each family was computed.
type Samples struct {
	TTFT int `json:"ttft"`
	TPOT int `json:"tpot"`
	ITL  int `json:"itl"`
	E2EL int `json:"e2el"`
}

func newReport(m *measurement) *Report {
	o := m.options
	r := &Report{
		Date: m.started.Local().Format("20060102-150405"), Backend: string(o.Backend), Label: o.Label,
		ModelID:    m.model.id,
		NumPrompts: len(m.outcomes), RequestRate: o.RequestRate, Burstiness: o.Burstiness,
		MaxConcurrency: o.MaxConcurrency,
		RampUpStrategy: o.RampUpStrategy, RampUpStartRPS: o.RampUpStartRPS, RampUpEndRPS: o.RampUpEndRPS,
		Duration: float64(m.end-m.begin) / second, detailed: o.SaveDetailed, Probes: m.probes,
	}
	r.Metadata, _ = o.Metadata.pairs("=") // Validate has refused others
	if !o.SkipTokenizerInit {
		if r.Tokenizer = o.Tokenizer; r.Tokenizer == "" {
			r.Tokenizer = m.model.id
		}
	}
	if m.talks != nil {
		r.NumPrompts = len(m.outcomes) // the turns: --num-prompts is the most of them
	}
	r.count(m)
	r.changes = rateChanges(o, m.started, m.arrivals, m.rates, len(m.outcomes)-r.Client.NotSent)

	if limits, _ := Goodput(o.Goodput); len(limits) > 0 {
		good := perSecond(countGood(m.outcomes, limits), r.Duration)
		r.Goodput = &good
	}
	r.RequestThroughput = perSecond(r.Completed, r.Duration)
	r.OutputThroughput = perSecond(r.OutputTokens, r.Duration)
	r.TotalThroughput = perSecond(r.InputTokens+r.OutputTokens, r.Duration)
	if r.Pooling != nil {
		r.Pooling.InputSequenceThroughput = perSecond(r.Pooling.InputSequences, r.Duration)
	}
	r.PeakTokens, r.PeakRequests = peakTokens(m.outcomes), peakOverlap(m.outcomes)

	all := series(m.outcomes)
	families, _ := o.families()
	percentiles, _ := o.percentiles()
	for _, name := range families {
		if r.reports(name) {
			r.Families = append(r.Families, newFamily(name, all[name], percentiles))
		}
	}
	r.Client.Samples = Samples{len(all["ttft"]), len(all["tpot"]), len(all["itl"]), len(all["e2el"])}
	r.Client.Steady, r.Client.Turns = m.steady(), m.turns()
	return r
}

func perSecond(n int, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}

// reports says whether a family exists in this run: queue times need a cap, and the sum also a
// finite rate. A model that embeds or ranks sends no tokens.
func (r *Report) reports(family string) bool {
	switch family {
	case "ttft", "tpot", "itl":
		return r.Pooling == nil
	case "client_queue_time":
		return r.MaxConcurrency != nil
	case "e2el_including_client_queue":
		return r.MaxConcurrency != nil && !math.IsInf(r.RequestRate, 1)
	}
	return true
}

// warnings says what was accepted in how many answers.
func warnings(requests map[answer.Leniency]int) (list []string) {
	var all answer.Leniency
	for l := range requests {
		all |= l
	}
	for l, text := range all.All() {
		list = append(list, fmt.Sprintf("%s: %s", quantity.Count(requests[l], "answer"), text))
	}
	return list
}

// count goes through the outcomes once for sums and for how the client fared.
func (r *Report) count(m *measurement) {
	c := &r.Client
	*c = Client{
		Program: "profllm bench serve", Version: m.options.Version, Engine: m.client.Kind, Loops: m.client.Loops,
		Processes: m.processes, ClockError: float64(m.clockError) / 1e6,
		Started: m.started.UTC().Format(time.RFC3339Nano), CPUSeconds: m.cpu.Seconds(),
		LagP99: float64(m.client.Lag.Quantile(0.99)) / 1e6, WarmUpsFailed: m.coldWarmUps, Prompts: m.prompts,
	}
	if m.options.pools() {
		r.Pooling = &Pooling{}
	}
	var delays sender.Spread
	first, last, end := int64(math.MaxInt64), m.begin, m.begin
	lenient := map[answer.Leniency]int{} // requests
	defer func() { c.Warnings = warnings(lenient) }()
	for i := range m.outcomes {
		o := &m.outcomes[i]
		if o.Resends > 0 {
			c.Retried++
			if o.State == answer.Completed || o.State == answer.Failed {
				c.RetriedRequests = append(c.RetriedRequests, len(r.ended))
			}
		}
		if o.Start != 0 {
			delays.Add(o.Start - o.Ready)
			first, last = min(first, o.Start), max(last, o.Start)
		}
		switch o.State {
		case answer.Completed:
			for l := range o.Lenient.All() {
				lenient[l]++
			}
			r.Completed++
			r.InputTokens += o.Input
			r.OutputTokens += o.Output
			end = max(end, o.Tokens[len(o.Tokens)-1])
			if !o.Usage {
				c.UsageMissing++
			}
			if r.Pooling != nil {
				r.Pooling.InputSequences += m.options.protocol().prompt.sequences(m.requests[i].Prompt)
			}
		case answer.Failed:
			r.Failed++
		case answer.Interrupted, answer.InFlight:
			c.Interrupted++
			continue
		case answer.Unsent:
			c.NotSent++
			continue
		case answer.Skipped:
			continue
		}
		r.ended = append(r.ended, *o)
	}
	c.Partial = c.Interrupted+c.NotSent > 0
	c.SendDelayP99 = float64(delays.Quantile(0.99)) / 1e6
	if first != math.MaxInt64 {
		c.FirstSend = float64(first-m.begin) / second
	}
	c.LastSend, c.LastEnd = float64(last-m.begin)/second, float64(end-m.begin)/second
}

// firstError returns why the first failed request failed.
func (r *Report) firstError() string {
	for i := range r.ended {
		if r.ended[i].Err != "" {
			return r.ended[i].Err
		}
	}
	return "nothing was sent"
}

// MarshalJSON implements [json.Marshaler].
func (r *Report) MarshalJSON() ([]byte, error) {
	var w keyWriter
	w.put("date", r.Date)
	w.put("endpoint_type", r.Backend)
	w.put("backend", r.Backend)
	w.put("label", orNull(r.Label))
	w.put("model_id", r.ModelID)
	w.put("tokenizer_id", orNull(r.Tokenizer))
	w.put("num_prompts", r.NumPrompts)
	for _, p := range r.Metadata {
		w.put(p.Key, p.Value)
	}
	w.put("request_rate", number(r.RequestRate))
	w.put("burstiness", number(r.Burstiness))
	w.put("max_concurrency", r.MaxConcurrency)
	if r.RampUpStrategy != "" {
		w.put("ramp_up_strategy", r.RampUpStrategy)
		w.put("ramp_up_start_rps", r.RampUpStartRPS)
		w.put("ramp_up_end_rps", r.RampUpEndRPS)
	}
	w.put("duration", number(r.Duration))
	w.put("completed", r.Completed)
	w.put("failed", r.Failed)
	w.put("total_input_tokens", r.InputTokens)
	if r.Pooling != nil {
		r.putPooling(&w)
	} else {
		r.putGeneration(&w)
	}
	if r.Probes != nil {
		r.Probes.put(&w)
	}
	if r.changes != nil {
		w.put("rps_change_events", r.changes)
	}
	for _, f := range r.Families {
		w.put("mean_"+f.Name+"_ms", number(f.Mean))
		w.put("median_"+f.Name+"_ms", number(f.Median))
		w.put("std_"+f.Name+"_ms", number(f.Std))
		for _, p := range f.Percentiles {
			w.put("p"+p.name()+"_"+f.Name+"_ms", number(p.Value))
		}
	}
	w.put("profllm", r.Client)
	return w.close()
}

// putGeneration writes what a run has whose answers are text.
func (r *Report) putGeneration(w *keyWriter) {
	w.put("total_output_tokens", r.OutputTokens)
	w.put("request_throughput", number(r.RequestThroughput))
	w.put("request_goodput", (*number)(r.Goodput))
	w.put("output_throughput", number(r.OutputThroughput))
	w.put("total_token_throughput", number(r.TotalThroughput))
	r.putRequests(w)
	w.put("max_output_tokens_per_s", number(r.PeakTokens))
	w.put("max_concurrent_requests", r.PeakRequests)
	w.put("rtfx", number(0)) // seconds of audio per second: there is none
}

// putPooling writes what a run has whose answers are numbers. vLLM's client writes no failed
// requests there.
func (r *Report) putPooling(w *keyWriter) {
	w.put("total_input_sequences", r.Pooling.InputSequences)
	w.put("request_throughput", number(r.RequestThroughput))
	w.put("input_sequence_throughput", number(r.Pooling.InputSequenceThroughput))
	w.put("total_token_throughput", number(r.TotalThroughput))
	r.putRequests(w)
}

// putRequests writes the arrays over requests. Like vLLM it always writes two of them.
func (r *Report) putRequests(w *keyWriter) {
	n := len(r.ended)
	inputs, outputs := make([]int, n), make([]int, n)
	ttfts, latencies, starts, queues := make([]number, n), make([]number, n), make([]number, n), make([]number, n)
	itls, texts, errs := make([][]number, n), make([]string, n), make([]string, n)
	for i := range r.ended {
		o := &r.ended[i]
		inputs[i], starts[i], queues[i] = o.Input, number(float64(o.Start)/second), number(o.Queued())
		texts[i], errs[i], itls[i] = o.Text, o.Err, []number{}
		if o.State != answer.Completed {
			continue
		}
		outputs[i], ttfts[i], latencies[i] = o.Output, number(o.TTFT()), number(o.Latency())
		if r.detailed {
			for _, g := range o.Gaps(nil) {
				itls[i] = append(itls[i], number(g))
			}
		}
	}
	if r.Pooling != nil {
		if r.detailed {
			w.put("input_lens", inputs)
		}
		w.put("latencies", latencies)
		w.put("queue_times", queues)
		if r.detailed {
			w.put("errors", errs)
		}
		return
	}
	if r.detailed {
		w.put("input_lens", inputs)
		w.put("output_lens", outputs)
		w.put("ttfts", ttfts)
		w.put("itls", itls)
	}
	w.put("latencies", latencies)
	if r.detailed {
		w.put("start_times", starts)
	}
	w.put("queue_times", queues)
	if r.detailed {
		w.put("generated_texts", texts)
		w.put("errors", errs)
	}
}

// A number is a float that JSON shows as Python does: with a point or an exponent; "inf" if
// infinite.
type number float64

// MarshalJSON implements [json.Marshaler].
func (n number) MarshalJSON() ([]byte, error) {
	s := pyjson.Float(float64(n))
	if s == "inf" {
		s = `"inf"`
	}
	return []byte(s), nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// A keyWriter builds a JSON object whose keys keep the place of their first writing and the
// value of the last.
type keyWriter struct {
	members Object
	err     error
}

func (w *keyWriter) put(key string, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil && w.err == nil {
		w.err = err
	}
	w.members.set(key, bytes.TrimRight(b.Bytes(), "\n"))
}

func (w *keyWriter) close() ([]byte, error) {
	return w.members.json(), w.err
}
