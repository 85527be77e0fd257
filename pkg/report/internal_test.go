package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrice(t *testing.T) {
	for gpu, want := range map[string]float64{"NVIDIA H100 80GB HBM3": 3, "NVIDIA B200": 5.5, "NVIDIA GB200": 11,
		"nvidia gb300": 8} {
		usd, ok := price(gpu)
		require.True(t, ok)
		require.Equal(t, want, usd, gpu)
	}
	for _, gpu := range []string{"", "NVIDIA A100-SXM4-80GB", "NVIDIA H200"} {
		_, ok := price(gpu)
		require.False(t, ok, gpu)
	}
}
