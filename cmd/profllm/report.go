package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/source"
)

// reportFlags say in which form a report is wanted.
type reportFlags struct {
	Output string `enum:"text,json,csv,markdown" default:"text" help:"${enum}; csv has one line for each run."`
	HTML   string `placeholder:"FILE" name:"html" help:"Also write one page that needs no network."`
}

// write prints a report and writes its page.
func (a *app) writeReport(r *report.Report, f reportFlags) error {
	if err := r.Write(a.stdout, f.Output); err != nil || f.HTML == "" {
		return err
	}
	var page bytes.Buffer
	if err := r.HTML(&page); err != nil {
		return err
	}
	return run.WriteFile(f.HTML, page.Bytes(), 0o644)
}

// loadRuns reads the records below paths; finding none is an error.
func loadRuns(paths ...string) ([]report.Run, error) {
	runs, err := report.Load(paths...)
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	if len(runs) == 0 {
		return nil, fail(exitUsage, fmt.Errorf("no records below %v\n\thint: profllm collect %s writes them", paths, strings.Join(paths, " ")))
	}
	return runs, nil
}

type reportCmd struct {
	reportFlags
	Paths    []string `arg:"" help:"Folders of records, run directories, records, or archives."`
	GroupBy  []string `placeholder:"KEY" help:"Compare only runs with the same values of these keys, such as bench_cmd_args.max_concurrency; wins over the files."`
	Metric   string   `default:"throughput" help:"What makes a point of a sweep the best: a key of results, or CloudAI's name of a metric."`
	Scenario string   `placeholder:"FILE" type:"existingfile" help:"Take [reports] from this scenario file."`
	System   string   `aliases:"system-config" placeholder:"FILE" type:"existingfile" help:"Take [reports] that the scenario does not have from this system file."`
}

func (c reportCmd) Run(a *app) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	paths, done, err := a.unpacked(c.Paths)
	defer done()
	if err != nil {
		return err
	}
	runs, err := loadRuns(paths...)
	if err != nil {
		return err
	}
	for i := range runs {
		runs[i].Dir, runs[i].Problem = a.called(runs[i].Dir), a.called(runs[i].Problem)
	}
	if err := report.UnknownKeys(runs, o.GroupBy); err != nil {
		return fail(exitUsage, err)
	}
	return a.writeReport(report.Build(runs, o), c.reportFlags)
}

func (c reportCmd) options() (report.Options, error) {
	var o report.Options
	var err error
	if o.Objective, err = report.FindMetric(c.Metric); err != nil {
		return o, fail(exitUsage, err)
	}
	var files []config.Reports
	for _, file := range []string{c.Scenario, c.System} {
		r, err := readReports(file)
		if err != nil {
			return o, err
		}
		files = append(files, r)
	}
	of := func(p report.Part) config.Report { return files[0].Of(string(p), files[1]) }
	for _, p := range []report.Part{report.PartStatus, report.PartPerTest, report.PartComparison, report.PartSweeps} {
		if !of(p).Enable {
			o.Without = append(o.Without, p)
		}
	}
	if o.GroupBy = c.GroupBy; o.GroupBy == nil {
		o.GroupBy = of(report.PartComparison).GroupBy
	}
	if slices.Contains(o.Without, report.PartComparison) {
		o.GroupBy = nil
	}
	return o, nil
}

// readReports reads [reports] of a definition file; without one there are none.
func readReports(file string) (config.Reports, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	t, err := source.Parse(file, data)
	if err != nil {
		return nil, fail(exitDefinition, err)
	}
	r, err := config.ParseReports(t.Table("reports"))
	return r, fail(exitDefinition, err)
}

type compareCmd struct {
	reportFlags
	First  string `arg:"" help:"A record, a run directory, or a folder of them."`
	Second string `arg:"" help:"Likewise. Of folders, runs of the same test, iteration and step are compared."`
}

// Run prints the runs beside each other, and fails if one of them cannot be
// believed.
func (c compareCmd) Run(a *app) error {
	first, err := loadRuns(c.First)
	if err != nil {
		return err
	}
	second, err := loadRuns(c.Second)
	if err != nil {
		return err
	}
	r, err := report.Pair(first, second)
	switch {
	case errors.Is(err, report.ErrNoPair):
		return fail(exitUsage, fmt.Errorf("%w: %s and %s", err, c.First, c.Second))
	case err != nil:
		return fail(exitInvalid, err)
	}
	if err := a.writeReport(r, c.reportFlags); err != nil {
		return err
	}
	if r.Invalid() {
		return exit(exitInvalid)
	}
	return nil
}
