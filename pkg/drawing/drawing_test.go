package drawing_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/drawing"
)

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		n      int
		want   []float64
	}{
		{0, 100, 5, []float64{0, 20, 40, 60, 80, 100}},
		{0, 97, 5, []float64{0, 20, 40, 60, 80, 100}},
		{12, 18, 3, []float64{12, 14, 16, 18}},
		{-3, 8, 4, []float64{-5, 0, 5, 10}},
		{5, 5, 4, []float64{5, 6}},
		{math.NaN(), 1, 4, []float64{0, 1}},
		{1e9, 1e9 + 1, 2, []float64{1e9, 1e9 + 0.5, 1e9 + 1}},
	} {
		require.InDeltaSlice(t, c.want, drawing.Ticks(c.lo, c.hi, c.n), 1e-6, "%v to %v", c.lo, c.hi)
	}
}

// The texts of an axis are short, and no two are alike.
func TestTickTexts(t *testing.T) {
	for _, c := range []struct {
		ticks []float64
		want  []string
	}{
		{[]float64{0, 0.1, 0.2, 0.30000000000000004}, []string{"0", "0.1", "0.2", "0.3"}},
		{[]float64{0, 5000, 10000, 1e6, 2e9}, []string{"0", "5000", "10k", "1M", "2G"}},
		{[]float64{1234567.5, 1234567.6}, []string{"1234567.5", "1234567.6"}},
		{nil, []string{}},
	} {
		require.Equal(t, c.want, drawing.TickTexts(c.ticks))
	}
}

func TestCut(t *testing.T) {
	require.Equal(t, "模型…", drawing.Cut("模型 推理", 3))
	require.Equal(t, "abc", drawing.Cut("abc", 3))
}

func TestBoxes(t *testing.T) {
	a := drawing.Between(0, 0, 2, 2)
	require.True(t, a.Meets(drawing.Between(1, 1, 3, 3)))
	require.False(t, a.Meets(drawing.Between(2, 1, 3, 3)), "boxes side by side")
}
