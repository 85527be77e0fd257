package format_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
)

// BenchmarkReport is the whole of "profllm report" over 1,000 runs of 100 tests,
// each with its plan.
func BenchmarkReport(b *testing.B) {
	inTemp(b)
	for i := range 1000 {
		test := fmt.Sprintf("t%d", i/10)
		dir := fmt.Sprintf("%s/%s/%d", root, test, i%10)
		p := planOf(dir, test)
		p.Iteration = i % 10
		p.Loads[0].Benchmark["max_concurrency"] = 1 + i%10
		writePlan(b, dir, p)
		writeRecord(b, dir, recordOf(numbers{Throughput: 100 + float64(i), TTFT: 50}))
	}
	b.ReportAllocs()
	for _, c := range []struct {
		name  string
		write func(io.Writer, *report.Report) error
	}{{"text", format.Text}, {"html", format.Page{}.Write}, {"csv", format.CSV}} {
		b.Run(c.name, func(b *testing.B) {
			var out bytes.Buffer
			for b.Loop() {
				out.Reset()
				runs, err := records.Load(root)
				require.NoError(b, err)
				require.Len(b, runs, 1000)
				rep := report.Build(runs, report.Options{GroupBy: []string{"bench_cmd_args.max_concurrency"}})
				require.NoError(b, c.write(&out, rep))
			}
			b.ReportMetric(float64(1000*b.N)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(out.Len())/1e6, "MB")
		})
	}
}
