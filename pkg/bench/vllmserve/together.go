package vllmserve

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// options are bench_cmd_args whose values are right by themselves.
type options struct {
	t *source.Table
	c *source.Complaints
}

// get returns an option, however it is spelt, and its text; nil if it is not set.
func (o options) get(name string) (v *source.Value, s string) {
	for _, key := range []string{name, strings.ReplaceAll(name, "_", "-")} {
		if v := o.t.Get(key); v != nil {
			return v, text(v)
		}
	}
	return nil, ""
}

// refuse complains at a value, if there is one.
func (o options) refuse(v *source.Value, name, format string, args ...any) {
	if v != nil {
		o.c.Addf(v.Pos, "bench_cmd_args.%s: %s", name, fmt.Sprintf(format, args...))
	}
}

// Data sets of the client.
var (
	generated   = []string{"random", "random-mm", "random-rerank", "prefix_repetition"} // it makes them itself
	untokenized = []string{"custom", "custom_audio", "custom_image", "hf"}              // they need no tokenizer
	backendsOf  = map[string][]string{"timed_trace": {"vllm", "openai"}, "random-mm": {"openai-chat", "openai-audio"}}
)

// checkDataset refuses what the client refuses of a data set when it loads it.
func (o options) checkDataset() {
	named, dataset := o.get("dataset_name")
	dataset = cmp.Or(dataset, "random")
	switch path, _ := o.get("dataset_path"); {
	case slices.Contains(generated, dataset):
		o.refuse(path, "dataset_path", "the data set %q is generated and has no file", dataset)
	case path == nil:
		o.refuse(named, "dataset_name", "the data set %q needs dataset_path", dataset)
	}
	backend, kind := o.get("backend")
	if takes := backendsOf[dataset]; takes != nil && !slices.Contains(takes, cmp.Or(kind, "openai")) {
		o.refuse(cmp.Or(backend, named), "backend", "the data set %q needs %s", dataset, strings.Join(takes, " or "))
	}
	if v, _ := o.get("skip_tokenizer_init"); !slices.Contains(untokenized, dataset) {
		o.refuse(v, "skip_tokenizer_init", "the data set %q needs a tokenizer", dataset)
	}
	for _, name := range []string{"self_timed", "no_self_timed"} {
		if v, _ := o.get(name); dataset != "timed_trace" {
			o.refuse(v, name, "only the data set \"timed_trace\" has times")
		}
	}
}

// checkRamp refuses a rate that cannot grow as asked.
func (o options) checkRamp() {
	strategy, kind := o.get("ramp_up_strategy")
	from, first := o.get("ramp_up_start_rps")
	to, last := o.get("ramp_up_end_rps")
	rate, limit := o.get("request_rate")
	switch {
	case strategy == nil:
	case rate != nil && !strings.HasPrefix(strings.ToLower(strings.TrimPrefix(limit, "+")), "inf"):
		o.refuse(rate, "request_rate", "ramp_up_strategy sets the rate")
	case from == nil || to == nil:
		o.refuse(strategy, "ramp_up_strategy", "needs ramp_up_start_rps and ramp_up_end_rps")
	default:
		a, errA := strconv.Atoi(first)
		b, errB := strconv.Atoi(last)
		if errA == nil && errB == nil && (a < 0 || a > b || a == 0 && kind == "exponential") {
			o.refuse(from, "ramp_up_start_rps", "a %s ramp from %d to %d requests per second is not possible", kind,
				a, b)
		}
	}
}
