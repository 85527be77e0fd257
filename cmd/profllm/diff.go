package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/terminal"
)

type diffCmd struct {
	First  string `arg:"" help:"A run directory, a record, or an archive of one run."`
	Second string `arg:"" help:"Run or record to compare with the first, in the same forms."`
	Output string `meant:"format" enum:"text,json,markdown" default:"text" help:"${enum}."`
}

// Run says what two runs differ in. It exits with 0 for two runs of one configuration,
// whatever their nodes and numbers, and else with 6.
func (c diffCmd) Run(ctx context.Context, a *app) error {
	first, done, err := a.record(ctx, c.First)
	defer done()
	if err != nil {
		return err
	}
	second, done, err := a.record(ctx, c.Second)
	defer done()
	if err != nil {
		return err
	}
	d, err := report.Diff(first, second)
	if err != nil {
		return fail(exitUsage, err)
	}
	if s := a.screenOf(a.stdout); c.Output == "text" && s != (terminal.Screen{}) {
		err = format.ShowDiff(s.Writer(a.stdout), d, s)
	} else {
		err = format.Diff(a.stdout, d, c.Output)
	}
	if err != nil {
		return err
	}
	if !d.Same {
		return exit(exitInvalid)
	}
	return nil
}

// record reads the record of one load, also of an archive, which is unpacked until
// done.
func (a *app) record(ctx context.Context, path string) (r *records.Run, done func(), err error) {
	runs, done, err := a.loadRuns(ctx, path)
	if err != nil {
		return nil, done, err
	}
	if len(runs) == 1 {
		return &runs[0], done, nil
	}
	for i := range runs { // a point of a sweep has its neighbours in its plan
		if filepath.Clean(runs[i].Dir) == filepath.Clean(path) {
			return &runs[i], done, nil
		}
	}
	var dirs []string
	for _, r := range runs[:min(len(runs), 8)] {
		dirs = append(dirs, relative(r.Dir))
	}
	return nil, done, fail(exitUsage,
		fmt.Errorf("%s has %d records, but diff compares two single records\n\thint: name one, such as %s", path,
			len(runs), strings.Join(dirs, ", ")))
}
