package collect

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/promtext"
	"github.com/profllm/profllm/pkg/result"
)

// change is what the counters of a role did between two pages, without those that are
// no number on one of them: an engine may divide zero by zero, and JSON has no NaN.
type change struct {
	*promtext.Difference
	wrong map[string]bool // names of counters
}

func finite(d *promtext.Difference) *change {
	c := &change{Difference: d, wrong: map[string]bool{}}
	for _, s := range d.Samples() {
		if !number(s.Value) {
			c.wrong[s.Name] = true
		}
	}
	for name, total := range d.Totals(func(string) bool { return true }) { // a sum may overflow
		if !number(total) {
			c.wrong[name] = true
		}
	}
	return c
}

func number(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Samples leaves out the series of such counters.
func (c *change) Samples() []promtext.Sample {
	if len(c.wrong) == 0 {
		return c.Difference.Samples()
	}
	return slices.DeleteFunc(slices.Clone(c.Difference.Samples()),
		func(s promtext.Sample) bool { return c.wrong[s.Name] })
}

// Sum is that of a counter, false if it is not there or no number.
func (c *change) Sum(name string, labels ...promtext.Label) (float64, bool) {
	if c.wrong[name] {
		return 0, false
	}
	return c.Difference.Sum(name, labels...)
}

// Totals leaves such counters out.
func (c *change) Totals(keep func(name string) bool) map[string]float64 {
	return c.Difference.Totals(func(name string) bool { return keep(name) && !c.wrong[name] })
}

// dropNotFinite takes the numbers that JSON cannot hold out of a record that is judged,
// and says which: without them it can be written. A number that may not be absent takes
// the group with it that it stands in.
func dropNotFinite(r *result.Result) {
	var dropped []string
	for _, part := range []struct {
		key string
		of  any
	}{{"results", &r.Results}, {"accuracy", &r.Accuracy}, {"system", &r.System}, {"duration", &r.Duration},
		{"profiling", &r.Profiling}, {"slurm", &r.Slurm}} {
		drop(reflect.ValueOf(part.of).Elem(), part.key, &dropped)
	}
	slices.Sort(dropped)
	for _, key := range dropped {
		r.Warnings = append(r.Warnings,
			result.Warning{Kind: result.BadValue, File: r.Results.Source, Key: key,
				Text: "is not a finite number, and was left out"})
	}
}

// drop reports whether v holds such a number that it cannot be without.
func drop(v reflect.Value, key string, dropped *[]string) bool {
	switch v.Kind() {
	case reflect.Float64:
		return v.Type() != reflect.TypeFor[result.Rate]() && !number(v.Float())
	case reflect.Pointer:
		if !v.IsNil() && drop(v.Elem(), key, dropped) {
			*dropped = append(*dropped, key)
			v.SetZero()
		}
	case reflect.Struct:
		bad := false
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				bad = drop(v.Field(i), strings.TrimSuffix(key+"."+name, "."), dropped) || bad
			}
		}
		return bad
	case reflect.Slice:
		for i := v.Len() - 1; i >= 0; i-- {
			if at := fmt.Sprintf("%s[%d]", key, i); drop(v.Index(i), at, dropped) {
				*dropped = append(*dropped, at)
				v.Set(reflect.AppendSlice(v.Slice3(0, i, i), v.Slice(i+1, v.Len())))
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			at := fmt.Sprintf("%s.%v", key, k)
			item := reflect.New(v.Type().Elem()).Elem() // what a map holds cannot be set
			item.Set(v.MapIndex(k))
			if drop(item, at, dropped) {
				*dropped = append(*dropped, at)
				item = reflect.Value{}
			}
			v.SetMapIndex(k, item)
		}
	}
	return false
}
