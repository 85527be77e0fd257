package vllmserve

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/load"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// Config is [bench_cmd_args]: the load of one benchmark. Every other key is
// passed to the client as an option.
type Config struct {
	RandomInputLen  *int `toml:"random_input_len"`  // Tokens of each prompt; default 16.
	RandomOutputLen *int `toml:"random_output_len"` // Tokens of each answer; default 128.
	MaxConcurrency  *int `toml:"max_concurrency"`   // Requests in flight, or "none": no limit; default 16.
	NumPrompts      *int `toml:"num_prompts"`       // Requests in all, or "5x": five times max_concurrency; -1: all of a file; default 30.
}

// Load is a decoded benchmark: a plan.Client, and what its result is judged
// against.
type Load struct {
	Release string             // of vLLM, as the test declares it; "" if it does not
	Program *arguments.Program // vLLM's client, with the options of the test's build
	own     bool               // profllm's client instead of vLLM's
	all     bool               // as many requests in flight as the rate makes
	flags   []flag
	extra   *source.Table
}

// unlimited is the max_concurrency of a load without a limit.
const unlimited = "none"

// Unlimited reports whether a load has no limit of requests in flight.
func Unlimited(t *source.Table) bool {
	text, _ := t.Get("max_concurrency").Text()
	return text == unlimited
}

// limited is a load without the word that sets no limit, as the client is given it.
func limited(t *source.Table) *source.Table {
	if Unlimited(t) {
		return t.Without("max_concurrency")
	}
	return t
}

type flag struct {
	key   string
	value int
	given bool // by the user
}

// New decodes the table. client is "vllm" (the default) or "profllm".
func New(client string, pos source.Pos, t *source.Table) (*Load, error) {
	var c source.Complaints
	l := &Load{own: client == "profllm", Program: arguments.BenchServe}
	switch client {
	case "", "vllm", "profllm":
	default:
		c.Add(source.Errorf(pos, "unknown client %q", client).
			Hintf("%s", source.Suggest(client, []string{"vllm", "sglang", "profllm", "aiperf", "genai-perf"})))
	}
	var cfg Config
	names := source.Fields(cfg)
	if t == nil {
		t = source.NewTable(pos)
	}
	l.all = Unlimited(t)
	t = limited(t)
	known := source.NewTable(t.Pos)
	for _, n := range names {
		if v := t.Get(n); v != nil {
			if _, list := v.Any.([]*source.Value); list {
				c.Addf(v.Pos, "%s is a list, but one value is needed", n)
				continue
			}
			known.Set(n, v)
		}
	}
	c.Add(source.Decode(known, &cfg))
	l.extra = t.Without(names...)
	c.Add(l.misplaced(names))
	c.Add(l.numbers(cfg, known))
	return l, c.Err()
}

// misplaced refuses options that are those of another client, are spelt as on a command line, or are
// set by profllm. names are the keys that a definition has.
func (l *Load) misplaced(names []string) error {
	var c source.Complaints
	for _, key := range l.extra.Keys() {
		plain := strings.ReplaceAll(key, "-", "_")
		here, others := sglangs[plain]
		switch {
		case others && here != "":
			c.Add(source.Errorf(l.extra.KeyPos(key), "bench_cmd_args.%s is an argument of client \"sglang\"", key).
				Hintf("write %s", here))
		case others:
			c.Add(source.Errorf(l.extra.KeyPos(key), "bench_cmd_args.%s is an argument of client \"sglang\"", key).
				Hintf("remove it, or set client = \"sglang\""))
		case slices.Contains(names, plain):
			c.Add(source.Errorf(l.extra.KeyPos(key), "bench_cmd_args.%s is spelt with dashes", key).
				Hintf("write %s", plain))
		case slices.Contains(planned, plain):
			c.Addf(l.extra.KeyPos(key), "bench_cmd_args.%s: profllm sets this argument itself", key)
		}
	}
	return c.Err()
}

// numbers takes the numbers that every load has, or their defaults.
func (l *Load) numbers(cfg Config, known *source.Table) error {
	var c source.Complaints
	for _, f := range []struct {
		key string
		v   *int
		def int
	}{
		{"random_input_len", cfg.RandomInputLen, 16}, {"random_output_len", cfg.RandomOutputLen, 128},
		{"max_concurrency", cfg.MaxConcurrency, 16}, {"num_prompts", cfg.NumPrompts, 30},
	} {
		if l.all && f.key == "max_concurrency" {
			continue
		}
		n := f.def
		if f.v != nil {
			n = *f.v
		}
		if v := known.Get(f.key); v != nil && n < 1 && !(n == -1 && f.key == "num_prompts" && l.wholeFile()) {
			if _, isNumber := v.Int(); isNumber { // else that was the complaint
				c.Addf(v.Pos, "bench_cmd_args.%s is %d, must be 1 or more", f.key, n)
			}
		}
		l.flags = append(l.flags, flag{f.key, n, f.v != nil})
	}
	return c.Err()
}

// sglangs are arguments that SGLang's client has and vLLM's has not, and the names of
// the same things here (python/sglang/bench_serving.py).
var sglangs = map[string]string{
	"random_input": "random_input_len", "random_output": "random_output_len", "warmup_requests": "num_warmups",
	"output_details":     "save_detailed",
	"extra_request_body": "extra_body", "return_logprob": "logprobs", "lora_name": "lora_modules",
	"output_file": "", "flush_cache": "", "apply_chat_template": "", "disable_stream": "", "disable_ignore_eos": "",
	"pd_separated":    "",
	"tokenize_prompt": "", "prompt_suffix": "", "sharegpt_context_len": "",
	"gsp_num_groups": "", "gsp_prompts_per_group": "", "gsp_system_prompt_len": "", "gsp_question_len": "",
	"gsp_output_len": "",
}

// planned are options that the plan sets: where to measure, and where results go.
var planned = []string{
	"model", "base_url", "host", "port", "result_dir", "result_filename", "rendezvous", "rank", "ranks",
}

// get returns an extra key in either spelling, or nil.
func (l *Load) get(key string) *source.Value {
	if v := l.extra.Get(key); v != nil {
		return v
	}
	return l.extra.Get(dashed(key))
}

// on reports whether an extra option without a value is given: false leaves it out.
func (l *Load) on(key string) bool {
	v := l.get(key)
	return v != nil && v.Any != false
}

// Name is who measures, for the record.
func (l *Load) Name() string {
	if l.own {
		return "profllm bench serve"
	}
	return "vllm bench serve"
}

// Options is the load as plain data, for the record.
func (l *Load) Options() map[string]any {
	m := l.extra.Plain()
	if l.all {
		m["max_concurrency"] = unlimited
	}
	for _, f := range l.flags {
		if f.given || l.random() || !strings.HasPrefix(f.key, "random_") {
			m[f.key] = f.value
		}
	}
	return m
}

// Expect is what the result is judged against.
func (l *Load) Expect() plan.Expect {
	e := plan.Expect{NumPrompts: l.value("num_prompts"), Concurrency: l.value("max_concurrency")}
	dataset, _ := l.get("dataset_name").Text()
	if batch := l.number("random_batch_size"); batch > 1 {
		e.NumPrompts = l.requests(batch)
	}
	if l.talks() {
		e.NumPrompts = l.turns()
	}
	switch n := l.number("prefix_repetition_num_prefixes"); {
	case l.fewer(dataset):
		e.NumPrompts = 0 // the data set decides
	case l.own && dataset == "prefix_repetition":
		n = cmp.Or(n, 10)
		e.NumPrompts = e.NumPrompts / n * n
	}
	random := (dataset == "" || dataset == "random") && !l.pools() && !l.talks()
	if random && l.get("random_range_ratio") == nil {
		e.InputTokens, e.OutputTokens, e.IgnoreEOS = l.value("random_input_len"), l.value("random_output_len"), true
		e.InputTokens += l.number("random_prefix_len")
		if l.endsItself() {
			e.OutputTokens, e.IgnoreEOS = 0, false
		}
	}
	if random {
		prefix := float64(l.number("random_prefix_len"))
		e.SharedInput = new(prefix / (prefix + float64(l.value("random_input_len"))))
	}
	e.Warmups = l.number("num_warmups")
	key := "request_rate"
	if l.get("ramp_up_strategy") != nil {
		key = "ramp_up_start_rps" // the least of its rates
	}
	if v := l.get(key); v != nil {
		if rate, err := strconv.ParseFloat(text(v), 64); err == nil && !math.IsInf(rate, 0) {
			e.RequestRate = rate
		}
	}
	e.Goodput = l.goodput()
	return e
}

// endsItself reports whether an option, or the extra body, which wins over what the clients ask for, lets answers
// end before their full length.
func (l *Load) endsItself() bool {
	if l.own && l.on("no_ignore_eos") {
		return true
	}
	v := l.get("extra_body")
	if v == nil {
		return false
	}
	body, _ := v.Plain().(map[string]any)
	if text, ok := v.Text(); ok {
		_ = json.Unmarshal([]byte(text), &body) // what is no object is refused elsewhere
	}
	return body["ignore_eos"] == false
}

// random reports whether the lengths of random prompts apply.
func (l *Load) random() bool {
	dataset, named := l.get("dataset_name").Text()
	return !named || strings.HasPrefix(dataset, "random")
}

// wholeFile reports whether num_prompts can be -1, which takes every entry of the data set.
func (l *Load) wholeFile() bool {
	dataset, _ := l.get("dataset_name").Text()
	return slices.Contains([]string{"custom", "spec_bench", "speed_bench"}, dataset) || l.own && dataset == "timed_trace"
}

// fewer reports whether the data set may have fewer requests than num_prompts, of which only
// profllm's client says so in its result.
func (l *Load) fewer(dataset string) bool {
	return l.value("num_prompts") < 1 || l.own && (dataset == "timed_trace" || l.on("no_oversample"))
}

// talks reports whether the load is conversations of profllm's client: their prompts grow from turn
// to turn.
func (l *Load) talks() bool {
	return l.get("conversation_file") != nil || l.number("conversation_turn_mean") > 1
}

// turns is how many requests random conversations have; 0, if a file says it.
func (l *Load) turns() int {
	if l.get("conversation_file") != nil {
		return 0
	}
	turns := l.number("conversation_turn_mean")
	n := l.number("conversation_num")
	if n == 0 {
		n = max(l.value("num_prompts")/turns, 1)
	}
	return n * turns
}

// pools reports whether the backend embeds or scores: its answers have no tokens, and what a
// prompt has of them depends on the model.
func (l *Load) pools() bool {
	backend, _ := l.get("backend").Text()
	for _, word := range []string{"embeddings", "pooling", "rerank"} {
		if strings.Contains(backend, word) {
			return true
		}
	}
	return false
}

// requests is how many requests carry the prompts of which so many go together. Without a
// reranker, the query is one of them (vllm/benchmarks/datasets, 0.32).
func (l *Load) requests(batch int) int {
	n := l.value("num_prompts")
	if l.on("no_reranker") {
		n, batch = n-1, batch-1
	}
	return (n + batch - 1) / max(batch, 1)
}

// goodput are the limits that a good request meets, in ms; nil if there are none, or
// if the client will refuse one of them.
func (l *Load) goodput() map[string]float64 {
	v := l.get("goodput")
	if v == nil {
		return nil
	}
	list, ok := v.Any.([]*source.Value)
	if !ok {
		list = []*source.Value{v}
	}
	var words load.List
	for _, pair := range list {
		words = append(words, text(pair))
	}
	limits, err := load.Goodput(words)
	if err != nil {
		return nil
	}
	maps.DeleteFunc(limits, func(_ string, ms float64) bool { return math.IsInf(ms, 1) })
	return limits
}

// number is an extra option that holds a whole number, else 0.
func (l *Load) number(key string) int {
	if v := l.get(key); v != nil {
		if n, ok := v.Int(); ok {
			return int(n)
		}
	}
	return 0
}

func (l *Load) value(key string) int {
	for _, f := range l.flags {
		if f.key == key {
			return f.value
		}
	}
	return 0
}

// Command implements plan.Client: CloudAI's order of options, then the user's,
// then ours where the user set none and the release has them: percentiles that a
// result needs, and a fixed temperature, because its default changed between releases.
func (l *Load) Command(t plan.Target) (plan.Step, error) {
	argv := plan.Texts("vllm")
	if l.own {
		argv = []plan.Word{plan.Self()}
	}
	argv = append(argv, plan.Texts("bench", "serve")...)
	argv = append(argv, l.Arguments(plan.Concat("http://", t.Host, ":", t.Port), t.Model, t.Dir, DefaultFile)...)
	if t.Served != "" && l.get("served_model_name") == nil {
		argv = append(argv, plan.Texts("--served-model-name", t.Served)...)
	}
	nodes := t.Nodes
	if l.own && t.All.Count > 1 {
		if err := l.checkShares(t.All.Count); err != nil {
			return plan.Step{}, err
		}
		nodes = t.All
		argv = append(argv, plan.Texts("--rendezvous", path.Join(t.Dir, "rendezvous.json"))...)
	}
	return plan.Step{Name: "bench", Nodes: nodes, Env: clientEnv, Container: !l.own, Argv: argv,
		Log: "logs/bench-%t.log"}, nil
}

// checkShares refuses a load that n processes on as many nodes cannot share.
func (l *Load) checkShares(n int) error {
	if l.get("processes") != nil {
		return source.Errorf(l.extra.PosOf("processes"), "bench_cmd_args.processes does not go with client_nodes: "+
			"each node has one process of the client")
	}
	for _, key := range []string{"max_concurrency", "num_prompts"} {
		if has := l.value(key); has > 0 && has < n { // 0: no limit, and below 0 a whole file
			return source.Errorf(l.extra.Pos, "bench_cmd_args.%s is %d, but client_nodes is %d: each node needs one", key, has, n)
		}
	}
	return nil
}

// Arguments are those of the client, without the words that start it, for a server at a URL.
func (l *Load) Arguments(url plan.Word, model, dir, file string) []plan.Word {
	argv := append(plan.Texts("--model", model, "--base-url"), url)
	for _, f := range l.flags {
		argv = append(argv, plan.Text("--"+dashed(f.key)), plan.Text(strconv.Itoa(f.value)))
	}
	argv = append(argv, plan.Texts("--result-dir", dir, "--result-filename", file, "--save-result")...)
	for _, key := range l.extra.Keys() {
		argv = append(argv, option(key, l.extra.Get(key))...)
	}
	for _, o := range [][2]string{
		{"percentile_metrics", "ttft,tpot,itl,e2el"}, {"metric_percentiles", "50,90,95,99"}, {"temperature", "0"},
	} {
		lacks := !l.own && l.Program.Lacks(l.Release, "--"+dashed(o[0]))
		if l.get(o[0]) == nil && !lacks {
			argv = append(argv, plan.Text("--"+dashed(o[0])), plan.Text(o[1]))
		}
	}
	return argv
}

func dashed(key string) string { return strings.ReplaceAll(key, "_", "-") }

// option writes one extra key by the rules of the server's options.
func option(key string, v *source.Value) []plan.Word {
	name := "--" + dashed(key)
	switch x := v.Any.(type) {
	case bool:
		if !x {
			name = "--no-" + dashed(key)
		}
		return plan.Texts(name)
	case string:
		if x == "" {
			return plan.Texts(name)
		}
		return plan.Texts(name, text(v))
	case []*source.Value:
		words := plan.Texts(name)
		for _, e := range x {
			words = append(words, plan.Text(text(e)))
		}
		return words
	}
	return plan.Texts(name, text(v))
}

// text writes a value as one argument: a string without the single quotes that
// users of CloudAI had to write, tables and lists as compact JSON.
func text(v *source.Value) string {
	switch x := v.Any.(type) {
	case string:
		return source.Unquote(x)
	case *source.Table, []*source.Value:
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(v.Plain()) // plain data always encodes, but for NaN, which TOML's options never mean
		return strings.TrimSuffix(b.String(), "\n")
	}
	return fmt.Sprint(v.Any)
}

// clientEnv tells the command which part it plays, as every role is told.
var clientEnv = []plan.Var{{Name: plan.RoleVar, Value: plan.Text("client")}}
