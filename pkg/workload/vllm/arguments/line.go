package arguments

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// A Reader reads the words of a command line as the table of a definition file, whose keys are the
// options by their full names with underscores.
type Reader struct {
	Pos     source.Pos // of every value and error
	Program *Program
	Own     []string // keys of options of one value that the command has besides
	// Any takes options that no release has, too. Their names stay as they are written, all words up
	// to the next option are values, and an option is given once.
	Any bool
}

// Read returns the options, and the model where the program takes one; nil if none was named. Of an
// option that is given twice, the last counts, as in vLLM.
func (r Reader) Read(words []string) (options *source.Table, model *source.Value, err error) {
	options = source.NewTable(r.Pos)
	var c source.Complaints
	for i := 0; i < len(words); {
		word := words[i]
		i++
		switch {
		case r.Any && (!strings.HasPrefix(word, "--") || len(word) < 3):
			c.Add(fmt.Errorf("%q is no argument of %s\n\thint: write them as --name value, behind --", word,
				r.Program.Name))
		case word == "--":
		case strings.HasPrefix(word, "-") && len(word) > 1:
			n, err := r.option(options, word, words[i:])
			c.Add(err)
			i += n
		case model != nil || !r.Program.model:
			c.Addf(r.Pos, "unexpected argument %q", word)
		default:
			model = &source.Value{Pos: r.Pos, Any: word}
		}
	}
	return options, model, c.Err()
}

// option reads one option, and returns how many words behind it are its values.
func (r Reader) option(options *source.Table, word string, rest []string) (taken int, err error) {
	if r.Program == Serve && strings.HasPrefix(word, "-O") {
		level := strings.TrimPrefix(word[2:], "=")
		if level == "" && len(rest) > 0 {
			level, taken = rest[0], 1
		}
		options.Set("optimization_level", r.value(level, Form{}))
		return taken, nil
	}
	name, text, given := strings.Cut(word, "=")
	n, err := r.Name(name, r.Pos)
	if err != nil {
		return 0, err
	}
	if r.Any && options.Has(n.Key) {
		return 0, fmt.Errorf("%s is given twice", name)
	}
	values := []string{text}
	if !given {
		for taken < len(rest) && taken < n.most && !isOption(rest[taken]) {
			taken++
		}
		values = rest[:taken]
	}
	switch key := n.Written(); {
	case len(values) > 1:
		list := make([]*source.Value, len(values))
		for i, v := range values {
			list[i] = r.value(v, n.Form)
		}
		options.Set(key, &source.Value{Pos: r.Pos, Any: list})
	case len(values) == 1:
		options.Set(key, r.value(values[0], n.Form))
	case n.alone:
		options.Set(n.Key, &source.Value{Pos: r.Pos, Any: !n.Negated})
	default:
		return taken, source.Errorf(r.Pos, "argument %s: expected one argument", name)
	}
	return taken, nil
}

// value is a word with the type that a definition file would give it: a number if the option takes
// numbers, or if the word is written as the number is printed. So 1.10 stays the name that it may be.
func (r Reader) value(word string, f Form) *source.Value {
	v := &source.Value{Pos: r.Pos, Any: word}
	n, notWhole := strconv.ParseInt(word, 10, 64)
	x, notNumber := strconv.ParseFloat(word, 64)
	numeric := f.Type == "int" || f.Type == "float"
	printed := strings.Contains(word, ".") && strconv.FormatFloat(x, 'g', -1, 64) == word
	switch {
	case strings.Trim(word, "+-.eE0123456789") != "": // inf and 0x10 are words
	case notWhole == nil && (numeric || strconv.FormatInt(n, 10) == word):
		v.Any = n
	case notNumber == nil && (f.Type == "float" || printed):
		v.Any = x
	}
	return v
}

// A Name is what the name of an option means.
type Name struct {
	Key     string // the full name, or with the member of its object: x.y
	Negated bool   // it is written as --no-x
	Form    Form   // the newest; that of one text where the option is not known, and for a member

	most  int  // values
	alone bool // it may stand without a value
}

// Written is the key with no_ where that is written. It is refused later if it has another value
// than true or false.
func (n Name) Written() string {
	if n.Negated {
		return "no_" + n.Key
	}
	return n.Key
}

// Name finds the option of a name, with dashes or underscores. pos is that of its errors.
func (r Reader) Name(name string, pos source.Pos) (Name, error) {
	plain, member, dotted := strings.Cut(strings.TrimLeft(name, "-"), ".")
	key := strings.ReplaceAll(plain, "-", "_")
	o, ok := r.Program.Find(plain)
	switch {
	case slices.Contains(r.Own, key):
		return Name{Key: key, most: 1}, nil
	case r.Any:
		n := Name{Key: strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_"), most: math.MaxInt, alone: true}
		if ok && !dotted {
			n.Form = o.Forms[len(o.Forms)-1]
		}
		return n, nil
	}
	n := Name{}
	if rest, is := strings.CutPrefix(key, "no_"); is && (!ok || Key(o.Name) != key) {
		n.Negated = true
		o, ok = r.Program.Find(rest)
	}
	if !ok {
		e := source.Errorf(pos, "%s is an option of `%s` in no release that profllm knows (%s to %s)", key,
			r.Program.Name, r.Program.Oldest().Version, r.Program.Newest().Version)
		if near := source.Nearest(key, r.Program.Names()); near != "" {
			return n, e.Hintf("did you mean %q?", near)
		}
		return n, e.Hintf("remove it, or write its full name; profllm args list lists the options")
	}
	n.Key, n.Form = Key(o.Name), o.Forms[len(o.Forms)-1]
	if dotted {
		n.Key, n.Form = n.Key+"."+member, Form{}
	}
	n.most = n.Form.Most()
	n.alone = n.most == 0 || n.Form.Values == "?"
	return n, nil
}
