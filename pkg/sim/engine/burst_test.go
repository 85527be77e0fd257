package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/sim/knobs"
)

// The condition that the check PL-V10 must find: chunks of one token, several at a time.
func TestFaultBurst(t *testing.T) {
	e := engine{faults: knobs.Planted{Burst: 4}}
	var last []int
	for i := range 6 {
		last = append(last, e.last(i, 6))
	}
	require.Equal(t, []int{3, 3, 3, 3, 5, 5}, last)
}
