package vllmserve

import (
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
	Kind    string   `json:"kind"` // int, float, json, text; flag (--x only), switch (--x and --no-x)
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
// unknown options, values of another type, choices that it does not have.
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
				hint := "if your release has it, set cmd_args.engine_version"
				if near := source.Nearest(name, slices.Sorted(maps.Keys(arguments()))); near != "" {
					hint = fmt.Sprintf("did you mean %q? %s", near, hint)
				}
				e = e.Hintf("%s", hint)
			}
			c.Add(e)
		}
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
	case a.Kind == "json":
		return "needs " + a.wanted() + ", not a list"
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

// What Python's int() and float() read, and what argparse takes for a negative number.
var (
	pythonInt   = regexp.MustCompile(`^\s*[+-]?\d+(_\d+)*\s*$`)
	pythonFloat = regexp.MustCompile(`^(?i)\s*[+-]?(\d+(_\d+)*(\.(\d+(_\d+)*)?)?(e[+-]?\d+(_\d+)*)?|\.\d+(_\d+)*(e[+-]?\d+(_\d+)*)?|inf|infinity|nan)\s*$`)
	negative    = regexp.MustCompile(`^-\d+$|^-\d*\.\d+$`)
)

func (a argument) takes(s string) bool {
	if strings.HasPrefix(s, "-") && s != "-" && !negative.MatchString(s) && !strings.Contains(s, " ") {
		return false // argparse reads it as an option
	}
	switch a.Kind {
	case "int":
		return pythonInt.MatchString(s)
	case "float":
		return pythonFloat.MatchString(s)
	case "json":
		return json.Valid([]byte(s))
	}
	return len(a.Choices) == 0 || slices.Contains(a.Choices, s)
}

// wanted describes a value.
func (a argument) wanted() string {
	switch {
	case len(a.Choices) > 0:
		return "one of " + strings.Join(a.Choices, ", ")
	case a.Kind == "int":
		return "a whole number"
	case a.Kind == "float":
		return "a number"
	case a.Kind == "json":
		return "JSON"
	}
	return "a text"
}
