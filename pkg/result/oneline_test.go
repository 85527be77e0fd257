package result

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestOneLine(t *testing.T) {
	for want, f := range map[string]Failure{
		"cause oom-gpu (exact) in decode, rank 1 on node2: logs/decode-1.log:412: torch.OutOfMemoryError: CUDA out of memory": {
			Cause: "oom-gpu", Confidence: Exact, Role: "decode", Rank: "1", Node: "node2", File: "logs/decode-1.log",
			LineNumber: 412, Line: "torch.OutOfMemoryError:\tCUDA\nout of memory", Next: "use less"},
		"cause slurm-oom (job-state)":                 {Cause: "slurm-oom", Confidence: FromState},
		"cause unknown":                               {Cause: "unknown", Confidence: NoCause},
		"cause unknown in proxy: logs/p.log: the end": {Confidence: NoCause, Role: "proxy", File: "logs/p.log", Tail: []string{"a", "the end", " "}},
		"cause x (symptom): l:3: " + "token=[redacted]": {Cause: "x", Confidence: FromSymptom, File: "l", LineNumber: 3,
			Line: "token=hf_0123456789abcdefghijABCDEFGHIJ0123"},
	} {
		require.Equal(t, want, f.OneLine())
	}
	long := Failure{Cause: "x", Confidence: Exact, Line: strings.Repeat("é", 5000)}
	require.Equal(t, 500, utf8.RuneCountInString(long.shows()))
	require.True(t, strings.HasSuffix(long.OneLine(), "é…"))
}
