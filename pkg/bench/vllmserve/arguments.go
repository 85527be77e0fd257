package vllmserve

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/load"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// CheckArguments refuses what `vllm bench serve` of a release would refuse on the GPUs, in the
// words of its parser: unknown options, values of another type, choices that it does not have;
// then, if there are none, options that do not go together. unchecked options pass. Without a
// release, the newest that has the option decides.
func CheckArguments(t *source.Table, p *arguments.Program, release string, unchecked ...string) error {
	var c source.Complaints
	t = limited(t)
	for _, key := range t.Keys() {
		name := strings.ReplaceAll(key, "-", "_")
		if _, sglangsOwn := sglangs[name]; sglangsOwn || slices.Contains(planned, name) {
			continue // New complains
		}
		if !slices.Contains(unchecked, name) {
			c.Add(check(t, key, p, release))
		}
	}
	if c.Err() == nil {
		o := options{t, &c}
		o.checkDataset()
		o.checkRamp()
	}
	return c.Err()
}

// CheckOwnArguments refuses what the parser of profllm's client would refuse in the job.
// It is that parser.
func CheckOwnArguments(t *source.Table) error {
	t = limited(t)
	words := func(keys ...string) (list []string) {
		for _, key := range keys {
			for _, w := range option(key, t.Get(key)) {
				text, _ := w.Literal()
				list = append(list, text)
			}
		}
		return list
	}
	o, err := load.ParseArgs(words(t.Keys()...))
	if err == nil {
		if err = o.Validate(); err == nil {
			return nil
		}
		for _, key := range []string{"dataset_name", "dataset-name", "dataset_path", "dataset-path"} {
			if t.Has(key) && text(t.Get(key)) != "random" {
				return source.Errorf(t.PosOf(key), "bench_cmd_args.%s: client \"profllm\" refuses it: %v", key, err).
					Hintf("%s", OfVLLM(key))
			}
		}
		return source.Errorf(t.Pos, "bench_cmd_args: client \"profllm\" refuses them: %v", err)
	}
	for _, key := range t.Keys() {
		if _, err := load.ParseArgs(words(key)); err != nil {
			e := source.Errorf(t.PosOf(key), "bench_cmd_args.%s: client \"profllm\" refuses it: %v", key, err)
			switch {
			case key == "backend":
				return e.Hintf("%s", OfVLLM(key))
			case t.Get(key).Any == false:
				return e.Hintf("remove it: an option without a value has no negation")
			}
			return e
		}
	}
	return source.Errorf(t.Pos, "bench_cmd_args: client \"profllm\" refuses them: %v", err)
}

// OfVLLM says that vLLM's client has an option, more of whose values it takes; "" if it has none.
func OfVLLM(key string) string {
	if !known(arguments.BenchServe, key) {
		return ""
	}
	return "vLLM's own client can do more here: remove client = \"profllm\""
}

// check refuses one option.
func check(t *source.Table, key string, p *arguments.Program, release string) error {
	v := t.Get(key)
	if !known(p, key) {
		return unknown(t, key, p, release)
	}
	var words []string
	for _, w := range option(key, v) {
		text, _ := w.Literal()
		words = append(words, text)
	}
	if _, refusal := p.Check(release, words[0], words[1:]...); refusal != nil {
		e := source.Errorf(t.PosOf(key), "bench_cmd_args.%s: vLLM %s says: %s", key, refusal.Release, refusal.Words)
		return e.Hintf("%s", cmp.Or(refusal.Hint, "see profllm args show --of bench "+key))
	}
	if wanted, got := lacks(key, words[1:]); wanted != "" {
		return source.Errorf(t.PosOf(key), "bench_cmd_args.%s: needs %s, not %q", key, wanted, got)
	}
	return nil
}

// unknown refuses an option of no release, unless it can be one of a release that is newer.
func unknown(t *source.Table, key string, p *arguments.Program, release string) error {
	const hint = "if your release has it, add it to cmd_args.unchecked_options"
	near := source.Nearest(strings.ReplaceAll(key, "-", "_"), p.Names())
	if _, newer := p.At(release); newer && near == "" {
		return nil
	}
	e := source.Errorf(t.KeyPos(key), "bench_cmd_args.%s is an option of `%s` in no release that profllm knows (%s to %s)", key,
		p.Name, p.Oldest().Version, p.Newest().Version)
	if near != "" {
		return e.Hintf("did you mean %q? %s", near, hint)
	}
	return e.Hintf("remove it; %s", hint)
}

// known reports whether some release has an option by its full name, also as --no-x and as a member
// of a JSON value (extra_body.x). The beginning of a name is no name here: what it means changes
// from release to release.
func known(p *arguments.Program, key string) bool {
	name, _, _ := strings.Cut(strings.ReplaceAll(key, "_", "-"), ".")
	_, is := p.Find("--" + name)
	_, negated := p.Find("--" + strings.TrimPrefix(name, "no-"))
	return is || negated
}

// lacks says which value the client will miss when it looks at the values.
func lacks(key string, values []string) (wanted, got string) {
	name := strings.ReplaceAll(key, "-", "_")
	form, ok := later[name]
	if !ok || name == "timeline_itl_thresholds" && len(values) == 2 { // as 0.17 to 0.19 have it
		return "", ""
	}
	for _, s := range values {
		if !form.takes.MatchString(s) || strings.HasPrefix(s, "{") && name == "random_range_ratio" && !json.Valid([]byte(s)) {
			return form.wanted, s
		}
	}
	return "", ""
}

// What Python's float() reads.
const (
	unsigned = `(?i:\d+(?:_\d+)*(?:\.(?:\d+(?:_\d+)*)?)?(?:e[+-]?\d+(?:_\d+)*)?|\.\d+(?:_\d+)*(?:e[+-]?\d+(?:_\d+)*)?|inf|infinity|nan)`
	float    = `\s*[+-]?` + unsigned + `\s*`

	latencies = `(?:ttft|tpot|itl|e2el|client_queue_time|e2el_including_client_queue)`
)

// A value is what an option needs beyond what the parser looks at: the client looks at these later,
// at some of them only when it has measured.
type value struct {
	wanted string
	takes  *lazyregexp.Regexp
}

var later = map[string]value{
	"seed":               {"a whole number, 0 or more", lazyregexp.New(`^\s*\+?\d+(?:_\d+)*\s*$`)},
	"random_range_ratio": {"a number, or a JSON object with input and output", lazyregexp.New(`^` + float + `$|^\{.*\}$`)},
	"metric_percentiles": {"comma-separated numbers", lazyregexp.New(`^` + float + `(?:,` + float + `)*$`)},
	"percentile_metrics": {"a comma-separated list of ttft, tpot, itl, e2el",
		lazyregexp.New(`^` + latencies + `(?:,` + latencies + `)*$`)},
	"header":                  {"KEY=VALUE", lazyregexp.New(`(?s)=`)},
	"metadata":                {"KEY=VALUE", lazyregexp.New(`(?s)=`)},
	"goodput":                 {"ttft:MS, tpot:MS or e2el:MS", lazyregexp.New(`^(?:ttft|tpot|e2el):` + unsigned + `$`)},
	"timeline_itl_thresholds": {"two comma-separated numbers", lazyregexp.New(`^` + float + `,` + float + `$`)},
	"random_mm_bucket_config": {"{(HEIGHT, WIDTH, FRAMES): SHARE, …}",
		lazyregexp.New(`^\{(?:\s*["']?\(\d+, *\d+, *\d+\)["']?\s*:` + float + `,?)*\s*\}$`)},
}
