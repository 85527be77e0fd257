package aiperf

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// Names under which the options of a load's size are known.
var (
	countKeys       = []string{"request_count"}
	concurrencyKeys = []string{"concurrency"}
)

// mostRequests is far above what a load can have.
const mostRequests = 1e12

// checkNumbers refuses counts that are none.
func (l *Load) checkNumbers() error {
	var c source.Complaints
	for name, least := range map[string]int64{
		"request_count": 1, "concurrency": 1, "warmup_request_count": 1, "conversation_num": 1,
		"prompt_input_tokens_mean": 1, "prompt_output_tokens_mean": 1, "num_dataset_entries": 1,
	} {
		v := l.get(name)
		if v == nil {
			continue
		}
		if n, err := strconv.ParseFloat(plainText(v), 64); err != nil || n != math.Trunc(n) || math.Abs(n) > mostRequests {
			if _, isList := v.Any.([]*source.Value); !isList || l.client == GenAI { // else checkOptions complains
				c.Add(source.Errorf(v.Pos, "%s is %s, must be a whole number up to %.0e", Spelled(l.args, name), v.Shown(),
					mostRequests).Hintf("write a number, or leave it out"))
			}
		} else if n < float64(least) {
			c.Add(source.Errorf(v.Pos, "%s is %s, must be %d or more", Spelled(l.args, name), v.Shown(), least).
				Hintf("write such a number, or leave it out"))
		}
	}
	for _, name := range []string{"request_rate", "benchmark_duration"} {
		if v := l.get(name); v != nil {
			x, err := strconv.ParseFloat(plainText(v), 64)
			if err != nil || !(x > 0) || math.IsInf(x, 0) {
				c.Addf(v.Pos, "%s is %s, must be a number above 0", Spelled(l.args, name), v.Shown())
			}
		}
	}
	return c.Err()
}

// number is an option that holds a number, else what it is without.
func (l *Load) number(name string, without float64) float64 {
	if v := l.get(name); v != nil {
		if x, err := strconv.ParseFloat(plainText(v), 64); err == nil && !math.IsInf(x, 0) && x == x {
			return x
		}
		return 0
	}
	return without
}

func (l *Load) whole(name string, without int) int { return int(l.number(name, float64(without))) }

// given reports whether one of these options is there.
func (l *Load) given(names ...string) bool {
	for _, name := range names {
		if v := l.get(name); v != nil && v.Any != false {
			return true
		}
	}
	return false
}

// bounds are options besides request_count that end a load.
var bounds = []string{"benchmark_duration", "conversation_num"}

// datasets are options whose prompts come from elsewhere: how many there are and how long they are
// is not known here.
var datasets = []string{"input_file", "public_dataset", "hf_weka_dataset", "custom_dataset_type", "fixed_schedule",
	"accuracy_benchmark", "scenario", "user_centric_rate", "request_rate_series", "seq_dist", "random_range_ratio"}

// Least requests of a load without a bound, as AIPerf's documents have it: 10, or two for each
// place in flight.
const (
	leastRequests = 10
	perPlace      = 2
)

// defaultCount is how many requests profllm asks for in a load that nothing bounds, 0 for others.
// AIPerf's own default depends on its release: its documents say max(10, 2 x concurrency), 0.13.0
// sends 10.
func (l *Load) defaultCount() int {
	if l.client == GenAI || l.given(countKeys...) || l.given(bounds...) || l.given(datasets...) {
		return 0 // GenAI-Perf measures until its numbers are steady
	}
	return max(leastRequests, perPlace*l.whole("concurrency", 1))
}

// Expect is what the result is judged against.
func (l *Load) Expect() plan.Expect {
	e := plan.Expect{NumPrompts: l.requests(), Concurrency: l.inFlight(), Warmups: l.warmups(),
		RequestRate: l.number("request_rate", 0), Goodput: l.goodput()}
	if !l.synthetic() {
		return e
	}
	if l.number("prompt_input_tokens_stddev", 0) == 0 && !l.serverCountsChat() {
		e.InputTokens = l.whole("prompt_input_tokens_mean", defaultInput) + l.whole("prompt_prefix_length", 0) +
			l.whole("shared_system_prompt_length", 0)
	}
	e.SharedInput = l.sharedInput(e.NumPrompts)
	if l.number("prompt_output_tokens_stddev", 0) == 0 {
		e.OutputTokens = l.whole("prompt_output_tokens_mean", 0)
		e.IgnoreEOS = e.OutputTokens > 0 && l.ignoresEOS()
	}
	if !e.IgnoreEOS {
		e.OutputTokens = 0 // answers may end before
	}
	return e
}

// sharedInput is which share of a prompt all prompts begin with; nil if some prompts are sent twice,
// or begin with one of several prefixes.
func (l *Load) sharedInput(requests int) *float64 {
	prefix := l.number("shared_system_prompt_length", 0)
	if n := l.number("prompt_prefix_pool_size", 0); n == 1 {
		prefix += l.number("prompt_prefix_length", 0)
	} else if n > 1 {
		return nil
	}
	entries := l.whole("num_dataset_entries", requests)
	if requests == 0 || entries < requests {
		return nil
	}
	return new(prefix / (prefix + l.number("prompt_input_tokens_mean", defaultInput)))
}

// defaultInput are the tokens of a synthetic prompt (aiperf 0.13.0; GenAI-Perf has the same).
const defaultInput = 550

// requests is how many requests there should be, 0 if that is not known: the load may end by time,
// or a file says it.
func (l *Load) requests() int {
	switch {
	case l.given("benchmark_duration"):
		return 0
	case l.given(countKeys...) && l.given("conversation_num"):
		return 0
	case l.given(countKeys...):
		return l.whole("request_count", 0)
	case l.given(datasets...):
		return 0
	case l.given("conversation_num") && l.number("conversation_turn_stddev", 0) == 0:
		return l.whole("conversation_num", 0) * l.whole("conversation_turn_mean", 1)
	}
	return l.defaultCount()
}

// inFlight is how many requests are in flight, 0 if only a rate or a schedule says it.
func (l *Load) inFlight() int {
	switch {
	case l.given(concurrencyKeys...):
		return l.whole("concurrency", 0)
	case l.given("request_rate") || l.given(datasets...):
		return 0
	}
	return 1
}

// warmups is how many requests there are before the measurement.
func (l *Load) warmups() int {
	return l.whole("warmup_request_count", 0) + l.whole("num_warmup_sessions", 0)*l.whole("conversation_turn_mean", 1)
}

// synthetic reports whether AIPerf makes every prompt and asks for the same length.
func (l *Load) synthetic() bool {
	kind := "chat"
	if v := l.get("endpoint_type"); v != nil {
		kind = plainText(v)
	}
	return (kind == "chat" || kind == "completions") && !l.given(datasets...) && l.number("conversation_turn_mean", 1) == 1
}

// DrawsAnew reports whether each load has prompts of its own: without a seed, AIPerf draws others
// each time.
func (l *Load) DrawsAnew() bool {
	return !l.given("random_seed") && !l.given("input_file", "public_dataset")
}

// serverCountsChat reports whether the lengths of prompts in the result are the server's, to which
// the chat template of the model adds: AIPerf makes prompts of a length by its own tokenizer.
func (l *Load) serverCountsChat() bool {
	v := l.get("endpoint_type")
	return l.on("use_server_token_count") && (v == nil || plainText(v) == "chat")
}

// ignoresEOS reports whether the request asks for answers of the full length.
func (l *Load) ignoresEOS() bool {
	v := l.get("extra_inputs")
	if v == nil {
		return false
	}
	switch x := v.Any.(type) {
	case *source.Table:
		return x.Get("ignore_eos") != nil && x.Get("ignore_eos").Any == true
	case []*source.Value:
		for _, e := range x {
			if eosPair(plainText(e)) {
				return true
			}
		}
		return false
	}
	text, _ := v.Text()
	body := map[string]any{}
	if json.Unmarshal([]byte(source.Unquote(text)), &body) == nil {
		return body["ignore_eos"] == true
	}
	return eosPair(text)
}

func eosPair(text string) bool {
	name, value, _ := strings.Cut(strings.TrimSpace(text), ":")
	return name == "ignore_eos" && strings.EqualFold(strings.TrimSpace(value), "true")
}

// limitsOf are the metrics of goodput that a record has, in ms.
var limitsOf = map[string]string{
	"time_to_first_token": "ttft", "inter_token_latency": "tpot", "request_latency": "e2el",
}

// goodput are the limits that a good request meets; nil if there are none, or if one of them is not
// a latency that a record has.
func (l *Load) goodput() map[string]float64 {
	v := l.get("goodput")
	if v == nil {
		return nil
	}
	limits := map[string]float64{}
	for _, pair := range strings.Fields(pairs(v)) {
		tag, value, _ := strings.Cut(pair, ":")
		ms, err := strconv.ParseFloat(value, 64)
		if limitsOf[tag] == "" || err != nil || !(ms > 0) || math.IsInf(ms, 0) {
			return nil
		}
		limits[limitsOf[tag]] = ms
	}
	return limits
}

func decimal(n int) string { return strconv.Itoa(n) }
