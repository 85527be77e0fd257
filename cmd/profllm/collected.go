package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/terminal"
)

type row struct {
	Dir    string         `json:"dir"`
	Result *result.Result `json:"result"`
	NoJob  string         `json:"no_job,omitempty"` // refused by Slurm, or not submitted: the result has no verdict, and nothing runs

	brief bool // Result is what the index keeps, see whole
}

// mostRows is how many results are shown line by line; of more, what they have in
// common.
const mostRows = 500

// printer shows results in the order in which they come, and keeps none of them
// in memory beyond mostRows.
type printer struct {
	app    *app
	sink   sink // nil prints text
	n      int
	rows   []row // none of them if there are more than mostRows
	counts map[string]int
	wrong  map[string]*complaint
}

// complaint is one thing that is wrong with several results.
type complaint struct {
	what  string
	cause bool
	n     int
	first string // the run, and what it says
}

// sink is a document that takes the results.
type sink interface{ add(r row) error }

func (a *app) newPrinter() *printer {
	s, _ := a.documentOf().(sink)
	return &printer{app: a, sink: s, counts: map[string]int{}, wrong: map[string]*complaint{}}
}

func (p *printer) add(r row) error {
	p.n++
	if p.sink != nil {
		if err := r.whole(); err != nil {
			return err
		}
		return p.sink.add(r)
	}
	if p.n <= mostRows {
		p.rows = append(p.rows, r)
	} else {
		p.rows = nil
	}
	p.count(r)
	return nil
}

func (p *printer) end() error {
	var err error
	switch {
	case p.sink != nil:
	case p.n <= mostRows:
		for i := range p.rows {
			if err := p.rows[i].whole(); err != nil {
				return err
			}
		}
		return p.app.printResults(p.rows)
	default:
		return p.summary()
	}
	return err
}

// printResults shows one line for each result, and the cause below each that failed.
func (a *app) printResults(rows []row) error {
	t := terminal.Table{Columns: []terminal.Column{
		{Name: "run"}, {Name: "settings"}, {Name: "verdict"}, {Name: "done", Drop: 5}, {Name: "req/s", Drop: 2},
		{Name: "out tok/s", Drop: 6}, {Name: "per GPU", Drop: 1}, {Name: "TTFT ms p50 / p99", Drop: 4},
		{Name: "TPOT ms p50 / p99", Drop: 3}, {Name: "accuracy", Drop: 7},
	}}
	settings := differences(rows)
	const at = 1 // of the settings
	if len(settings) == 0 {
		t.Columns = slices.Delete(t.Columns, at, at+1)
	}
	dirs := make([]string, len(rows))
	for i, r := range rows {
		dirs[i] = r.Dir
	}
	name := runNames(dirs)
	var below []string
	for _, r := range rows {
		m := r.Result.Results
		done := ""
		if m.CompletedRequests != nil {
			done = fmt.Sprintf("%d/%s", *m.CompletedRequests, number(m.NumPrompts, "%d"))
		}
		accuracy := ""
		if r.Result.Accuracy != nil {
			accuracy = fmt.Sprintf("%.3f", r.Result.Accuracy.Value)
		}
		line := cells(name(r.Dir), settings[r.Dir], r.verdict(), done, number(m.RequestThroughput, "%.2f"),
			number(m.OutputThroughput, "%.1f"), number(m.OutputPerGPU, "%.1f"), latency(r.Result, result.TTFT),
			latency(r.Result, result.TPOT), accuracy)
		if len(settings) == 0 {
			line = slices.Delete(line, at, at+1)
		}
		t.Row(line...)
		below = append(below, notes(name(r.Dir), r)...)
	}
	err := a.printTable(&t)
	for _, line := range below {
		err = errors.Join(err, a.printLine(line))
	}
	return err
}

// differences are the settings in which the results of one test differ, by directory: the
// points of a sweep, or its phases.
func differences(rows []row) map[string]string {
	tests := map[string][]row{}
	for _, r := range rows {
		if r.Result.Config.Settings != nil {
			tests[testDir(r.Dir)] = append(tests[testDir(r.Dir)], r)
		}
	}
	of := map[string]string{}
	for _, list := range tests {
		settings := make([]map[string]string, len(list))
		for i, r := range list {
			settings[i] = r.Result.Config.Settings
		}
		for i, text := range plan.Differences(settings) {
			of[list[i].Dir] = text
		}
	}
	return of
}

// testDir is the directory of the test that a run or a load belongs to, or the parent of
// one that belongs to none.
func testDir(dir string) string {
	name := runName(dir)
	if root, ok := strings.CutSuffix(dir, name); ok {
		test, _, _ := strings.Cut(name, "/")
		return root + test
	}
	return filepath.Dir(dir)
}

// count adds a result to the summary.
func (p *printer) count(r row) {
	p.counts[r.verdict()]++
	if r.Result.Status == result.Unknown {
		return
	}
	complain := func(what string, cause bool, says string) {
		c := p.wrong[what]
		if c == nil {
			c = &complaint{what: what, cause: cause, first: runName(r.Dir) + ": " + says}
			p.wrong[what] = c
		}
		c.n++
	}
	for _, c := range r.Result.Validity.Checks {
		if c.Outcome == result.Fail && (c.Severity == result.Invalid || c.Severity == result.Suspect) {
			complain(fmt.Sprintf("%s %s", c.Severity, c.Word), false, c.Detail)
		}
	}
	for _, w := range r.Result.Warnings {
		switch w.Kind {
		case result.CheckFailed, result.HookFailed, result.NodeUnclean, result.SecretInLog, result.Unreadable, result.Truncated, result.BadValue:
			complain(string(w.Kind), false, cmp.Or(w.Key, placeIn(w.File, w.Line))+": "+w.Text)
		}
	}
	if f := r.Result.Failure; f != nil && f.Line != "" && !(f.Confidence == result.NoCause && r.Result.Status == result.Cancelled) {
		complain(fmt.Sprintf("cause %s (%s)", f.Cause, f.Confidence), true, placeIn(f.File, f.LineNumber)+": "+f.Line)
	}
}

// widestComplaint is how much of what a run says stands in the summary.
const widestComplaint = 100

// summary counts verdicts and what is wrong, causes before the rest and most first.
func (p *printer) summary() error {
	t := terminal.Table{Columns: []terminal.Column{{Name: "verdict"}, {Name: "results", Right: true}}}
	verdicts := slices.SortedFunc(maps.Keys(p.counts), func(a, b string) int {
		return cmp.Or(p.counts[b]-p.counts[a], cmp.Compare(a, b))
	})
	for _, v := range verdicts {
		t.Row(cells(v, p.counts[v])...)
	}
	err := p.app.printTable(&t)
	list := slices.SortedFunc(maps.Values(p.wrong), func(a, b *complaint) int {
		return cmp.Or(count(b.cause)-count(a.cause), b.n-a.n, cmp.Compare(a.what, b.what))
	})
	if len(list) > 0 {
		t = terminal.Table{Columns: []terminal.Column{{Name: "what is wrong"}, {Name: "results", Right: true}, {Name: "the first of them"}}}
		for _, c := range list {
			t.Row(cells(c.what, c.n, text.Snip(c.first, widestComplaint, "…"))...)
		}
		err = errors.Join(err, p.app.printLine(""), p.app.printTable(&t))
	}
	return errors.Join(err, p.app.printLine(""), p.app.printLine(fmt.Sprintf(
		"%d results: name fewer runs, at most %d, to see each; each has a line in: profllm report --output csv DIR", p.n, mostRows)))
}

// runNames names runs that are shown together: by their places below the scenario's
// directory, or, where two would be called the same, all by their paths.
func runNames(dirs []string) func(dir string) string {
	seen := map[string]bool{}
	for _, dir := range dirs {
		name := runName(dir)
		if seen[name] {
			return relative
		}
		seen[name] = true
	}
	return runName
}
