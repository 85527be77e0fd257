package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/summary"
	"github.com/profllm/profllm/pkg/terminal"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

type argsCmd struct {
	List  argsListCmd  `cmd:"" help:"List the options of a release."`
	Show  argsShowCmd  `cmd:"" help:"Show an option in all releases: kind, choices, limits, default."`
	Check argsCheckCmd `cmd:"" help:"Check a command line of vllm serve or vllm bench serve as a release's own parser does; exit with 2 if it refuses it."`
	Diff  argsDiffCmd  `cmd:"" help:"List the options that differ between two releases."`

	Capture argsCaptureCmd `cmd:"" help:"Compare the options that an installed vLLM has with those that profllm knows of its release."`
}

// ofFlag names the program whose options are asked for.
type ofFlag struct {
	Of string `enum:"serve,bench" default:"serve" help:"Program: serve, for vllm serve, or bench, for the load client vllm bench serve."`
}

func (f ofFlag) program() *arguments.Program {
	if f.Of == "bench" {
		return arguments.BenchServe
	}
	return arguments.Serve
}

type argsListCmd struct {
	ofFlag
	Release string `placeholder:"VERSION" help:"Release of vLLM, such as 0.11; default: the newest that profllm knows."`
	Match   string `placeholder:"TEXT" help:"Only options whose name or summary has this text."`
	outputFlag
}

// Run lists what one release has.
func (c argsListCmd) Run(ctx context.Context, a *app) error {
	p := c.program()
	release, err := p.One(cmp.Or(c.Release, p.Newest().Version))
	if err != nil {
		return fail(exitUsage, err)
	}
	d := document.Options{Head: document.NewHead("args-list"), Release: release.Version}
	t := terminal.Table{Columns: []terminal.Column{{Name: "option"}, {Name: "kind"}, {Name: "default"}, {Name: "accepts"}, {Name: "summary"}}}
	for _, o := range p.Options() {
		f, ok := o.FormAt(release.Version)
		if !ok || !strings.Contains(strings.ToLower(o.Name+" "+o.Summary), strings.ToLower(c.Match)) {
			continue
		}
		d.Options = append(d.Options, o)
		t.Row(summary.Cells(o.Name, f.Kind(), f.Preset(), f.Accepts(), o.Summary)...)
	}
	if a.json() {
		a.answers(&d)
		return nil
	}
	what := "option"
	if p == arguments.BenchServe {
		what = "bench option"
	}
	return a.printBlocks(summary.Block{Table: t, Lines: []string{fmt.Sprintf("%s of vLLM %s", quantity.Count(len(d.Options), what), release.Version)}})
}

type argsShowCmd struct {
	ofFlag
	outputFlag
	Name []string `arg:"" passthrough:"" help:"Option, such as max_num_seqs, max-num-seqs or tp."`
}

// Run shows one option of all releases.
func (c argsShowCmd) Run(ctx context.Context, a *app) error {
	o, err := c.program().Lookup(strings.Join(c.Name, "")) // kong takes -tp apart
	if err != nil {
		return fail(exitUsage, err)
	}
	if a.json() {
		a.answers(&document.Options{Head: document.NewHead("args-show"), Options: []arguments.Option{o}})
		return nil
	}
	t := terminal.Table{Columns: []terminal.Column{{Name: "releases"}, {Name: "kind"}, {Name: "default"}, {Name: "accepts"}}}
	for _, f := range o.Forms {
		until := "…"
		if f.Until != "" {
			until = "before " + f.Until
		}
		t.Row(summary.Cells(f.Since+" "+until, f.Kind(), f.Preset(), f.Accepts())...)
	}
	lines := []string{strings.TrimSpace(o.Name + "  " + o.Summary)}
	if names := o.Forms[len(o.Forms)-1].Names; names != nil {
		lines = append(lines, "spellings: "+strings.Join(names, ", "))
	}
	if names := memberNames(o, c.program().Newest().Version); names != nil {
		lines = append(lines, "members: "+strings.Join(names, ", "))
	}
	if o.Removed() != "" {
		lines = append(lines, o.Removal())
	}
	return a.printBlocks(summary.Block{Table: t, Lines: lines})
}

// memberNames are the members of an option's JSON object in a release.
func memberNames(o arguments.Option, version string) (names []string) {
	for _, m := range o.Members() {
		if _, ok := m.FormAt(version); ok {
			names = append(names, m.Name)
		}
	}
	return names
}

type argsCheckCmd struct {
	ofFlag
	Release string   `placeholder:"VERSION" help:"Release of vLLM; default: the newest that profllm knows."`
	Args    []string `arg:"" passthrough:"" help:"The command line, or what stands behind vllm serve: the model, then options."`
}

// Run checks a command line.
func (c argsCheckCmd) Run(ctx context.Context, a *app) error {
	p, words := c.program(), c.Args
	for _, named := range []*arguments.Program{arguments.Serve, arguments.BenchServe} {
		if called := strings.Fields(named.Name); len(words) > len(called) && slices.Equal(words[:len(called)], called) {
			p, words = named, words[len(called):]
		}
	}
	release, err := p.One(cmp.Or(c.Release, p.Newest().Version))
	if err != nil {
		return fail(exitUsage, err)
	}
	warnings, err := release.Check(words)
	for _, w := range warnings {
		a.logf("warning: %s", w)
	}
	if err != nil {
		return fail(exitUsage, err)
	}
	return a.printLine("ok: vLLM " + release.Version + " takes it")
}

type argsDiffCmd struct {
	ofFlag
	From string `arg:"" help:"Release of vLLM, such as 0.10.2."`
	To   string `arg:"" help:"Another release."`
	outputFlag
}

// Run lists what differs between two releases.
func (c argsDiffCmd) Run(ctx context.Context, a *app) error {
	from, err := c.program().One(c.From)
	if err != nil {
		return fail(exitUsage, err)
	}
	to, err := c.program().One(c.To)
	if err != nil {
		return fail(exitUsage, err)
	}
	changes := c.program().Changes(from, to)
	if a.json() {
		a.answers(&document.OptionChanges{Head: document.NewHead("args-diff"), Changes: changes})
		return nil
	}
	return a.printBlocks(changesBlock(changes, fmt.Sprintf("%s from vLLM %s to %s", quantity.Count(len(changes), "difference"),
		from.Version, to.Version)))
}
