package synthetic

import (
	"fmt"
	"strconv"
	"time"

	"github.com/profllm/profllm/pkg/result"
)

// record is the run as result.json would have it.
func (d *drawn) record() *result.Result {
	m := d.run()
	gpus := d.tp * d.dp
	nodes := (gpus + 7) / 8
	r := &result.Result{
		Schema: result.SchemaV1, RunID: d.id, Suite: d.suite.name, Timestamp: d.began,
		Duration: new(m.duration + 60 + 90*d.Float64()), Status: result.Completed, Simulated: true,
		MetricsVersion: result.MetricsVersion,
		Config: result.Config{
			Server: map[string]any{"model": d.model.name, "tensor_parallel_size": d.tp},
			Benchmark: result.Benchmark{
				Kind: d.client(), DatasetName: "random", NumPrompts: &d.prompts, MaxConcurrency: &d.concurrency,
				InputTokens: &d.input, OutputTokens: &d.output, IgnoreEOS: new(true), Arrivals: result.Rescaled,
			},
			Settings: d.settings(nodes),
		},
		Placement:  d.placement(nodes, min(gpus, 8)),
		Slurm:      d.slurm(m.duration),
		Provenance: d.provenance(),
		System: &result.System{
			PeakGPUMemoryGB: &m.memory, AvgGPUUtilization: &m.utilization, HardwareInfo: d.hardware(),
			Preflight: "ok",
		},
	}
	d.judge(r)
	if r.Status != result.Failed {
		r.Results = d.results(m, gpus)
	}
	return r
}

func (d *drawn) client() string {
	if d.engine.name == "sglang" {
		return "sglang"
	}
	return "vllm-serve"
}

// settings are what was asked, by the keys of definition files.
func (d *drawn) settings(nodes int) map[string]string {
	s := map[string]string{
		"NUM_NODES":      strconv.Itoa(nodes),
		"cmd_args.model": d.model.name, "cmd_args.docker_image_url": fmt.Sprintf(d.engine.image, d.version),
		"cmd_args.tensor_parallel_size": strconv.Itoa(d.tp), "cmd_args.data_parallel_size": strconv.Itoa(d.dp),
		"cmd_args.max_num_seqs": strconv.Itoa(d.seqs), "cmd_args.max_num_batched_tokens": strconv.Itoa(d.batched),
		"cmd_args.gpu_memory_utilization": strconv.FormatFloat(d.utilization, 'g', -1, 64),
		"cmd_args.max_model_len":          "auto", "cmd_args.enable_prefix_caching": strconv.FormatBool(d.cache),
		"cmd_args.block_size": strconv.Itoa(16 << d.fixed.IntN(3)), "cmd_args.dtype": "bfloat16", "cmd_args.seed": strconv.Itoa(d.fixed.IntN(8)),
		"cmd_args.kv_cache_dtype": pick(d.fixed, []string{"auto", "auto", "fp8"}), "cmd_args.swap_space": strconv.Itoa(4 * d.fixed.IntN(3)),
		"cmd_args.scheduling_policy": pick(d.fixed, []string{"fcfs", "fcfs", "priority"}), "cmd_args.load_format": "auto",
		"bench_cmd_args.dataset_name": "random", "bench_cmd_args.num_prompts": strconv.Itoa(d.prompts),
		"bench_cmd_args.random_input_len": strconv.Itoa(d.input), "bench_cmd_args.random_output_len": strconv.Itoa(d.output),
		"bench_cmd_args.max_concurrency": strconv.Itoa(d.concurrency), "bench_cmd_args.request_rate": "inf",
		"bench_cmd_args.ignore_eos": "true", "bench_cmd_args.seed": strconv.Itoa(d.fixed.IntN(20)),
		"bench_cmd_args.num_warmups": strconv.Itoa(8 * d.fixed.IntN(3)), "bench_cmd_args.burstiness": "1",
		"extra_env_vars.NCCL_DEBUG":          pick(d.fixed, []string{"WARN", "INFO"}),
		"extra_env_vars.VLLM_LOGGING_LEVEL":  pick(d.fixed, []string{"INFO", "WARNING"}),
		"extra_env_vars.CUDA_MODULE_LOADING": "LAZY",
	}
	if d.maxLen > 0 {
		s["cmd_args.max_model_len"] = strconv.Itoa(d.maxLen)
	}
	if d.rate > 0 {
		s["bench_cmd_args.request_rate"] = strconv.FormatFloat(d.rate, 'g', -1, 64)
	}
	if d.quantized {
		s["cmd_args.quantization"] = "fp8"
	}
	if d.eager {
		s["cmd_args.enforce_eager"] = "true"
	}
	if d.spec {
		s["cmd_args.speculative_config"] = `{"method": "ngram", "num_speculative_tokens": 4}`
	}
	return s
}

func (d *drawn) placement(nodes, perNode int) *result.Placement {
	first := d.IntN(120)
	p := &result.Placement{}
	for i := range nodes {
		p.Nodes = append(p.Nodes, fmt.Sprintf("sim-node-%03d", first+i))
	}
	p.Roles = []result.PlacedRole{{
		Role: "decode", Slice: result.Slice{Count: nodes}, Hosts: p.Nodes, GPUsPerNode: perNode,
		Ports: map[string]int{"http": 8000},
	}}
	return p
}

func (d *drawn) slurm(seconds float64) *result.Slurm {
	begin := d.began.Add(5 * time.Second)
	end := begin.Add(time.Duration((seconds + 60) * float64(time.Second))).Truncate(time.Second)
	return &result.Slurm{
		JobID: strconv.FormatInt(d.began.Unix()/40-40_000_000, 10), Partition: d.suite.partition, Account: d.suite.account,
		State: "COMPLETED", ExitCode: "0:0", Start: &begin, End: &end, Elapsed: new(end.Sub(begin).Seconds()),
	}
}

func (d *drawn) provenance() *result.Provenance {
	image := fmt.Sprintf(d.engine.image, d.version)
	return &result.Provenance{
		Profllm: "v1." + strconv.Itoa(d.began.Year()-2020) + "." + strconv.Itoa(int(d.began.Month())),
		Engine:  d.engine.name, EngineVersion: d.version, Launcher: d.launcher, Image: image,
		ModelRevision: d.model.revision, Git: fmt.Sprintf("%07x", d.began.Unix()/86400*2654435761%0xfffffff), Simulated: true,
	}
}

func (d *drawn) hardware() *result.Hardware {
	return &result.Hardware{
		GPU: d.gpu.name, GPUs: new(8), GPUMemoryGB: &d.gpu.memory, Driver: d.gpu.driver, CUDA: d.gpu.cuda,
		GPUPowerLimitW: &d.gpu.power, GPUMIG: "Disabled", GPUPersistence: "Enabled",
		CPU: pick(d.Rand, []string{"Intel(R) Xeon(R) Platinum 8480C", "AMD EPYC 9654 96-Core Processor"}),
		OS:  pick(d.Rand, []string{"Ubuntu 22.04.5 LTS", "Ubuntu 24.04.2 LTS"}), Kernel: "5.15.0-1074-nvidia",
	}
}

func (d *drawn) results(m measured, gpus int) result.Metrics {
	failed := 0
	if d.fault != nil && d.fault.status == result.Partial {
		failed = 1 + d.prompts*3/100
	}
	done := d.prompts - failed
	in, out := int64(done)*int64(d.input), int64(done)*int64(d.output)
	rate := float64(done) / m.duration
	output, total := float64(out)/m.duration, float64(in+out)/m.duration
	energy := m.power * m.duration
	metrics := result.Metrics{
		Counts: result.Counts{
			NumPrompts: &d.prompts, CompletedRequests: &done, FailedRequests: &failed, Duration: &m.duration,
			TotalInputTokens: &in, TotalOutputTokens: &out, MaxConcurrency: &d.concurrency, GPUs: &gpus,
		},
		Rates: result.Rates{
			RequestThroughput: &rate, InputThroughput: new(float64(in) / m.duration), OutputThroughput: &output,
			TotalTokenThroughput: &total, OutputPerGPU: new(output / float64(gpus)),
			TotalPerGPU: new(total / float64(gpus)), OutputPerUser: new(output / float64(d.concurrency)),
		},
		Peaks: result.Peaks{
			MaxConcurrentRequests:  new(float64(d.concurrency)),
			MeanConcurrentRequests: new(float64(d.concurrency) * (0.9 + 0.08*d.Float64())),
		},
		Energy: result.Energy{GPUEnergy: &energy, GPUPower: &m.power, JoulesPerOutputToken: new(energy / float64(max(out, 1)))},
		Source: "vllm-bench.json",
		Latency: map[result.Family]result.Distribution{
			result.TTFT: d.latency(done, m.ttft, 0.35), result.TPOT: d.latency(done, m.tpot, 0.08),
			result.ITL:  d.latency(done*(d.output-1), m.tpot*0.98, 0.2),
			result.E2EL: d.latency(done, m.ttft+m.tpot*float64(d.output-1), 0.12),
		},
	}
	if d.spec {
		metrics.AcceptanceRate, metrics.AcceptanceLength = new(40+30*d.Float64()), new(1.8+d.Float64())
	}
	return metrics
}

// judge gives the verdict and, of a run that failed, the cause.
func (d *drawn) judge(r *result.Result) {
	v := &result.Validity{Valid: true, Verdict: result.VerdictValid, Words: []string{"simulated"}}
	v.Checks = []result.Check{{
		Word: "simulated", Outcome: result.Fail, Severity: result.Note, Detail: "the run is made up",
		Why: "a simulated or profiled engine does not have the speed of the real engine",
	}}
	add := func(word, detail string, s result.Severity) {
		v.Words = append([]string{word}, v.Words...)
		v.Checks = append(v.Checks, result.Check{
			Word: word, Outcome: result.Fail, Severity: s, Detail: detail, Why: "see the reference of the checks",
		})
	}
	if d.Float64() < 0.06 {
		v.Verdict = result.VerdictSuspect
		add(pick(d.Rand, []string{"throttled", "not-steady", "preempted-requests"}), "made up", result.Suspect)
	}
	if f := d.fault; f != nil {
		v.Valid, v.Verdict = false, result.VerdictInvalid
		add(f.word, f.detail, result.Invalid)
		if r.Status = f.status; f.cause != "" {
			r.Failure = &result.Failure{
				Cause: f.cause, Line: f.line, File: "logs/decode-0.log", LineNumber: 1 + d.IntN(5000), Role: "decode",
				Next: f.next, Confidence: result.Exact,
			}
		}
	}
	r.Validity = v
}
