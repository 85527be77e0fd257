package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	shellwords "github.com/profllm/profllm/pkg/shell"
	"github.com/profllm/profllm/pkg/summary"
	"github.com/profllm/profllm/pkg/terminal"
)

type profileCmd struct {
	placeFlags
	outputFlag
	Paths []string `arg:"" optional:"" help:"Run or scenario directories, or folders of them; default: the results folder."`
}

// Run lists what the records say of traces, and whether each is still there.
func (c profileCmd) Run(ctx context.Context, a *app) error {
	paths, err := c.paths(ctx, a, c.Paths)
	if err != nil {
		return err
	}
	runs, done, err := a.loadRuns(ctx, paths...)
	defer done()
	if err != nil {
		return err
	}
	doc := &document.Profile{Head: document.NewHead("profile"), Traces: []document.TraceEntry{}}
	for i := range runs {
		doc.Traces = append(doc.Traces, tracesOf(&runs[i])...)
	}
	a.answers(doc)
	if len(doc.Traces) == 0 {
		a.logf("no traces in %s\n\thint: [Tests.torch_profiler], [Tests.nsys] or [Tests.viztracer] profiles the servers "+
			"of a test, see docs/how-to/profile.md", quantity.Count(len(runs), "record"))
		return nil
	}
	if a.json() {
		return nil
	}
	return a.printBlocks(traceTable(doc.Traces))
}

// tracesOf lists the traces of a record.
func tracesOf(r *records.Run) (list []document.TraceEntry) {
	if r.Result == nil || r.Result.Profiling == nil {
		return nil
	}
	for _, t := range r.Result.Profiling.Traces {
		file := t.Path
		if !filepath.IsAbs(file) {
			file = filepath.Join(run.Above(r.Dir), file)
		}
		if abs, err := filepath.Abs(file); err == nil {
			file = abs
		}
		e := document.TraceEntry{Dir: r.Dir, Kind: t.Kind, Role: t.Role, Rank: t.Rank, Process: t.Process, File: file,
			SizeMB: t.SizeMB, Simulated: r.Result.Simulated}
		if dir, err := filepath.Abs(r.Dir); err == nil {
			e.Dir = dir
		}
		_, err := os.Stat(file)
		e.Missing = errors.Is(err, fs.ErrNotExist)
		for _, o := range openers[t.Kind] {
			if o.command {
				e.Commands = append(e.Commands, o.how+" "+shellwords.Quote(file))
			} else {
				e.URL = o.how
			}
		}
		list = append(list, e)
	}
	return list
}

// An opener is a program or a page that shows a kind of trace.
type opener struct {
	how     string
	command bool // followed by the file; else a page that is given the file
}

var openers = map[string][]opener{
	result.TorchTrace: {{"https://ui.perfetto.dev", false}},
	result.NsysTrace:  {{"nsys stats", true}, {"nsys-ui", true}},
	result.VizTrace:   {{"vizviewer", true}},
}

// traceTable shows traces, and below them how to open each kind.
func traceTable(traces []document.TraceEntry) summary.Block {
	b := summary.Block{Table: terminal.Table{Columns: []terminal.Column{
		{Name: "run"}, {Name: "profiler"}, {Name: "server"}, {Name: "rank"}, {Name: "size", Right: true},
		{Name: "file", Whole: true},
	}}}
	var dirs []string
	for _, t := range traces {
		dirs = append(dirs, t.Dir)
	}
	name := summary.Names(slices.Compact(dirs), relative)
	simulated := 0
	for _, t := range traces {
		rank, size := "–", terminal.Cell{Text: "missing", Tone: terminal.Bad}
		switch {
		case t.Rank != nil:
			rank = fmt.Sprint(*t.Rank)
		case t.Process != "":
			rank = t.Process
		}
		if t.SizeMB != nil && !t.Missing {
			size = terminal.Cell{Text: fmt.Sprintf("%.3f MB", *t.SizeMB)}
		}
		if t.Simulated {
			simulated++
		}
		b.Table.Row(summary.Cells(name(t.Dir), t.Kind, t.Role, rank, size, relative(t.File))...)
	}
	for _, kind := range []string{result.TorchTrace, result.NsysTrace, result.VizTrace} {
		i := slices.IndexFunc(traces, func(t document.TraceEntry) bool { return t.Kind == kind && !t.Missing })
		if i < 0 {
			continue
		}
		if t := traces[i]; t.URL != "" {
			b.Lines = append(b.Lines,
				fmt.Sprintf("%s: open %s and drop a file on the page; .gz needs no unpacking", kind, t.URL))
		}
		for _, o := range openers[kind] {
			if o.command {
				b.Lines = append(b.Lines, fmt.Sprintf("%s: %s %s", kind, o.how, shellwords.Quote(relative(traces[i].File))))
			}
		}
	}
	if simulated > 0 {
		b.Lines = append(b.Lines, fmt.Sprintf("%s: no model ran, so nothing in them is measured",
			quantity.Count(simulated, "simulated trace")))
	}
	return b
}
