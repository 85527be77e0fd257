package collect

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// covers: SCH-14
func TestWriterOfATrace(t *testing.T) {
	zero, seven := 0, 7
	for name, want := range map[string]struct {
		rank    *int
		process string
	}{
		"dp0_pp0_tp1_dcp0_ep1_rank7.1795656581781481910.pt.trace.json.gz": {&seven, "worker"},
		"mine_dp0_pp0_tp0_dcp0_ep0_rank0.17956.pt.trace.json":             {&zero, "worker"},
		"d6b1c-rank-7.1795656581781481910.pt.trace.json.gz":               {&seven, "worker"},
		"node1_29675.async_llm.1795656581782755280.pt.trace.json.gz":      {nil, "frontend"},
		"node1_29675.1795656581782755280.pt.trace.json.gz":                {nil, ""},
		"frank5.1795656581782755280.pt.trace.json.gz":                     {nil, ""},
	} {
		rank, process := writerOf(name)
		require.Equal(t, want.rank, rank, name)
		require.Equal(t, want.process, process, name)
	}
}
