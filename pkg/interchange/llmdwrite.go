package interchange

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/result"
)

// unknown stands where the schema wants a tool or a version that nobody recorded.
const unknown = "unknown"

// The parts of a report that are written. Keys that are not here are not known to
// the schema, or have no number in a record.
type (
	llmdReport struct {
		Version  string        `json:"version"`
		Run      llmdRun       `json:"run"`
		Scenario *llmdScenario `json:"scenario,omitempty"`
		Results  llmdResults   `json:"results"`
	}
	llmdRun struct {
		UID         string    `json:"uid"`
		EID         string    `json:"eid,omitempty"`
		Time        *llmdTime `json:"time,omitempty"`
		Description string    `json:"description,omitempty"`
		Keywords    []string  `json:"keywords,omitempty"`
	}
	llmdTime struct {
		Start    *time.Time `json:"start,omitempty"`
		End      *time.Time `json:"end,omitempty"`
		Duration string     `json:"duration,omitempty"`
	}
	llmdScenario struct {
		Stack []llmdComponent `json:"stack,omitempty"`
		Load  *llmdComponent  `json:"load,omitempty"`
	}
	llmdComponent struct {
		Metadata     map[string]any `json:"metadata"`
		Standardized map[string]any `json:"standardized"`
		Native       map[string]any `json:"native"`
	}
	llmdResults struct {
		RequestPerformance struct {
			Aggregate llmdAggregate `json:"aggregate"`
		} `json:"request_performance"`
	}
	llmdAggregate struct {
		Requests   map[string]any            `json:"requests,omitempty"`
		Latency    map[string]map[string]any `json:"latency,omitempty"`
		Throughput map[string]map[string]any `json:"throughput,omitempty"`
	}
)

// writeLLMD makes the report of a record. What the record's checks withhold is left
// out; what kind of run it was stands in the keywords and the description.
func writeLLMD(r *result.Result) (*llmdReport, error) {
	d := &llmdReport{Version: "0.2.1"}
	d.Run = llmdRun{UID: r.RunID, EID: r.Suite, Keywords: append([]string{writer}, labels(r)...)}
	if len(d.Run.Keywords) > 1 {
		d.Run.Description = "profllm: " + strings.Join(d.Run.Keywords[1:], ", ")
	}
	if r.Simulated {
		d.Run.Description = "SIMULATED, not a measurement of an engine; " + d.Run.Description
	}
	if t := (llmdTime{}); !r.Timestamp.IsZero() {
		t.Start = new(r.Timestamp.UTC())
		if s := r.Duration; s != nil && *s >= 0 && *s < math.MaxInt64/1e9 {
			t.End = new(t.Start.Add(time.Duration(*s * float64(time.Second))))
			t.Duration = "PT" + strconv.FormatFloat(*s, 'f', -1, 64) + "S"
		}
		d.Run.Time = &t
	}
	a := &d.Results.RequestPerformance.Aggregate
	a.Requests, a.Latency, a.Throughput = llmdRequests(&r.Results), llmdLatency(r), llmdThroughput(r)
	if a.Requests == nil && a.Latency == nil && a.Throughput == nil {
		return nil, errors.New("no number that a benchmark report can hold")
	}
	s := llmdScenario{Stack: llmdStack(r), Load: llmdLoadOf(r)}
	if s.Stack != nil || s.Load != nil {
		d.Scenario = &s
	}
	return d, nil
}

func llmdRequests(m *result.Metrics) map[string]any {
	all := m.NumPrompts
	if all == nil && m.CompletedRequests != nil && m.FailedRequests != nil {
		all = new(*m.CompletedRequests + *m.FailedRequests)
	}
	if all == nil {
		return nil // the schema wants the total
	}
	out := map[string]any{"total": *all}
	if done := m.CompletedRequests; done != nil {
		failures := *all - *done
		incomplete := 0
		if f := m.FailedRequests; f != nil && *f < failures { // neither served nor failed
			incomplete, failures = failures-*f, *f
		}
		if failures >= 0 {
			out["failures"], out["incomplete"] = failures, incomplete
		}
		for key, n := range map[string]*int64{"input_length": m.TotalInputTokens,
			"output_length": m.TotalOutputTokens} {
			if n != nil && *done > 0 {
				out[key] = statistic("count", float64(*n)/float64(*done))
			}
		}
	}
	return out
}

func statistic(unit string, mean float64) map[string]any {
	return map[string]any{"units": unit, "mean": mean}
}

// llmdLatency makes the statistics; the schema has none without a mean.
func llmdLatency(r *result.Result) map[string]map[string]any {
	var out map[string]map[string]any
	all := latencies(r)
	for _, l := range llmdLatencies {
		mean, ok := all[l.family.Key("mean")]
		if !ok {
			continue
		}
		s := statistic("ms", mean)
		if l.token {
			s["units"] = "ms/token"
		}
		for _, x := range llmdStats {
			v, ok := all[l.family.Key(x.stat)]
			if !ok && x.stat == "median" {
				v, ok = all[l.family.Key("p50")]
			}
			if ok {
				s[x.key] = v
			}
		}
		if out == nil {
			out = map[string]map[string]any{}
		}
		out[l.key] = s
	}
	return out
}

func llmdThroughput(r *result.Result) map[string]map[string]any {
	m := &r.Results
	var out map[string]map[string]any
	for _, x := range []struct {
		key, ours, unit string
		v               *float64
	}{
		{"input_token_rate", "input_throughput", "tokens/s", m.InputThroughput},
		{"output_token_rate", "output_throughput", "tokens/s", m.OutputThroughput},
		{"total_token_rate", "total_token_throughput", "tokens/s", m.TotalTokenThroughput},
		{"request_rate", "request_throughput", "queries/s", m.RequestThroughput},
	} {
		if x.v == nil || r.Validity.Withholds(x.ours) {
			continue
		}
		if out == nil {
			out = map[string]map[string]any{}
		}
		out[x.key] = statistic(x.unit, *x.v)
	}
	return out
}

// llmdStack is the engine, or one for prefill and one for decode. Without the name
// of the GPU the schema's engine cannot be written, and the component is generic.
func llmdStack(r *result.Result) []llmdComponent {
	p := r.Provenance
	model, _ := r.Config.Server["model"].(string)
	if p == nil || p.Engine == "" || model == "" {
		return nil
	}
	roles := r.Config.Roles
	if len(roles) == 0 {
		roles = []result.RoleConfig{{Role: "replica", Server: r.Config.Server}}
	}
	var list []llmdComponent
	for _, role := range roles {
		options := maps.Clone(role.Server)
		delete(options, "model")
		c := llmdComponent{
			Metadata: map[string]any{"label": cmp.Or(role.Role, "replica"), "cfg_id": digestOf(options)},
			Standardized: map[string]any{"tool": p.Engine, "tool_version": cmp.Or(p.EngineVersion, p.Image, unknown),
				"model": map[string]any{"name": model}},
			Native: map[string]any{},
		}
		if len(options) > 0 {
			args := map[string]any{}
			for k, v := range options {
				args["--"+strings.ReplaceAll(k, "_", "-")] = v
			}
			c.Native["args"] = args
		}
		c.accelerate(r, role.Role)
		list = append(list, c)
	}
	return list
}

// accelerate adds what the schema's engine wants, if all of it is known.
func (c *llmdComponent) accelerate(r *result.Result, role string) {
	c.Standardized["kind"] = "generic"
	if r.System == nil || r.System.HardwareInfo == nil || r.System.HardwareInfo.GPU == "" ||
		!slices.Contains([]string{"replica", "prefill", "decode"}, role) {
		return
	}
	gpus, replicas := value(r.Results.GPUs), 1
	if role != "replica" {
		if gpus, replicas = 0, 0; r.Placement != nil {
			for _, x := range r.Placement.Roles {
				if x.Role == role {
					gpus += x.GPUsPerNode * x.Slice.Count
					replicas++
				}
			}
		}
	}
	if gpus <= 0 || replicas <= 0 {
		return
	}
	parallel := map[string]any{}
	args, _ := c.Native["args"].(map[string]any)
	for key, option := range map[string]string{"tp": "--tensor-parallel-size", "pp": "--pipeline-parallel-size",
		"dp": "--data-parallel-size"} {
		if n, ok := wholeOf(args[option]); ok {
			parallel[key] = n
		}
	}
	c.Standardized["kind"], c.Standardized["role"], c.Standardized["replicas"] = "inference_engine", role, replicas
	c.Standardized["accelerator"] = map[string]any{"model": r.System.HardwareInfo.GPU, "count": gpus,
		"parallelism": parallel}
}

// llmdLoadOf is the workload; the schema has none without the length of prompts.
func llmdLoadOf(r *result.Result) *llmdComponent {
	b, m := r.Config.Benchmark, &r.Results
	std := map[string]any{"tool": cmp.Or(b.Kind, unknown), "tool_version": unknown, "source": unknown}
	if m.Client != nil && r.Provenance != nil && m.Client.Program == "profllm" {
		std["tool_version"] = r.Provenance.Profllm
	}
	switch {
	case b.InputTokens != nil:
		std["input_seq_len"] = map[string]any{"distribution": "fixed", "value": *b.InputTokens}
	case m.TotalInputTokens != nil && value(m.CompletedRequests) > 0:
		std["input_seq_len"] = map[string]any{"distribution": "other",
			"value": float64(*m.TotalInputTokens) / float64(*m.CompletedRequests)}
	default:
		return nil
	}
	if b.OutputTokens != nil {
		std["output_seq_len"] = map[string]any{"distribution": "fixed", "value": *b.OutputTokens}
	}
	if b.DatasetName == "random" {
		std["source"] = "random"
	} else if b.DatasetName != "" {
		std["source"] = "sampled"
	}
	if rate := b.RequestRate; rate != nil && !math.IsInf(float64(*rate), 0) && *rate > 0 {
		std["rate_qps"] = float64(*rate)
	}
	if n := cmp.Or(m.MaxConcurrency, b.MaxConcurrency); n != nil && *n > 0 {
		std["concurrency"] = *n
	}
	c := &llmdComponent{Metadata: map[string]any{}, Standardized: std, Native: map[string]any{}}
	if b.DatasetName != "" {
		c.Native["args"] = map[string]any{"--dataset-name": b.DatasetName}
	}
	c.Metadata["cfg_id"] = digestOf(std)
	return c
}

// digestOf names a configuration.
func digestOf(v any) string {
	data, err := json.Marshal(v) // keys are sorted
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
