package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

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
	Runnable bool     `help:"Exit with 3 also if a file is in order, but cannot run."`
	Paths    []string `arg:"" meant:"test-scenario" help:"System, test and scenario files, or folders of them."`
}

// Run checks each file by its kind. With --system, scenarios are planned as well.
func (c verifyCmd) Run(ctx context.Context, a *app) error {
	names, missing := verify.Files(c.Paths)
	if len(names) == 0 {
		return fail(exitUsage, errors.Join(missing...))
	}
	doc := &document.Verify{Head: document.NewHead("verify"), Files: []document.FileEntry{}}
	a.answers(doc)
	a.client().Events = campaign.NotesOnce(a.client().Events)
	check, unfit := c.verifier(ctx, a)
	doc.SizesChecked = check.Plan != nil
	ofSystem := func(name string) bool { return sameFile(name, c.System) && check.File(name).Err != nil }
	if !slices.ContainsFunc(names, ofSystem) {
		a.complain(unfit) // else the file's own line says it
	}
	var n verify.Tally
	unsized := false
	for _, name := range names {
		v := check.File(name)
		doc.Files = append(doc.Files, fileEntry(name, v))
		unsized = unsized || v.Kind == "scenario" && v.Err == nil && v.NotRunnable == "" && !doc.SizesChecked
		if !a.json() {
			a.printVerified(v, name)
		}
		if n.Add(v); v.Err != nil {
			a.logf("%s", campaign.Explain(v.Err))
		}
	}
	switch {
	case !unsized || a.json():
	case unfit != nil:
		a.logf("note: sizes were not checked (nodes, GPUs, ports), because no plan can be made with these options")
	default:
		a.logf("note: sizes were not checked (nodes, GPUs, ports): they depend on the cluster; add --system FILE")
	}
	for _, err := range missing { // behind the files, which decide the exit code
		a.complain(err)
	}
	idle := n.Idle+n.Part > 0
	switch {
	case idle && c.Runnable:
		return fail(exitDefinition, fmt.Errorf("%s; with --runnable, files that are not runnable count as failures", n))
	case n.Bad > 0:
		return fail(exitDefinition, errors.New(n.String()))
	case idle && !a.json():
		a.logf("%s", n)
	}
	switch {
	case unfit != nil:
		return exit(codeOf(unfit))
	case len(missing) > 0:
		return exit(exitUsage)
	}
	return nil
}

// verifier checks files, and plans scenarios if --system is given. The error says why no
// scenario can be planned with these options.
func (c verifyCmd) verifier(ctx context.Context, a *app) (verify.Verifier, error) {
	check := verify.Verifier{Folders: definition.Folders(c.definitionFlags)}
	if c.System == "" {
		return check, nil
	}
	flags := planFlags{makeFlags: makeFlags{siteFlags: c.siteFlags, definitionFlags: c.definitionFlags}}
	o, err := flags.options(false)
	if err == nil {
		err = a.client().CanPlan(ctx, o)
	}
	if err != nil {
		return check, err
	}
	check.Plan = func(name string) error {
		_, err := a.client().Plan(ctx, name, o)
		return err
	}
	return check, nil
}

// sameFile reports whether two paths name one file.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// fileEntry is the file in the document.
func fileEntry(name string, v verify.Found) document.FileEntry {
	e := document.FileEntry{File: name, Kind: v.Kind, OK: v.Err == nil, NotRunnable: v.NotRunnable,
		TestsNotRunnable: v.Tests, Errors: []document.Problem{}}
	if v.Err != nil {
		e.Errors, e.NotRunnable, e.TestsNotRunnable = document.Problems(v.Err), "", nil
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
