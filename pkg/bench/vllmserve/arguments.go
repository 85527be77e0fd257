package vllmserve

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/profllm/profllm/pkg/load"
	"github.com/profllm/profllm/pkg/source"
)

// argument is what the parser of `vllm bench serve` takes for an option.
type argument struct {
	Kind    string   `json:"kind"` // text, one of values; flag (--x only), switch (--x and --no-x)
	Choices []string `json:"choices"`
	Several bool     `json:"several"` // takes more than one value
}

// ArgumentsVersion is the release of vLLM whose options arguments.json lists: what
// `vllm bench serve` of that release says of its own parser.
const ArgumentsVersion = "0.32"

//go:embed arguments.json
var argumentsJSON []byte

var arguments = sync.OnceValue(func() map[string]argument {
	var m map[string]argument
	if err := json.Unmarshal(argumentsJSON, &m); err != nil {
		panic(err) // a file of the program's own
	}
	return m
})

// CheckArguments refuses what the parser of `vllm bench serve` would refuse on the GPUs:
// unknown options, values of another type, choices that it does not have; then, if there
// are none, options that do not go together.
func CheckArguments(t *source.Table) error {
	var c source.Complaints
	for _, key := range t.Keys() {
		name := strings.ReplaceAll(key, "-", "_")
		if _, sglangsOwn := sglangs[name]; sglangsOwn || slices.Contains(planned, name) {
			continue // New complains
		}
		v := t.Get(key)
		if err := check(name, v); err != "" {
			e := source.Errorf(t.PosOf(key), "bench_cmd_args.%s: %s", key, err)
			if _, known := find(name); !known {
				e.Pos = t.KeyPos(key)
				hint := "if your release has it, set cmd_args.engine_version"
				if near := source.Nearest(name, slices.Sorted(maps.Keys(arguments()))); near != "" {
					hint = fmt.Sprintf("did you mean %q? %s", near, hint)
				}
				e = e.Hintf("%s", hint)
			}
			c.Add(e)
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
		return source.Errorf(t.Pos, "bench_cmd_args: client \"profllm\" refuses them: %v", err)
	}
	for _, key := range t.Keys() {
		if _, err := load.ParseArgs(words(key)); err != nil {
			return source.Errorf(t.PosOf(key), "bench_cmd_args.%s: client \"profllm\" refuses it: %v", key, err)
		}
	}
	return source.Errorf(t.Pos, "bench_cmd_args: client \"profllm\" refuses them: %v", err)
}

// find returns the argument of a key, also of --no-x and of a part of a JSON value
// (extra_body.x).
func find(name string) (argument, bool) {
	if a, ok := arguments()[name]; ok {
		return a, true
	}
	if base, ok := strings.CutPrefix(name, "no_"); ok {
		a, ok := arguments()[base]
		return argument{Kind: "flag"}, ok && a.Kind == "switch"
	}
	if base, _, dotted := strings.Cut(name, "."); dotted {
		a, ok := arguments()[base]
		return argument{Kind: "text"}, ok && a.Kind == "json"
	}
	return argument{}, false
}

// check says what is wrong with a value, or "".
func check(name string, v *source.Value) string {
	a, ok := find(name)
	if !ok {
		return "`vllm bench serve` of " + ArgumentsVersion + " has no such option"
	}
	on, isBool := v.Any.(bool)
	switch {
	case a.Kind == "flag" && (isBool && on || v.Any == ""), a.Kind == "switch" && (isBool || v.Any == ""):
		return ""
	case a.Kind == "flag" && isBool:
		return "the option cannot be switched off; remove it"
	case a.Kind == "flag", a.Kind == "switch":
		return fmt.Sprintf("takes no value: write true instead of %v", v.Plain())
	case isBool, v.Any == "" && !a.Several:
		return "needs " + a.wanted()
	}
	list, isList := v.Any.([]*source.Value)
	switch {
	case !isList:
		list = []*source.Value{v}
	case len(list) != 1 && !a.Several:
		return fmt.Sprintf("needs %s, not a list of %d", a.wanted(), len(list))
	}
	for _, e := range list {
		if s := text(e); !a.takes(s) {
			return fmt.Sprintf("needs %s, not %q", a.wanted(), s)
		}
	}
	return ""
}

// What Python's float() reads.
const (
	unsigned = `(?i:\d+(?:_\d+)*(?:\.(?:\d+(?:_\d+)*)?)?(?:e[+-]?\d+(?:_\d+)*)?|\.\d+(?:_\d+)*(?:e[+-]?\d+(?:_\d+)*)?|inf|infinity|nan)`
	float    = `\s*[+-]?` + unsigned + `\s*`
)

// negative is what argparse takes for a negative number.
var negative = regexp.MustCompile(`^-\d+$|^-\d*\.\d+$`)

// A value is what options of a kind take; nil takes is JSON. The client looks at some
// of them only when it has measured.
type value struct {
	wanted string
	takes  *regexp.Regexp
}

var values = map[string]value{
	"int":     {"a whole number", regexp.MustCompile(`^\s*[+-]?\d+(?:_\d+)*\s*$`)},
	"natural": {"a whole number, 0 or more", regexp.MustCompile(`^\s*\+?\d+(?:_\d+)*\s*$`)},
	"float":   {"a number", regexp.MustCompile(`^` + float + `$`)},
	"json":    {"JSON", nil},
	"ratio":   {"a number, or a JSON object with input and output", regexp.MustCompile(`^` + float + `$|^\{.*\}$`)},
	"numbers": {"comma-separated numbers", regexp.MustCompile(`^` + float + `(?:,` + float + `)*$`)},
	"pair":    {"two comma-separated numbers", regexp.MustCompile(`^` + float + `,` + float + `$`)},
	"latencies": {"a comma-separated list of ttft, tpot, itl, e2el",
		regexp.MustCompile(`^(?:ttft|tpot|itl|e2el)(?:,(?:ttft|tpot|itl|e2el))*$`)},
	"assignment": {"KEY=VALUE", regexp.MustCompile(`(?s)=`)},
	"objective":  {"ttft:MS, tpot:MS or e2el:MS", regexp.MustCompile(`^(?:ttft|tpot|e2el):` + unsigned + `$`)},
	"buckets": {"{(HEIGHT, WIDTH, FRAMES): SHARE, …}",
		regexp.MustCompile(`^\{(?:\s*["']?\(\d+, *\d+, *\d+\)["']?\s*:` + float + `,?)*\s*\}$`)},
}

func (a argument) takes(s string) bool {
	if strings.HasPrefix(s, "-") && s != "-" && !negative.MatchString(s) && !strings.Contains(s, " ") {
		return false // argparse reads it as an option
	}
	form, ok := values[a.Kind]
	switch {
	case !ok:
		return len(a.Choices) == 0 || slices.Contains(a.Choices, s)
	case a.Kind == "ratio" && strings.HasPrefix(s, "{"), form.takes == nil:
		return json.Valid([]byte(s))
	}
	return form.takes.MatchString(s)
}

// wanted describes a value.
func (a argument) wanted() string {
	if len(a.Choices) > 0 {
		return "one of " + strings.Join(a.Choices, ", ")
	}
	return cmp.Or(values[a.Kind].wanted, "a text")
}
