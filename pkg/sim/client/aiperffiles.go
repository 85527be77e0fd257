package client

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/sim/program"
	"github.com/profllm/profllm/pkg/stats"
)

// measured is what of the result of profllm's client AIPerf's files need; times in s.
type measured struct {
	Duration   float64     `json:"duration"`
	Completed  int         `json:"completed"`
	Input      int         `json:"total_input_tokens"`
	Output     int         `json:"total_output_tokens"`
	Requests   float64     `json:"request_throughput"`
	Goodput    *float64    `json:"request_goodput"`
	OutputRate float64     `json:"output_throughput"`
	TotalRate  float64     `json:"total_token_throughput"`
	InputLens  []int       `json:"input_lens"`
	OutputLens []int       `json:"output_lens"`
	TTFTs      []float64   `json:"ttfts"`
	ITLs       [][]float64 `json:"itls"`
	Latencies  []float64   `json:"latencies"`
	Starts     []float64   `json:"start_times"`
	Errors     []string    `json:"errors"`
}

// A metric is one of AIPerf's: its statistics by name. The values of a distribution are in ms.
type metric struct {
	tag, name, unit string
	value           float64
	values          []float64 // nil: a scalar
}

// percentiles are those of AIPerf's files.
var percentiles = []float64{1, 5, 10, 25, 50, 75, 90, 95, 99}

// stats are the statistics of a metric, in the order of AIPerf's CSV.
func (m metric) stats() (names []string, values []float64) {
	add := func(name string, v float64) { names, values = append(names, name), append(values, v) }
	if m.values == nil {
		add("avg", m.value)
		return names, values
	}
	sorted := slices.Sorted(slices.Values(m.values))
	sum, squares, n := 0.0, 0.0, float64(len(sorted))
	for _, v := range sorted {
		sum += v
	}
	for _, v := range sorted {
		squares += (v - sum/n) * (v - sum/n)
	}
	add("avg", sum/n)
	add("min", sorted[0])
	add("max", sorted[len(sorted)-1])
	add("sum", sum)
	for _, p := range percentiles {
		v, _ := stats.Percentile(sorted, p/100) // there are values, and p is a percentile
		add("p"+strconv.FormatFloat(p, 'f', -1, 64), v)
	}
	add("std", math.Sqrt(squares/n))
	return names, values
}

// metrics are those of a result, without a distribution that has no value.
func (a *askedOf) metrics(r *measured) []metric {
	var ttft, tpot, itl, e2el []float64
	failed := 0
	for i, e := range r.Errors {
		if e != "" {
			failed++
			continue
		}
		latency := 1000 * r.Latencies[i]
		e2el = append(e2el, latency)
		if !a.streaming {
			continue
		}
		first := 1000 * r.TTFTs[i]
		ttft = append(ttft, first)
		if n := r.OutputLens[i]; n > 1 {
			tpot = append(tpot, (latency-first)/float64(n-1))
		}
		for _, gap := range r.ITLs[i] {
			itl = append(itl, 1000*gap)
		}
	}
	var list []metric
	for _, m := range []metric{
		{tag: "time_to_first_token", name: "Time to First Token", values: ttft},
		{tag: "inter_token_latency", name: "Inter Token Latency", values: tpot},
		{tag: "inter_chunk_latency", name: "Inter Chunk Latency", values: itl},
		{tag: "request_latency", name: "Request Latency", values: e2el},
	} {
		if len(m.values) > 0 {
			m.unit = "ms"
			list = append(list, m)
		}
	}
	scalar := func(tag, name, unit string, v float64) {
		list = append(list, metric{tag: tag, name: name, unit: unit, value: v})
	}
	scalar("benchmark_duration", "Benchmark Duration", "sec", r.Duration)
	scalar("request_throughput", "Request Throughput", "requests/sec", r.Requests)
	if r.Completed > 0 {
		scalar("request_count", "Request Count", "requests", float64(r.Completed))
		scalar("output_token_throughput", "Output Token Throughput", "tokens/sec", r.OutputRate)
		scalar("total_token_throughput", "Total Token Throughput", "tokens/sec", r.TotalRate)
		scalar("total_isl", "Total Input Sequence Length", "tokens", float64(r.Input))
		scalar("total_osl", "Total Output Sequence Length", "tokens", float64(r.Output))
		scalar("total_usage_completion_tokens", "Total Usage Completion Tokens", "tokens", float64(r.Output))
	}
	if failed > 0 {
		scalar("error_request_count", "Error Request Count", "requests", float64(failed))
	}
	if r.Goodput != nil {
		scalar("goodput", "Goodput", "requests/sec", *r.Goodput)
	}
	return list
}

// write writes the files of a client.
func (a *askedOf) write(client string, r *measured) error {
	list := a.metrics(r)
	if client == "genai-perf" {
		return a.writeGenAI(list)
	}
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		return err
	}
	summary, err := a.summary(r, list)
	if err != nil {
		return err
	}
	lines, err := requestLines(r)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"profile_export_aiperf.json": summary, "profile_export_aiperf.csv": table(list),
		"profile_export.jsonl": lines,
	} {
		if err := durable.WriteFile(filepath.Join(a.dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// summary is AIPerf's JSON, with simulated, which is ours.
func (a *askedOf) summary(r *measured, list []metric) ([]byte, error) {
	doc := map[string]any{"schema_version": "1.4", "aiperf_version": program.Version, "simulated": true,
		"was_cancelled": false, "is_complete": true, "error_summary": errorSummary(r.Errors),
		"input_config": a.config()}
	for _, m := range list {
		o := map[string]any{"unit": m.unit}
		names, values := m.stats()
		for i, name := range names {
			o[name] = values[i]
		}
		if m.values != nil {
			o["count"] = len(m.values)
		}
		doc[m.tag] = o
	}
	return json.MarshalIndent(doc, "", "  ")
}

// config is what was asked for, as AIPerf says it.
func (a *askedOf) config() map[string]any {
	phase := map[string]any{"name": "profiling", "kind": "profiling", "type": "concurrency", "requests": a.requests}
	if a.inFlight > 0 {
		phase["concurrency"] = a.inFlight
	}
	if a.rate > 0 {
		phase["type"], phase["rate"] = "poisson", a.rate
	}
	return map[string]any{
		"models":   map[string]any{"items": []any{map[string]any{"name": a.model}}},
		"endpoint": map[string]any{"urls": []string{a.url}, "type": a.endpoint, "streaming": a.streaming},
		"phases":   []any{phase},
	}
}

// errorSummary counts the failed requests by what the client says of them.
func errorSummary(errors []string) []any {
	count := map[string]int{}
	var order []string
	for _, e := range errors {
		if e == "" {
			continue
		}
		if count[e]++; count[e] == 1 {
			order = append(order, e)
		}
	}
	list := []any{}
	for _, e := range order {
		list = append(list, map[string]any{"count": count[e],
			"error_details": map[string]any{"type": "ClientError", "message": e}})
	}
	return list
}

// requestLines are the single requests.
func requestLines(r *measured) ([]byte, error) {
	var b bytes.Buffer
	begun := float64(time.Now().UnixNano()) - r.Duration*1e9 // starts are counted from the start of the run
	for i, e := range r.Errors {
		start := begun + r.Starts[i]*1e9
		line := map[string]any{"metadata": map[string]any{"session_num": i, "benchmark_phase": "profiling",
			"request_start_ns": int64(start), "request_end_ns": int64(start + r.Latencies[i]*1e9)}}
		ms := func(v any) map[string]any { return map[string]any{"value": v, "unit": "ms"} }
		tokens := func(n int) map[string]any { return map[string]any{"value": n, "unit": "tokens"} }
		metrics := map[string]any{"input_sequence_length": tokens(r.InputLens[i])}
		if e != "" {
			line["error"] = map[string]any{"type": "ClientError", "message": e}
		} else {
			gaps := make([]float64, len(r.ITLs[i]))
			for k, gap := range r.ITLs[i] {
				gaps[k] = 1000 * gap
			}
			metrics["output_sequence_length"] = tokens(r.OutputLens[i])
			metrics["request_latency"], metrics["time_to_first_token"] = ms(1000*r.Latencies[i]), ms(1000*r.TTFTs[i])
			metrics["inter_chunk_latency"] = ms(gaps)
		}
		line["metrics"] = metrics
		data, err := json.Marshal(line)
		if err != nil {
			return nil, err
		}
		b.Write(append(data, '\n'))
	}
	return b.Bytes(), nil
}

// table is a CSV of two tables: distributions, then scalars, with a row that says that they are
// simulated.
func table(list []metric) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.UseCRLF = true
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }
	header := false
	for _, m := range list {
		if m.values == nil {
			continue
		}
		names, values := m.stats()
		if !header {
			_ = w.Write(append([]string{"Metric"}, names...)) // into memory
			header = true
		}
		row := []string{fmt.Sprintf("%s (%s)", m.name, m.unit)}
		for _, v := range values {
			row = append(row, number(v))
		}
		_ = w.Write(row)
	}
	_ = w.Write([]string{""})
	_ = w.Write([]string{"Metric", "Value"})
	for _, m := range list {
		if m.values == nil {
			_ = w.Write([]string{fmt.Sprintf("%s (%s)", m.name, m.unit), number(m.value)})
		}
	}
	_ = w.Write([]string{"Simulated", "1"})
	w.Flush()
	return b.Bytes()
}

// writeGenAI writes the table of GenAI-Perf, whose last releases make a folder for each load.
func (a *askedOf) writeGenAI(list []metric) error {
	load := fmt.Sprintf("concurrency%d", a.inFlight)
	if a.rate > 0 {
		load = fmt.Sprintf("request_rate%g", a.rate)
	}
	dir := filepath.Join(a.dir, strings.ReplaceAll(a.model, "/", "_")+"-openai-"+a.endpoint+"-"+load)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, "profile_export_genai_perf.csv"), table(list), 0o644)
}
