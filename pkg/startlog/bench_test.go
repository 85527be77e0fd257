package startlog_test

import (
	"strings"
	"testing"

	"github.com/profllm/profllm/pkg/startlog"
)

// BenchmarkAdd reads a log without an end of the start, as that of a rank without a server.
func BenchmarkAdd(b *testing.B) {
	line := "(EngineCore pid=2027) INFO 11-21 01:57:33 [loggers.py:257] Engine 000: Avg prompt throughput: 51.2 tokens/s, " +
		"Avg generation throughput: 12.8 tokens/s, Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%\n"
	text := strings.Repeat(line, 20000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		var s startlog.Start
		if err := s.Add(strings.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
