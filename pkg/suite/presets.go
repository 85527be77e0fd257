package suite

import "fmt"

// all is the request rate of a load that sends everything at once.
const all = "inf"

// random is the data set of most suites, with lengths that do not vary.
var random = Value{"dataset_name", "random"}

// Suites are all suites: the eight types of bench.sh, then the four sweeps of sweep.sh, then loads of
// our own after benchmark scripts of vLLM that are no command of it.
var Suites = []Suite{
	{
		Name: "throughput", Group: Bench, About: "saturates the scheduler",
		Fixed: []Value{random, in(512), out(256), rate(all), unlimited, prompts(100)},
	},
	{
		Name: "prefill", Group: Bench, About: "time to first token by the length of the prompt, without a queue",
		Fixed: []Value{random, out(1), rate(4), unlimited, prompts(100)},
		Each:  each("in", in, 128, 512, 2048, 4096, 16384),
	},
	{
		Name: "decode", Group: Bench, About: "time between tokens as the KV cache grows",
		Fixed: []Value{random, in(128), rate(4), unlimited, prompts(100)},
		Each:  each("out", out, 128, 256, 512, 1024),
	},
	{
		Name: "latency", Group: Bench, About: "what a single user sees",
		Fixed: []Value{random, rate(1), unlimited, prompts(100)},
		Each: []Variant{
			{"short", []Value{in(128), out(128)}},
			{"medium", []Value{in(512), out(256)}},
			{"long", []Value{in(4096), out(512)}},
		},
	},
	{
		Name: "concurrency", Group: Bench, About: "where throughput stops growing with the requests in flight",
		Fixed: []Value{random, in(512), out(256), rate(all), prompts(100)},
		Each:  each("", concurrency, 1, 4, 16, 64, 256),
	},
	{
		Name: "longctx", Group: Bench, About: "memory of the KV cache and chunked prefill",
		Fixed: []Value{random, out(100), rate(1), unlimited, prompts(50)},
		Each:  each("in", in, 4096, 16384, 32000),
	},
	{
		Name: "sharegpt", Group: Bench, About: "the lengths of real chats",
		Fixed: []Value{{"dataset_name", "sharegpt"}, unlimited, prompts(100)},
		Each:  rates("rate", all, 4),
	},
	{
		Name: "sonnet", Group: Bench, About: "the gain of prefix caching: compare with the cache on and off",
		Fixed: []Value{{"dataset_name", "sonnet"}, {"sonnet_input_len", int64(550)}, {"sonnet_output_len", int64(150)},
			{"sonnet_prefix_len", int64(200)}, unlimited, prompts(100)},
		Each: rates("rate", all, 4),
	},

	{
		Name: "sweep-rate", Group: Sweep, About: "latency by the rate of requests",
		Fixed: []Value{random, in(512), out(256), unlimited, prompts(100)},
		Each:  rates("", 1, 2, 4, 8, 16, 32, all),
	},
	{
		Name: "sweep-concurrency", Group: Sweep, About: "throughput and latency by the requests in flight",
		Fixed: []Value{random, in(512), out(256), rate(all), prompts(100)},
		Each:  each("", concurrency, 1, 2, 4, 8, 16, 32, 64, 128),
	},
	{
		Name: "sweep-input", Group: Sweep, About: "throughput and latency by the length of the prompt",
		Fixed: []Value{random, out(128), rate(all), unlimited, prompts(100)},
		Each:  each("", in, 128, 256, 512, 1024, 2048, 4096, 8192, 16384),
	},
	{
		Name: "sweep-output", Group: Sweep, About: "throughput and latency by the length of the answer",
		Fixed: []Value{random, in(512), rate(all), unlimited, prompts(100)},
		Each:  each("", out, 64, 128, 256, 512, 1024, 2048),
	},

	{
		Name: "structured", Group: Scripts, About: "what answers of a form cost: compare with the free ones",
		Fixed: []Value{random, in(512), out(128), rate(all), concurrency(16), prompts(100)},
		Each: []Variant{
			{"free", []Value{{extraBody, `{"ignore_eos":false}`}}},
			form("json", `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},`+
				`"required":["name","age"]}`),
			form("regex", `"[A-Z][a-z]{2,11} [0-9]{1,3}"`),
			form("choice", `["yes","no","unknown"]`),
			form("grammar", `"root ::= pair (\", \" pair)*\npair ::= [a-z]+ \"=\" [0-9]+"`),
		},
	},
	{
		Name: "documents", Group: Scripts, About: "questions about long documents that the prefix cache holds, or not",
		Fixed: []Value{repetition, {"prefix_repetition_prefix_len", int64(20_000)},
			{"prefix_repetition_suffix_len", int64(64)}, {"prefix_repetition_num_prefixes", int64(8)},
			{"prefix_repetition_output_len", int64(10)}, rate(all), unlimited},
		Each: []Variant{ // questions about each document
			{"asked1", []Value{prompts(8)}}, {"asked2", []Value{prompts(16)}}, {"asked4", []Value{prompts(32)}},
		},
	},
	{
		Name: "prefixes", Group: Scripts, About: "the gain of prefix caching by the prompts that share a prefix",
		Fixed: []Value{repetition, {"prefix_repetition_prefix_len", int64(1024)},
			{"prefix_repetition_suffix_len", int64(128)}, {"prefix_repetition_output_len", int64(64)}, rate(all),
			concurrency(16), prompts(100)},
		Each: each("", prefixes, 100, 10, 1),
	},
}

// extraBody is a JSON object that every request of a load has.
const extraBody = "extra_body"

// form is a run whose answers have a form, as JSON. Clients ask for full answers of random prompts,
// and a form that is complete would have to go on.
func form(kind, text string) Variant {
	return Variant{kind, []Value{{extraBody, `{"ignore_eos":false,"structured_outputs":{"` + kind + `":` + text + `}}`}}}
}

// repetition is the data set of prompts that share prefixes.
var repetition = Value{"dataset_name", "prefix_repetition"}

func prefixes(n int) Value { return Value{"prefix_repetition_num_prefixes", int64(n)} }

// unlimited is the value of runs whose requests in flight have no limit.
var unlimited = Value{maxConcurrency, Unlimited}

func in(tokens int) Value     { return Value{"random_input_len", int64(tokens)} }
func out(tokens int) Value    { return Value{"random_output_len", int64(tokens)} }
func prompts(n int) Value     { return Value{numPrompts, int64(n)} }
func concurrency(n int) Value { return Value{maxConcurrency, int64(n)} }

// rate is requests per second: a number, or all.
func rate(r any) Value {
	if n, ok := r.(int); ok {
		r = int64(n)
	}
	return Value{"request_rate", r}
}

// each are the runs that differ in one number, named by it.
func each(short string, value func(int) Value, numbers ...int) []Variant {
	var list []Variant
	for _, n := range numbers {
		list = append(list, Variant{short + fmt.Sprint(n), []Value{value(n)}})
	}
	return list
}

// rates are the runs that differ in their request rate, likewise.
func rates(short string, values ...any) []Variant {
	var list []Variant
	for _, r := range values {
		list = append(list, Variant{short + fmt.Sprint(r), []Value{rate(r)}})
	}
	return list
}
