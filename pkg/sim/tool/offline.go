package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/sim/engine"
	"github.com/profllm/profllm/pkg/sim/program"
)

// RequestsProgram begins the text of profllm's benchmark of single requests (workload/offline).
const RequestsProgram = `"""profllm requests`

// OfflineBenchmarks are those of `vllm bench` without a server.
var OfflineBenchmarks = []string{"latency", "throughput", "startup", "mm-processor"}

// Offline is one of OfflineBenchmarks, or profllm's benchmark of single requests: it loads nothing,
// and the numbers that it writes follow from the arguments alone.
func Offline(ctx context.Context, p program.Process, kind string, args []string) int {
	f := program.ParseFlags(args)
	o := offline{Process: p, flags: &f}
	if err := o.profile(); err != nil {
		return p.Fail(program.Failed, err)
	}
	doc, err := map[string]func() (map[string]any, error){
		"latency": o.latency, "throughput": o.throughput, "startup": o.startup,
		"requests": o.requests, "mm-processor": o.processor,
	}[kind]()
	if err != nil {
		return p.Fail(program.Usage, fmt.Errorf("vllm bench %s: %w", kind, err))
	}
	if !program.Wait(ctx, 100*time.Millisecond) {
		return program.Failed
	}
	if file := f.Text("output-json", ""); file != "" {
		data, err := json.MarshalIndent(doc, "", "    ")
		if err == nil {
			err = os.WriteFile(file, data, 0o644)
		}
		if err != nil {
			return p.Fail(program.Failed, err)
		}
	}
	return program.OK
}

type offline struct {
	program.Process
	flags *program.Flags
}

func (o offline) say(format string, args ...any) { fmt.Fprintf(o.Stdout, format+"\n", args...) }

func (o offline) notice() {
	o.say("profllm sim: no model was loaded, every number below is made up")
}

// Times that the simulated engine takes, s.
const (
	tokenTime   = 0.001
	firstTime   = 0.020 // of a prompt
	startTime   = 12.0
	compileTime = 4.0
)

// timed are n values whose mean is given, with percentiles as vLLM has them.
func timed(mean float64, n int) (values []float64, percentiles map[string]float64) {
	for i := range n / 2 {
		off := mean * 0.01 * float64(i%3+1)
		values = append(values, mean-off, mean+off)
	}
	if n%2 == 1 {
		values = append(values, mean)
	}
	sorted := slices.Sorted(slices.Values(values))
	percentiles = map[string]float64{}
	for _, p := range []int{10, 25, 50, 75, 90, 99} {
		at := float64(p) / 100 * float64(n-1)
		low := int(at)
		high := min(low+1, n-1)
		percentiles[strconv.Itoa(p)] = sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
	}
	return values, percentiles
}

func (o offline) latency() (map[string]any, error) {
	n, err := o.flags.Size("num-iters", 30, 1)
	if err != nil {
		return nil, err
	}
	out, err := o.flags.Size("output-len", 128, 1)
	if err != nil {
		return nil, err
	}
	mean := float64(out) * tokenTime
	values, percentiles := timed(mean, n)
	o.notice()
	o.say("Avg latency: %v seconds", mean)
	for _, p := range []string{"10", "25", "50", "75", "90", "99"} {
		o.say("%s%% percentile latency: %v seconds", p, percentiles[p])
	}
	return map[string]any{"avg_latency": mean, "latencies": values, "percentiles": percentiles}, nil
}

// share is how many of n requests this process has, of engines that are joined.
func (o offline) share(n int) (int, error) {
	engines, err := o.flags.Size("data-parallel-size", 1, 1)
	if err != nil || engines == 1 {
		return n, err
	}
	if o.flags.Text("distributed-executor-backend", "") != "external_launcher" {
		return 0, fmt.Errorf("data_parallel_size %d needs the external launcher", engines)
	}
	rank, err := strconv.Atoi(o.Env("RANK"))
	world, worldErr := strconv.Atoi(o.Env("WORLD_SIZE"))
	if err != nil || worldErr != nil || world%engines != 0 || o.Env("MASTER_ADDR") == "" || o.Env("MASTER_PORT") == "" {
		return 0, fmt.Errorf("rank %q of %q, to meet at %s:%s", o.Env("RANK"), o.Env("WORLD_SIZE"),
			o.Env("MASTER_ADDR"), o.Env("MASTER_PORT"))
	}
	engine := rank / (world / engines)
	return (n + engines - 1 - engine) / engines, nil
}

func (o offline) throughput() (map[string]any, error) {
	n, err := o.flags.Size("num-prompts", 1000, 1)
	if err != nil {
		return nil, err
	}
	if n, err = o.share(n); err != nil {
		return nil, err
	}
	in, err := o.flags.Size("random-input-len", 1024, 1)
	if err != nil {
		return nil, err
	}
	out, err := o.flags.Size("random-output-len", 128, 1)
	if err != nil {
		return nil, err
	}
	const together = 64 // requests
	elapsed := float64((n+together-1)/together) * float64(out) * tokenTime
	rate := func(tokens int) float64 { return float64(tokens) / elapsed }
	o.notice()
	o.say("Throughput: %.2f requests/s, %.2f total tokens/s, %.2f output tokens/s", rate(n), rate(n*(in+out)),
		rate(n*out))
	o.say("Total num prompt tokens:  %d", n*in)
	o.say("Total num output tokens:  %d", n*out)
	return map[string]any{"model_id": o.flags.Text("model", ""), "elapsed_time": elapsed, "num_requests": n,
		"total_num_tokens": n * (in + out), "requests_per_second": rate(n),
		"tokens_per_second": rate(n * (in + out))}, nil
}

func (o offline) startup() (map[string]any, error) {
	doc := map[string]any{}
	for _, phase := range []struct {
		name           string
		count          int
		start, compile float64
	}{{"cold", 3, startTime, compileTime}, {"warm", 3, startTime / 2, compileTime / 4}} {
		n, err := o.flags.Size("num-iters-"+phase.name, phase.count, 1)
		if err != nil {
			return nil, err
		}
		for metric, mean := range map[string]float64{"startup": phase.start, "compilation": phase.compile} {
			values, percentiles := timed(mean, n)
			key := phase.name + "_" + metric
			doc["avg_"+key+"_time"], doc[key+"_times"], doc[key+"_percentiles"] = mean, values, percentiles
		}
	}
	o.notice()
	return doc, nil
}

// requests are those of the engines in the order of their prompts: half of them wait, and each waits
// as long as half of an answer takes.
func (o offline) requests() (map[string]any, error) {
	n, err := o.flags.Size("num-prompts", 50, 1)
	if err != nil {
		return nil, err
	}
	if n, err = o.share(n); err != nil {
		return nil, err
	}
	in, err := o.flags.Size("input-len", 16, 1)
	if err != nil {
		return nil, err
	}
	most, err := o.flags.Size("max-tokens", 128, 1)
	if err != nil {
		return nil, err
	}
	out, err := o.flags.Size("output-len", most, 1)
	if err != nil {
		return nil, err
	}
	columns := map[string][]float64{}
	add := func(key string, value float64) { columns[key] = append(columns[key], value) }
	answer := float64(out) * tokenTime
	for i := range n {
		add("input_lens", float64(in))
		add("output_lens", float64(out))
		add("queue_times", answer/2*float64(i%2))
		add("ttfts", firstTime+tokenTime*float64(i%10))
		add("decode_times", float64(out-1)*tokenTime)
	}
	o.notice()
	doc := map[string]any{"model_id": o.flags.Text("model", ""), "elapsed_time": 2*answer + firstTime, "num_requests": n,
		"ttft_from": "scheduled", "vllm_version": program.Version}
	for key, values := range columns {
		doc[key] = values
	}
	return doc, nil
}

// profile leaves what profilers would: that a capture range of nsys was opened, or a trace without
// calls.
func (o offline) profile() error {
	if file := o.flags.Text("viztracer", ""); file != "" {
		text, err := json.Marshal(vizReport{Simulated: true, By: program.Version, Command: o.Args, Events: noCalls})
		if err != nil {
			return err
		}
		return os.WriteFile(file, append(text, '\n'), 0o644)
	}
	ranges := o.Env(engine.RangesVar)
	if !o.flags.Bool("profile", false) || ranges == "" || !strings.Contains(o.flags.Text("profiler-config", ""), "cuda") {
		return nil
	}
	f, err := os.OpenFile(ranges, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString("range\n")
	return errors.Join(err, f.Close())
}

// processor are requests with media, whose preprocessing takes half of their time.
func (o offline) processor() (map[string]any, error) {
	n, err := o.flags.Size("num-prompts", 10, 1)
	if err != nil {
		return nil, err
	}
	timing := func(ms float64) map[string]any {
		stats := map[string]any{"mean": ms, "median": ms, "std": 0.0}
		for _, p := range strings.Split(o.flags.Text("metric-percentiles", "99"), ",") {
			stats["p"+p+".0"] = ms
		}
		return stats
	}
	var pairs [][2]float64
	for _, p := range strings.Split(o.flags.Text("metric-percentiles", "99"), ",") {
		rank, err := strconv.ParseFloat(p, 64)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, [2]float64{rank, 40})
	}
	o.notice()
	return map[string]any{"completed": n, "failed": 0, "mean_e2el_ms": 40.0, "median_e2el_ms": 40.0, "std_e2el_ms": 0.0,
		"percentiles_e2el_ms": pairs, "encoder_summary": map[string]any{"total_encoder_calls": n,
			"num_requests_with_encoder_calls": n},
		"mm_processor_stats": map[string]any{"preprocessor_total_ms": timing(20), "encoder_forward_ms": timing(10)},
		"config":             map[string]any{"model": o.flags.Text("model", ""), "num_prompts": n}}, nil
}
