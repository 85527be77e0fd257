package collect_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
)

// The record holds the room and the start of each engine, by its own log; other programs' logs are
// not asked.
//
// covers: UC-9
func TestCapacity(t *testing.T) {
	dir := recorded(t)
	for role, file := range map[string]string{"prefill": "pd-prefill.log", "decode": "serve-enginedead.log",
		"proxy": "serve-ok.log"} {
		data, err := os.ReadFile(filepath.Join("../failure/testdata/logs", file))
		require.NoError(t, err)
		write(t, dir, "logs/"+role+"-0.log", string(data))
	}
	r := only(t, collector(t), dir, completed())
	require.Len(t, r.Capacity, 2)
	require.Equal(t, "prefill", r.Capacity[0].Role)
	require.Equal(t, int64(524288), *r.Capacity[0].KVCacheTokens)
	require.Equal(t, "decode", r.Capacity[1].Role)
	require.Equal(t, 512.0, *r.Capacity[1].Concurrency)
	require.Contains(t, r.Capacity[1].Startup, result.StartPhase{Name: result.PhaseEngine, Duration: new(4.49), End: new(45.0)})
	data, err := resulttest.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, result.Validate(data))
}

// A run whose logs say nothing has no such field, and a damaged log is no fault.
func TestCapacityIsNotKnown(t *testing.T) {
	dir := recorded(t)
	write(t, dir, "logs/prefill-0.log", "INFO: something else\n")
	require.NoError(t, os.Remove(filepath.Join(dir, "logs/decode-0.log")))
	write(t, dir, "logs/decode-0.log.xz", "not packed")
	require.Nil(t, only(t, collector(t), dir, completed()).Capacity)
}
