package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/collect/cache"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/junit"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/terminal"
)

// reportFlags say in which form a verdict is wanted.
type reportFlags struct {
	Output string `meant:"format" enum:"text,json,csv,markdown" default:"text" help:"One of ${enum}; csv has one line per run."`
	JUnit  string `placeholder:"FILE" name:"junit" help:"Also write JUnit XML with a case per metric; a regression is a failure. Only an older JUnit report of profllm is overwritten."`
	pageFlag
}

type pageFlag struct {
	HTML string `placeholder:"FILE" name:"html" help:"Also write an HTML page that needs no network. Only an older page of profllm is overwritten."`
}

// write writes the page, if one is wanted.
func (f pageFlag) write(r *report.Report) error { return f.writePage(r, format.Page{}) }

// writeViews writes the page with the dashboard's views of its runs.
func (f pageFlag) writeViews(r *report.Report) error { return f.writePage(r, format.Page{Views: true}) }

func (f pageFlag) writePage(r *report.Report, page format.Page) error {
	page.Link = linksFrom(f.HTML)
	return format.PageFile(f.HTML).WriteBy(func(w io.Writer) error { return page.Write(w, r) })
}

// linksFrom gives the links of a page to directories: relative, so that they work where the folder
// of both is moved, and none to what is no directory, such as a run of an archive.
func linksFrom(page string) func(dir string) string {
	base, err := filepath.Abs(filepath.Dir(page))
	return func(dir string) string {
		to, absErr := filepath.Abs(dir)
		if err != nil || absErr != nil {
			return ""
		}
		if info, err := os.Stat(to); err != nil || !info.IsDir() {
			return ""
		}
		rel, err := filepath.Rel(base, to)
		if err != nil {
			return ""
		}
		path := url.URL{Path: filepath.ToSlash(rel) + "/"}
		return "./" + strings.TrimPrefix(path.EscapedPath(), "./")
	}
}

// check refuses files that must not be written, before anything is printed.
func (f reportFlags) check() error {
	return fail(exitUsage, durable.CheckOutputs(format.PageFile(f.HTML), junit.File(f.JUnit)))
}

// writeReport prints a verdict and writes its files.
func (a *app) writeReport(r *report.Report, f reportFlags) error {
	if err := a.showReport(r, f.Output); err != nil {
		return err
	}
	if err := f.pageFlag.write(r); err != nil {
		return err
	}
	return junit.File(f.JUnit).WriteBy(func(w io.Writer) error { return format.JUnit(w, r) })
}

// showReport prints a report.
func (a *app) showReport(r *report.Report, form string) error {
	if s := a.screenOf(a.stdout); form == "text" && s != (terminal.Screen{}) {
		return format.Show(s.Writer(a.stdout), r, s)
	}
	return format.Write(a.stdout, r, form)
}

type reportCmd struct {
	Output string `meant:"format" enum:"text,json,csv,markdown,prometheus,otava" default:"text" help:"One of ${enum}; csv has one line per run; prometheus has the newest run of each series, for a textfile collector; otava is a CSV for Apache Otava."`
	pageFlag
	priceFlag
	filterFlag
	Paths    []string `arg:"" optional:"" help:"Folders of records, run directories, records, or archives; default: the results folder."`
	GroupBy  []string `placeholder:"KEY" help:"Compare only runs with equal values of these keys, such as bench_cmd_args.max_concurrency; replaces group_by of the files."`
	Metric   string   `default:"throughput" help:"Metric that ranks the points of a sweep: a key of results, or CloudAI's name of a metric."`
	Limit    []string `meant:"slo,max-ttft,max-tpot,goodput,capacity" placeholder:"KEY=VALUE" help:"Show the highest load of each sweep within this limit of a metric, such as p99_ttft_ms=500; repeatable. Throughput must reach it, latency must not exceed it."`
	Scenario string   `placeholder:"FILE" type:"existingfile" help:"Read [reports] from this scenario file."`
	System   string   `aliases:"system-config" meant:"site,cluster,config" placeholder:"FILE" type:"existingfile" help:"Read [reports] from this system file where the scenario has none."`
}

func (c reportCmd) Run(ctx context.Context, a *app) error {
	if err := durable.CheckOutputs(format.PageFile(c.HTML)); err != nil {
		return fail(exitUsage, err)
	}
	o, err := c.options()
	if err != nil {
		return err
	}
	paths, err := placeFlags{System: cmp.Or(c.System, a.env("PROFLLM_SYSTEM"),
		a.env("CLOUDAI_SYSTEM_CONFIG"))}.paths(ctx, a, c.Paths)
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
	c.price(runs)
	if err := records.UnknownKeys(runs, o.GroupBy); err != nil {
		return fail(exitUsage, err)
	}
	r := report.Build(runs, o)
	if c.Output == "otava" {
		gaps, err := format.Otava(a.stdout, r)
		for _, g := range gaps {
			a.logf("note: left out, because Otava ignores series with missing numbers: %s", g)
		}
		return errors.Join(err, c.pageFlag.writeViews(r))
	}
	return errors.Join(a.showReport(r, c.Output), c.pageFlag.writeViews(r))
}

func (c reportCmd) options() (report.Options, error) {
	var o report.Options
	var err error
	if o.Objective, err = metric.Find(c.Metric); err != nil {
		return o, fail(exitUsage, err)
	}
	if o.Limits, err = findLimits(c.Limit); err != nil {
		return o, fail(exitUsage, err)
	}
	var files []config.Reports
	for i, file := range []string{c.Scenario, c.System} {
		r, err := readReports(file, []string{"scenario", "system"}[i])
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

// findLimits reads limits of metrics, such as p99_ttft_ms=500.
func findLimits(texts []string) ([]report.Limit, error) {
	var limits []report.Limit
	for _, text := range texts {
		l, err := metric.ParseLimit(text)
		if err != nil {
			return nil, err
		}
		limits = append(limits, l)
	}
	return limits, nil
}

// readReports reads [reports] of a definition file of that kind; without one there are none.
func readReports(file, kind string) (config.Reports, error) {
	if file == "" {
		return nil, nil
	}
	data, err := regular.ReadFile(file)
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	t, err := source.Parse(file, data)
	if err == nil {
		err = scenario.Mistaken(t, kind)
	}
	if err != nil {
		return nil, fail(exitDefinition, err)
	}
	r, err := config.ParseReports(t.Table("reports"))
	return r, fail(exitDefinition, err)
}

type compareCmd struct {
	reportFlags
	First            string   `arg:"" help:"Baseline: a folder of runs, a run directory, a record, or an archive."`
	Second           string   `arg:"" help:"The runs to compare with it, in the same forms. Iterations and repeats of a test are compared with those of the same test."`
	Metric           []string `placeholder:"KEY" help:"Judge these metrics instead of throughput, TTFT, TPOT and accuracy: keys of results; fewer need fewer runs."`
	ImportedBaseline bool     `help:"Accept imported runs and files of other clients as the baseline; they were not monitored."`
}

// Run judges the second set of runs against the first, and fails if it is worse or if
// they must not be compared.
func (c compareCmd) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	metrics, err := findMetrics(c.Metric)
	if err != nil {
		return err
	}
	first, doneFirst, err := a.loadRuns(ctx, c.First)
	defer doneFirst()
	if err != nil {
		return err
	}
	second, doneSecond, err := a.loadRuns(ctx, c.Second)
	defer doneSecond()
	if err != nil {
		return err
	}
	if definition.Same(c.First, c.Second) {
		a.logf("note: both sides are the same, %s: nothing can differ", c.First)
	}
	for i := range first {
		first[i].Baseline = c.ImportedBaseline
	}
	r, err := report.Pair(first, second, metrics)
	switch {
	case errors.Is(err, report.ErrNoPair):
		return fail(exitUsage,
			fmt.Errorf("%w: %s and %s\n\t%s\n\thint: name the directories of two tests to compare them", err, c.First,
				c.Second, strings.Join(r.Notes, "\n\t")))
	case err != nil:
		return fail(exitInvalid, err)
	}
	for i := range r.Judgements {
		j := &r.Judgements[i]
		one, two := j.Missing()
		j.Commands = slices.Concat(definition.MoreRuns(j.First.Runs, one, j.Kind, &a.archives),
			definition.MoreRuns(j.Second.Runs, two, j.Kind, &a.archives))
	}
	if err := a.writeReport(r, c.reportFlags); err != nil {
		return err
	}
	if r.Bad() {
		return exit(exitInvalid)
	}
	return nil
}

// findMetrics finds metrics by their names; nil for none.
func findMetrics(names []string) ([]metric.Metric, error) {
	var metrics []metric.Metric
	for _, name := range names {
		m, err := metric.Find(name)
		if err != nil {
			return nil, fail(exitUsage, err)
		}
		metrics = append(metrics, m)
	}
	return metrics, nil
}

// loadRuns reads the records below paths, also of archives, which are unpacked until
// done; finding none is an error.
func (a *app) loadRuns(ctx context.Context, paths ...string) (runs []records.Run, done func(), err error) {
	places, done, err := a.unpacked(ctx, paths)
	if err = cmp.Or(err, fail(exitUsage, definition.RefuseFiles(paths...))); err != nil {
		return nil, done, err
	}
	if runs, err = records.Load(places...); err != nil {
		return nil, done, fail(exitUsage, err)
	}
	if len(runs) == 0 {
		return nil, done, fail(exitUsage, definition.NoRecords(paths...))
	}
	var book run.Book
	for i := range runs {
		r := &runs[i]
		r.NoJob, r.Refusal = cache.NoJob(&book, cmp.Or(r.Job, r.Dir), r.Result)
		r.Dir, r.Problem = a.archives.Named(r.Dir), a.archives.Named(r.Problem)
	}
	return runs, done, nil
}
