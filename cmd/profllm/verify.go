package main

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/printable"
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
	doc := &verifyDocument{head: head{Schema: "profllm.output.verify/1"}, Files: []fileEntry{}}
	a.answers(doc)
	bad := 0
	for _, name := range names {
		kind, err := c.check(ctx, a, name)
		doc.add(name, kind, err)
		word := "ok"
		if err != nil {
			bad++
			word = "bad"
		}
		if !a.json() {
			a.printVerified(word, kind, name)
		}
		if err != nil {
			a.logf("%v", err)
		}
	}
	if bad > 0 {
		return fail(exitDefinition, fmt.Errorf("%d of %s bad", bad, quantity.Count(len(names), "file")))
	}
	return nil
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
			return nil, fmt.Errorf("%s: no TOML file in it", path)
		}
	}
	return names, nil
}

func (c verifyCmd) check(ctx context.Context, a *app, name string) (kind string, err error) {
	data, err := regular.ReadFile(name)
	if err != nil {
		return "file", err
	}
	file := scenario.File{Name: name, Data: data}
	switch kind, err = scenario.Kind(file); {
	case err != nil:
		return "file", err
	case kind == "system":
		_, err = campaign.ParseSystem(name, data)
	case kind == "test":
		var t *scenario.Test
		if t, err = scenario.LoadTest(file); err == nil {
			err = a.workloads(*t)
		}
	case c.System != "":
		_, err = a.plan(ctx, name, planFlags{makeFlags: makeFlags{siteFlags: c.siteFlags, definitionFlags: c.definitionFlags}}, false)
	default:
		var s *scenario.Scenario
		if s, _, err = definition.Load(name, definition.Folders(c.definitionFlags)); err == nil {
			err = a.workloads(s.All()...)
		}
	}
	return kind, err
}

// workloads checks what can be checked of tests without a cluster, and notes each
// whose workload is not run yet.
func (a *app) workloads(tests ...scenario.Test) error {
	var c source.Complaints
	for _, t := range tests {
		c.Add(planner.Check(t))
		if note, _ := catalog.Template(&t); note != "" {
			a.logf("note: %s", note)
		}
	}
	return c.Err()
}

// printVerified prints a line for a file.
func (a *app) printVerified(word, kind, name string) {
	tone := terminal.Good
	if word != "ok" {
		tone = terminal.Bad
	}
	s := a.screenOf(a.stdout)
	fmt.Fprintf(onScreen(a.stdout, s), "%s %-8s %s\n", s.Paint(tone, fmt.Sprintf("%-4s", word)), kind, printable.Line(name))
}
