package arguments

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// Help reads the options out of what --help=all of a program prints. Such a text has the spellings,
// the number of values, choices and most defaults, but neither kinds nor limits.
func Help(text string) ([]Option, error) {
	_, text, found := strings.Cut("\n"+strings.ReplaceAll(text, "\r", ""), "\nusage: ")
	if !found {
		return nil, errors.New("this is no output of --help: no line begins with \"usage: \"")
	}
	if strings.Contains(text, "\x00") {
		return nil, errors.New("this is no output of --help: it holds a NUL byte")
	}
	var list []Option
	seen := map[string]bool{"": true, "--help": true}
	group := ""
	current, about := -1, []string(nil) // the option that the lines explain, and these
	end := func() {
		if current >= 0 {
			list[current].Forms[0].Default = defaultIn(strings.Join(about, " "))
		}
		current, about = -1, nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		switch {
		case strings.HasPrefix(line, "  -"):
			end()
			invocation, rest, _ := strings.Cut(line[2:], "  ")
			if o := invoked(invocation); !seen[o.Name] {
				seen[o.Name], o.Group = true, group
				list, current, about = append(list, o), len(list), []string{strings.TrimSpace(rest)}
			}
		case strings.HasSuffix(line, ":") && !strings.HasPrefix(line, " "):
			end()
			group = strings.TrimSuffix(line, ":")
		default:
			about = append(about, strings.TrimSpace(line))
		}
	}
	end()
	if list == nil {
		return nil, errors.New("this --help has no options: --help=all prints them, in old releases --help")
	}
	return list, nil
}

// invoked reads an option as a help begins with it: "--x X [X ...], -x X [X ...]".
func invoked(text string) Option {
	var o Option
	var f Form
	for i, part := range strings.Split(text, ", -") {
		if i > 0 {
			part = "-" + part
		}
		name, values, _ := strings.Cut(part, " ")
		if o.Name == "" && strings.HasPrefix(name, "--") {
			o.Name = name
		}
		f.Names = append(f.Names, name)
		f.Values, f.Choices, f.Optional = shown(values) // since Python 3.13, behind the last name only
	}
	if len(f.Names) == 1 {
		f.Names = nil
	}
	o.Forms = []Form{f}
	return o
}

// shown reads how a help writes values: X, [X], X [X ...], [X ...], X X, {a,b}; lists in brackets
// and quotes are suggestions.
func shown(values string) (count string, choices []string, optional bool) {
	first := values
	switch {
	case values == "":
		return "0", nil, false
	case strings.HasPrefix(values, "['"):
		return "", nil, false
	case strings.HasPrefix(values, "[") && strings.HasSuffix(values, " ...]"):
		count, first = "*", strings.TrimSuffix(values[1:], " ...]")
	case strings.HasSuffix(values, " ...]"):
		first, _, _ = strings.Cut(values, " [")
		count = "+"
	case strings.HasPrefix(values, "[") && strings.HasSuffix(values, "]"):
		count, first = "?", values[1:len(values)-1]
	default:
		if words := strings.Fields(values); len(words) > 1 && !slices.ContainsFunc(words, func(w string) bool { return w != words[0] }) {
			count, first = strconv.Itoa(len(words)), words[0]
		}
	}
	if strings.HasPrefix(first, "{") && strings.HasSuffix(first, "}") {
		for choice := range strings.SplitSeq(first[1:len(first)-1], ",") {
			if choice == "None" {
				optional = true
				continue
			}
			choices = append(choices, choice)
		}
	}
	return count, choices, optional
}

var defaultText = lazyregexp.New(`\(default: (\S*)\)$`)

// defaultIn is the default at the end of an explanation, nil for none and for one of several words.
func defaultIn(about string) any {
	m := defaultText.FindStringSubmatch(strings.TrimSpace(about))
	if m == nil || m[1] == "None" || m[1] == "" {
		return nil
	}
	return read(m[1])
}

// read is a value as Python prints it.
func read(text string) any {
	switch text {
	case "True":
		return true
	case "False":
		return false
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil && !strings.ContainsAny(text, "xXnN") {
		return n
	}
	return text
}

// Differences says how the options of a help differ from the catalogue's in the release. What a
// help does not say is taken to be as in the catalogue.
func (r *Release) Differences(help []Option) (list []Change) {
	has := map[string]Form{}
	for _, o := range help {
		has[o.Name] = o.Forms[0]
	}
	for _, o := range r.program.Options() {
		before, had := o.FormAt(r.Version)
		after, is := has[o.Name]
		delete(has, o.Name)
		switch {
		case had && !is:
			list = append(list, Change{Option: o.Name, Kind: "removed"})
		case is && !had:
			list = append(list, Change{Option: o.Name, Kind: "added"})
		case is:
			if what := differences(alike(before, after)); what != nil {
				list = append(list, Change{o.Name, "changed", what})
			}
		}
	}
	for _, o := range help {
		if _, unknown := has[o.Name]; unknown {
			list = append(list, Change{Option: o.Name, Kind: "added"})
		}
	}
	return list
}

// alike makes a form of the catalogue and one of a help alike in what the help does not tell,
// and in the order of names and choices.
func alike(stored, shown Form) (a, b Form) {
	a, b = stored, shown
	a.Type, a.Optional, a.Fold, a.Min, a.Above, a.Max, a.Below = "", false, false, nil, nil, nil, nil
	b.Optional = false
	for _, f := range []*Form{&a, &b} {
		f.Names, f.Choices = sorted(f.Names), sorted(f.Choices)
	}
	if text, ok := a.Default.(string); ok && read(text) == b.Default { // a help has no quotes
		b.Default = text
	}
	if a.Default == nil || b.Default == nil {
		a.Default, b.Default = nil, nil
	}
	return a, b
}

func sorted(list []string) []string {
	if list == nil {
		return nil
	}
	return slices.Sorted(slices.Values(list))
}
