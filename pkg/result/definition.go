package result

import (
	"cmp"
	"fmt"
	"slices"
)

// MetricsVersion is that of the definitions behind results: what each key counts, from
// when to when. Records written before it was kept have 1.
const MetricsVersion = 1

// Redefinition says that keys of results changed their meaning in a version.
type Redefinition struct {
	Version int      // the first with the new meaning
	Keys    []string // of results; one that ends in _ stands for all keys that begin so
	What    string   // what changed, for a person
}

// redefinitions are all changes of a meaning under the same key, oldest first. Whoever
// changes one adds a line here and raises MetricsVersion; a key that is new needs none.
var redefinitions []Redefinition

// Redefined says why numbers of a key, from records with these versions of the
// definitions, must not be compared; "" if they may. A version that this program does not
// know may have changed any key.
func Redefined(key string, a, b int) string {
	return redefined(redefinitions, MetricsVersion, key, a, b)
}

func redefined(all []Redefinition, newest int, key string, a, b int) string {
	a, b = cmp.Or(a, 1), cmp.Or(b, 1)
	if a == b {
		return ""
	}
	if v := max(a, b); v > newest {
		return fmt.Sprintf("version %d of the metrics' definitions is unknown to this profllm (the other record has %d); use the newer profllm", v, min(a, b))
	}
	for _, r := range all {
		if r.Version > min(a, b) && r.Version <= max(a, b) &&
			slices.ContainsFunc(r.Keys, func(k string) bool { return covers(k, key) }) {
			return fmt.Sprintf("the metric has another meaning since version %d of the metrics' definitions: %s; collect both runs again with one profllm", r.Version, r.What)
		}
	}
	return ""
}

func covers(pattern, key string) bool {
	n := len(pattern)
	return pattern == key || n > 0 && pattern[n-1] == '_' && len(key) > n && key[:n] == pattern
}
