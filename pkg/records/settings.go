package records

import (
	"maps"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// Setting is one value of the configuration.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func (s Setting) String() string { return s.Key + "=" + s.Value }

// Join writes settings in a line.
func Join(list []Setting) string {
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = s.String()
	}
	return strings.Join(parts, " ")
}

// Short are settings with keys as short as they can be.
func Short(list []Setting) []Setting {
	keys := make([]string, len(list))
	for i, s := range list {
		keys[i] = s.Key
	}
	out := make([]Setting, len(list))
	for i, key := range plan.ShortKeys(keys) {
		out[i] = Setting{key, list[i].Value}
	}
	return out
}

// JoinShort writes settings with keys as short as they can be.
func JoinShort(list []Setting) string { return Join(Short(list)) }

// Lookup returns a setting by its key, by its key without cmd_args, or, for a
// table, all of it.
func Lookup(settings map[string]string, key string) (string, bool) {
	for _, k := range []string{key, "cmd_args." + key} {
		if v, ok := settings[k]; ok {
			return v, true
		}
		var parts []string
		for _, have := range slices.Sorted(maps.Keys(settings)) {
			if rest, ok := strings.CutPrefix(have, k+"."); ok {
				parts = append(parts, rest+"="+settings[have])
			}
		}
		if parts != nil {
			return strings.Join(parts, " "), true
		}
	}
	return "", false
}

// Differing lists the keys whose values are not the same in all runs, sorted.
// A run without a key differs from one that has it.
func Differing(runs []*Run) []string { return plan.DifferingKeys(settingsOf(runs)) }

func settingsOf(runs []*Run) []map[string]string {
	list := make([]map[string]string, len(runs))
	for i, r := range runs {
		list[i] = r.Settings
	}
	return list
}

// UnknownKeys complains about keys that no run has, so that a typing error does
// not look like one group.
func UnknownKeys(runs []Run, keys []string) error {
	var c source.Complaints
	for _, key := range keys {
		known := map[string]bool{}
		found := false
		for _, r := range runs {
			if _, ok := Lookup(r.Settings, key); ok {
				found = true
				break
			}
			for k := range r.Settings {
				if !strings.HasPrefix(key, "cmd_args.") {
					k = strings.TrimPrefix(k, "cmd_args.") // Lookup takes both
				}
				known[k] = true
			}
		}
		if !found {
			c.Add(source.Errorf(source.Pos{File: "group_by"}, "no run has the key %q", key).
				Hintf("%s", source.Suggest(key, slices.Sorted(maps.Keys(known)))))
		}
	}
	return c.Err()
}
