package format_test

import (
	"fmt"
	"os"

	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/report/reporttest"
)

// The status of one run, as records.Load gives it, as text and as Markdown.
func Example() {
	runs := []records.Run{{
		Dir: "results/night/agg/0", Case: records.Case{Scenario: "night", Test: "agg"},
		Result: reporttest.Record(reporttest.Numbers{Throughput: 800, TTFT: 50}),
	}}
	rep := report.Build(runs, report.Options{
		Without: []report.Part{report.PartPerTest, report.PartComparison, report.PartSweeps},
	})
	if err := format.Text(os.Stdout, rep); err != nil {
		fmt.Println(err)
	}
	if err := format.Markdown(os.Stdout, rep); err != nil {
		fmt.Println(err)
	}
	// Output:
	// == Status
	//
	//  case  verdict  details
	// ────────────────────────────────────
	//  agg   valid    results/night/agg/0
	// ## Status
	//
	// | case | verdict | details |
	// | --- | --- | --- |
	// | agg | valid | results/night/agg/0 |
}
