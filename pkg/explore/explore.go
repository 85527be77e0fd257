// Package explore concludes from many runs what their settings do: which setting moves a
// metric, how throughput grows with GPUs, and which configuration serves a load within limits
// on the fewest GPUs.
//
// Only valid runs of one kind count. Runs are matched by their settings, the GPU and the
// engine's version; what only says how long a load lasts or where it ran is no setting here.
//
//	list := explore.Impacts(runs, metric.Throughput)
package explore

import (
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/stats"
)

// The names of what runs are matched by besides their settings.
const (
	GPU     = "GPU"
	Version = "engine version"
)

// fieldOf is the field that runs are filtered by, for what they are matched by.
func fieldOf(key string) string {
	switch key {
	case GPU:
		return "gpu"
	case Version:
		return "engine_version"
	}
	return key
}

// ignored are settings that do not change what is measured, by the last part of their keys.
var ignored = []string{"num_prompts", "seed", "num_warmups", "save_detailed", "save_result", "docker_image_url"}

// A Run is one of a store, with its id there, which is its run_id unless two runs have the same.
type Run struct {
	ID string
	records.Run
}

// A matched run is one that counts, with what it is matched by.
type matched struct {
	*Run
	factors map[string]string
}

// match keeps the valid runs that measured, or, if there are none, those of the kind that most valid ones
// have, and says what each is matched by.
func match(runs []Run) (list []matched, kind records.Kind) {
	count := map[records.Kind]int{}
	for i := range runs {
		if r := &runs[i]; r.Result != nil && r.Unfit(records.KindOf(r.Result)) == "" {
			count[records.KindOf(r.Result)]++
		}
	}
	if count[records.Measured] == 0 {
		for _, k := range slices.Sorted(maps.Keys(count)) {
			if count[k] > count[kind] {
				kind = k
			}
		}
	}
	for i := range runs {
		if r := &runs[i]; r.Unfit(kind) == "" {
			list = append(list, matched{r, factors(r)})
		}
	}
	return list, kind
}

func factors(r *Run) map[string]string {
	all := map[string]string{}
	for k, v := range r.Settings {
		if !slices.Contains(ignored, last(k)) {
			all[k] = canonical(v)
		}
	}
	all["cmd_args.model"] = result.ModelName(all["cmd_args.model"])
	for name, from := range map[string]string{GPU: "GPU", Version: "engine"} {
		if v := r.Surrounding(from); v != "" {
			all[name] = v
		}
	}
	maps.DeleteFunc(all, func(_, v string) bool { return v == "" })
	return all
}

// exact is the first whole number above which not all are different as float64.
const exact = 1 << 53

// canonical writes a number in one way: 0.9 and 0.90 are one value.
func canonical(v string) string {
	if x := field.Read(v); x.IsNumber() && math.Abs(x.Number) < exact {
		return strconv.FormatFloat(x.Number, 'f', -1, 64) // field's own text of 1048576 has an exponent
	}
	return v
}

func last(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// A digest tells sets of factors apart; that of a set less one factor is a subtraction.
type digest uint64

var seed = maphash.MakeSeed()

func digestOf(key, value string) digest {
	var h maphash.Hash
	h.SetSeed(seed)
	h.WriteString(key)
	h.WriteByte(0)
	h.WriteString(value)
	return digest(h.Sum64())
}

// of is the digest of all factors but those that are left out.
func (m *matched) of(without func(key string) bool) digest {
	var sum digest
	for k, v := range m.factors {
		if !without(k) {
			sum += digestOf(k, v)
		}
	}
	return sum
}

// differing are the factors whose values are not the same in all runs, sorted.
func differing(list []matched) []string {
	first := map[string]string{}
	count := map[string]int{}
	differs := map[string]bool{}
	for _, m := range list {
		for k, v := range m.factors {
			if count[k]++; count[k] == 1 {
				first[k] = v
			}
			differs[k] = differs[k] || first[k] != v
		}
	}
	for k, n := range count {
		differs[k] = differs[k] || n < len(list)
	}
	maps.DeleteFunc(differs, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(differs))
}

// settings are a run's values of factors, with short keys.
func (m *matched) settings(keys []string) []records.Setting {
	var list []records.Setting
	for _, k := range keys {
		if v, ok := m.factors[k]; ok {
			list = append(list, records.Setting{Key: k, Value: v})
		}
	}
	return records.Short(list)
}

// middle is the median of a metric of some runs that have it, and the run at it, nil if none has.
func middle(list []*matched, m metric.Metric) (value float64, at *matched) {
	var xs []float64
	var with []*matched
	for _, x := range list {
		if v := m.Of(x.Result).Number; v != nil {
			xs, with = append(xs, *v), append(with, x)
		}
	}
	value, err := stats.Median(xs)
	if err != nil {
		return 0, nil
	}
	return value, with[stats.MedianRun(xs)]
}
