package client

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/sim/engine"
)

func TestSolve(t *testing.T) {
	right := 0
	const n = 2000
	for i := range uint64(n) {
		text, want := question(42, i)
		said, ok := engine.Solve("Question: "+text+"\nAnswer:", 1, 0.75)
		require.True(t, ok, text)
		again, _ := engine.Solve("Question: 1\nQuestion: "+text+"\nAnswer:", 1, 0.75)
		require.Equal(t, said, again, "the shots before the question do not matter")
		got, ok := lastNumber(said)
		require.True(t, ok)
		if got == strconv.Itoa(want) {
			right++
		}
	}
	require.InDelta(t, 0.75, float64(right)/n, 0.03)
	_, ok := engine.Solve("Tell me a story", 1, 1)
	require.False(t, ok)
}
