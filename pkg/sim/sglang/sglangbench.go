package sglang

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/sim/client"
	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
)

// benchServing is python3 -m sglang.bench_serving, or sglang.benchmark.serving: profllm's load
// client over /v1/completions, where the real one speaks /generate, and its result under SGLang's
// names.
func benchServing(ctx context.Context, p program.Process, module string, args []string) int {
	f := program.ParseFlags(args)
	dir, err := os.MkdirTemp("", "profllm-sim-bench-")
	if err != nil {
		return p.Fail(program.Failed, err)
	}
	defer os.RemoveAll(dir)
	const file = "bench.json"
	flags, err := clientArgs(&f)
	if err != nil {
		return p.Fail(program.Usage, fmt.Errorf("bench_serving: %w", err))
	}
	fmt.Fprintln(p.Stdout, "profllm sim: SGLang's client, simulated by profllm's own over /v1/completions")
	if code := client.Bench(ctx, p, append(flags, "--result-dir", dir, "--result-filename", file)); code != program.OK {
		return code
	}
	var r clientResult
	data, err := regular.ReadFile(filepath.Join(dir, file))
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err == nil {
		var speed int
		if speed, err = knobs.Speed(p.Env); err == nil {
			err = appendLine(&f, &r, rate(&f)*float64(speed), module == "sglang.benchmark.serving")
		}
	}
	if err != nil {
		return p.Fail(program.Failed, fmt.Errorf("bench_serving: %w", err))
	}
	return program.OK
}

// clientArgs translates SGLang's options. Lengths are drawn from RATIO*LEN to LEN there, from
// LEN*(1-R) to LEN*(1+R) here.
func clientArgs(f *program.Flags) ([]string, error) {
	ratio, err := strconv.ParseFloat(f.Text("random-range-ratio", "0"), 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) {
		return nil, fmt.Errorf("--random-range-ratio=%q: want a number from 0 to 1", f.Text("random-range-ratio", ""))
	}
	if d := f.Text("dataset-name", "sharegpt"); d != "random" && d != "random-ids" {
		return nil, fmt.Errorf("--dataset-name=%q: only random and random-ids are simulated", d)
	}
	if len(f.Values["output-file"]) == 0 {
		return nil, errors.New("--output-file is missing")
	}
	middle := func(name string) (string, error) {
		n, err := f.Size(name, 1024, 1)
		return strconv.Itoa(int(math.Round(float64(n) * (1 + ratio) / 2))), err
	}
	input, err := middle("random-input-len")
	output, err2 := middle("random-output-len")
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	argv := []string{
		"--backend", "openai", "--base-url", f.Text("base-url", "http://127.0.0.1:30000"), "--model",
		f.Text("model", ""),
		"--num-prompts", f.Text("num-prompts", "1000"), "--random-input-len", input, "--random-output-len", output,
		"--random-range-ratio", strconv.FormatFloat((1-ratio)/(1+ratio), 'f', -1, 64), "--num-warmups",
		f.Text("warmup-requests", "1"),
		"--request-rate", f.Text("request-rate", "inf"), "--seed", f.Text("seed", "1"), "--temperature", "0",
		"--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "90,95,99", "--save-result",
		"--save-detailed",
	}
	if limits := f.Values["goodput"]; len(limits) > 0 {
		argv = append(append(argv, "--goodput"), limits...)
	}
	if c := f.Text("max-concurrency", ""); c != "" {
		argv = append(argv, "--max-concurrency", c)
	}
	return argv, nil
}

// clientResult is what of profllm's result SGLang's line needs.
type clientResult struct {
	Backend        string      `json:"backend"`
	MaxConcurrency *int        `json:"max_concurrency"`
	Duration       float64     `json:"duration"`
	Completed      int         `json:"completed"`
	Input          int         `json:"total_input_tokens"`
	Output         int         `json:"total_output_tokens"`
	Requests       float64     `json:"request_throughput"`
	OutputRate     float64     `json:"output_throughput"`
	TotalRate      float64     `json:"total_token_throughput"`
	PeakTokens     float64     `json:"max_output_tokens_per_s"`
	PeakRequests   float64     `json:"max_concurrent_requests"`
	Latencies      []float64   `json:"latencies"`
	InputLens      []int       `json:"input_lens"`
	OutputLens     []int       `json:"output_lens"`
	TTFTs          []float64   `json:"ttfts"`
	ITLs           [][]float64 `json:"itls"`
	Texts          []string    `json:"generated_texts"`
	Errors         []string    `json:"errors"`

	all map[string]json.RawMessage
}

func (r *clientResult) UnmarshalJSON(data []byte) error {
	type plain clientResult
	if err := json.Unmarshal(data, (*plain)(r)); err != nil {
		return err
	}
	return json.Unmarshal(data, &r.all)
}

// member is one key of a line; the order is SGLang's.
type member struct {
	key   string
	value any
}

// families are the statistics of a line: those of 0.5.10, and those of 0.5.23.
func families(recent bool) []family {
	if recent {
		all := []string{"mean", "median", "std", "p90", "p95", "p99"}
		return []family{{"e2el", "e2e_latency", all}, {"ttft", "ttft", all}, {"tpot", "tpot", all}, {"itl", "itl", all}}
	}
	return []family{
		{"e2el", "e2e_latency", []string{"mean", "median", "std", "p90", "p99"}},
		{"ttft", "ttft", []string{"mean", "median", "std", "p99"}},
		{"tpot", "tpot", []string{"mean", "median", "std", "p99"}},
		{"itl", "itl", []string{"mean", "median", "std", "p95", "p99"}},
	}
}

type family struct {
	ours, theirs string
	stats        []string
}

// appendLine writes one line of the --output-file. simulated is ours. recent is the form of 0.5.23.
func appendLine(f *program.Flags, r *clientResult, rate float64, recent bool) error {
	sum := 0.0
	for _, s := range r.Latencies {
		sum += s
	}
	asked := func(name string) any { return json.Number(f.Text(name, "0")) }
	line := []member{
		{"tag", nil}, {"backend", f.Text("backend", "sglang")}, {"dataset_name", f.Text("dataset-name", "")},
		{"request_rate", rate},
		{"max_concurrency", r.MaxConcurrency}, {"sharegpt_output_len", nil},
		{"random_input_len", asked("random-input-len")},
		{"random_output_len", asked("random-output-len")}, {"random_range_ratio", asked("random-range-ratio")},
		{"server_info", map[string]any{"version": program.Version, "simulated": true}}, {"duration", r.Duration},
		{"completed", r.Completed},
		{"total_input_tokens", r.Input}, {"total_input_text_tokens", r.Input}, {"total_input_vision_tokens", 0},
		{"total_output_tokens", r.Output},
		{"total_output_tokens_retokenized", r.Output},
		{"request_throughput", r.Requests}, {"input_throughput", float64(r.Input) / r.Duration},
		{"output_throughput", r.OutputRate},
		{"total_throughput", r.TotalRate},
	}
	for _, family := range families(recent) {
		for _, stat := range family.stats {
			line = append(line, member{stat + "_" + family.theirs + "_ms", r.all[stat+"_"+family.ours+"_ms"]})
		}
	}
	line = append(line, member{"concurrency", sum / r.Duration}, member{"accept_length", nil},
		member{"max_output_tokens_per_s", r.PeakTokens}, member{"max_concurrent_requests", r.PeakRequests},
		member{"simulated", true})
	if recent && len(f.Values["goodput"]) > 0 {
		line = append(line, member{"request_goodput", r.all["request_goodput"]})
	}
	if f.Bool("output-details", false) {
		line = append(line, member{"input_lens", r.InputLens}, member{"output_lens", r.OutputLens},
			member{"ttfts", r.TTFTs},
			member{"itls", r.ITLs}, member{"generated_texts", r.Texts}, member{"errors", r.Errors})
	}
	var b bytes.Buffer
	for i, m := range line {
		value, err := python(m.value)
		if err != nil {
			return fmt.Errorf("%s: %w", m.key, err)
		}
		separator := ", "
		if i == 0 {
			separator = "{"
		}
		fmt.Fprintf(&b, "%s%q: %s", separator, m.key, value)
	}
	b.WriteString("}\n")
	out, err := os.OpenFile(f.Text("output-file", ""), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = out.Write(b.Bytes())
	return errors.Join(err, out.Close())
}

// rate is the request rate asked for.
func rate(f *program.Flags) float64 {
	n, err := strconv.ParseFloat(f.Text("request-rate", "inf"), 64)
	if err != nil {
		return math.Inf(1)
	}
	return n
}

// python writes a value as Python does: an infinite number is the bare word Infinity.
func python(v any) ([]byte, error) {
	if x, ok := v.(float64); ok && math.IsInf(x, 1) {
		return []byte("Infinity"), nil
	}
	return json.Marshal(v)
}

// runEval is python3 -m sglang.test.run_eval --eval-name gsm8k, with generated arithmetic in
// place of the GSM8K data set.
func runEval(ctx context.Context, p program.Process, args []string) int {
	f := program.ParseFlags(args)
	if name := f.Text("eval-name", "mmlu"); name != "gsm8k" {
		return p.Fail(program.Usage, fmt.Errorf("run_eval: --eval-name=%q: only gsm8k is simulated", name))
	}
	o := client.EvalOptions{Host: "http://" + f.Text("host", "0.0.0.0"), Model: f.Text("model", ""), MaxTokens: 256,
		Seed: 42, Chat: true, Timeout: 10 * time.Minute}
	var errs [3]error
	o.Port, errs[0] = f.Size("port", sglangPort, 1)
	o.Questions, errs[1] = f.Size("num-examples", 1319, 1)
	o.Concurrency, errs[2] = f.Size("num-threads", 512, 1)
	if err := errors.Join(errs[:]...); err != nil {
		return p.Fail(program.Usage, fmt.Errorf("run_eval: %w", err))
	}
	fmt.Fprintf(p.Stdout, "profllm sim: %d generated questions, no GSM8K\n", o.Questions)
	r := o.Run(ctx)
	if ctx.Err() != nil {
		return p.Fail(program.Failed, ctx.Err())
	}
	fmt.Fprintf(p.Stdout, "Score: %.3f\nTotal latency: %.3f s\nOutput throughput: %.3f token/s\n", r.Accuracy,
		r.Latency, r.Tokens)
	return program.OK
}
