package main

import (
	"context"

	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
)

type trendCmd struct {
	reportFlags
	placeFlags
	filterFlag
	Paths  []string `arg:"" optional:"" help:"Folders of records, run directories, records, or archives; default: the results folder."`
	Metric []string `placeholder:"KEY" help:"Judge these metrics instead of throughput, TTFT, TPOT and accuracy: keys of results; fewer need fewer runs."`
	By     []string `placeholder:"KEY" help:"Runs of a test with equal values of these keys form a series, even if other settings differ; default: runs with the same configuration."`

	ImportedBaseline bool `help:"Include imported runs and files of other clients; they were not monitored."`
}

// Run says where series of runs changed, and fails if one got worse at its end or if
// no run can be believed.
func (c trendCmd) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	metrics, err := findMetrics(c.Metric)
	if err != nil {
		return err
	}
	paths, err := c.paths(ctx, a, c.Paths)
	if err != nil {
		return err
	}
	runs, done, err := a.loadRuns(ctx, paths...)
	defer done()
	if err != nil {
		return err
	}
	if runs, err = c.choose(runs); err != nil {
		return err
	}
	for i := range runs {
		runs[i].Baseline = c.ImportedBaseline
	}
	if err := records.UnknownKeys(runs, c.By); err != nil {
		return fail(exitUsage, err)
	}
	r, err := report.Trace(runs, metrics, c.By)
	if err != nil {
		return err
	}
	if err := a.writeReport(r, c.reportFlags); err != nil {
		return err
	}
	if r.Bad() {
		return exit(exitInvalid)
	}
	return nil
}
