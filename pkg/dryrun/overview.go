package dryrun

import (
	"fmt"
	"io"
	"time"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/terminal"
)

// writeOverview prints what a scenario consists of, how long it may take, and what its
// jobs hold without use.
func writeOverview(out io.Writer, o *campaign.Overview, s terminal.Screen) {
	fmt.Fprintln(out, scenarioLine(o))
	for _, t := range o.Tests {
		if len(o.Tests) > 1 {
			fmt.Fprintf(out, "# %s: %s\n", t.Test, testLine(&t, t.NodeHours))
		}
		for _, note := range t.Idle {
			fmt.Fprintf(out, "# %s: note: %s\n", t.Test, note)
		}
		if len(t.Rows) > 0 {
			fmt.Fprintln(out, settingsTable(t.Header, t.Rows, s))
		}
	}
	fmt.Fprintln(out)
}

func settingsTable(header []string, rows [][]string, s terminal.Screen) string {
	var t terminal.Table
	for _, name := range header {
		t.Columns = append(t.Columns, terminal.Column{Name: name})
	}
	for _, row := range rows {
		line := make([]terminal.Cell, len(row))
		for i, text := range row {
			line[i] = terminal.Cell{Text: text}
		}
		t.Row(line...)
	}
	return t.Text(s)
}

// scenarioLine sums up a scenario; one with a single test is that test.
func scenarioLine(o *campaign.Overview) string {
	if len(o.Tests) == 1 {
		return fmt.Sprintf("# scenario %s, test %s: %s", o.Scenario, o.Tests[0].Test,
			testLine(&o.Tests[0], o.Cost.NodeHours))
	}
	var all []campaign.Estimate
	for _, t := range o.Tests {
		all = append(all, t.Each...)
	}
	return fmt.Sprintf("# scenario %s: %s in %s%s", o.Scenario,
		quantity.Count(o.Cost.Runs, "run"), quantity.Count(o.Cost.Jobs, "job"),
		expectedTime(o.Time, all, o.Cost.NodeHours))
}

func testLine(t *campaign.TestOverview, nodeHours float64) string {
	text := quantity.Count(t.Runs, "run")
	if t.Points > 0 {
		text = fmt.Sprintf("%s in %s", quantity.Count(t.Points, "point"), text)
		if t.LeftOut > 0 {
			text += fmt.Sprintf(" (%d more left out)", t.LeftOut)
		}
	}
	return text + expectedTime(t.Time, t.Each, nodeHours)
}

// longest is the longest time limit of runs.
func longest(list []campaign.Estimate) time.Duration {
	var most time.Duration
	for _, e := range list {
		most = max(most, e.Most)
	}
	return most
}

// expectedTime says how long runs take together, and where that is known from.
func expectedTime(sum campaign.Estimate, each []campaign.Estimate, nodeHours float64) string {
	all := ""
	if len(each) > 1 {
		all = " in all"
	}
	text := ""
	switch {
	case sum.About > 0 && len(each) > 1:
		text = fmt.Sprintf(", about %s in all (medians of earlier runs with the same settings)",
			quantity.Duration(sum.About))
	case sum.About > 0:
		text = fmt.Sprintf(", about %s (median of %s with the same settings)",
			quantity.Duration(sum.About), quantity.Count(each[0].Earlier, "earlier run"))
	case sum.Least > 0:
		text = fmt.Sprintf(", at least %s%s by the request rate", quantity.Duration(sum.Least), all)
	}
	switch {
	case sum.Most == 0:
		return text + ", without a time limit"
	case nodeHours == 0 && len(each) > 1: // Kubernetes: no nodes are asked for
		return text + fmt.Sprintf(", at most %s per run (time limit), %s in all", quantity.Duration(longest(each)),
			quantity.Duration(sum.Most))
	case nodeHours == 0:
		return text + fmt.Sprintf(", at most %s (time limit)", quantity.Duration(sum.Most))
	case len(each) > 1:
		return text + fmt.Sprintf(", at most %s per run (time limit), %s and %s in all",
			quantity.Duration(longest(each)), quantity.Duration(sum.Most), quantity.NodeHours(nodeHours))
	}
	return text + fmt.Sprintf(", at most %s and %s (time limit)", quantity.Duration(sum.Most),
		quantity.NodeHours(nodeHours))
}
