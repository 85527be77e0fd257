package field

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// statistics are those of every latency that have fields of their own; others are free.
var statistics = []string{"mean", "median", "std", "min", "max", "p90", "p95", "p99"}

func ofMetric(m metric.Metric) *Field {
	return &Field{
		Name: m.Key, Group: Metric, Kind: Number, Title: m.Name, Unit: m.Unit, Better: m.Better,
		read: func(r *records.Run) Value { return pointer(m.Of(r.Result).Number) },
	}
}

// metrics are the numbers that comparisons know, and the statistics of all latencies.
func metrics() []*Field {
	list := make([]*Field, 0, len(metric.All))
	have := map[string]bool{}
	for _, m := range metric.All {
		list, have[m.Key] = append(list, ofMetric(m)), true
	}
	for _, f := range result.Families() {
		for _, stat := range statistics {
			if m, err := metric.Find(f.Key(stat)); err == nil && !have[m.Key] {
				list = append(list, ofMetric(m))
			}
		}
	}
	return list
}

// ofLatencies are the percentiles that a client was asked for besides.
func ofLatencies(r *records.Run) []Cell {
	if r.Result == nil {
		return nil
	}
	var cells []Cell
	for f, d := range r.Result.Results.Latency {
		for rank := range d.Percentiles {
			key := f.Key(result.PercentileName(rank))
			if known().byName[key] != nil {
				continue
			}
			free := ofPercentile(key)
			if free == nil {
				continue
			}
			if v := free.read(r); v.Has() {
				cells = append(cells, Cell{free, v})
			}
		}
	}
	return cells
}

// percentiles are the free fields of latencies that some record had, by name. There are few:
// a key has at most as many digits as result.PercentileName writes, and clients ask for some ten.
var percentiles sync.Map

func ofPercentile(key string) *Field {
	if f, ok := percentiles.Load(key); ok {
		return f.(*Field)
	}
	m, ok := metric.Lookup(key)
	if !ok {
		return nil
	}
	f := ofMetric(m)
	f.Free = true
	percentiles.Store(key, f)
	return f
}

// measured are the other numbers of a record, found by its types, as its schema is.
func measured() []*Field {
	var list []*Field
	add := func(head string, t reflect.Type, of func(*result.Result) any) {
		for _, leaf := range leaves(t, "", nil) {
			list = append(list, leaf.field(head, of))
		}
	}
	add("results.", reflect.TypeFor[result.Metrics](), func(r *result.Result) any { return &r.Results })
	add("system.", reflect.TypeFor[result.System](), func(r *result.Result) any { return r.System })
	add("accuracy.", reflect.TypeFor[result.Accuracy](), func(r *result.Result) any { return r.Accuracy })
	add("profiling.", reflect.TypeFor[result.Profiling](), func(r *result.Result) any { return r.Profiling })
	return slices.DeleteFunc(list, func(f *Field) bool { // a metric of the same number
		_, is := metric.Lookup(strings.TrimPrefix(strings.TrimPrefix(f.Name, "results."), "system."))
		return is || f.Name == "accuracy.value" || strings.HasPrefix(f.Name, "system.hardware_info.")
	})
}

// A leaf is a number inside a struct.
type leaf struct {
	name string // the keys of the file, joined by dots
	help string
	path []int
}

func (l leaf) field(head string, of func(*result.Result) any) *Field {
	key := strings.TrimPrefix(head+l.name, "results.")
	return &Field{
		Name: head + l.name, Group: Metric, Kind: Number, Help: l.help,
		read: recorded(func(r *result.Result) Value {
			if r.Validity != nil && slices.Contains(r.Validity.Withheld, key) {
				return Value{}
			}
			return numberAt(reflect.ValueOf(of(r)), l.path)
		}),
	}
}

// leaves are the numbers of a struct and of the structs in it, in their order.
func leaves(t reflect.Type, head string, path []int) []leaf {
	var list []leaf
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		at := append(slices.Clone(path), i)
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		switch {
		case ft.Kind() == reflect.Struct && f.Anonymous:
			list = append(list, leaves(ft, head, at)...)
		case ft.Kind() == reflect.Struct && name != "":
			list = append(list, leaves(ft, head+name+".", at)...)
		case isNumber(ft) && name != "":
			list = append(list, leaf{head + name, f.Tag.Get("jsonschema"), at})
		}
	}
	return list
}

func isNumber(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Float64, reflect.Int, reflect.Int64:
		return true
	}
	return false
}

// numberAt follows a path; there is no value behind a nil pointer, and a plain zero is one that
// nobody set.
func numberAt(v reflect.Value, path []int) Value {
	for _, i := range path {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return Value{}
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	set := v.Kind() == reflect.Pointer
	if set {
		if v.IsNil() {
			return Value{}
		}
		v = v.Elem()
	}
	if !set && v.IsZero() {
		return Value{}
	}
	if v.CanInt() {
		return OfNumber(float64(v.Int()))
	}
	return OfNumber(v.Float())
}
