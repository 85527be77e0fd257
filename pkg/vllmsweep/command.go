package vllmsweep

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/profllm/profllm/pkg/shell"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/sweep"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// A command is one of vLLM's, with its options by their keys.
type command struct {
	flag    string             // where it was given, such as --serve-cmd
	program *arguments.Program // whose options it has; nil: they are not known
	own     []string           // options of one value that it has besides
	dir     string             // of the program; "" if PATH finds it
	model   *source.Value      // vllm serve MODEL; nil: none was named
	options *source.Table
}

// parse reads a command line. named is how the program is called: vllm serve.
func parse(flag, line string, named []string, p *arguments.Program) (command, error) {
	pos := source.Pos{File: flag}
	cmd := command{flag: flag, program: p, options: source.NewTable(pos)}
	words, err := shell.PythonWords(line)
	if err != nil {
		return cmd, source.Errorf(pos, "%v: %s", err, line)
	}
	if len(words) < len(named) || filepath.Base(words[0]) != named[0] || !slices.Equal(words[1:len(named)], named[1:]) {
		return cmd, source.Errorf(pos, "%q is not a command of the form %s …", line, strings.Join(named, " ")).
			Hintf("another command needs a scenario of its own, see docs/how-to/sweeps.md")
	}
	if named[len(named)-1] == "startup" {
		cmd.own = append([]string{"output_json"}, startupOptions...)
	}
	if dir := filepath.Dir(words[0]); dir != "." {
		cmd.dir = dir
	}
	return cmd, cmd.take(words[len(named):])
}

// take reads what stands behind the program's name.
func (cmd *command) take(words []string) error {
	var c source.Complaints
	pos := source.Pos{File: cmd.flag}
	for i := 0; i < len(words); {
		word := words[i]
		i++
		switch {
		case word == "--":
		case !strings.HasPrefix(word, "-") || len(word) < 2:
			if cmd.model != nil || cmd.program != arguments.Serve {
				c.Addf(pos, "unexpected argument %q", word)
				continue
			}
			cmd.model = &source.Value{Pos: pos, Any: word}
		default:
			n, err := cmd.option(word, words[i:])
			c.Add(err)
			i += n
		}
	}
	return c.Err()
}

// option reads one option and returns how many words behind it are its values.
func (cmd *command) option(word string, rest []string) (taken int, err error) {
	pos := source.Pos{File: cmd.flag}
	if cmd.program == arguments.Serve && strings.HasPrefix(word, "-O") {
		level := strings.TrimPrefix(word[2:], "=")
		if level == "" && len(rest) > 0 {
			level, taken = rest[0], 1
		}
		cmd.options.Set("optimization_level", typed(pos, level))
		return taken, nil
	}
	name, text, given := strings.Cut(word, "=")
	key, form, err := cmd.key(name, pos)
	if err != nil {
		return 0, err
	}
	if strings.Contains(key, ".") {
		form = arguments.Form{}
	}
	var values []string
	switch most := takes(form); {
	case given:
		values = []string{text}
	case strings.HasPrefix(key, "no_") && form.Values == "0":
	default:
		for taken < len(rest) && taken < most && !option(rest[taken]) {
			values = append(values, rest[taken])
			taken++
		}
	}
	switch {
	case len(values) == 0 && (takes(form) == 0 || form.Values == "?"):
		on := !strings.HasPrefix(key, "no_")
		cmd.options.Set(strings.TrimPrefix(key, "no_"), &source.Value{Pos: pos, Any: on})
	case len(values) == 0:
		return taken, source.Errorf(pos, "argument %s: expected one argument", name)
	case len(values) == 1:
		cmd.options.Set(key, typed(pos, values[0]))
	default:
		list := make([]*source.Value, len(values))
		for i, v := range values {
			list[i] = typed(pos, v)
		}
		cmd.options.Set(key, &source.Value{Pos: pos, Any: list})
	}
	return taken, nil
}

// option tells an option from a value, as argparse does.
func option(word string) bool {
	return len(word) > 1 && word[0] == '-' && !strings.ContainsRune("0123456789.", rune(word[1])) &&
		!strings.Contains(word, " ")
}

// takes is how many values an option takes at most.
func takes(f arguments.Form) int {
	switch f.Values {
	case "0":
		return 0
	case "", "?":
		return 1
	case "+", "*":
		return 1 << 20
	}
	n, _ := strconv.Atoi(f.Values)
	return n
}

// key is the full name of an option as a key, with its newest form: no_x for --no-x.
func (cmd *command) key(name string, pos source.Pos) (string, arguments.Form, error) {
	plain := strings.TrimLeft(name, "-")
	plain, member, dotted := strings.Cut(plain, ".")
	key := strings.ReplaceAll(plain, "-", "_")
	if cmd.program == nil || slices.Contains(cmd.own, key) {
		return key, arguments.Form{}, nil
	}
	negated := ""
	o, ok := cmd.program.Find(plain)
	if rest, is := strings.CutPrefix(key, "no_"); is && (!ok || o.Name != "--"+strings.ReplaceAll(key, "_", "-")) {
		negated = "no_"
		o, ok = cmd.program.Find(rest)
	}
	if !ok {
		e := source.Errorf(pos, "%s is an option of `%s` in no release that profllm knows (%s to %s)", key,
			cmd.program.Name, cmd.program.Oldest().Version, cmd.program.Newest().Version)
		if near := source.Nearest(key, cmd.program.Names()); near != "" {
			return key, arguments.Form{}, e.Hintf("did you mean %q?", near)
		}
		return key, arguments.Form{}, e.Hintf("remove it, or write its full name; profllm args list lists the options")
	}
	key = negated + arguments.Key(o.Name)
	if dotted {
		key += "." + member
	}
	return key, o.Forms[len(o.Forms)-1], nil
}

// typed is a word of a command as a value: a number if it is written as one is printed.
func typed(pos source.Pos, word string) *source.Value {
	v := &source.Value{Pos: pos, Any: word}
	if n, err := strconv.ParseInt(word, 10, 64); err == nil && strconv.FormatInt(n, 10) == word {
		v.Any = n
	} else if f, err := strconv.ParseFloat(word, 64); err == nil && strconv.FormatFloat(f, 'g', -1, 64) == word &&
		strings.Contains(word, ".") {
		v.Any = f
	}
	return v
}

// set is what a point sets, by the keys of the options, and the switches that it takes away: those
// that have no --no-x are false where they are absent. Errors are parameters that no release has.
func (cmd *command) set(item Item) (t *source.Table, unset []string, err error) {
	var c source.Complaints
	t = source.NewTable(item.Pos)
	for _, name := range item.Params.Keys() {
		v := item.Params.Get(name)
		key, form, err := cmd.key(name, v.Pos)
		if err != nil {
			c.Add(err)
			continue
		}
		value, err := cmd.value(key, v, form)
		c.Add(err)
		on, is := value.Any.(bool)
		if is && strings.HasPrefix(key, "no_") {
			on, key = !on, strings.TrimPrefix(key, "no_")
			value = &source.Value{Pos: v.Pos, Any: on}
		}
		if is && !on && form.Values == "0" && !negatable(form) {
			unset = append(unset, key)
			continue
		}
		t.Set(key, value)
	}
	return t, unset, c.Err()
}

// negatable reports whether an option can be written as --no-x.
func negatable(f arguments.Form) bool {
	return slices.ContainsFunc(f.Names, func(name string) bool { return strings.HasPrefix(name, "--no-") })
}

// value is that of a parameter as a definition has it: numbers stay numbers, and a list is several
// words where the option takes these.
func (cmd *command) value(key string, v *source.Value, form arguments.Form) (*source.Value, error) {
	out := &source.Value{Pos: v.Pos, Any: v.Any}
	switch x := v.Any.(type) {
	case nil:
		out.Any = "None"
		if !form.Optional && cmd.program != nil {
			return out, source.Errorf(v.Pos, "%s is null, which the option does not take", key).Hintf("leave it out")
		}
	case bool:
		if strings.Contains(key, ".") { // --a.b true
			out.Any = strconv.FormatBool(x)
		}
	case *source.Table:
		out.Any = jsonText(v)
	case []*source.Value:
		if takes(form) <= 1 {
			out.Any = jsonText(v)
		}
	}
	return out, nil
}

// jsonText is a value as Python's json.dumps writes it.
func jsonText(v *source.Value) string {
	switch x := v.Any.(type) {
	case nil:
		return "null"
	case string:
		return quoted(x)
	case bool:
		return strconv.FormatBool(x)
	case []*source.Value:
		parts := make([]string, len(x))
		for i, e := range x {
			parts[i] = jsonText(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case *source.Table:
		var parts []string
		for _, k := range x.Keys() {
			parts = append(parts, quoted(k)+": "+jsonText(x.Get(k)))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return sweep.Literal(v)
}

// quoted is a text as JSON, in ASCII as json.dumps writes it.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case short[r] != "":
			b.WriteString(short[r])
		case r >= 0x20 && r < 0x7f:
			b.WriteRune(r)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	return b.String() + `"`
}

// short are the characters for which JSON has an escape of their own.
var short = map[rune]string{'\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}
