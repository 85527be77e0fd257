package arguments

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Change is how an option differs between two releases.
type Change struct {
	Option string   `json:"option"`
	Kind   string   `json:"kind"`           // added, removed or changed
	What   []string `json:"what,omitempty"` // of a changed one: each difference in words; of a removed one: its successor
}

// Changes lists the differences from one release to another, in the order of the parser.
func (p *Program) Changes(from, to *Release) (list []Change) {
	for _, o := range p.Options() {
		before, had := o.FormAt(from.Version)
		after, has := o.FormAt(to.Version)
		switch {
		case had && !has:
			c := Change{Option: o.Name, Kind: "removed"}
			if o.Successor != "" {
				c.What = []string{"use " + o.Successor}
			}
			list = append(list, c)
		case has && !had:
			list = append(list, Change{Option: o.Name, Kind: "added"})
		case has:
			if what := differences(before, after); what != nil {
				list = append(list, Change{o.Name, "changed", what})
			}
		}
	}
	return list
}

// One is the release of a version, or the newest that begins with it: "0.11" is 0.11.2.
func (p *Program) One(version string) (*Release, error) {
	list, newer := p.At(version)
	if len(list) == 0 || newer {
		return nil, fmt.Errorf("the catalogue has no vLLM %s: it has %s to %s", version, p.Oldest().Version, p.Newest().Version)
	}
	newest := list[len(list)-1]
	if !newest.is(version) {
		return nil, fmt.Errorf("the catalogue has no vLLM %s: the releases beside it are %s and %s", version,
			list[0].Version, newest.Version)
	}
	return newest, nil
}

// FormAt is what the option is in a release.
func (o Option) FormAt(version string) (Form, bool) {
	for _, f := range o.Forms {
		if within(version, f.Since, f.Until) {
			return f, true
		}
	}
	return Form{}, false
}

func differences(a, b Form) (what []string) {
	differ := func(name, x, y string) {
		if x != y {
			what = append(what, fmt.Sprintf("%s: %s → %s", name, cmp.Or(x, "–"), cmp.Or(y, "–")))
		}
	}
	differ("spellings", strings.Join(a.Names, " "), strings.Join(b.Names, " "))
	differ("type", a.Kind(), b.Kind())
	differ("values", a.count(), b.count())
	differ("default", a.Preset(), b.Preset())
	differ("range", a.Range(), b.Range())
	differ("takes None", yesNo(a.Optional), yesNo(b.Optional))
	differ("capitals count", yesNo(!a.Fold), yesNo(!b.Fold))
	if (a.Choices == nil) != (b.Choices == nil) {
		differ("choices", strings.Join(a.Choices, " "), strings.Join(b.Choices, " "))
	}
	for _, choice := range b.Choices {
		if a.Choices != nil && !slices.Contains(a.Choices, choice) {
			what = append(what, "choice "+choice+" added")
		}
	}
	for _, choice := range a.Choices {
		if b.Choices != nil && !slices.Contains(b.Choices, choice) {
			what = append(what, "choice "+choice+" removed")
		}
	}
	return what
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// Kind is the type in words.
func (f Form) Kind() string {
	switch {
	case f.Type == "" && f.Choices != nil:
		return "choice"
	case f.Type == "":
		return "string"
	}
	return f.Type
}

func (f Form) count() string {
	if f.Values == "" {
		return "1"
	}
	return f.Values
}

// Preset is the default as on a command line, "–" where it is computed at start-up.
func (f Form) Preset() string {
	switch d := f.Default.(type) {
	case nil:
		return "–"
	case string:
		return d
	}
	text, err := json.Marshal(f.Default)
	if err != nil {
		return "–"
	}
	return string(text)
}

// Range is the interval of accepted numbers, "" where there is no limit.
func (f Form) Range() string {
	var parts []string
	for _, limit := range []struct {
		sign  string
		bound *float64
	}{{"≥ ", f.Min}, {"> ", f.Above}, {"≤ ", f.Max}, {"< ", f.Below}} {
		if limit.bound != nil {
			parts = append(parts, limit.sign+plain(*limit.bound))
		}
	}
	return strings.Join(parts, ", ")
}

// Accepts lists the choices or the range, "" where any value of the kind is taken.
func (f Form) Accepts() string {
	if f.Choices != nil {
		return strings.Join(f.Choices, " ")
	}
	return f.Range()
}
