package report_test

import (
	"fmt"

	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/reporttest"
)

// Two runs beside each other, as records.Load gives them. Package format writes all of a
// report.
func Example() {
	var runs []records.Run
	for i, throughput := range []float64{800, 760} {
		runs = append(runs, records.Run{
			Dir: fmt.Sprintf("results/agg/%d", i), Case: records.Case{Test: "agg", Iteration: i},
			Result: reporttest.Record(reporttest.Numbers{Throughput: throughput, TTFT: 50}),
		})
	}
	rep := report.Build(runs, report.Options{})
	for _, e := range rep.Runs {
		fmt.Println(e.Label, e.Verdict)
	}
	for _, s := range rep.Comparisons[0].Sections {
		for _, row := range s.Rows {
			if row.Key == "output_throughput" {
				fmt.Printf("%s: %+.0f %s, %+.1f %%\n", row.Name, row.Difference.Absolute, row.Unit,
					*row.Difference.Percent)
			}
		}
	}
	// Output:
	// agg valid
	// agg iter=1 valid
	// Throughput: -40 tok/s, -5.0 %
}
