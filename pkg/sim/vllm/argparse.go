package vllm

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/profllm/profllm/pkg/sim/program"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// An option is one of vLLM's, as its parser knows it.
type option struct {
	names   []string // each with its dashes; the first is the full one
	nargs   string   // "0", "1", "?" or "+"
	kind    string   // int, float, human_readable_int, human_readable_int_or_auto; "*": any text
	choices []string // nil: any value
}

// serveOptions are those of `vllm serve` 0.32.0, in the order of its messages.
var serveOptions = sync.OnceValue(func() []option {
	var list []option
	for line := range strings.Lines(arguments.Serve) {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		o := option{names: strings.Split(f[0], ","), nargs: f[1], kind: f[2]}
		if len(f) > 3 {
			o.choices = strings.Split(f[3], ",")
		}
		list = append(list, o)
	}
	return list
})

// A usageError is what argparse prints before it exits with 2.
type usageError struct{ prog, text string }

func (e *usageError) Error() string { return e.prog + ": error: " + e.text }

func refused(format string, args ...any) error {
	return &usageError{"vllm serve", fmt.Sprintf(format, args...)}
}

// checkServe refuses what the parser of `vllm serve` 0.32.0 refuses: unknown options and
// ambiguous abbreviations, too many or too few values, values of another kind. It returns the
// arguments with the model first, every option by its full name, and
// --x=v for single values. What JSON must hold is not looked at.
func checkServe(args []string) ([]string, error) {
	args = flexible(args)
	var model, options, left []string
	for i := 0; i < len(args); {
		arg := args[i]
		o, name, value, err := look(arg)
		if err != nil {
			return nil, err
		}
		i++
		switch {
		case arg == "--":
			continue
		case !isOption(arg):
			if model == nil {
				model = []string{arg}
			} else {
				left = append(left, arg)
			}
			continue
		case o == nil:
			left = append(left, arg)
			continue
		}
		var values []string
		if value != nil {
			values = []string{*value}
		} else {
			for i < len(args) && !isOption(args[i]) && len(values) < o.most() {
				values = append(values, args[i])
				i++
			}
		}
		if err := o.check(values, value != nil); err != nil {
			return nil, err
		}
		if len(values) == 1 {
			options = append(options, name+"="+values[0])
		} else {
			options = append(append(options, name), values...)
		}
	}
	if left != nil {
		return nil, &usageError{"vllm", "unrecognized arguments: " + strings.Join(left, " ")}
	}
	return append(model, options...), nil
}

// flexible does what vLLM's own parser does before argparse: --model becomes the first
// argument, underscores in names become dashes, and -O3 is a level of optimization.
func flexible(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		model, given := strings.CutPrefix(arg, "--model=")
		if given && model != "" {
			args = append([]string{model}, slices.Delete(args, i, i+1)...)
			break
		}
		if arg == "--model" && i+1 < len(args) {
			model = args[i+1]
			args = append([]string{model}, slices.Delete(args, i, i+2)...)
			break
		}
	}
	var list []string
	for i, arg := range args {
		name, value, given := strings.Cut(arg, "=")
		if given {
			value = "=" + value
		}
		switch {
		case strings.HasPrefix(arg, "--"):
			head, keys, dotted := strings.Cut(name, ".")
			if dotted {
				keys = "." + keys
			}
			list = append(list, strings.ReplaceAll(head, "_", "-")+keys+value)
		case arg == "-O" && i+1 < len(args) && len(args[i+1]) == 1 && strings.Contains("0123", args[i+1]):
			list = append(list, "--optimization-level")
		case strings.HasPrefix(arg, "-O") && arg != "-O":
			list = append(list, "--optimization-level", strings.TrimPrefix(arg[2:], "="))
		default:
			list = append(list, arg)
		}
	}
	return list
}

// isOption tells an option from a value, as argparse does where no option looks like a number.
func isOption(arg string) bool {
	return program.IsFlag(arg) && (strings.HasPrefix(arg, "--") || !strings.Contains(arg, " "))
}

// look finds the option that an argument names, by a name of its or the beginning of one, with
// the full spelling and the value behind "=". With a key (--x.key) the key stays, and the value
// may follow. Nothing is found for what is no option.
func look(arg string) (o *option, name string, value *string, err error) {
	if !isOption(arg) || arg == "--" {
		return nil, "", nil, nil
	}
	name, text, given := strings.Cut(arg, "=")
	if given {
		value = &text
	}
	name, key, dotted := strings.Cut(name, ".")
	type match struct {
		o    *option
		name string
	}
	var begins []match
	list := serveOptions()
	for i := range list {
		for _, n := range list[i].names {
			if n == name {
				begins = []match{{&list[i], n}}
				break
			}
			if strings.HasPrefix(n, name) {
				begins = append(begins, match{&list[i], n})
			}
		}
		if len(begins) == 1 && begins[0].name == name {
			break
		}
	}
	if len(begins) == 0 && !strings.HasPrefix(arg, "--") && len(arg) > 2 && !dotted { // -n2
		text := arg[2:]
		if o, name, _, err := look(arg[:2]); o != nil && slices.Contains(o.names, arg[:2]) {
			return o, name, &text, err
		}
	}
	switch {
	case len(begins) == 0:
		return nil, "", value, nil
	case len(begins) > 1:
		names := make([]string, len(begins))
		for i, m := range begins {
			names[i] = m.name
		}
		return nil, "", nil, refused("ambiguous option: %s could match %s", arg, strings.Join(names, ", "))
	}
	o, name = begins[0].o, begins[0].name
	if !strings.HasPrefix(name, "--no-") {
		name = o.names[0]
	}
	if dotted { // one value, which is part of a JSON object
		return &option{names: []string{name + "." + key}, nargs: "1", kind: "*"}, name + "." + key, value, nil
	}
	return o, name, value, nil
}

// most is how many values the option takes.
func (o *option) most() int {
	switch o.nargs {
	case "0":
		return 0
	case "+":
		return 1 << 30
	}
	return 1
}

// check refuses values that the option does not take. explicit ones stood behind "=".
func (o *option) check(values []string, explicit bool) error {
	name := strings.Join(o.names, "/")
	switch {
	case o.nargs == "0" && explicit:
		return refused("argument %s: ignored explicit argument '%s'", name, values[0])
	case o.nargs == "1" && len(values) == 0:
		return refused("argument %s: expected one argument", name)
	case o.nargs == "+" && len(values) == 0:
		return refused("argument %s: expected at least one argument", name)
	}
	for _, v := range values {
		if !o.takes(v) {
			return refused("argument %s: invalid %s value: '%s'", name, o.kind, v)
		}
		if o.choices != nil && !slices.Contains(o.choices, v) {
			quote := "'"
			if o.kind == "int" {
				quote = ""
			}
			return refused("argument %s: invalid choice: %s (choose from %s)", name, quote+v+quote,
				quote+strings.Join(o.choices, quote+", "+quote)+quote)
		}
	}
	return nil
}

// Whole numbers as Python reads them, and as vLLM does with a unit of its own.
var (
	wholeNumber = regexp.MustCompile(`^\s*[+-]?\d+(_\d+)*\s*$`)
	withUnit    = regexp.MustCompile(`^\s*(\d+(\.\d+)?[kmgt]|\d+[KMGT])\s*$`)
)

// takes reports whether a value is of the option's kind.
func (o *option) takes(v string) bool {
	switch o.kind {
	case "int":
		return wholeNumber.MatchString(v)
	case "float":
		_, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		return err == nil
	case "human_readable_int_or_auto":
		if strings.EqualFold(strings.TrimSpace(v), "auto") {
			return true
		}
		fallthrough
	case "human_readable_int":
		return wholeNumber.MatchString(v) || withUnit.MatchString(v)
	}
	return true
}
