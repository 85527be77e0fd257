package explore

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompare(t *testing.T) {
	for key, sorted := range map[string][]string{
		Version: {
			"", "0.9", "0.9.0rc1", "0.9.0rc2", "0.9.0", "0.9.0+cu126", "0.9.2", "0.10", "0.10.0", "0.10.1.dev3", "1", "1.0", "10.0",
		},
		"cmd_args.x": {"-1", "0.5", "1", "8", "128", "", "../a", "./a", "./b", "bfloat16", "fp8"},
	} {
		for i, a := range sorted {
			for j, b := range sorted {
				require.Equal(t, int64(slices.Index([]int{-1, 0, 1}, compare(key, a, b))-1), sign(i-j), "%q %q", a, b)
			}
		}
	}
}

func sign(x int) int64 { return int64(min(1, max(-1, x))) }

func TestCanonical(t *testing.T) {
	for v, want := range map[string]string{
		"0.90": "0.9", "1.0": "1", "1e3": "1000", "1048576": "1048576", "-0": "0", "": "", "inf": "inf", "0x10": "0x10",
		"12345678901234567891": "12345678901234567891", "bfloat16": "bfloat16",
	} {
		require.Equal(t, want, canonical(v), v)
	}
}
