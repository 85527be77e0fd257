package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
)

// promptFields are the requirements that say which prompts a load has, and how long its answers are.
var promptFields = []string{endpointField, dataField, inputField, outputField}

// anyData is the data set of a load that names none, of every client that profllm starts.
const anyData = "random"

// promptsOf are what the prompts and the answers of a run are: other prompts make other numbers, of
// which none are better.
func promptsOf(r *records.Run) []records.Setting {
	var list []records.Setting
	for _, q := range requirements(r) {
		if q.Key == dataField {
			q.Value = cmp.Or(q.Value, anyData)
		}
		if slices.Contains(promptFields, q.Key) {
			list = append(list, q)
		}
	}
	for k, v := range r.Settings {
		name, ours := strings.CutPrefix(k, "bench_cmd_args.")
		if ours && strings.HasSuffix(name, "_len") && !requires(k) {
			list = append(list, records.Setting{Key: name, Value: v})
		}
	}
	slices.SortFunc(list, func(a, b records.Setting) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// requires reports whether a setting is one that requirements speak of.
func requires(key string) bool {
	for _, f := range required {
		if slices.Contains(f.keys, key) {
			return true
		}
	}
	return false
}

// promptKey tells prompts apart.
func promptKey(r *records.Run) string { return records.Join(promptsOf(r)) }

// promptsDiffer are the fields in which the prompts of runs differ.
func promptsDiffer(entries []*Entry) []string {
	var fields []string
	if len(entries) == 0 {
		return nil
	}
	value := func(list []records.Setting, key string) string {
		i := slices.IndexFunc(list, func(s records.Setting) bool { return s.Key == key })
		if i < 0 {
			return ""
		}
		return list[i].Value
	}
	first := promptsOf(entries[0].Run)
	for _, e := range entries[1:] {
		own := promptsOf(e.Run)
		for _, s := range slices.Concat(first, own) {
			if value(first, s.Key) != value(own, s.Key) && !slices.Contains(fields, s.Key) {
				fields = append(fields, s.Key)
			}
		}
	}
	slices.Sort(fields)
	return fields
}

// apart divides the phases of a test, or the settings of a sweep, by their prompts. Those that have their
// prompts alone are one choice, which ranks nothing.
func (c *Choice) apart() []*Choice {
	fields := promptsDiffer(c.entries)
	if len(fields) == 0 {
		return []*Choice{c}
	}
	var keys []string
	dims, groups := chosenKeys(c.entries), map[string][]*Entry{}
	for _, e := range c.entries {
		k := promptKey(e.Run)
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], e)
	}
	rest := &Choice{About: c.About, Noun: c.Noun, Kind: c.Kind, Unlike: fields}
	var list []*Choice
	for _, k := range keys {
		entries := groups[k]
		first, _ := c.nameOf(entries[0], dims)
		other := func(e *Entry) bool {
			name, _ := c.nameOf(e, dims)
			return name != first
		}
		if !slices.ContainsFunc(entries, other) {
			rest.entries = append(rest.entries, entries...)
			continue
		}
		var with []string
		for _, s := range promptsOf(entries[0].Run) {
			if slices.Contains(fields, s.Key) {
				with = append(with, s.Key+"="+cmp.Or(s.Value, notKnown))
			}
		}
		about := strings.TrimSpace(c.About + " with " + quantity.List(with))
		list = append(list, &Choice{About: about, Noun: c.Noun, Kind: c.Kind, entries: entries})
	}
	if len(rest.entries) > 0 {
		list = append(list, rest)
	}
	return list
}
