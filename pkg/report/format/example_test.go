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
	// == Answers
	//
	// Result: agg measured a throughput of 800 tok/s, at a median TTFT of 49.0 ms and a median TPOT of 4.90 ms, on 4 GPUs.
	// How sure: Not known: one run does not show how much another would differ.
	// Validity: The only run is valid.
	//
	// == Status
	//
	//  case  verdict  details
	// ────────────────────────────────────
	//  agg   valid    results/night/agg/0
	// ## Answers
	//
	// - **Result**: agg measured a throughput of 800 tok/s, at a median TTFT of 49.0 ms and a median TPOT of 4.90 ms, on 4 GPUs.
	// - **How sure**: Not known: one run does not show how much another would differ.
	// - **Validity**: The only run is valid.
	//
	// ## Status
	//
	// | case | verdict | details |
	// | --- | --- | --- |
	// | agg | valid | results/night/agg/0 |
}
