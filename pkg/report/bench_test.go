package report_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/report"
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
		writeRecord(b, dir, recordOf(numbers{throughput: 100 + float64(i), ttft: 50}))
	}
	b.ReportAllocs()
	for _, c := range []struct {
		name  string
		write func(*report.Report, io.Writer) error
	}{{"text", (*report.Report).Text}, {"html", (*report.Report).HTML}, {"csv", (*report.Report).CSV}} {
		b.Run(c.name, func(b *testing.B) {
			var out bytes.Buffer
			for b.Loop() {
				out.Reset()
				runs, err := report.Load(root)
				require.NoError(b, err)
				require.Len(b, runs, 1000)
				require.NoError(b, c.write(report.Build(runs, report.Options{GroupBy: []string{"bench_cmd_args.max_concurrency"}}), &out))
			}
			b.ReportMetric(float64(1000*b.N)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(out.Len())/1e6, "MB")
		})
	}
}
