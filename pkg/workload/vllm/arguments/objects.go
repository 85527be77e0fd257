package arguments

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/profllm/profllm/pkg/source"
)

// objects.json has the members of the options of `vllm serve` that are JSON objects, where they
// become a class of vLLM's configuration. It is written with serve.json.
//
//go:embed objects.json
var objectsJSON []byte

// An object is such an option in all its releases.
type object struct {
	Name    string       `json:"name"`
	Forms   []objectForm `json:"forms"`
	Members []Option     `json:"members"` // those of members have names with dots
}

type objectForm struct {
	Since  string `json:"since"`
	Until  string `json:"until"`
	Class  string `json:"class"`
	Strict bool   `json:"strict"` // it refuses members that it does not have; others are ignored
	Late   bool   `json:"late"`   // it is made behind the parser
}

var objects = sync.OnceValue(func() map[string]object {
	var list []object
	if err := json.Unmarshal(objectsJSON, &list); err != nil {
		panic("arguments: " + err.Error()) // the file is part of the program
	}
	m := map[string]object{}
	for _, o := range list {
		m[o.Name] = o
	}
	return m
})

// Members are the members of an option's object, nil where the option has none that are known.
func (o Option) Members() []Option { return objects()[o.Name].Members }

// hasMembers reports whether the members of an option are known of a release.
func hasMembers(option, version string) bool {
	_, ok := objects()[option].at(version)
	return ok
}

// A memberError is why vLLM would refuse a member of a JSON object, or ignore it.
type memberError struct {
	path   string // of the member, with dots
	words  string // vLLM's
	hint   string
	absent bool // the release does not have it
}

// at is the form of an object in a release.
func (o object) at(version string) (objectForm, bool) {
	for _, f := range o.Forms {
		if within(version, f.Since, f.Until) {
			return f, true
		}
	}
	return objectForm{}, false
}

// checkObject refuses members that vLLM's parser refuses, or, if late, those with which the server
// does not start, or which it ignores.
func (r *Release) checkObject(o *option, name string, values []string, late bool) error {
	whole := o
	if o.whole != nil {
		whole = o.whole
	}
	if !r.program.model || whole.Type != "json" || len(values) != 1 {
		return nil
	}
	known, ok := objects()[whole.long()]
	if !ok {
		return nil
	}
	form, ok := known.at(r.Version)
	if !ok {
		return nil
	}
	given, ok := objectOf(name, values[0])
	if !ok {
		return nil
	}
	found := known.check(r.Version, "", given, form.Late)
	refuses := slices.DeleteFunc(slices.Clone(found), func(e memberError) bool { return e.absent && !form.Strict })
	switch {
	case (late || !form.Late) && len(refuses) > 0:
		return objectError(whole, form.Class, refuses)
	case late && len(refuses) == 0 && len(found) > 0:
		return &usageError{text: fmt.Sprintf("%s has no member %s", form.Class, found[0].path), member: found[0], unused: true}
	}
	return nil
}

// objectError is what vLLM says of an object.
func objectError(o *option, class string, list []memberError) error {
	count := "1 validation error"
	if n := len(list); n > 1 {
		count = fmt.Sprintf("%d validation errors", n)
	}
	parts := make([]string, len(list))
	for i, m := range list {
		parts[i] = m.path + ": " + m.words
	}
	text := fmt.Sprintf("argument %s: %s for %s: %s", strings.Join(o.names, "/"), count, class, strings.Join(parts, "; "))
	return &usageError{text: text, member: list[0]}
}

// objectOf is the JSON object of an option; that of one member (--x.a.b) has only this one.
func objectOf(name, value string) (map[string]any, bool) {
	_, path, dotted := strings.Cut(name, ".")
	var v any
	if json.Unmarshal([]byte(value), &v) != nil {
		if !dotted {
			return nil, false
		}
		v = value
	}
	if dotted {
		for _, key := range slices.Backward(strings.Split(path, ".")) {
			v = map[string]any{key: v}
		}
	}
	m, ok := v.(map[string]any)
	return m, ok
}

// check looks at the members of an object; dashes are as good as underscores where code says so.
func (o object) check(version, prefix string, given map[string]any, dashes bool) (list []memberError) {
	for _, key := range slices.Sorted(maps.Keys(given)) {
		name := key
		if dashes {
			name = strings.ReplaceAll(key, "-", "_")
		}
		member, form, ok := o.member(prefix+name, version)
		switch v := given[key]; {
		case !ok:
			list = append(list, memberError{prefix + key, "Unexpected keyword argument", o.hint(prefix+name, version), true})
		case v == nil:
		default:
			if words := wrong(form, v); words != "" {
				list = append(list, memberError{path: prefix + key, words: words})
				continue
			}
			if inner, is := v.(map[string]any); is && form.Type == "json" {
				list = append(list, o.check(version, member.Name+".", inner, dashes)...)
			}
		}
	}
	return list
}

func (o object) member(name, version string) (Option, Form, bool) {
	for _, m := range o.Members {
		if m.Name == name {
			form, ok := m.FormAt(version)
			return m, form, ok
		}
	}
	return Option{}, Form{}, false
}

// hint is what to do about a member that a release does not have.
func (o object) hint(name, version string) string {
	var names []string
	for _, m := range o.Members {
		_, has := m.FormAt(version)
		switch {
		case has:
			names = append(names, m.Name)
		case m.Name == name && m.Removed() != "" && compare(m.Removed(), version) <= 0:
			return m.Removal()
		case m.Name == name:
			return "vLLM has it since " + m.Forms[0].Since
		}
	}
	if near := source.Nearest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	return ""
}

// wrong says why a value is none of a member's, in the words of vLLM; "" if it is one.
func wrong(f Form, v any) string {
	switch {
	case f.Choices != nil:
		if s, ok := v.(string); !ok || !slices.Contains(f.Choices, s) {
			return "Input should be " + alternatives(f.Choices)
		}
		return ""
	case f.Type == "json":
		if _, ok := v.(map[string]any); !ok {
			return "Input should be an object"
		}
		return ""
	case f.Type == "bool":
		return wrongBool(v)
	case f.Type == "int" || f.Type == "float":
		return wrongNumber(f, v)
	}
	return ""
}

func wrongBool(v any) string {
	switch x := v.(type) {
	case bool:
		return ""
	case float64:
		switch {
		case x == 0 || x == 1:
			return ""
		case x != math.Trunc(x):
			return "Input should be a valid boolean"
		}
	case string:
		if slices.Contains([]string{"0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"}, strings.ToLower(x)) {
			return ""
		}
	default:
		return "Input should be a valid boolean"
	}
	return "Input should be a valid boolean, unable to interpret input"
}

func wrongNumber(f Form, v any) string {
	kind, article := "number", "a"
	if f.Type == "int" {
		kind, article = "integer", "an"
	}
	var n float64
	switch x := v.(type) {
	case bool:
		if x {
			n = 1
		}
	case float64:
		n = x
	case string:
		var err error
		if n, err = strconv.ParseFloat(strings.TrimSpace(x), 64); err != nil || strings.ContainsAny(x, "xX") {
			return fmt.Sprintf("Input should be a valid %s, unable to parse string as %s %s", kind, article, kind)
		}
	default:
		return "Input should be a valid " + kind
	}
	if f.Type == "int" && n != math.Trunc(n) {
		return "Input should be a valid integer, got a number with a fractional part"
	}
	if limit := (&option{Form: f}).limit(strconv.FormatFloat(n, 'g', -1, 64)); limit != "" {
		return "Input should be " + limit
	}
	return ""
}

// alternatives are choices in words: 'a', 'b' or 'c'.
func alternatives(choices []string) string {
	quoted := make([]string, len(choices))
	for i, c := range choices {
		quoted[i] = "'" + c + "'"
	}
	if n := len(quoted); n > 1 {
		return strings.Join(quoted[:n-1], ", ") + " or " + quoted[n-1]
	}
	return strings.Join(quoted, "")
}

// long is the long name of an option.
func (o *option) long() string {
	for _, name := range o.names {
		if strings.HasPrefix(name, "--") {
			return name
		}
	}
	return o.names[0]
}
