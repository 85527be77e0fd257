package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/terminal"
	"github.com/profllm/profllm/pkg/verify"
)

type verifyCmd struct {
	siteFlags
	definitionFlags
	outputFlag
	Paths []string `arg:"" help:"System, test and scenario files, or folders of them."`
}

// Run checks each file by its kind. With --system, scenarios are planned as well.
func (c verifyCmd) Run(ctx context.Context, a *app) error {
	names, missing := verify.Files(c.Paths)
	if len(names) == 0 {
		return fail(exitUsage, errors.Join(missing...))
	}
	doc := &document.Verify{Head: document.NewHead("verify"), Files: []document.FileEntry{}, SizesChecked: c.System != ""}
	a.answers(doc)
	a.client().Events = &saidOnce{Events: a.client().Events, notes: map[string]bool{}}
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
		return fail(exitDefinition, errors.New(verifiedText(len(names), bad, idle)))
	}
	if idle > 0 && !a.json() {
		a.logf("%s", verifiedText(len(names), bad, idle))
	}
	if len(missing) > 0 {
		return exit(exitUsage)
	}
	return nil
}

// verifiedText counts the files that are bad and those that are in order and cannot run.
func verifiedText(files, bad, idle int) string {
	of := fmt.Sprintf(" of %s ", quantity.Count(files, "file"))
	switch {
	case bad == 0:
		return fmt.Sprintf("%d%snot runnable", idle, of)
	case idle > 0:
		return fmt.Sprintf("%d%sbad, %d not runnable", bad, of, idle)
	}
	return fmt.Sprintf("%d%sbad", bad, of)
}

// saidOnce leaves out notes that were said before: those on the system file come with
// every scenario that is planned on it.
type saidOnce struct {
	campaign.Events
	notes map[string]bool
}

// Say implements campaign.Events.
func (o *saidOnce) Say(l campaign.Level, text string) {
	if l == campaign.Note && o.notes[text] {
		return
	}
	o.notes[text] = true
	o.Events.Say(l, text)
}

// verifiedLine is the line of a file.
func verifiedLine(name string, v verify.Found) string {
	switch {
	case v.Err != nil:
		return fmt.Sprintf("bad  %-8s %s", v.Kind, name)
	case v.NotRunnable != "":
		return fmt.Sprintf("ok   %-8s %s: not runnable: %s", v.Kind, name, v.NotRunnable)
	}
	return fmt.Sprintf("ok   %-8s %s", v.Kind, name)
}

// fileEntry is the file in the document.
func fileEntry(name string, v verify.Found) document.FileEntry {
	e := document.FileEntry{File: name, Kind: v.Kind, OK: v.Err == nil, NotRunnable: v.NotRunnable, Errors: []document.Problem{}}
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
	fmt.Fprintln(s.Writer(a.stdout), s.Paint(tone, verifiedLine(name, v)))
}
