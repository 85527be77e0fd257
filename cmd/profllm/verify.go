package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/terminal"
	"github.com/profllm/profllm/pkg/verify"
)

type verifyCmd struct {
	siteFlags
	definitionFlags
	outputFlag
	Paths []string `arg:"" meant:"test-scenario" help:"System, test and scenario files, or folders of them."`
}

// Run checks each file by its kind. With --system, scenarios are planned as well.
func (c verifyCmd) Run(ctx context.Context, a *app) error {
	names, missing := verify.Files(c.Paths)
	if len(names) == 0 {
		return fail(exitUsage, errors.Join(missing...))
	}
	doc := &document.Verify{Head: document.NewHead("verify"), Files: []document.FileEntry{},
		SizesChecked: c.System != ""}
	a.answers(doc)
	a.client().Events = campaign.NotesOnce(a.client().Events)
	check := verify.Verifier{Folders: definition.Folders(c.definitionFlags)}
	if c.System != "" {
		flags := planFlags{makeFlags: makeFlags{siteFlags: c.siteFlags, definitionFlags: c.definitionFlags}}
		check.Plan = func(name string) error {
			_, err := a.plan(ctx, name, flags, false)
			return err
		}
	}
	bad, idle, unsized := 0, 0, false
	for _, name := range names {
		v := check.File(name)
		doc.Files = append(doc.Files, fileEntry(name, v))
		unsized = unsized || v.Kind == "scenario" && v.Err == nil && v.NotRunnable == "" && c.System == ""
		if !a.json() {
			a.printVerified(v, name)
		}
		switch {
		case v.Err != nil:
			bad++
			a.logf("%s", campaign.Explain(v.Err))
		case v.NotRunnable != "":
			idle++
		}
	}
	if unsized && !a.json() {
		a.logf("note: sizes were not checked (nodes, GPUs, ports): they depend on the cluster; add --system FILE")
	}
	for _, err := range missing { // behind the files, which decide the exit code
		a.complain(err)
	}
	if bad > 0 {
		return fail(exitDefinition, errors.New(verify.Count(len(names), bad, idle)))
	}
	if idle > 0 && !a.json() {
		a.logf("%s", verify.Count(len(names), bad, idle))
	}
	if len(missing) > 0 {
		return exit(exitUsage)
	}
	return nil
}

// fileEntry is the file in the document.
func fileEntry(name string, v verify.Found) document.FileEntry {
	e := document.FileEntry{File: name, Kind: v.Kind, OK: v.Err == nil, NotRunnable: v.NotRunnable,
		Errors: []document.Problem{}}
	if v.Err != nil {
		e.Errors, e.NotRunnable = document.Problems(v.Err), ""
	}
	return e
}

// printVerified prints a line for a file.
func (a *app) printVerified(v verify.Found, name string) {
	tone := terminal.Good
	if v.Err != nil {
		tone = terminal.Bad
	}
	s := a.screenOf(a.stdout)
	fmt.Fprintln(s.Writer(a.stdout), s.Paint(tone, v.Line(name)))
}
