package result_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// covers: PL-Q7
func TestAnswers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 40 {
		var ids []string
		var a, b []bool
		onlyA, onlyB := 0, 0
		for i := range n {
			ids = append(ids, strconv.Itoa(i))
			a, b = append(a, r.IntN(2) == 0), append(b, r.IntN(2) == 0)
			if a[i] && !b[i] {
				onlyA++
			}
			if b[i] && !a[i] {
				onlyB++
			}
		}
		x, err := result.NewAnswers(ids, a)
		require.NoError(t, err)
		y, err := result.NewAnswers(ids, b)
		require.NoError(t, err)
		gotA, gotB, ok := x.Against(y)
		require.True(t, ok)
		require.Equal(t, []int{onlyA, onlyB}, []int{gotA, gotB})
	}
	x, err := result.NewAnswers([]string{"a", "bc"}, []bool{true, false})
	require.NoError(t, err)
	y, err := result.NewAnswers([]string{"ab", "c"}, []bool{true, false})
	require.NoError(t, err)
	_, _, ok := x.Against(y)
	require.False(t, ok, "other questions")
	_, _, ok = x.Against(nil)
	require.False(t, ok)
	cut := *x
	cut.Right = ""
	_, _, ok = x.Against(&cut)
	require.False(t, ok, "bits that are not there")
	_, err = result.NewAnswers([]string{"a"}, nil)
	require.Error(t, err)
}
