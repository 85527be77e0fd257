package format

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
)

// blocks are what a report shows, in order: the answers, what is behind them, and CloudAI's
// tables.
func blocks(r *report.Report) []block {
	if len(r.Runs) == 0 {
		return []block{{heading: "No runs"}}
	}
	var out []block
	if b, ok := answersBlock(r); ok {
		out = append(out, b)
	}
	out = append(out, searchBlocks(r)...)
	if r.Shows(report.PartSweeps) {
		for _, s := range slices.Concat(r.Sweeps, r.Phases) {
			out = append(out, sweepBlock(&s, r))
		}
	}
	for i := range r.Judgements {
		out = append(out, judgementBlock(&r.Judgements[i]))
	}
	for _, c := range r.Changes {
		for i := range c.Judgements {
			out = append(out, changeBlock(&c, &c.Judgements[i]))
		}
	}
	out = append(out, trendBlocks(r)...)
	if r.Shows(report.PartPerTest) {
		out = append(out, runBlocks(r)...)
	}
	return append(out, cloudaiBlocks(r)...)
}

// runBlocks hold the numbers of each run by itself.
func runBlocks(r *report.Report) []block {
	var out []block
	for _, of := range []func(*report.Report) (block, bool){
		testsBlock, offlineBlock, gpusBlock, hostsBlock, capacityBlock,
	} {
		if b, ok := of(r); ok {
			out = append(out, b)
		}
	}
	if len(r.Repeats) > 0 {
		out = append(out, repeatsBlock(r))
	}
	if b, ok := apartBlock(r); ok {
		out = append(out, b)
	}
	return out
}

// cloudaiBlocks are the tables of CloudAI's reports, with its digits.
func cloudaiBlocks(r *report.Report) []block {
	var out []block
	if r.Shows(report.PartStatus) {
		out = append(out, statusBlock(r))
	}
	if b := perTestBlock(r); r.Shows(report.PartPerTest) && (len(b.tables) > 0 || !offline(r)) {
		out = append(out, b)
	}
	if r.Shows(report.PartComparison) {
		for i := range r.Comparisons {
			out = append(out, comparisonBlock(&r.Comparisons[i]))
		}
	}
	for i := range out {
		out[i].cloudai = true
	}
	return out
}

// offline reports whether a benchmark without a server has numbers, which have a block of their own.
func offline(r *report.Report) bool {
	_, some := offlineBlock(r)
	return some
}

func statusBlock(r *report.Report) block {
	t := table{header: []string{"case", "verdict", "details"}}
	for _, same := range together(r.Runs, true) {
		e := same[0]
		how := word
		if !e.Best() {
			how = reject
		}
		details := dirs(same)
		if e.Foreign != "" {
			details = "foreign, from " + e.Foreign + " · " + details
		}
		if e.Reason != "" {
			details = cut(e.Reason) + " · " + details
		}
		t.row(e.Group, cell{text: label(same)}, cell{shown(e), how}, cell{text: details})
		t.leads(e.Dir)
	}
	return block{heading: "Status", tables: []table{t}}
}

// together parts entries: runs beside each other that are left out for the same reason are one
// part, and every other run is one of its own.
func together(runs []report.Entry, all bool) (parts [][]*report.Entry) {
	for i := range runs {
		e := &runs[i]
		if e.Usable && !all {
			continue
		}
		if n := len(parts); n > 0 && alike(parts[n-1][0], e) {
			parts[n-1] = append(parts[n-1], e)
			continue
		}
		parts = append(parts, []*report.Entry{e})
	}
	return parts
}

// alike reports whether the same is said of two runs that are left out.
func alike(a, b *report.Entry) bool {
	return !a.Usable && !b.Usable && a.Reason != "" && a.Reason == b.Reason && a.Group == b.Group &&
		shown(a) == shown(b) && a.Case.Step == 0 && b.Case.Step == 0 &&
		a.Case.Test == b.Case.Test && successful(a) == successful(b)
}

// label names the first of some runs, and how many there are.
func label(runs []*report.Entry) string {
	if len(runs) == 1 {
		return runs[0].Label
	}
	return fmt.Sprintf("%s and %d more", runs[0].Label, len(runs)-1)
}

// dirs are the directories of some runs.
func dirs(runs []*report.Entry) string {
	list := make([]string, len(runs))
	for i, e := range runs {
		list[i] = e.Dir
	}
	return quantity.Paths(list)
}

// shown is the verdict with the kind, and whether another program measured.
func shown(e *report.Entry) string {
	var words []string
	if e.Kind != records.Measured {
		words = append(words, string(e.Kind))
	}
	switch {
	case e.Foreign != "":
		words = append(words, "foreign")
	case e.Imported != "":
		words = append(words, "imported")
	}
	if words == nil {
		return string(e.Verdict)
	}
	return fmt.Sprintf("%s (%s)", e.Verdict, strings.Join(words, ", "))
}

// perTest are the columns of the table of tests, after the successful prompts.
var perTest = slices.Concat(metric.TTFT, metric.TPOT, []metric.Metric{metric.Accuracy})

func perTestBlock(r *report.Report) block {
	t := table{header: []string{
		"case", "verdict", "successful prompts", "TTFT ms mean", "median", "P99", "TPOT ms mean", "median", "P99",
		"accuracy",
	}, full: map[int]string{
		4: "TTFT ms median", 5: "TTFT ms P99", 7: "TPOT ms median", 8: "TPOT ms P99",
	}, drop: []int{3, 6, 2, 8, 5, 9}}
	for i := range r.Runs {
		e := &r.Runs[i]
		if !e.Usable || e.OfflineOnly() {
			continue
		}
		cells := []cell{{text: e.Label}, {text: shown(e)}, {successful(e), num}}
		t.row(e.Group, append(cells, values(e, perTest, 4)...)...)
		t.leads(e.Dir)
	}
	b := block{heading: "Results of each test"}
	if len(t.rows) == 0 {
		b.lines = []string{"no run is valid"}
		return b
	}
	b.tables = []table{t}
	return b
}

// successful says how many prompts were answered; n/a without a record.
func successful(e *report.Entry) string {
	share, done := metric.SuccessShare.Of(e.Run.Result), metric.Successful.Of(e.Run.Result)
	if share.Number == nil || done.Number == nil {
		return "n/a"
	}
	return fmt.Sprintf("%.2f%% (%.0f of %d)", *share.Number, *done.Number, *e.Run.Result.Results.NumPrompts)
}

// apartBlock holds the runs that are left out of comparisons.
func apartBlock(r *report.Report) (block, bool) {
	t := table{header: []string{"case", "verdict", "successful prompts", "reason"}}
	for _, same := range together(r.Runs, false) {
		e := same[0]
		t.row(e.Group, cell{text: label(same)}, cell{shown(e), reject}, cell{successful(e), num}, cell{text: e.Reason})
		t.leads(e.Dir)
	}
	return block{heading: "Left out of comparisons", tables: []table{t}}, len(t.rows) > 0
}

// remarks are the lines above all tables.
func remarks(r *report.Report) []string {
	var lines []string
	if r.Simulated > 0 {
		recorded, without := withRecord(r.Runs), ""
		if n := len(r.Runs) - recorded; n > 0 {
			without = fmt.Sprintf(" (%d more without a record)", n)
		}
		lines = append(lines, fmt.Sprintf("SIMULATED: %d of %d runs had a simulated engine%s; "+
			"their numbers are not measurements", r.Simulated, recorded, without))
	}
	for _, n := range r.Notes {
		lines = append(lines, printable.Line(n))
	}
	return lines
}

// withRecord counts the runs that have a record: nothing else says what their engine was.
func withRecord(runs []report.Entry) (n int) {
	for i := range runs {
		if runs[i].Run.Result != nil {
			n++
		}
	}
	return n
}
