package records_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/records"
)

func TestWithoutPoint(t *testing.T) {
	t.Parallel()
	require.Equal(t, "phase-failed: bench never ended; bench",
		records.WithoutPoint("phase-failed: 3/bench never ended; 3/bench", "3"))
	for _, same := range []string{"3/5 done", "13/bench", "a/3/bench", "3"} {
		require.Equal(t, same, records.WithoutPoint(same, "3"))
	}
	require.Equal(t, "hot/bench", records.WithoutPoint("hot/bench", "hot"))
}
