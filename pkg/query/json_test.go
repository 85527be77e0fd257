package query_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/query"
)

// A table is the JSON that encoding/json makes of its fields.
//
// covers: API-6
func TestTableJSON(t *testing.T) {
	type plain query.Table // without the method
	numbers := []float64{0, -1, 0.1, 1e-6, 9.9e-7, 1e20, 1e21, -1.5e300, 5e-324, math.MaxFloat64, 1.7e12, 20.815678000000002}
	texts := []string{"", "a b", `"\`, "<b>&", "é\u2028\x01", "\xff", "~ ", "inf", "exp_20261122_165159_850174"}
	tables := []query.Table{{}, {IDs: []string{}, Fields: []string{}, Columns: [][]field.Value{}}, {IDs: texts, Fields: texts}}
	var column []field.Value
	for _, x := range numbers {
		column = append(column, field.OfNumber(x), field.Value{})
	}
	for _, s := range texts {
		column = append(column, field.OfText(s))
	}
	tables = append(tables, query.Table{IDs: texts, Fields: []string{"gpu"}, Columns: [][]field.Value{column, nil, {}}})
	for _, x := range tables {
		want, err := json.Marshal((*plain)(&x))
		require.NoError(t, err)
		got, err := json.Marshal(&x)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
}

// BenchmarkTableJSON writes the points of a scatter.
func BenchmarkTableJSON(b *testing.B) {
	x := query.Table{Fields: []string{"case", "verdict", "x", "y"}, Columns: make([][]field.Value, 4)}
	for i := range query.MaxRows {
		x.IDs = append(x.IDs, fmt.Sprintf("exp_20261122_165159_%06x", i))
		for at, v := range []field.Value{
			field.OfText(fmt.Sprintf("service %d max_concurrency=%d", i%100, i)), field.OfText("valid"),
			field.OfNumber(float64(i) / 7), field.OfNumber(float64(i) * 1.3),
		} {
			x.Columns[at] = append(x.Columns[at], v)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		text, err := json.Marshal(&x)
		require.NoError(b, err)
		b.SetBytes(int64(len(text)))
	}
}
