package sglang

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
)

// Config is [bench_cmd_args] of SGLang's client. Every other key is passed to
// the client as an option.
type Config struct {
	Backend     *string `toml:"backend"`      // Protocol; default sglang, the server's own /generate.
	DatasetName *string `toml:"dataset_name"` // Where prompts come from; default random.
	// Requests in all, or "5x": five times max_concurrency; default 30.
	NumPrompts     *int `toml:"num_prompts"`
	MaxConcurrency *int `toml:"max_concurrency"` // Requests in flight; default 16.
	RandomInput    *int `toml:"random_input"`    // Tokens of each prompt; default 16.
	RandomOutput   *int `toml:"random_output"`   // Tokens of each answer; default 128.
	WarmupRequests *int `toml:"warmup_requests"` // Requests before the measurement; default 2.
	// Shortest length as a share (0-1) of the longest; default 1, all the same.
	RandomRangeRatio *float64 `toml:"random_range_ratio"`
	OutputDetails    *bool    `toml:"output_details"` // Keep the numbers of every request; default true.
	// Limits that a good request meets: ttft:MS, tpot:MS, e2el:MS, separated by spaces (profllm); since 0.5.23.
	Goodput *string `toml:"goodput"`
}

// Load is a decoded benchmark: a plan.Client, and what its result is judged
// against.
type Load struct {
	cfg    Config
	module string
	extra  *source.Table
}

// Names of the client's Python module. The new one came with NewSince, which calls the old one
// deprecated: it warns, and does the same.
const (
	DefaultModule = "sglang.bench_serving"
	NewModule     = "sglang.benchmark.serving"
	NewSince      = "0.5.15"
)

// New decodes the table. module is the client's Python module, "" for the
// default.
func New(pos source.Pos, t *source.Table, module string) (*Load, error) {
	var c source.Complaints
	l := &Load{module: module}
	if module == "" {
		l.module = DefaultModule
	}
	if t == nil {
		t = source.NewTable(pos)
	}
	names := source.Fields(l.cfg)
	known := source.NewTable(t.Pos)
	for _, n := range names {
		v := t.Get(n)
		if v == nil {
			continue
		}
		if _, list := v.Any.([]*source.Value); list {
			c.Addf(v.Pos, "%s is a list, but one value is needed", n)
			continue
		}
		known.Set(n, v)
	}
	c.Add(source.Decode(known, &l.cfg))
	l.extra = t.Without(names...)
	l.defaults()
	l.check(known, names, &c)
	return l, c.Err()
}

func set[T any](p **T, def T) {
	if *p == nil {
		*p = &def
	}
}

// defaults are those of CloudAI.
func (l *Load) defaults() {
	c := &l.cfg
	set(&c.Backend, "sglang")
	set(&c.DatasetName, "random")
	set(&c.NumPrompts, 30)
	set(&c.MaxConcurrency, 16)
	set(&c.RandomInput, 16)
	set(&c.RandomOutput, 128)
	set(&c.WarmupRequests, 2)
	set(&c.RandomRangeRatio, 1)
	set(&c.OutputDetails, true)
}

// planned are options that the plan sets: what to measure, and where results go.
var planned = []string{"model", "base_url", "host", "port", "output_file", "pd_separated"}

// vllms are arguments that vLLM's client has and SGLang's has not, and the names of
// the same things here (vllm/benchmarks/serve.py).
var vllms = map[string]string{
	"num_warmups": "warmup_requests", "save_detailed": "output_details", "extra_body": "extra_request_body",
	"logprobs":     "return_logprob",
	"lora_modules": "lora_name", "input_len": "random_input", "output_len": "random_output",
	"save_result": "", "append_result": "", "percentile_metrics": "", "metric_percentiles": "",
	"burstiness": "", "ignore_eos": "",
	"random_prefix_len": "", "ramp_up_strategy": "", "ramp_up_start_rps": "", "ramp_up_end_rps": "",
}

// longNames are options that the client knows by a longer name than CloudAI.
var longNames = map[string]string{"random_input_len": "random_input", "random_output_len": "random_output"}

func (l *Load) check(known *source.Table, names []string, c *source.Complaints) {
	for _, key := range l.extra.Keys() {
		plain, pos := strings.ReplaceAll(key, "-", "_"), l.extra.KeyPos(key)
		here, others := vllms[plain]
		switch {
		case others && here != "":
			c.Add(source.Errorf(pos, "bench_cmd_args.%s is an argument of client \"vllm\"", key).
				Hintf("write %s", here))
		case others:
			c.Add(source.Errorf(pos, "bench_cmd_args.%s is an argument of client \"vllm\"", key).
				Hintf("remove it, or set client = \"vllm\""))
		case longNames[plain] != "":
			c.Add(source.Errorf(pos, "bench_cmd_args.%s is called %s here", key, longNames[plain]).
				Hintf("write %s", longNames[plain]))
		case slices.Contains(names, plain):
			c.Add(source.Errorf(pos, "bench_cmd_args.%s is spelt with dashes", key).Hintf("write %s", plain))
		case slices.Contains(planned, plain):
			c.Addf(pos, "bench_cmd_args.%s: profllm sets this argument itself", key)
		default:
			if near := source.Nearest(plain, names); near != "" {
				c.Add(source.Errorf(pos, "bench_cmd_args.%s is not a known argument of client \"sglang\"", key).
					Hintf("did you mean %s?", near))
			}
		}
	}
	for _, n := range []struct {
		key   string
		value int
		least int
	}{
		{"num_prompts", *l.cfg.NumPrompts, 1}, {"max_concurrency", *l.cfg.MaxConcurrency, 1},
		{"random_input", *l.cfg.RandomInput, 1},
		{"random_output", *l.cfg.RandomOutput, 1}, {"warmup_requests", *l.cfg.WarmupRequests, 0},
	} {
		if v := known.Get(n.key); v != nil && n.value < n.least {
			if _, isNumber := v.Int(); isNumber { // else that was the complaint
				c.Addf(v.Pos, "bench_cmd_args.%s is %d, must be %d or more", n.key, n.value, n.least)
			}
		}
	}
	if g := l.cfg.Goodput; g != nil {
		if _, err := limits(*g); err != nil {
			c.Addf(known.PosOf("goodput"), "bench_cmd_args.goodput: %v", err)
		}
	}
	if r := *l.cfg.RandomRangeRatio; !(r >= 0 && r <= 1) {
		c.Addf(known.PosOf("random_range_ratio"), "bench_cmd_args.random_range_ratio is %v, must be 0-1", r)
	}
}

// goodputLimit is one word of goodput.
var goodputLimit = lazyregexp.New(`^(ttft|tpot|e2el):(\d+(?:\.\d+)?)$`)

// limits are those of goodput, in ms.
func limits(text string) (map[string]float64, error) {
	all := map[string]float64{}
	for _, word := range strings.Fields(text) {
		m := goodputLimit.FindStringSubmatch(word)
		if m == nil {
			return nil, fmt.Errorf("%q: want ttft:MS, tpot:MS or e2el:MS", word)
		}
		ms, err := strconv.ParseFloat(m[2], 64)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("%q: want more than 0 ms", word)
		}
		all[m[1]] = ms
	}
	if len(all) == 0 {
		return nil, errors.New("no limit: want ttft:MS, tpot:MS or e2el:MS")
	}
	return all, nil
}

// Name is who measures, for the record.
func (l *Load) Name() string { return l.module }

// Options is the load as plain data, for the record.
func (l *Load) Options() map[string]any {
	m, c := l.extra.Plain(), l.cfg
	if c.Goodput != nil {
		m["goodput"] = *c.Goodput
	}
	for key, v := range map[string]any{
		"backend": *c.Backend, "dataset_name": *c.DatasetName, "num_prompts": *c.NumPrompts,
		"max_concurrency": *c.MaxConcurrency,
		"random_input":    *c.RandomInput, "random_output": *c.RandomOutput, "warmup_requests": *c.WarmupRequests,
		"random_range_ratio": *c.RandomRangeRatio, "output_details": *c.OutputDetails,
	} {
		m[key] = v
	}
	return m
}

// Expect is what the result is judged against. Lengths are fixed only if the
// shortest is the longest.
func (l *Load) Expect() plan.Expect {
	c := l.cfg
	e := plan.Expect{NumPrompts: *c.NumPrompts, Concurrency: *c.MaxConcurrency, Warmups: *c.WarmupRequests}
	if c.Goodput != nil {
		e.Goodput, _ = limits(*c.Goodput) // New refused it otherwise
	}
	if strings.HasPrefix(*c.DatasetName, "random") && *c.RandomRangeRatio == 1 {
		e.InputTokens, e.OutputTokens, e.IgnoreEOS = *c.RandomInput, *c.RandomOutput, !l.disabled("disable_ignore_eos")
	}
	return e
}

// disabled says whether a flag is set, in either spelling.
func (l *Load) disabled(key string) bool {
	for _, k := range []string{key, strings.ReplaceAll(key, "_", "-")} {
		if v := l.extra.Get(k); v != nil && v.Any != false {
			return true
		}
	}
	return false
}

// Command implements plan.Client, in CloudAI's order of options. The two lengths
// are given by their full names: CloudAI's --random-input is an abbreviation,
// good only as long as no other option begins like that.
func (l *Load) Command(t plan.Target) (plan.Step, error) {
	c := l.cfg
	argv := append(plan.Texts("python3", "-m", l.module, "--backend", *c.Backend, "--base-url"),
		plan.Concat("http://", t.Host, ":", t.Port))
	argv = append(argv, plan.Texts("--model", t.Model, "--dataset-name", *c.DatasetName,
		"--num-prompts", strconv.Itoa(*c.NumPrompts), "--max-concurrency", strconv.Itoa(*c.MaxConcurrency),
		"--random-input-len", strconv.Itoa(*c.RandomInput), "--random-output-len", strconv.Itoa(*c.RandomOutput),
		"--warmup-requests", strconv.Itoa(*c.WarmupRequests),
		"--random-range-ratio", strconv.FormatFloat(*c.RandomRangeRatio, 'f', -1, 64),
		"--output-file", t.Dir+"/"+DefaultFile)...)
	argv = append(argv, serving.Options(l.extra, serving.StoreTrue)...)
	if t.Served != "" && !l.extra.Has("served_model_name") {
		argv = append(argv, plan.Texts("--served-model-name", t.Served)...)
	}
	if *c.OutputDetails {
		argv = append(argv, plan.Text("--output-details"))
	}
	if c.Goodput != nil {
		argv = append(append(argv, plan.Text("--goodput")), plan.Texts(strings.Fields(*c.Goodput)...)...)
	}
	if t.Disaggregated {
		argv = append(argv, plan.Text("--pd-separated"))
	}
	return plan.Step{Name: "bench", Nodes: t.Nodes, Env: clientEnv, Container: true, Argv: argv,
		Log: "logs/bench-%t.log"}, nil
}

// clientEnv tells the command which part it plays, as every role is told.
var clientEnv = []plan.Var{{Name: plan.RoleVar, Value: plan.Text("client")}}
