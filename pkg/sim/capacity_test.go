package sim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/startlog"
)

// The simulated engine says what vLLM says of its room and its start.
//
// covers: UC-9
func TestServeSaysItsCapacity(t *testing.T) {
	c, _ := serveCommand(t, nil, "--max-model-len", "4096")
	var s startlog.Start
	require.NoError(t, s.Add(strings.NewReader(c.out.String())))
	got := s.Capacity()
	require.NotNil(t, got)
	var phases []string
	for _, p := range got.Startup {
		phases = append(phases, p.Name)
	}
	require.Equal(t, []string{result.PhaseWeights, result.PhaseModelLoading, result.PhaseGraphs, result.PhaseEngine,
		result.PhaseReady}, phases)
	got.Startup = nil
	require.Equal(t, &result.Capacity{
		Engines: 1, KVCacheTokens: new(int64(524288)), KVCacheGiB: new(64.0), RequestTokens: new(int64(4096)),
		Concurrency: new(128.0), WeightsGiB: new(14.99), GraphsGiB: new(0.5),
	}, got)
}
