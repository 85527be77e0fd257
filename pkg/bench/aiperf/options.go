package aiperf

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
)

// newest is the release whose options are known.
const newest = "0.13.0"

//go:embed options.txt
var optionsText string

// An option is one of AIPerf's, under all of its names, with underscores.
type option struct {
	names []string
	form  form
	no    string // of a switch: what turns it off
}

// A form says how the value of an option is written on the command line.
type form string

const (
	oneWord form = "value"
	bare    form = "flag"   // true gives the option, false leaves it out
	several form = "list"   // several words behind the option
	each    form = "each"   // the option again before each value
	negated form = "switch" // as bare, but false gives another option, because true may be the default
)

// options are those of options.txt, by every name. The first name of an option stands for it.
var options = sync.OnceValue(func() map[string]*option {
	all := map[string]*option{}
	for line := range strings.Lines(optionsText) {
		words := strings.Fields(strings.ReplaceAll(line, "-", "_"))
		if words[0] == "#" {
			continue
		}
		kind, no, _ := strings.Cut(words[0], ":")
		o := &option{names: words[1:], form: form(kind), no: no}
		for _, name := range o.names {
			all[name] = o
		}
	}
	return all
})

// canonical is the name that stands for an option in either spelling, or its own.
func canonical(key string) string {
	name := strings.ReplaceAll(key, "-", "_")
	if o := options()[name]; o != nil {
		return o.names[0]
	}
	return name
}

// planned are options that profllm sets, by the name that stands for them, and what to do instead.
var planned = map[string]string{
	"model_names":           "set cmd_args.model",
	"url":                   "remove it: the client measures the servers of the test",
	"output_artifact_dir":   "remove it: the files are below raw/ of the run",
	"profile_export_prefix": "remove it: profllm reads the files under their own names",
	"ui_type":               "remove it: a job has no terminal",
	"config":                "write the options of that file below bench_cmd_args",
}

// several runs of the client, of which AIPerf writes folders that are not one result.
var manyRuns = map[string]string{
	"num_profile_runs": "set repeat in the test", "profile_run_cooldown_seconds": "set repeat in the test",
	"convergence_metric": "set repeat = {until = …} in the test", "search_recipe": sweepHint, "search_space": sweepHint,
	"variant": sweepHint, "isl_osl_pairs": sweepHint, "sweep_type": sweepHint,
}

const sweepHint = "write the values of a key as a list: profllm makes one result of each"

// foreign are arguments of the other clients, and the names of the same things here.
var foreign = map[string]string{
	"max_concurrency":  "concurrency",
	"num_prompts":      "request_count (or num_dataset_entries, AIPerf's other name of num_prompts)",
	"random_input_len": "synthetic_input_tokens_mean", "random_output_len": "output_tokens_mean",
	"random_input": "synthetic_input_tokens_mean", "random_output": "output_tokens_mean",
	"num_warmups": "warmup_request_count", "warmup_requests": "warmup_request_count", "seed": "random_seed",
	"burstiness": "arrival_smoothness", "backend": "endpoint_type", "dataset_name": "public_dataset",
	"dataset_path": "input_file", "extra_body": "extra_inputs", "extra_request_body": "extra_inputs",
	"ignore_eos": "extra_inputs = {ignore_eos = true}", "temperature": "extra_inputs = {temperature = …}",
}

// magic are options of which "1,2" is a sweep of AIPerf's own.
var magic = []string{"concurrency", "prefill_concurrency", "request_rate", "request_count", "benchmark_duration",
	"conversation_num", "conversation_turn_mean", "num_users", "prompt_input_tokens_mean", "prompt_input_tokens_stddev",
	"prompt_output_tokens_mean", "prompt_output_tokens_stddev"}

// checkOptions refuses options that AIPerf does not have or that cannot work in a job. unchecked
// are names that pass.
func checkOptions(t *source.Table, unchecked []string) error {
	var c source.Complaints
	first := map[string]string{}
	for _, key := range t.Keys() {
		name := canonical(key)
		if before, twice := first[name]; twice {
			c.Add(source.Errorf(t.KeyPos(key), "bench_cmd_args.%s is %s again, at %s", key, before, t.KeyPos(before)).
				Hintf("remove one of them"))
			continue
		}
		first[name] = key
		if !slices.Contains(unchecked, strings.ReplaceAll(key, "-", "_")) {
			c.Add(checkOption(t, key))
		}
	}
	return c.Err()
}

// checkOption refuses one option.
func checkOption(t *source.Table, key string) error {
	plain, name := strings.ReplaceAll(key, "-", "_"), canonical(key)
	if here := foreign[plain]; here != "" {
		return source.Errorf(t.KeyPos(key), "bench_cmd_args.%s is an argument of another client", key).
			Hintf("write %s", here)
	}
	if instead := planned[name]; instead != "" {
		return source.Errorf(t.KeyPos(key), "bench_cmd_args.%s: profllm sets this option itself", key).
			Hintf("%s", instead)
	}
	if instead := manyRuns[name]; instead != "" {
		return source.Errorf(t.KeyPos(key), "bench_cmd_args.%s: AIPerf would make several runs, but a load is one", key).
			Hintf("%s", instead)
	}
	o := options()[plain]
	if o == nil {
		return unknownOption(t, key)
	}
	return checkValue(t, key, o)
}

// unknownOption refuses an option that AIPerf does not have, unless it is one of a newer release.
func unknownOption(t *source.Table, key string) error {
	const hint = "if your release has it, add it to cmd_args.unchecked_options"
	e := source.Errorf(t.KeyPos(key), "bench_cmd_args.%s is not an option of AIPerf %s", key, newest)
	if near := source.Nearest(strings.ReplaceAll(key, "-", "_"), slices.Sorted(maps.Keys(options()))); near != "" {
		return e.Hintf("did you mean %s? %s", near, hint)
	}
	return e.Hintf("remove it; %s", hint)
}

// checkValue refuses a value whose form the command line cannot have.
func checkValue(t *source.Table, key string, o *option) error {
	v := t.Get(key)
	_, isFlag := v.Any.(bool)
	list, isList := v.Any.([]*source.Value)
	text, isText := v.Text()
	switch {
	case (o.form == bare || o.form == negated) && !isFlag:
		return source.Errorf(v.Pos, "bench_cmd_args.%s is %s, must be true or false", key, v.Shown()).
			Hintf("write %s = true, or leave it out", key)
	case o.form == oneWord && isFlag || o.form == each && isFlag:
		return source.Errorf(v.Pos, "bench_cmd_args.%s is %s, but the option needs a value", key, v.Shown()).
			Hintf("write the value, or leave it out")
	case o.form == oneWord && isList && o.names[0] != "goodput":
		return source.Errorf(v.Pos, "bench_cmd_args.%s is a list, but one value is needed", key).
			Hintf("write one; in phases, give each value a phase of its own")
	case isText && strings.Contains(text, ",") && slices.Contains(magic, o.names[0]):
		return source.Errorf(v.Pos, "bench_cmd_args.%s is %q, of which AIPerf would make several runs", key, text).
			Hintf("write a list: %s = [%s]", key, strings.ReplaceAll(strings.ReplaceAll(text, " ", ""), ",", ", "))
	}
	for _, e := range list {
		if _, nested := e.Any.([]*source.Value); nested {
			return source.Errorf(e.Pos, "bench_cmd_args.%s: a list in a list", key)
		}
	}
	return nil
}

// words writes one option. Options that are not known follow the rules of their values.
func words(key string, v *source.Value) []plan.Word {
	o := options()[strings.ReplaceAll(key, "-", "_")]
	name := "--" + strings.ReplaceAll(key, "_", "-")
	list, isList := v.Any.([]*source.Value)
	switch {
	case o != nil && o.names[0] == "goodput":
		return plan.Texts(name, pairs(v))
	case o != nil && o.form == negated && v.Any == false:
		return plan.Texts("--" + strings.ReplaceAll(o.no, "_", "-"))
	case o != nil && o.form == each && isList:
		var argv []plan.Word
		for _, e := range list {
			argv = append(argv, plan.Texts(name, serving.Scalar(e))...)
		}
		return argv
	}
	return serving.Option(key, v, serving.StoreTrue)
}

// pairs writes limits as AIPerf reads them: one word with KEY:VALUE, separated by spaces.
func pairs(v *source.Value) string {
	var list []string
	switch x := v.Any.(type) {
	case *source.Table:
		for _, key := range x.Keys() {
			list = append(list, key+":"+serving.Scalar(x.Get(key)))
		}
	case []*source.Value:
		for _, e := range x {
			list = append(list, serving.Scalar(e))
		}
	default:
		return serving.Scalar(v)
	}
	return strings.Join(list, " ")
}

// plainText is a value as the command line has it.
func plainText(v *source.Value) string {
	if v == nil {
		return ""
	}
	return cmp.Or(pairs(v), fmt.Sprint(v.Any))
}
