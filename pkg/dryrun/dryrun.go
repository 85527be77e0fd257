// Package dryrun prints what the submission of a scenario would submit: what the scenario
// consists of, how long its runs may take and what its jobs hold without use, and a table and
// the script of each run.
package dryrun

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/terminal"
)

// Documents lists the plans, and behind them the batches that carry some.
func Documents(p *campaign.Planned) []any {
	var list []any
	for _, r := range p.Runs {
		list = append(list, r.Plan)
	}
	for _, b := range p.Batches {
		list = append(list, b.Batch)
	}
	return list
}

// Write prints every script, and with text what the scenario consists of and a table before
// each script, which fits the screen.
func Write(out *bufio.Writer, p *campaign.Planned, text bool, s terminal.Screen) {
	carried := p.Carried()
	var o campaign.Overview
	if text {
		o = p.Overview()
		writeOverview(out, &o, s)
	}
	for _, r := range p.Runs {
		if text {
			fmt.Fprint(out, planTable(r.Plan, s))
			if b := carried[r.Plan.Dir]; b != nil {
				fmt.Fprintf(out, "# in batch %s\n", b.RunID)
			} else {
				fmt.Fprint(out, Dependency(p, &r.Plan.Job))
			}
			fmt.Fprintln(out)
		}
		out.Write(r.Script)
		if text {
			fmt.Fprintln(out)
		}
	}
	for _, b := range p.Batches {
		if text {
			fmt.Fprintf(out, "# batch %s: %s of %d runs\n%s\n",
				b.Batch.RunID, b.Batch.Kind, len(b.Batch.Runs), Dependency(p, &b.Batch.Job))
		}
		out.Write(b.Script)
		if text {
			fmt.Fprintln(out)
		}
	}
	if text && len(p.Runs) > 1 {
		fmt.Fprintln(out, scenarioLine(&o)) // the first one has left the screen
	}
}

// Dependency is a comment with what sbatch is told about other jobs, whose ids are
// known only at submission.
func Dependency(p *campaign.Planned, j *plan.Job) string {
	if len(j.After) == 0 {
		return ""
	}
	tests := map[string]string{}
	for _, r := range p.Runs {
		tests[r.Plan.Dir] = r.Plan.Test
	}
	var words []string
	for _, a := range j.After {
		word := fmt.Sprintf("%s:<job of test %s>", a.Type, cmp.Or(tests[a.Dir], a.Dir))
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return fmt.Sprintf("# sbatch --dependency=%s --kill-on-invalid-dep=yes\n", strings.Join(words, ","))
}

// CheckFolder refuses a folder to save to that is none, or that has runs: Save would replace
// their plans and scripts.
func CheckFolder(p *campaign.Planned, to string) error {
	if st, err := os.Stat(to); err == nil && !st.IsDir() {
		return fmt.Errorf("--save %s: this is a file\n\thint: name a folder, such as saved", to)
	}
	runs := run.Root(to)
	for _, r := range p.Runs {
		rel, err := filepath.Rel(p.Root, r.Plan.Dir)
		if err != nil {
			return err
		}
		if dir := filepath.Join(to, rel); runs == "" && run.HasIntent(dir) {
			runs = dir
		}
	}
	if runs != "" {
		return fmt.Errorf("--save %s: %s has runs, and their plans and scripts would be overwritten\n\thint: name another folder, such as saved", to, runs)
	}
	return nil
}

// Save writes what submission would write, below another folder.
func Save(p *campaign.Planned, to string) error {
	for _, r := range p.Runs {
		rel, err := filepath.Rel(p.Root, r.Plan.Dir)
		if err != nil {
			return err
		}
		if err := run.Fill(filepath.Join(to, rel), r.Plan, r.Script, r.Hooks...); err != nil {
			return err
		}
	}
	for _, b := range p.Batches {
		rel, err := filepath.Rel(p.Root, b.Batch.Dir)
		if err != nil {
			return err
		}
		if err := run.FillBatch(filepath.Join(to, rel), b.Batch, b.Script); err != nil {
			return err
		}
	}
	return nil
}
