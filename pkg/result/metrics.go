package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Metrics is the results object: vLLM's key names, one flat object.
//
// Latencies are held by family and flattened on writing, so that the file
// says median_ttft_ms and p95_ttft_ms beside n_ttft, the size of the sample
// they were taken from.
type Metrics struct {
	Counts
	Rates
	Peaks
	Speculation
	Diffusion
	Probes
	Energy
	Price

	// Derived names the keys that profllm computed because the client did not
	// report them, sorted.
	Derived []string `json:"derived,omitempty"`
	// FromLog says that the numbers were read from console text and are
	// rounded to two decimals.
	FromLog bool   `json:"from_log,omitempty"`
	Source  string `json:"source,omitempty" jsonschema:"file from which the numbers were read"`

	SteadyState *SteadyState  `json:"steady_state,omitempty"`
	Offline     *Offline      `json:"offline,omitempty" jsonschema:"numbers of a benchmark without a server"`
	Client      *Client       `json:"client,omitempty"`
	Server      []ServerDelta `json:"server,omitempty"`
	Load        *ServerLoad   `json:"server_load,omitempty"`
	KVTransfer  *KVTransfer   `json:"kv_transfer,omitempty"`
	Proxy       *Proxy        `json:"proxy,omitempty"`
	Routing     *Routing      `json:"routing,omitempty" jsonschema:"what the frontend of NVIDIA Dynamo counted"`

	// Latency holds the distributions by family; in the file they are
	// <statistic>_<family>_ms and n_<family>.
	Latency map[Family]Distribution `json:"-"`
}

// Measured reports whether there is any number: a count, a rate or a latency.
func (m *Metrics) Measured() bool {
	return m.CompletedRequests != nil || m.RequestThroughput != nil || m.OutputThroughput != nil ||
		m.TotalTokenThroughput != nil || len(m.Latency) > 0
}

// Counts are totals of the measured window.
type Counts struct {
	NumPrompts          *int     `json:"num_prompts,omitempty" jsonschema:"number of requests that were planned"`
	CompletedRequests   *int     `json:"completed_requests,omitempty"`
	FailedRequests      *int     `json:"failed_requests,omitempty"`
	Duration            *float64 `json:"duration_s,omitempty" jsonschema:"length of the client's window"`
	TotalInputTokens    *int64   `json:"total_input_tokens,omitempty" jsonschema:"input tokens of completed requests"`
	TotalOutputTokens   *int64   `json:"total_output_tokens,omitempty" jsonschema:"output tokens of completed requests"`
	UsageOutputTokens   *int64   `json:"usage_output_tokens,omitempty" jsonschema:"output tokens by the server's usage, if total_output_tokens is by the client's tokenizer"`
	TotalInputSequences *int64   `json:"total_input_sequences,omitempty" jsonschema:"for pooling models only"`
	MaxConcurrency      *int     `json:"max_concurrency,omitempty" jsonschema:"cap that the client was given"`
	RequestRate         *Rate    `json:"request_rate,omitempty" jsonschema:"rate that the client was given, 1/s"`
	GPUs                *int     `json:"gpus,omitempty" jsonschema:"GPUs that served, over all nodes"`
	// CutRequests are as many as the ends of the client's window may cut. Such a
	// request is counted, and only a part of it is in the rates, so that totals and
	// rates agree up to these.
	CutRequests *float64 `json:"window_cut_requests,omitempty" jsonschema:"largest number of requests that the ends of the window may cut"`
}

// Rates are per second of the client's window.
type Rates struct {
	RequestThroughput       *float64 `json:"request_throughput,omitempty" jsonschema:"completed requests per s"`
	RequestGoodput          *float64 `json:"request_goodput,omitempty" jsonschema:"requests per s that met every limit"`
	InputThroughput         *float64 `json:"input_throughput,omitempty" jsonschema:"input tokens per s"`
	InputSequenceThroughput *float64 `json:"input_sequence_throughput,omitempty" jsonschema:"pooling only, 1/s"`
	OutputThroughput        *float64 `json:"output_throughput,omitempty" jsonschema:"output tokens per s"`
	TotalTokenThroughput    *float64 `json:"total_token_throughput,omitempty" jsonschema:"input and output tokens per s"`
	OutputPerGPU            *float64 `json:"output_throughput_per_gpu,omitempty" jsonschema:"output tokens per s and GPU"`
	TotalPerGPU             *float64 `json:"total_token_throughput_per_gpu,omitempty"`
	OutputPerUser           *float64 `json:"output_throughput_per_user,omitempty" jsonschema:"output tokens per s divided by max_concurrency"`
}

// Peaks are the client's one-second peaks.
type Peaks struct {
	MaxOutputTokensPerS   *float64 `json:"max_output_tokens_per_s,omitempty" jsonschema:"chunks (not tokens) in the busiest second"`
	MaxConcurrentRequests *float64 `json:"max_concurrent_requests,omitempty"`
	// MeanConcurrentRequests is measured; MaxConcurrency is what was asked for.
	MeanConcurrentRequests *float64 `json:"mean_concurrent_requests,omitempty" jsonschema:"requests in flight, mean over the window"`
	RTFx                   *float64 `json:"rtfx,omitempty" jsonschema:"s of audio per s"`
}

// Speculation is present if the engine drafted tokens.
type Speculation struct {
	AcceptanceRate   *float64  `json:"spec_decode_acceptance_rate,omitempty" jsonschema:"percent"`
	AcceptanceLength *float64  `json:"spec_decode_acceptance_length,omitempty" jsonschema:"tokens per step"`
	NumDrafts        *int64    `json:"spec_decode_num_drafts,omitempty"`
	DraftTokens      *int64    `json:"spec_decode_draft_tokens,omitempty"`
	AcceptedTokens   *int64    `json:"spec_decode_accepted_tokens,omitempty"`
	PerPosition      []float64 `json:"spec_decode_per_position_acceptance_rates,omitempty" jsonschema:"shares, by draft position"`
}

// Diffusion is present for diffusion language models.
type Diffusion struct {
	CommittedThroughput *float64 `json:"diffusion_committed_throughput,omitempty"`
	StepsPerCanvas      *float64 `json:"diffusion_steps_per_canvas,omitempty"`
	CommittedPerStep    *float64 `json:"diffusion_committed_per_step,omitempty"`
	CommittedTokens     *int64   `json:"diffusion_committed_tokens,omitempty"`
	DenoisingSteps      *int64   `json:"diffusion_denoising_steps,omitempty"`
	CanvasPositions     *int64   `json:"diffusion_canvas_positions,omitempty"`
}

// Probes are the client's probe requests beside the load.
type Probes struct {
	ProbeCompleted  *int     `json:"probe_completed,omitempty"`
	ProbeFailed     *int     `json:"probe_failed,omitempty"`
	ProbeMedianE2EL *float64 `json:"probe_median_e2el_ms,omitempty"`
	ProbeP99E2EL    *float64 `json:"probe_p99_e2el_ms,omitempty"`
	ProbeMaxE2EL    *float64 `json:"probe_max_e2el_ms,omitempty"`
}

// SteadyState is the part of the window in which the load was at its target.
type SteadyState struct {
	Duration             *float64 `json:"duration_s,omitempty"`
	RequestsStarted      *int     `json:"requests_started,omitempty"`
	RequestsCompleted    *int     `json:"requests_completed,omitempty"`
	RequestThroughput    *float64 `json:"request_throughput,omitempty"`
	OutputThroughput     *float64 `json:"output_throughput,omitempty"`
	TotalTokenThroughput *float64 `json:"total_token_throughput,omitempty"`
	Warning              string   `json:"warning,omitempty" jsonschema:"warning that the client printed"`
}

// Client is how the load client itself performed, if it reports that.
type Client struct {
	Program      string   `json:"program" jsonschema:"the client's name"`
	Processes    *int     `json:"processes,omitempty" jsonschema:"client processes that shared the load"`
	ClockError   *float64 `json:"clock_error_ms,omitempty" jsonschema:"how far the clocks of the other client processes may be off"`
	Threads      *int     `json:"threads,omitempty" jsonschema:"threads that send and read"`
	CPUSeconds   *float64 `json:"cpu_s,omitempty" jsonschema:"CPU time of the client during the window"`
	SendDelayP99 *float64 `json:"send_delay_p99_ms,omitempty" jsonschema:"p99 of the time from when a request could be sent until its first byte was sent"`
	LagP99       *float64 `json:"lag_p99_ms,omitempty" jsonschema:"p99 of how late the time of an event may be because the client read it late"`
	FirstSend    *float64 `json:"first_send_s,omitempty" jsonschema:"first send, from the start of the window"`
	LastSend     *float64 `json:"last_send_s,omitempty"`
	LastEnd      *float64 `json:"last_end_s,omitempty" jsonschema:"last token of a completed request, from the start of the window"`

	Resent        *int `json:"resent_requests,omitempty" jsonschema:"requests sent again because their connection closed as they were sent; their times count from the first send"`
	UsageMissing  *int `json:"usage_missing,omitempty" jsonschema:"completed requests whose tokens were counted by events, because the server reported no usage"`
	WarmUpsFailed *int `json:"warmups_failed,omitempty" jsonschema:"warm-up requests that failed"`

	Started *time.Time `json:"started,omitempty" jsonschema:"start of the window by the clock of the client's node, RFC 3339, UTC"`
}

// ServerLoad is what the engines' gauges said while the client ran, once a
// second, summed over the engines. Seconds before the first and after the last
// request are left out.
type ServerLoad struct {
	Samples     int     `json:"samples"`
	Running     float64 `json:"running_mean" jsonschema:"requests in the engines, mean over the samples"`
	Waiting     float64 `json:"waiting_mean" jsonschema:"requests waiting in the engines, mean over the samples"`
	RunningMax  float64 `json:"running_max"`
	WaitingMax  float64 `json:"waiting_max"`
	KVCacheMax  float64 `json:"kv_cache_max" jsonschema:"highest KV cache use of any engine, 0 to 1"`
	IntervalSec float64 `json:"interval_s" jsonschema:"median time between two samples"`
}

// ServerDelta is the change of the counters of one instance of a role between two readings
// of /metrics, summed over its engines.
type ServerDelta struct {
	Role      string             `json:"role"`
	Replica   int                `json:"replica,omitempty" jsonschema:"0 for the first"`
	Counters  map[string]float64 `json:"counters" jsonschema:"difference of each counter over the load, by metric name"`
	BrokenOff *float64           `json:"broken_off,omitempty" jsonschema:"requests that the engine ended as aborted or failed"`
	Reset     bool               `json:"reset,omitempty" jsonschema:"a counter fell or the start time changed: the server restarted in between"`
	Others    bool               `json:"others,omitempty" jsonschema:"other clients of the run sent requests between the two readings too"`
}

// KVTransfer sums up the transfer of KV blocks between roles.
type KVTransfer struct {
	Transfers           *int64   `json:"transfers,omitempty"`
	Bytes               *float64 `json:"bytes,omitempty"`
	FailedTransfers     *int64   `json:"failed_transfers,omitempty"`
	FailedNotifications *int64   `json:"failed_notifications,omitempty"`
	ExpiredRequests     *int64   `json:"expired_requests,omitempty"`
	MeanTransferMS      *float64 `json:"mean_transfer_ms,omitempty"`
}

// A Family is a kind of latency.
type Family string

// The families, in the order in which they are written.
const (
	TTFT              Family = "ttft"  // send to first chunk
	TPOT              Family = "tpot"  // per output token after the first
	ITL               Family = "itl"   // between chunks
	E2EL              Family = "e2el"  // send to last chunk
	NTPOT             Family = "ntpot" // send to last chunk, per output token, the first included
	ClientQueue       Family = "client_queue_time"
	E2ELIncludesQueue Family = "e2el_including_client_queue"
)

// Families lists every Family.
func Families() []Family {
	return []Family{TTFT, TPOT, ITL, E2EL, NTPOT, ClientQueue, E2ELIncludesQueue}
}

// A Distribution is the statistics of one latency, in ms.
type Distribution struct {
	N      *int // size of the sample, nil if the client did not say
	Mean   *float64
	Median *float64
	Std    *float64 // population form, divided by n
	Min    *float64
	Max    *float64
	// Percentiles by rank in percent, such as 99.9; interpolated linearly.
	Percentiles map[float64]float64
}

// Percentile returns the value at rank p in percent; the median is rank 50.
func (d Distribution) Percentile(p float64) (float64, bool) {
	if v, ok := d.Percentiles[p]; ok {
		return v, true
	}
	if p == 50 && d.Median != nil {
		return *d.Median, true
	}
	return 0, false
}

// Key returns the JSON key of a statistic: mean, median, std, min, max, or a
// percentile such as p99.9.
func (f Family) Key(stat string) string { return stat + "_" + string(f) + "_ms" }

// PercentileName returns the statistic's name, such as p95 or p99.9.
func PercentileName(p float64) string { return "p" + strconv.FormatFloat(p, 'f', -1, 64) }

// SplitKey reads a latency key such as p99_ttft_ms; ok is false for any other.
func SplitKey(key string) (f Family, stat string, ok bool) {
	rest, ok := strings.CutSuffix(key, "_ms")
	if !ok {
		return "", "", false
	}
	stat, family, ok := strings.Cut(rest, "_")
	if !ok || !slices.Contains(Families(), Family(family)) {
		return "", "", false
	}
	switch stat {
	case "mean", "median", "std", "min", "max":
		return Family(family), stat, true
	}
	if _, err := percentileRank(stat); err != nil {
		return "", "", false
	}
	return Family(family), stat, true
}

func percentileRank(stat string) (float64, error) {
	digits, ok := strings.CutPrefix(stat, "p")
	if !ok || strings.Trim(digits, "0123456789.") != "" {
		return 0, fmt.Errorf("no percentile %q", stat)
	}
	p, err := strconv.ParseFloat(digits, 64)
	if err != nil || p < 0 || p > 100 {
		return 0, fmt.Errorf("no percentile %q", stat)
	}
	return p, nil
}

// SetLatency stores one statistic, in ms, under a name Key accepts.
func (m *Metrics) SetLatency(f Family, stat string, ms float64) error {
	if m.Latency == nil {
		m.Latency = map[Family]Distribution{}
	}
	d := m.Latency[f]
	switch stat {
	case "mean":
		d.Mean = &ms
	case "median":
		d.Median = &ms
	case "std":
		d.Std = &ms
	case "min":
		d.Min = &ms
	case "max":
		d.Max = &ms
	default:
		p, err := percentileRank(stat)
		if err != nil {
			return err
		}
		if d.Percentiles == nil {
			d.Percentiles = map[float64]float64{}
		}
		d.Percentiles[p] = ms
	}
	m.Latency[f] = d
	return nil
}

// plainMetrics is Metrics without its methods.
type plainMetrics Metrics

// MarshalJSON writes one flat object.
func (m Metrics) MarshalJSON() ([]byte, error) {
	flat, err := json.Marshal(plainMetrics(m))
	if err != nil || len(m.Latency) == 0 {
		return flat, err
	}
	b := bytes.NewBuffer(flat[:len(flat)-1])
	put := func(key string, v float64) error {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("marshal %s: %v is not a JSON number", key, v)
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, "%q:", key)
		number, err := json.Marshal(v)
		b.Write(number)
		return err
	}
	for _, f := range Families() {
		d, ok := m.Latency[f]
		if !ok {
			continue
		}
		if d.N != nil {
			if err := put("n_"+string(f), float64(*d.N)); err != nil {
				return nil, err
			}
		}
		for _, s := range d.Statistics() {
			if err := put(f.Key(s.Name), s.Value); err != nil {
				return nil, err
			}
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Statistic is one number of a distribution, in ms.
type Statistic struct {
	Name  string // as Family.Key takes it
	Value float64
}

// Statistics lists what the distribution holds, in a fixed order.
func (d Distribution) Statistics() []Statistic {
	var all []Statistic
	for _, s := range []struct {
		name  string
		value *float64
	}{{"mean", d.Mean}, {"median", d.Median}, {"std", d.Std}, {"min", d.Min}, {"max", d.Max}} {
		if s.value != nil {
			all = append(all, Statistic{s.name, *s.value})
		}
	}
	for _, p := range slices.Sorted(maps.Keys(d.Percentiles)) {
		all = append(all, Statistic{PercentileName(p), d.Percentiles[p]})
	}
	return all
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (m *Metrics) UnmarshalJSON(data []byte) error {
	var plain plainMetrics
	if err := json.Unmarshal(data, &plain); err != nil {
		return err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return err
	}
	*m = Metrics(plain)
	for key, raw := range keys {
		if f, stat, ok := SplitKey(key); ok {
			var v float64
			if err := json.Unmarshal(raw, &v); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			if err := m.SetLatency(f, stat, v); err != nil {
				return err
			}
		}
	}
	for f, d := range m.Latency {
		if raw, ok := keys["n_"+string(f)]; ok {
			if err := json.Unmarshal(raw, &d.N); err != nil {
				return fmt.Errorf("n_%s: %w", f, err)
			}
			m.Latency[f] = d
		}
	}
	return nil
}

// A Rate is a number that may be infinite; infinity is "inf" in the file.
type Rate float64

// MarshalJSON writes a number, or "inf".
func (r Rate) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(r), 1) {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(r))
}

// UnmarshalJSON reads a number, or "inf".
func (r *Rate) UnmarshalJSON(data []byte) error {
	if string(data) == `"inf"` {
		*r = Rate(math.Inf(1))
		return nil
	}
	return json.Unmarshal(data, (*float64)(r))
}
