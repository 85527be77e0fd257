package filter_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
)

// cells are those of one run; a number is a float64 or int, a text a string.
func cells(t testing.TB, values map[string]any) []field.Cell {
	var list []field.Cell
	for name, v := range values {
		f, err := field.Find(name)
		require.NoError(t, err)
		c := field.Cell{Field: f}
		switch v := v.(type) {
		case string:
			c.Value = field.OfText(v)
		case int:
			c.Value = field.OfNumber(float64(v))
		case float64:
			c.Value = field.OfNumber(v)
		}
		list = append(list, c)
	}
	return list
}

// covers: API-6, DASH-2
func TestMatches(t *testing.T) {
	run := cells(t, map[string]any{
		"gpu": "NVIDIA H100", "suite": "Llama-nightly", "median_ttft_ms": 200, "p99_ttft_ms": 0,
		"bench_cmd_args.request_rate": "inf", "cmd_args.max_model_len": 8192, "engine_version": "0.11",
		"timestamp": float64(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli()), "cmd_args.own": 12, "scenario": "straße",
	})
	for text, want := range map[string]bool{
		`{}`: true, `null`: true, ` { } `: true, `{"and":[]}`: true, `{"or":[]}`: false, `{"text":""}`: true,
		`{"field":"gpu","in":["NVIDIA H100","x"]}`:                                                  true,
		`{"field":"gpu","in":["nvidia h100"]}`:                                                      false,
		`{"field":"gpu","in":[]}`:                                                                   false,
		`{"not":{"field":"gpu","in":[]}}`:                                                           true,
		`{"field":"gpu","contains":"h100"}`:                                                         true,
		`{"field":"gpu","contains":"h200"}`:                                                         false,
		`{"field":"gpu","has":true}`:                                                                true,
		`{"field":"gpu","has":false}`:                                                               false,
		`{"field":"cpu","has":false}`:                                                               true,
		`{"field":"cpu","has":false,"contains":"x"}`:                                                false,
		`{"field":"cpu","contains":"x"}`:                                                            false,
		`{"not":{"field":"cpu","contains":"x"}}`:                                                    true,
		`{"field":"median_ttft_ms","max":200}`:                                                      true,
		`{"field":"median_ttft_ms","below":200}`:                                                    false,
		`{"field":"median_ttft_ms","min":200}`:                                                      true,
		`{"field":"median_ttft_ms","above":200}`:                                                    false,
		`{"field":"median_ttft_ms","above":199.9,"below":200.1}`:                                    true,
		`{"field":"median_ttft_ms","min":"200"}`:                                                    true,
		`{"field":"median_ttft_ms","in":["200"]}`:                                                   true,
		`{"field":"median_ttft_ms","in":[2e2]}`:                                                     true,
		`{"field":"median_ttft_ms","contains":"2"}`:                                                 false,
		`{"field":"p99_ttft_ms","in":[-0.0]}`:                                                       true,
		`{"field":"request_rate","in":["inf"]}`:                                                     true,
		`{"field":"request_rate","min":1}`:                                                          false,
		`{"field":"max_model_len","min":8192,"in":[8192,"auto"]}`:                                   true,
		`{"field":"engine_version","in":[0.11]}`:                                                    true,
		`{"field":"cmd_args.own","in":["12"]}`:                                                      true,
		`{"field":"timestamp","min":"2026-03-01","max":"2026-03-01T12:00:00Z"}`:                     true,
		`{"field":"timestamp","above":"2026-03-01 12:00:00"}`:                                       false,
		`{"field":"timestamp","min":1772366400000}`:                                                 true,
		`{"text":"NIGHTLY"}`:                                                                        true,
		`{"text":"8192"}`:                                                                           false,
		`{"text":"STRAßE"}`:                                                                         true,
		`{"text":"strasse"}`:                                                                        false,
		`{"and":[{"text":"llama"},{"or":[{"field":"gpu","contains":"b200"},{"text":"inf"}]}]}`:      true,
		`{"and":[{"text":"llama"},{"not":{"or":[{"field":"gpu","has":true},{"text":"absent"}]}}]}`:  false,
		`{"and":[{"field":"gpu","has":true,"in":["NVIDIA H100"],"contains":"100"},{"text":"inf"}]}`: true,
	} {
		f, err := filter.Parse([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, f.Matches(run), text)
		again, err := json.Marshal(f)
		require.NoError(t, err)
		g, err := filter.Parse(again)
		require.NoError(t, err, "%s", again)
		require.Equal(t, f, g, "%s", again)
	}
	var none *filter.Filter
	require.True(t, none.Matches(run))
	require.True(t, none.Empty())
	require.Empty(t, none.Parts())
}

func TestParseRefuses(t *testing.T) {
	deep := strings.Repeat(`{"not":`, 22) + `{"text":"x"}` + strings.Repeat("}", 22)
	many := `{"and":[` + strings.Repeat(`{"field":"gpu","has":true},`, 1000) + `{"field":"gpu","has":true}]}`
	values := `{"field":"gpu","in":["x"` + strings.Repeat(`,"x"`, 10_000) + `]}`
	for text, want := range map[string]string{
		``:                                      "filter: EOF",
		`{`:                                     "unexpected EOF",
		`[]`:                                    "filter: cannot unmarshal array",
		`{"feild":"gpu"}`:                       `unknown key "feild"` + "\n\thint: did you mean \"field\"?",
		`{"field":"gpu","has":true} x`:          "text after the filter",
		`{"field":"gpu"}`:                       "nothing is asked of gpu",
		`{"min":3}`:                             "a condition without a field",
		`{"and":[],"min":3}`:                    "a condition without a field",
		`{"text":"x","in":["y"]}`:               "a condition without a field",
		`{"and":[],"or":[]}`:                    "a filter is one of and, or, not, text and field",
		`{"and":[{"field":"gpuu","has":true}]}`: `filter.and[0]: unknown field "gpuu"`,
		`{"or":[{},{"not":{"field":"gpu","min":3}}]}`: `filter.or[1].not.min: "3" is no number`,
		`{"field":"median_ttft_ms","max":"fast"}`:     `filter.max: "fast" is no number`,
		`{"field":"median_ttft_ms","in":[null]}`:      "a value is null or empty",
		`{"field":"gpu","in":[""]}`:                   "a value is null or empty",
		`{"field":"gpu","in":[["x"]]}`:                "a value is a number, a text or null",
		`{"field":"gpu","min":{}}`:                    "a value is a number, a text or null",
		`{"` + strings.Repeat("k", 500_000) + `":1}`:  "unknown key",
		`{"field":"gpu","in":"x"}`:                    "cannot unmarshal",
		`{"field":"timestamp","min":"yesterday"}`:     `filter.min: "yesterday" is no time`,
		deep: "more than 20 deep",
		many: "more than 1000 conditions",
		strings.NewReplacer("field", "text", `,"has":true`, "").Replace(many): "more than 1000 conditions",
		values: "more than 10000 values",
		`{"text":"` + strings.Repeat("x", filter.MaxBytes) + `"}`:  "more than 1048576",
		`{"field":"median_ttft_ms","min":1e999}`:                   "1e999",
		`{"field":"` + strings.Repeat("y", 5000) + `","has":true}`: "unknown field",
	} {
		_, err := filter.Parse([]byte(text))
		require.ErrorContains(t, err, want, "%.100s", text)
	}
}

func TestPartsAndWithout(t *testing.T) {
	f, err := filter.Parse([]byte(`{"and":[
		{"field":"gpu","in":["a"]},
		{"and":[{"or":[{"field":"gpu","has":false},{"not":{"field":"gpu","contains":"b"}}]},{"text":"c"}]},
		{"or":[{"field":"gpu","in":["d"]},{"field":"engine","in":["e"]}]},
		{"or":[{"field":"engine","in":["f"]},{"text":"g"}]},
		{"field":"engine","contains":"h"}
	]}`))
	require.NoError(t, err)
	require.Equal(t, []string{"engine", "gpu"}, f.Fields())
	var own []string
	for _, p := range f.Parts() {
		own = append(own, p.Field)
	}
	require.Equal(t, []string{"gpu", "gpu", "", "", "", "engine"}, own)
	require.Len(t, f.Without("gpu").Parts(), 4)
	require.Len(t, f.Without("engine").Parts(), 5)
	require.Len(t, f.Without("cpu").Parts(), 6)
	one, err := filter.Parse([]byte(`{"field":"gpu","in":["a"]}`))
	require.NoError(t, err)
	require.Empty(t, one.Without("gpu").Parts())
	require.True(t, one.Without("gpu").Matches(nil))
}

// A filter is read or refused; one that was read says the same after it was written again, and its parts
// together say what it says.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"and":[{"field":"gpu","in":["H100"]},{"not":{"text":"x"}}]}`), "H100", 3.5)
	f.Add([]byte(`{"or":[{"field":"median_ttft_ms","min":1,"below":9},{"field":"gpu","has":false}]}`), "", math.Copysign(0, -1))
	f.Add([]byte(`{"field":"request_rate","in":["inf",1],"contains":"N"}`), "inf", 1e300)
	f.Add([]byte(`{"field":"timestamp","max":"2026-03-01"}`), "İ", 0.0)
	f.Add([]byte(`{"and":[],"min":1}`), "a", 1.0)
	f.Fuzz(func(t *testing.T, data []byte, text string, number float64) {
		x, err := filter.Parse(data)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		var runs [][]field.Cell
		for _, v := range []field.Value{{}, field.OfText(text), field.OfNumber(number)} {
			var run []field.Cell
			for _, name := range x.Fields() {
				known, err := field.Find(name)
				require.NoError(t, err, name)
				if v.Has() {
					run = append(run, field.Cell{Field: known, Value: v})
				}
			}
			runs = append(runs, run)
		}
		again, err := json.Marshal(x)
		require.NoError(t, err)
		if len(again) > filter.MaxBytes {
			return
		}
		y, err := filter.Parse(again)
		require.NoError(t, err, "%s", again)
		for _, run := range runs {
			got := x.Matches(run)
			require.Equal(t, got, y.Matches(run), "%s", again)
			all := true
			for _, p := range x.Parts() {
				all = all && p.Filter.Matches(run)
			}
			require.Equal(t, got, all, "parts of %s", again)
			require.Equal(t, got, x.Without("no such field").Matches(run), "%s", again)
		}
	})
}
