package querytest

import (
	"fmt"
	"math"
	"time"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/query"
)

// words are texts that are easily confused: by capitals, by patterns of databases, by their sort
// order, or because they look like numbers.
var words = []string{
	"vLLM", "vllm", "VLLM", "a", "A", "ab", "b", "100%", "100_", "1004", "%", "_", `back\slash`, `"quoted"`,
	"it's", "x;y", "straße", "STRASSE", "ΣΑΣ", "σας", "İstanbul", "istanbul", "日本語", "🚀 rocket", "e\u0301", "é",
	"line\nbreak", " ", "inf", "nan", "auto", "0x10", "true", "NULL", "0", "12", "1e3", "-5", "3.50",
}

// A generator makes the values of one field.
type generator struct {
	field string
	share float64 // of the runs that have one
	value func(m *maker, i int) field.Value
}

func number(of func(m *maker, i int) float64) func(*maker, int) field.Value {
	return func(m *maker, i int) field.Value { return field.OfNumber(of(m, i)) }
}

func text(of func(m *maker, i int) string) func(*maker, int) field.Value {
	return func(m *maker, i int) field.Value { return field.OfText(of(m, i)) }
}

// generators are one for each kind of column: few values and many, numbers, texts and both.
var generators = []generator{
	{"timestamp", 0.95, number(func(m *maker, _ int) float64 {
		return float64(time.Date(2026, 1, 1, 0, 0, m.IntN(5000), 0, time.UTC).UnixMilli())
	})},
	{"gpu", 0.9, text(func(m *maker, _ int) string { return pick(m, []string{"H100", "H200", "B200", "MI300X"}) })},
	{"engine", 1, text(func(m *maker, _ int) string { return pick(m, words[:6]) })},
	{"scenario", 0.8, text(func(m *maker, _ int) string { return pick(m, words) })},
	{"suite", 0.9, text(func(m *maker, _ int) string { return fmt.Sprint("suite-", m.IntN(200)) })},
	{"case", 1, text(func(m *maker, i int) string { return fmt.Sprintf("Case %d of %s", i, pick(m, words)) })},
	{"verdict", 0.7, text(func(m *maker, _ int) string { return pick(m, []string{"valid", "suspect", "invalid"}) })},
	{"os", 0.01, text(func(*maker, int) string { return "rare" })},
	{"nodes", 0.9, number(func(m *maker, _ int) float64 { return float64(1 + m.IntN(8)) })},
	{"gpus", 0.9, number(func(m *maker, _ int) float64 { return float64(m.IntN(90)) })},
	{"median_ttft_ms", 0.9, number(func(m *maker, _ int) float64 { return math.Exp(m.NormFloat64()) * 100 })},
	{"p99_ttft_ms", 0.5, number(func(m *maker, _ int) float64 { return math.Round(m.Float64()*400) / 4 })},
	{"output_throughput", 1, number(func(m *maker, i int) float64 { return float64(i) + m.Float64() })},
	{"gpu_energy_j", 0.6, number(func(m *maker, _ int) float64 {
		return m.NormFloat64() * math.Pow(10, float64(m.IntN(40)-20))
	})},
	{"accuracy", 0.3, number(func(m *maker, _ int) float64 { return pick(m, []float64{0, 0.5, 1, -1, 1e15, 1e-300}) })},
	{"bench_cmd_args.request_rate", 0.8, mixed("inf", 30)},
	{"cmd_args.max_model_len", 0.8, mixed("auto", 5)},
	{"cmd_args.something", 0.6, func(m *maker, _ int) field.Value { return field.Read(pick(m, words)) }},
	{"cmd_args.wild", 0.9, func(m *maker, i int) field.Value {
		if m.chance(0.5) {
			return field.OfNumber(float64(i) / 8)
		}
		return field.OfText(fmt.Sprintf("%s-%d", pick(m, words), i))
	}},
	{"extra_env_vars.LEVEL", 0.2, text(func(m *maker, _ int) string { return pick(m, words) })},
	{"check.clock", 0.1, text(func(m *maker, _ int) string { return pick(m, []string{"invalid", "suspect"}) })},
}

// never is a field that no run has.
const never = "cpu"

// mixed are numbers, and now and then a word.
func mixed(word string, numbers int) func(*maker, int) field.Value {
	return func(m *maker, _ int) field.Value {
		if m.chance(0.2) {
			return field.OfText(word)
		}
		return field.OfNumber(float64(1+m.IntN(numbers)) / 2)
	}
}

func (m *maker) runs(n int) []query.Run {
	list := make([]query.Run, n)
	for i := range list {
		list[i] = m.run(i)
	}
	return list
}

func (m *maker) run(i int) query.Run {
	id := fmt.Sprintf("exp_%06d_%04x", i, m.IntN(1<<16))
	return query.Run{ID: id, Cells: m.cells(i, id)}
}

func (m *maker) cells(i int, id string) []field.Cell {
	cells := []field.Cell{{Field: find("run_id"), Value: field.OfText(id)}}
	for _, g := range generators {
		if !m.chance(g.share) {
			continue
		}
		v := g.value(m, i)
		f := *find(g.field)
		if f.Free && v.IsNumber() {
			f.Kind = field.Number
		}
		cells = append(cells, field.Cell{Field: &f, Value: v})
	}
	return cells
}

func find(name string) *field.Field {
	f, err := field.Find(name)
	if err != nil {
		panic(err)
	}
	return f
}
