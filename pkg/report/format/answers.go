package format

import (
	"slices"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/report"
)

// labels are what stands before the answer to a question.
var labels = map[report.Question]string{
	report.AskSearch: "Search", report.AskBest: "Best", report.AskResult: "Result", report.AskUnlike: "Not compared",
	report.AskSure: "How sure", report.AskChange: "Change", report.AskDoubt: "Validity", report.AskFailure: "Failed",
	report.AskLeftOut: "Left out",
}

// answersBlock holds the sentences with which a report opens; ok is false if there are none.
func answersBlock(r *report.Report) (b block, ok bool) {
	b = block{heading: "Answers"}
	for _, a := range r.Answers {
		b.answers = append(b.answers, answer{labels[a.Question], printable.Line(a.Text), a.Dirs})
	}
	return b, len(b.answers) > 0
}

// mains are the numbers of a run in a table of tests.
var mains = []metric.Metric{
	metric.Throughput, metric.PerGPU, metric.PerUser, metric.MedianTTFT, metric.P99TTFT, metric.MedianTPOT,
	metric.P99TPOT, metric.SuccessShare, metric.Accuracy,
}

// testsBlock holds the runs that are no point of a sweep and no phase that a table has; ok is
// false if there are none.
func testsBlock(r *report.Report) (b block, ok bool) {
	elsewhere := map[string]bool{}
	if r.Shows(report.PartSweeps) {
		for _, s := range slices.Concat(r.Sweeps, r.Phases) {
			for _, p := range s.Points {
				elsewhere[p.Dir] = true
			}
		}
	}
	var runs []*report.Entry
	var have []metric.Metric
	for i := range r.Runs {
		e := &r.Runs[i]
		if elsewhere[e.Dir] || e.OfflineOnly() || len(e.Metrics) == 0 {
			continue
		}
		runs = append(runs, e)
	}
	for _, m := range mains {
		has := func(e *report.Entry) bool { return m.Of(e.Run.Result) != metric.Value{} }
		if slices.ContainsFunc(runs, has) {
			have = append(have, m)
		}
	}
	t := table{header: []string{"test", "verdict"}}
	for _, m := range have {
		t.header = append(t.header, title(m))
	}
	for _, e := range runs {
		how := word
		if !e.Best() {
			how = reject
		}
		cells := []cell{{text: e.Label}, {shown(e), how}}
		for _, m := range have {
			c := brief(m, m.Of(e.Run.Result))
			if !e.Usable {
				c = cell{"-", num}
			}
			cells = append(cells, c)
		}
		t.row(e.Group, cells...)
		t.leads(e.Dir)
	}
	return block{heading: "Tests", tables: []table{t}}, len(have) > 0
}
