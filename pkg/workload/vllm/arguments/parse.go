package arguments

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// A usageError is what argparse prints before it exits with 2.
type usageError struct {
	prog, text string
	member     memberError // of a JSON object, if it is about one
	unused     bool        // vLLM takes it, and does nothing with it
}

func (e *usageError) Error() string { return e.prog + ": error: " + e.text }

func refused(format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...)}
}

// Parse refuses what the parser of the release's program refuses, in its words: unknown options
// and ambiguous abbreviations, too many or too few values, values of another kind. Numbers beyond
// the limits of an option are refused too, as vLLM does a little later. It returns the arguments
// with the model first, every option by its full name, and --x=v for single values. What a JSON
// object must hold is not looked at.
func (r *Release) Parse(args []string) ([]string, error) { return r.parseFor(args, false) }

// parseFor also refuses, if late, what the server refuses or ignores behind its parser.
func (r *Release) parseFor(args []string, late bool) ([]string, error) {
	list, err := r.parse(args, late)
	if e, ok := errors.AsType[*usageError](err); ok && e.prog == "" {
		e.prog = r.program.Name
	}
	return list, err
}

func (r *Release) parse(args []string, late bool) ([]string, error) {
	if r.program.model {
		args = modelFirst(args)
	}
	args = r.flexible(args)
	var model, options, left []string
	for i := 0; i < len(args); {
		arg := args[i]
		o, name, value, err := r.look(arg)
		if err != nil {
			return nil, err
		}
		i++
		switch {
		case arg == "--":
			continue
		case !isOption(arg):
			if model == nil && r.program.model {
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
			for i < len(args) && !isOption(args[i]) && len(values) < o.Most() {
				values = append(values, args[i])
				i++
			}
		}
		if err := cmp.Or(o.check(values, value != nil), r.checkObject(o, name, values, late)); err != nil {
			return nil, err
		}
		if len(values) == 1 {
			options = append(options, name+"="+values[0])
		} else {
			options = append(append(options, name), values...)
		}
	}
	if left != nil {
		return nil, &usageError{prog: "vllm", text: "unrecognized arguments: " + strings.Join(left, " ")}
	}
	return append(model, options...), nil
}

// modelFirst makes --model the first argument, as vLLM's own parser does before argparse.
func modelFirst(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		model, given := strings.CutPrefix(arg, "--model=")
		if given && model != "" {
			return append([]string{model}, slices.Delete(args, i, i+1)...)
		}
		if arg == "--model" && i+1 < len(args) {
			model = args[i+1]
			return append([]string{model}, slices.Delete(args, i, i+2)...)
		}
	}
	return args
}

// flexible does what vLLM's own parser does before argparse: underscores in names become dashes,
// and -O3 is a level of optimization, or of compilation in older releases.
func (r *Release) flexible(args []string) []string {
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
			list = append(list, r.level())
		case strings.HasPrefix(arg, "-O.") && Before(r.Version, "0.13.0"):
			list = append(list, "--compilation-config"+arg[2:])
		case strings.HasPrefix(arg, "-O") && arg != "-O":
			list = append(list, r.level(), strings.TrimPrefix(arg[2:], "="))
		default:
			list = append(list, arg)
		}
	}
	return list
}

// level is the option that -O stands for (vllm/utils, FlexibleArgumentParser).
func (r *Release) level() string {
	switch {
	case Before(r.Version, "0.9.2"):
		return "--compilation-config"
	case Before(r.Version, "0.11.1"):
		return "--compilation-config.level"
	case Before(r.Version, "0.12.0"):
		return "--compilation-config.mode"
	}
	return "--optimization-level"
}

// isOption tells an option from a value, as argparse does where no option looks like a number.
func isOption(arg string) bool {
	if len(arg) < 2 || arg[0] != '-' || arg[1] >= '0' && arg[1] <= '9' || arg[1] == '.' {
		return false
	}
	return strings.HasPrefix(arg, "--") || !strings.Contains(arg, " ")
}

// look finds the option that an argument names, by a name of its or the beginning of one, with
// the full spelling and the value behind "=". With a key (--x.key) the key stays, and the value
// may follow. Nothing is found for what is no option.
func (r *Release) look(arg string) (o *option, name string, value *string, err error) {
	if !isOption(arg) || arg == "--" {
		return nil, "", nil, nil
	}
	name, text, given := strings.Cut(arg, "=")
	if given {
		value = &text
	}
	name, key, dotted := strings.Cut(name, ".")
	i, exact := r.names[name]
	if !exact {
		full := r.beginningWith(name)
		if full == nil && !strings.HasPrefix(arg, "--") && len(arg) > 2 && !dotted { // -n2
			if i, ok := r.names[arg[:2]]; ok {
				text := arg[2:]
				return &r.options[i], r.options[i].names[0], &text, nil
			}
		}
		switch len(full) {
		case 0:
			return nil, "", value, nil
		case 1:
			name = full[0]
		default:
			return nil, "", nil, refused("ambiguous option: %s could match %s", arg, strings.Join(full, ", "))
		}
		i = r.names[name]
	}
	o = &r.options[i]
	if !strings.HasPrefix(name, "--no-") {
		name = o.names[0]
	}
	if dotted { // one value, which is part of a JSON object
		return &option{names: []string{name + "." + key}, whole: o}, name + "." + key, value, nil
	}
	return o, name, value, nil
}

// beginningWith returns the spellings that an abbreviation can mean, in the parser's order.
func (r *Release) beginningWith(name string) (full []string) {
	for _, o := range r.options {
		for _, n := range o.names {
			if strings.HasPrefix(n, name) {
				full = append(full, n)
			}
		}
	}
	return full
}

// Most is how many values the option takes.
func (f Form) Most() int {
	switch f.Values {
	case "", "?":
		return 1
	case "+", "*":
		return math.MaxInt
	}
	return f.exactly()
}

// exactly is a number of values that the option needs, 0 where that is not fixed.
func (f Form) exactly() int {
	n, _ := strconv.Atoi(f.Values)
	return n
}

// check refuses values that the option does not take. explicit ones stood behind "=".
func (o *option) check(values []string, explicit bool) error {
	name := strings.Join(o.names, "/")
	switch {
	case o.Values == "0" && explicit:
		return refused("argument %s: ignored explicit argument '%s'", name, values[0])
	case o.Values == "" && len(values) == 0:
		return refused("argument %s: expected one argument", name)
	case o.Values == "+" && len(values) == 0:
		return refused("argument %s: expected at least one argument", name)
	case o.exactly() > 0 && len(values) != o.exactly():
		return refused("argument %s: expected %d arguments", name, o.exactly())
	case o.whole != nil:
		return o.whole.checkMember(name, values[0])
	}
	for _, v := range values {
		if o.Optional && (v == "" || v == "None") {
			continue
		}
		if o.Fold {
			v = strings.ReplaceAll(strings.ToLower(v), "-", "_")
		}
		if !o.takes(v) {
			return refused("argument %s: %s", name, o.notTaken(v))
		}
		if o.Choices != nil && !slices.Contains(o.Choices, v) {
			quote := "'"
			if o.Type == "int" {
				quote = ""
			}
			list := quote + strings.Join(o.Choices, quote+", "+quote) + quote
			if o.Optional {
				list += ", None"
			}
			return refused("argument %s: invalid choice: %s (choose from %s)", name, quote+v+quote, list)
		}
		if limit := o.limit(v); limit != "" {
			return refused("argument %s: input should be %s, not %s", name, limit, v)
		}
	}
	return nil
}

// checkMember refuses a member of a JSON object (--x.member) where the option takes no object.
func (o *option) checkMember(name, value string) error {
	object := value
	if !json.Valid([]byte(value)) {
		object = strconv.Quote(value)
	}
	for _, key := range slices.Backward(strings.Split(name, ".")[1:]) {
		object = fmt.Sprintf("{%q: %s}", key, object)
	}
	if o.Values == "0" {
		return &usageError{prog: "vllm", text: "unrecognized arguments: " + object}
	}
	if strings.HasPrefix(o.Type, "json") {
		return nil
	}
	return o.check([]string{object}, false)
}

// Whole numbers as Python reads them, and as vLLM does with a unit of its own.
var (
	wholeNumber = lazyregexp.New(`^\s*[+-]?\d+(_\d+)*\s*$`)
	withUnit    = lazyregexp.New(`^\s*(\d+(\.\d+)?[kmgt]|\d+[KMGT])\s*$`)
)

// takes reports whether a value is of the option's kind.
func (o *option) takes(v string) bool {
	switch o.Type {
	case "int":
		return wholeNumber.MatchString(v)
	case "float":
		_, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		return err == nil && !strings.ContainsAny(v, "xX")
	case "human_readable_int_or_auto":
		if strings.EqualFold(strings.TrimSpace(v), "auto") {
			return true
		}
		fallthrough
	case "human_readable_int":
		return wholeNumber.MatchString(v) || withUnit.MatchString(v)
	case "json":
		return json.Valid([]byte(v))
	case "json-or-string": // what begins like an object and ends too early is a string to the parser, but starts no server
		return !strings.HasPrefix(strings.TrimSpace(v), "{") || json.Valid([]byte(v))
	}
	return true
}

// notTaken says so in vLLM's words.
func (o *option) notTaken(v string) string {
	switch {
	case strings.HasPrefix(o.Type, "human") && decimalOfBinary.MatchString(v):
		v = strings.TrimSpace(v)
		unit := v[len(v)-1:]
		return fmt.Sprintf("Decimals are not allowed with binary suffixes like %s. Did you mean to use %s%s instead?", unit,
			v[:len(v)-1], strings.ToLower(unit))
	case o.Optional && (o.Type == "int" || o.Type == "float"):
		return fmt.Sprintf("Value %s cannot be converted to <class '%s'>.", v, o.Type)
	case o.Optional && strings.HasPrefix(o.Type, "human"):
		return fmt.Sprintf("Value %s cannot be converted to <function %s>.", v, o.Type)
	}
	return fmt.Sprintf("invalid %s value: '%s'", strings.TrimSuffix(o.Type, "-or-string"), v)
}

var decimalOfBinary = lazyregexp.New(`^\s*\d+\.\d+[KMGT]\s*$`)

// limit says which limit of the option a number is beyond, "" for none and for what is no number.
func (o *option) limit(v string) string {
	n, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(v), "_", ""), 64)
	switch {
	case err != nil:
		return ""
	case o.Min != nil && !(n >= *o.Min):
		return "greater than or equal to " + plain(*o.Min)
	case o.Above != nil && !(n > *o.Above):
		return "greater than " + plain(*o.Above)
	case o.Max != nil && !(n <= *o.Max):
		return "less than or equal to " + plain(*o.Max)
	case o.Below != nil && !(n < *o.Below):
		return "less than " + plain(*o.Below)
	}
	return ""
}

func plain(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
