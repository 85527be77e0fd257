package quantity_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/quantity"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 KiB", 1023: "0 KiB", quantity.KiB: "1 KiB", quantity.MiB - 1: "1023 KiB", quantity.MiB: "1 MiB", quantity.GiB - 1: "1023 MiB",
		quantity.GiB: "1.0 GiB", 3 << 29: "1.5 GiB", 10*quantity.GiB - 1: "10.0 GiB", 10 * quantity.GiB: "10 GiB", 11*quantity.GiB - 1: "10 GiB",
	} {
		require.Equal(t, want, quantity.Bytes(n))
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 runs", 1: "1 run", 2: "2 runs", -1: "-1 runs"} {
		require.Equal(t, want, quantity.Count(n, "run"))
	}
}
