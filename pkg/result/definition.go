package result

import (
	"cmp"
	"slices"
)

// MetricsVersion is that of the definitions behind results: what each key counts, from
// when to when. Records written before it was kept have 1.
const MetricsVersion = 1

// Redefinition says that keys of results mean something else from a version on.
type Redefinition struct {
	Version int      // the first with the new meaning
	Keys    []string // of results; one that ends in _ stands for all keys that begin so
	What    string   // what changed, for a person
}

// redefinitions are all changes of a meaning under the same key, oldest first. Whoever
// changes one adds a line here and raises MetricsVersion; a key that is new needs none.
var redefinitions []Redefinition

// Redefined returns the changes of a key's meaning between two versions of the
// definitions; numbers of the two must not be compared if there are any.
func Redefined(key string, a, b int) []Redefinition { return redefined(redefinitions, key, a, b) }

func redefined(all []Redefinition, key string, a, b int) []Redefinition {
	a, b = cmp.Or(a, 1), cmp.Or(b, 1)
	var list []Redefinition
	for _, r := range all {
		if r.Version > min(a, b) && r.Version <= max(a, b) && slices.ContainsFunc(r.Keys, func(k string) bool { return covers(k, key) }) {
			list = append(list, r)
		}
	}
	return list
}

func covers(pattern, key string) bool {
	n := len(pattern)
	return pattern == key || n > 0 && pattern[n-1] == '_' && len(key) > n && key[:n] == pattern
}
