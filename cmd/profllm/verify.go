package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/terminal"
)

type verifyCmd struct {
	siteFlags
	definitionFlags
	outputFlag
	Paths []string `arg:"" help:"System, test and scenario files, or folders of them."`
}

// Run checks each file by its kind: a system file has the key scheduler, a
// scenario [[Tests]], and everything else is a test. With --system, scenarios are
// planned as well.
func (c verifyCmd) Run(ctx context.Context, a *app) error {
	names, err := definitionFiles(c.Paths)
	if err != nil {
		return fail(exitUsage, err)
	}
	doc := &document.Verify{Head: document.NewHead("verify"), Files: []document.FileEntry{}, SizesChecked: c.System != ""}
	a.answers(doc)
	a.client().Events = &saidOnce{Events: a.client().Events, notes: map[string]bool{}}
	bad, idle, unsized := 0, 0, false
	for _, name := range names {
		v := c.check(ctx, a, name)
		doc.Files = append(doc.Files, v.entry(name))
		unsized = unsized || v.kind == "scenario" && v.err == nil && v.unsupported == "" && c.System == ""
		if !a.json() {
			a.printVerified(v, name)
		}
		switch {
		case v.err != nil:
			bad++
			a.logf("%s", campaign.Explain(v.err))
		case v.unsupported != "":
			idle++
		}
	}
	if unsized && !a.json() {
		a.logf("note: sizes were not checked (nodes, GPUs, ports): they depend on the cluster; add --system FILE")
	}
	if bad > 0 {
		return fail(exitDefinition, errors.New(verifiedText(len(names), bad, idle)))
	}
	if idle > 0 && !a.json() {
		a.logf("%s", verifiedText(len(names), bad, idle))
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

// verified is what verify found in a file.
type verified struct {
	kind        string // system, scenario, test; file if that is not known
	unsupported string // why it cannot run, "" if it can
	err         error
}

func (v verified) line(name string) string {
	switch {
	case v.err != nil:
		return fmt.Sprintf("bad  %-8s %s", v.kind, name)
	case v.unsupported != "":
		return fmt.Sprintf("ok   %-8s %s: not runnable: %s", v.kind, name, v.unsupported)
	}
	return fmt.Sprintf("ok   %-8s %s", v.kind, name)
}

// entry is the file in the document.
func (v verified) entry(name string) document.FileEntry {
	e := document.FileEntry{File: name, Kind: v.kind, OK: v.err == nil, NotRunnable: v.unsupported, Errors: []document.Problem{}}
	if v.err != nil {
		e.Errors, e.NotRunnable = document.Problems(v.err), ""
	}
	return e
}

// definitionFiles are the files named, and every TOML file below the folders named.
func definitionFiles(paths []string) ([]string, error) {
	var names []string
	for _, path := range paths {
		found := 0
		err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && (name == path || strings.HasSuffix(name, ".toml")) {
				names = append(names, name)
				found++
			}
			return err
		})
		switch {
		case err != nil:
			return nil, err
		case found == 0:
			return nil, fmt.Errorf("%s: there is no TOML file in this folder", path)
		}
	}
	return names, nil
}

func (c verifyCmd) check(ctx context.Context, a *app, name string) verified {
	data, err := regular.ReadFile(name)
	if err != nil {
		return verified{kind: "file", err: err}
	}
	file := scenario.File{Name: name, Data: data}
	kind, err := scenario.Kind(file)
	if err != nil {
		return verified{kind: "file", err: err}
	}
	v := verified{kind: kind}
	var tests []scenario.Test
	switch kind {
	case "system":
		_, v.err = campaign.ParseSystem(name, data)
	case "test":
		var t *scenario.Test
		if t, v.err = scenario.LoadTest(file); v.err == nil {
			tests = []scenario.Test{*t}
		}
	default:
		var s *scenario.Scenario
		if s, _, v.err = definition.Load(name, definition.Folders(c.definitionFlags)); v.err == nil {
			tests = s.All()
		}
	}
	if v.err != nil {
		return v
	}
	v.unsupported = planner.NotRunnable(tests...)
	if kind == "scenario" && c.System != "" && v.unsupported == "" {
		_, v.err = a.plan(ctx, name, planFlags{makeFlags: makeFlags{siteFlags: c.siteFlags, definitionFlags: c.definitionFlags}}, false)
		return v
	}
	var complaints source.Complaints
	for _, t := range tests {
		complaints.Add(planner.Check(t))
	}
	v.err = complaints.Err()
	return v
}

// printVerified prints a line for a file.
func (a *app) printVerified(v verified, name string) {
	tone := terminal.Good
	if v.err != nil {
		tone = terminal.Bad
	}
	s := a.screenOf(a.stdout)
	fmt.Fprintln(onScreen(a.stdout, s), s.Paint(tone, v.line(name)))
}
