package result_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

func TestIsGoodAndIsOpen(t *testing.T) {
	var none *result.Result
	require.True(t, none.IsOpen())
	require.True(t, (&result.Result{Status: result.Unknown}).IsOpen())
	valid, invalid := &result.Validity{Valid: true}, &result.Validity{}
	for _, c := range []struct {
		status   result.Status
		validity *result.Validity
		good     bool
	}{
		{result.Completed, valid, true}, {result.Completed, invalid, false}, {result.Partial, invalid, false},
		{result.Ended, invalid, true}, {result.Ended, nil, true}, {result.Completed, nil, false},
	} {
		r := &result.Result{Status: c.status, Validity: c.validity}
		require.Equal(t, c.good, r.IsGood(), c.status)
		require.False(t, r.IsOpen())
	}
}
