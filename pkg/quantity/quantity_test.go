package quantity_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/quantity"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 KiB", 1023: "0 KiB", quantity.KiB: "1 KiB", quantity.MiB - 1: "1023 KiB", quantity.MiB: "1 MiB",
		quantity.GiB - 1: "1023 MiB",
		quantity.GiB:     "1.0 GiB", 3 << 29: "1.5 GiB", 10*quantity.GiB - 1: "10.0 GiB", 10 * quantity.GiB: "10 GiB",
		11*quantity.GiB - 1: "10 GiB",
	} {
		require.Equal(t, want, quantity.Bytes(n))
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 runs", 1: "1 run", 2: "2 runs", -1: "-1 runs"} {
		require.Equal(t, want, quantity.Count(n, "run"))
	}
}

func TestClause(t *testing.T) {
	for n, want := range map[int]string{0: "0 fields differ", 1: "1 field differs", 2: "2 fields differ"} {
		require.Equal(t, want, quantity.Clause(n, "field", "differ"))
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 45*time.Second + 499*time.Millisecond: "45 s", 119 * time.Second: "119 s", 2 * time.Minute: "2 min",
		14*time.Minute + 29*time.Second: "14 min",
		time.Hour - time.Second:         "1 h", 90 * time.Minute: "1 h 30 min", 14 * time.Hour: "14 h",
		49*time.Hour + time.Minute: "49 h 1 min",
	} {
		require.Equal(t, want, quantity.Duration(d))
	}
}

func TestNodeHours(t *testing.T) {
	for h, want := range map[float64]string{0: "0.0 node-hours", 0.049: "0.1 node-hours", 0.05: "0.1 node-hours",
		8: "8.0 node-hours"} {
		require.Equal(t, want, quantity.NodeHours(h))
	}
}

func TestRanges(t *testing.T) {
	for want, list := range map[string][]int{"": nil, "4": {4}, "1, 2": {1, 2}, "1-3": {1, 2, 3},
		"1-3, 5, 7, 8": {1, 2, 3, 5, 7, 8}} {
		require.Equal(t, want, quantity.Ranges(list))
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	for want, paths := range map[string][]string{
		"a/0":                   {"a/0"},
		"a/0-2, b/1":            {"a/0", "b/1", "a/1", "a/2"},
		"a/{1,2,5}":             {"a/5", "a/1", "a/2"},
		"/r/x/{cold,hot}, /r/y": {"/r/x/cold", "/r/x/hot", "/r/y"},
		"{x,y}":                 {"x", "y"},
		"":                      nil,
	} {
		require.Equal(t, want, quantity.Paths(paths))
	}
}

func TestSignificant(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 9176.053: "9180", 123456: "123000", 18.6131: "18.6", 20: "20.0", 100: "100", 6.6669: "6.67",
		0.01444: "0.0144", 999.6: "1000", 9.996: "10.0", 0.9996: "1.00", -49.54: "-49.5", 1e-9: "1e-09", 1e16: "1e+16",
	} {
		require.Equal(t, want, quantity.Significant(x))
	}
	require.Equal(t, "NaN", quantity.Significant(math.NaN()))
}

func TestList(t *testing.T) {
	require.Equal(t, "", quantity.List(nil))
	require.Equal(t, "a", quantity.List([]string{"a"}))
	require.Equal(t, "a and b", quantity.List([]string{"a", "b"}))
	require.Equal(t, "a, b and c", quantity.List([]string{"a", "b", "c"}))
}
