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
	arguments.Reader // its place is the flag by which it was given, such as --serve-cmd

	dir     string        // of the program; "" if PATH finds it
	model   *source.Value // vllm serve MODEL; nil: none was named
	options *source.Table
}

// parse reads a command line. named is how the program is called: vllm serve.
func parse(flag, line string, named []string, p *arguments.Program) (command, error) {
	pos := source.Pos{File: flag}
	cmd := command{Reader: arguments.Reader{Pos: pos, Program: p}}
	words, err := shell.PythonWords(line)
	if err != nil {
		return cmd, source.Errorf(pos, "%v: %s", err, line)
	}
	if len(words) < len(named) || filepath.Base(words[0]) != named[0] || !slices.Equal(words[1:len(named)], named[1:]) {
		return cmd, source.Errorf(pos, "%q is not a command of the form %s …", line, strings.Join(named, " ")).
			Hintf("another command needs a scenario of its own, see docs/how-to/sweeps.md")
	}
	if named[len(named)-1] == "startup" {
		cmd.Own = append([]string{"output_json"}, startupOptions...)
	}
	if dir := filepath.Dir(words[0]); dir != "." {
		cmd.dir = dir
	}
	cmd.options, cmd.model, err = cmd.Read(words[len(named):])
	return cmd, err
}

// set is what a point sets, by the keys of the options, and the switches that it takes away: those
// that have no --no-x are false where they are absent. Errors are parameters that no release has.
func (cmd *command) set(item Item) (t *source.Table, unset []string, err error) {
	var c source.Complaints
	t = source.NewTable(item.Pos)
	for _, name := range item.Params.Keys() {
		v := item.Params.Get(name)
		n, err := cmd.Name(name, v.Pos)
		if err != nil {
			c.Add(err)
			continue
		}
		value, err := parameter(n, v)
		c.Add(err)
		on, is := value.Any.(bool)
		key := n.Written()
		if n.Negated && is {
			on, key = !on, n.Key
			value = &source.Value{Pos: v.Pos, Any: on}
		}
		if is && !on && n.Form.Values == "0" && !negatable(n.Form) {
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

// parameter is the value of a parameter as a definition has it: numbers stay numbers, and a list is
// several words where the option takes these.
func parameter(n arguments.Name, v *source.Value) (*source.Value, error) {
	out := &source.Value{Pos: v.Pos, Any: v.Any}
	switch x := v.Any.(type) {
	case nil:
		out.Any = "None"
		if !n.Form.Optional {
			return out, source.Errorf(v.Pos, "%s is null, which the option does not take", n.Written()).
				Hintf("leave it out")
		}
	case bool:
		if strings.Contains(n.Key, ".") { // --a.b true
			out.Any = strconv.FormatBool(x)
		}
	case *source.Table:
		out.Any = jsonText(v)
	case []*source.Value:
		if n.Form.Most() <= 1 {
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
