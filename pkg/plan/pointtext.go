package plan

import (
	"maps"
	"slices"
	"strings"
)

// DifferingKeys lists the keys whose values are not the same in all of the settings,
// sorted. Settings without a key differ from those that have it.
func DifferingKeys(list []map[string]string) []string {
	if len(list) == 0 {
		return nil
	}
	first := list[0]
	keys := map[string]bool{}
	for _, s := range list {
		for k, v := range s {
			if have, ok := first[k]; !ok || v != have {
				keys[k] = true
			}
		}
		for k := range first {
			if _, ok := s[k]; !ok {
				keys[k] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// mostDifferences is how many settings tell measurements apart; of more, nobody reads them.
const mostDifferences = 4

// Differences says of each of some measurements in which settings it differs from the
// others, such as "max_concurrency=4 num_prompts=20". There are none if all are alike, or if
// they differ in too many.
func Differences(list []map[string]string) []string {
	keys := DifferingKeys(list)
	if len(keys) == 0 || len(keys) > mostDifferences {
		return nil
	}
	short := ShortKeys(keys)
	out := make([]string, len(list))
	for i, settings := range list {
		var words []string
		for k, key := range keys {
			if v, ok := settings[key]; ok {
				words = append(words, short[k]+"="+v)
			}
		}
		out[i] = strings.Join(words, " ")
	}
	return out
}

// chosen are the values that the sweep chose for a load, by the key of the setting.
func (p *Plan) chosen(l *Load) map[string]string {
	settings := p.Settings(l)
	out := map[string]string{}
	for _, v := range l.Values {
		key := SettingKey(v.Path)
		text, ok := settings[key]
		if !ok {
			text = SettingText(v.Value)
		}
		out[key] = text
	}
	return out
}

// chosenKeys are the keys of what the sweep chose, in its order.
func (p *Plan) chosenKeys() []string {
	var keys []string
	for _, l := range p.Loads {
		for _, v := range l.Values {
			if k := SettingKey(v.Path); !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// PointText says which points of a sweep a run measures, such as "tensor_parallel_size=2
// max_concurrency=1,4,16"; "" if it is no sweep.
func (p *Plan) PointText() string {
	keys := p.chosenKeys()
	values := map[string][]string{}
	for i := range p.Loads {
		for k, v := range p.chosen(&p.Loads[i]) {
			if !slices.Contains(values[k], v) {
				values[k] = append(values[k], v)
			}
		}
	}
	words := make([]string, len(keys))
	for i, short := range ShortKeys(keys) {
		words[i] = short + "=" + strings.Join(values[keys[i]], ",")
	}
	return strings.Join(words, " ")
}

// LoadText says what the sweep chose for a load and not for all loads of the run, such as
// "max_concurrency=4"; "" if nothing.
func (p *Plan) LoadText(l *Load) string {
	var list []map[string]string
	for i := range p.Loads {
		list = append(list, p.chosen(&p.Loads[i]))
	}
	differ := DifferingKeys(list)
	own := p.chosen(l)
	keys := p.chosenKeys()
	var words []string
	for i, short := range ShortKeys(keys) {
		if slices.Contains(differ, keys[i]) {
			words = append(words, short+"="+own[keys[i]])
		}
	}
	return strings.Join(words, " ")
}
