package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

type exportCmd struct {
	Format         string            `arg:"" enum:"${writable}" help:"llm-d (benchmark report 0.2.1), inferencex (rows) or pytorch (benchmark records)."`
	Paths          []string          `arg:"" optional:"" help:"Folders of records, run directories, records, or archives; default: the results folder."`
	System         string            `aliases:"system-config" meant:"site,cluster,config" env:"PROFLLM_SYSTEM,CLOUDAI_SYSTEM_CONFIG" placeholder:"FILE" help:"System file; without paths, its output_path is searched."`
	Output         string            `placeholder:"FILE" help:"Write to this file instead of standard output; for a folder (existing, or ending in /), write one file per run. Only older exports to the same format are overwritten."`
	IncludeInvalid bool              `help:"Include invalid runs."`
	Set            map[string]string `placeholder:"KEY=VALUE" help:"Value that an InferenceX row needs and the record lacks, such as hw=h200 or precision=fp8; never a measured number."`
}

// Run writes the runs that may leave, names those that may not, and answers for them.
func (c exportCmd) Run(ctx context.Context, a *app) error {
	if !c.folder() {
		if err := durable.CheckOutputs(interchange.Output(interchange.Format(c.Format), c.Output)); err != nil {
			return fail(exitUsage, err)
		}
	}
	paths, err := placeFlags{System: c.System}.paths(ctx, a, c.Paths)
	if err != nil {
		return err
	}
	runs, done, err := a.loadRuns(ctx, paths...)
	defer done()
	if err != nil {
		return err
	}
	format := interchange.Format(c.Format)
	o := interchange.Options{Invalid: c.IncludeInvalid, Set: c.Set}
	worst := exitOK
	var fit []records.Run
	for _, r := range runs {
		err := errors.New(r.Problem)
		if r.Result != nil {
			_, err = interchange.Write(format, []*result.Result{r.Result}, o)
		}
		if err == nil {
			fit = append(fit, r)
			continue
		}
		a.logf("%s: not exported: %v", relative(r.Dir), err)
		code := exitInvalid
		var missing *interchange.MissingError
		if errors.As(err, &missing) {
			code = exitUsage
		}
		worst = max(worst, code)
	}
	if len(fit) == 0 {
		return exit(worst)
	}
	if err := c.write(a, format, fit, o); err != nil {
		return err
	}
	return exit(worst)
}

// folder reports whether each run gets a file of its own.
func (c exportCmd) folder() bool {
	info, err := os.Stat(c.Output)
	return c.Output != "" && (err == nil && info.IsDir() || strings.HasSuffix(c.Output, "/"))
}

func (c exportCmd) write(a *app, format interchange.Format, runs []records.Run, o interchange.Options) error {
	if c.folder() {
		return c.each(a, format, runs, o)
	}
	if format == interchange.LLMD && len(runs) > 1 {
		return fail(exitUsage,
			fmt.Errorf("a benchmark report describes one run, but %d were named\n\thint: --output DIR/ writes one file per run", len(runs)))
	}
	records := make([]*result.Result, len(runs))
	for i, r := range runs {
		records[i] = r.Result
	}
	data, err := interchange.Write(format, records, o)
	if err != nil {
		return err
	}
	if c.Output == "" {
		_, err = a.stdout.Write(data)
		return err
	}
	return interchange.Output(format, c.Output).Write(data)
}

// each writes a file for each run, named after its case.
func (c exportCmd) each(a *app, format interchange.Format, runs []records.Run, o interchange.Options) error {
	if err := os.MkdirAll(c.Output, 0o755); err != nil {
		return err
	}
	seen, files := map[string]int{}, make([]durable.Output, len(runs))
	for i, r := range runs {
		name := interchange.FileName(r.Case.String())
		if seen[name]++; seen[name] > 1 {
			name += fmt.Sprintf("-%d", seen[name])
		}
		files[i] = interchange.Output(format, filepath.Join(c.Output, name+".json"))
	}
	if err := durable.CheckOutputs(files...); err != nil {
		return fail(exitUsage, err)
	}
	for i, r := range runs {
		data, err := interchange.Write(format, []*result.Result{r.Result}, o)
		if err == nil {
			err = files[i].Write(data)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(a.stdout, relative(files[i].Path))
	}
	return nil
}
