package pyjson

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFloat(t *testing.T) { // by python3 -c 'print(repr(x))' and json.dumps
	for want, f := range map[string]float64{
		"0.0": 0, "4.0": 4, "-0.5": -0.5, "1000000.0": 1e6, "9999999999999998.0": 9999999999999998, "1e+16": 1e16,
		"0.0001": 1e-4, "1e-05": 1e-5, "1.5e+300": 1.5e300, "inf": math.Inf(1), "-inf": math.Inf(-1), "nan": math.NaN(),
	} {
		require.Equal(t, want, Float(f))
	}
	require.Equal(t, "4.0", JSONFloat(4))
	require.Equal(t, "-Infinity", JSONFloat(math.Inf(-1)))
	require.Equal(t, "NaN", JSONFloat(math.NaN()))
}
