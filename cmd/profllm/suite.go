package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/apicheck"
	"github.com/profllm/profllm/pkg/client"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/load"
	"github.com/profllm/profllm/pkg/quantity"
	standin "github.com/profllm/profllm/pkg/sim/program"
	"github.com/profllm/profllm/pkg/suite"
	"github.com/profllm/profllm/pkg/suite/measure"
	"github.com/profllm/profllm/pkg/summary"
	"github.com/profllm/profllm/pkg/terminal"
)

type benchSuiteCmd struct {
	Names     string   `arg:"" optional:"" help:"Suites, groups of suites (${suite_groups}) or single runs, separated by commas; default: bench."`
	Flags     []string `arg:"" optional:"" passthrough:"" help:"-- and arguments of vllm bench serve for every run."`
	BaseURL   string   `name:"base-url" default:"http://127.0.0.1:8000" placeholder:"URL" help:"Server: a URL with or without /v1, HOST:PORT, or HOST (port 8000). OPENAI_API_KEY is sent as its key."`
	Model     string   `help:"Model to ask; default: the first that the server lists."`
	ResultDir string   `name:"result-dir" default:"results" placeholder:"DIR" help:"Folder for NAME_TIME with a run directory for each run."`
	Name      string   `default:"suite" help:"Name of the measurement, which groups its runs in reports."`
	Resume    string   `placeholder:"DIR" help:"Continue the measurement of this folder: keep its runs that have a result."`
	Client    string   `placeholder:"COMMAND" help:"Command that measures, such as \"vllm bench serve\", split into words as a shell would; default: profllm's client."`
	Image     string   `placeholder:"IMAGE" help:"Measure with vllm bench serve: of this machine if it has vllm, else of this image. Not with --client."`
	Runtime   string   `placeholder:"PROGRAM" enum:",${runtimes}" default:"" help:"Program that runs the image, one of ${runtimes}; default: the first that is installed."`
	Release   string   `placeholder:"VERSION" help:"Release of vLLM whose client --client or --image has, to check its arguments; default: any."`
	Cache     string   `enum:"auto,empty,keep" default:"auto" help:"Prefix cache of the server before each run: auto (emptied if the server can), empty (a run fails if it cannot), keep."`
	Parity    bool     `help:"Keep the prompt counts of the scripts that the suites are taken from; default: at least five for each request in flight."`
	ShareGPT  string   `name:"sharegpt" placeholder:"FILE" help:"Data set of suite sharegpt."`
	Sonnet    string   `name:"sonnet" placeholder:"FILE" help:"Data set of suite sonnet."`
	Insecure  bool     `help:"Do not verify the server's certificate."`
	List      bool     `help:"List the runs with their values; measure nothing."`
	outputFlag
}

// loads makes the runs that the command line names.
func (c benchSuiteCmd) loads() ([]measure.Load, error) {
	o := measure.Options{Any: c.List, Rule: suite.Prompts(c.Parity), Own: c.Client == "" && c.Image == "", Here: c.Image != "", Release: c.Release,
		Files: map[string]string{"sharegpt": c.ShareGPT, "sonnet": c.Sonnet}}
	o.Names, o.Flags = measure.Split(append([]string{c.Names}, c.Flags...))
	return measure.Plan(o)
}

// Run measures the runs one after the other, and shows their records.
func (c benchSuiteCmd) Run(ctx context.Context, a *app) error {
	if c.List {
		return c.list(a)
	}
	if c.Runtime != "" && c.Image == "" {
		return fail(exitUsage, errors.New("--runtime runs an image, and there is none\n\thint: name one with --image"))
	}
	loads, err := c.loads()
	if err != nil {
		return fail(exitUsage, err)
	}
	s, err := c.session(ctx, a)
	if err != nil {
		return err
	}
	if c.Image != "" {
		if err := c.imageClient(a, s, loads); err != nil {
			return err
		}
	}
	d := &document.Suites{Head: document.NewHead("bench-suite"), Dir: s.Dir, URL: s.URL, Model: s.Model,
		Runs: entries(loads), Results: []document.Row{}}
	a.answers(d)
	return a.alone(ctx, filepath.Join(s.Dir, ".lease"), relative(s.Dir), func(ctx context.Context) error {
		return c.measure(ctx, a, s, loads, d)
	})
}

// measure measures the runs, and shows their records.
func (c benchSuiteCmd) measure(
	ctx context.Context, a *app, s *measure.Session, loads []measure.Load, d *document.Suites,
) error {
	if c.Client != "" || c.Image != "" {
		endsByItself.Store(true) // the client has clientEnd for that, and then its container is removed
	}
	if err := s.Check(loads); err != nil {
		return fail(exitUsage, err)
	}
	if err := s.WriteParameters(loads); err != nil {
		return err
	}
	a.logf("%s, model %s: %s into %s", s.URL, s.Model, quantity.Count(len(loads), "run"), relative(s.Dir))
	failed, err := a.measureSuites(ctx, s, loads, d)
	var dirs []string
	for _, e := range d.Runs {
		if e.Dir != "" {
			dirs = append(dirs, e.Dir)
		}
	}
	if len(dirs) == 0 {
		return err
	}
	judged := a.report(context.WithoutCancel(ctx), a.openCache(dirs), dirs, nil)
	if failed > 0 && codeOf(judged) != exitJobFailed {
		judged = errors.Join(judged, exit(exitJobFailed))
	}
	if err == nil {
		a.logf("report: profllm report %s", relative(s.Dir))
	} else {
		a.logf("continue: the same command with --resume %s", relative(s.Dir))
	}
	return cmp.Or(err, judged)
}

// measureSuites measures the loads; one whose client fails does not stop the others.
func (a *app) measureSuites(
	ctx context.Context, s *measure.Session, loads []measure.Load, d *document.Suites,
) (failed int, err error) {
	for i := range loads {
		if ctx.Err() != nil {
			return failed, context.Cause(ctx)
		}
		begun, at := a.now(), fmt.Sprintf("%d/%d %s", i+1, len(loads), loads[i].Label)
		a.logf("%s", at)
		o, err := s.Measure(ctx, &loads[i])
		if err != nil {
			return failed, err
		}
		e := &d.Runs[i]
		e.Dir, e.Kept = o.Dir, o.Kept
		text := fmt.Sprintf("measured in %.1f s", a.now().Sub(begun).Seconds())
		switch {
		case o.Kept:
			text = "kept"
		case o.Failed != nil:
			failed++
			e.Error = o.Failed.Error()
			text = "failed: " + e.Error
		}
		a.logf("%s: %s", at, text)
	}
	return failed, nil
}

// Validate implements kong's interface.
func (c benchSuiteCmd) Validate() error {
	if c.Client != "" && c.Image != "" {
		return errors.New("--client and --image both say what measures; use one of them")
	}
	return nil
}

// session looks for the server, and decides where results go.
func (c benchSuiteCmd) session(ctx context.Context, a *app) (*measure.Session, error) {
	a.logf("ask the server which models it has")
	server, err := apicheck.Open(ctx, apicheck.Options{
		Address: c.BaseURL, Model: c.Model, APIKey: a.env("OPENAI_API_KEY"), Insecure: c.Insecure,
		Timeout: time.Minute, Proxy: http.ProxyFromEnvironment,
	})
	var unknown *apicheck.UnknownModelError
	switch {
	case errors.As(err, &unknown):
		return nil, fail(exitUsage, err)
	case err != nil:
		return nil, err
	}
	s := &measure.Session{
		Name: c.Name, Base: server.Base(), URL: server.URL(), Model: server.Model(), Program: "profllm bench serve",
		Now: a.now, Client: a.ownClient(c.Insecure),
	}
	if s.Host, err = os.Hostname(); err != nil {
		return nil, err
	}
	if c.Client != "" {
		words, err := config.SplitWords(c.Client)
		if err == nil && len(words) == 0 {
			err = errors.New("it has no program")
		}
		if err != nil {
			return nil, fail(exitUsage, fmt.Errorf("--client: %w", err))
		}
		s.Program, s.Client = c.Client, client.Command(words, client.Stop{Signal: os.Interrupt, Wait: clientEnd})
	}
	if s.Simulated = standin.Owns(server.Owner()); s.Simulated {
		a.logf("%s", standin.Notice)
		s.Metadata = append(s.Metadata, load.SimulatedMark)
	}
	kept, err := s.UseCache(ctx, c.Cache, server.EmptyCache)
	if err != nil {
		return nil, err
	}
	if kept != nil {
		a.logf("note: the prefix cache is kept between runs, which send the same prompts: %v\n\thint: start vLLM "+
			"with VLLM_SERVER_DEV_MODE=1, or say --cache keep", kept)
	}
	return s, c.place(a, s)
}

// place decides in which folder the runs lie.
func (c benchSuiteCmd) place(a *app, s *measure.Session) error {
	dir := c.Resume
	if dir == "" {
		dir = measure.Folder(c.ResultDir, c.Name, a.now())
	} else if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return fail(exitUsage, fmt.Errorf("--resume: there is no folder %s", dir))
	}
	var err error
	if s.Dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if c.Name != filepath.Base(c.Name) || strings.HasPrefix(c.Name, ".") {
		return fail(exitUsage, fmt.Errorf("--name %q cannot name a folder", c.Name))
	}
	return a.client().CheckFolder("--result-dir", s.Dir)
}

// ownClient is profllm's load client in this process.
func (a *app) ownClient(insecure bool) client.Client {
	return func(ctx context.Context, args []string, out io.Writer) error {
		o, err := load.ParseArgs(args)
		if err != nil {
			return err
		}
		o.Insecure = o.Insecure || insecure
		o.Again = func(ctx context.Context, more ...string) *exec.Cmd { // of this run, not of all
			words := slices.Concat([]string{"bench", "serve"}, args)
			if insecure {
				words = append(words, "--insecure")
			}
			return itself(ctx, append(words, more...)...)
		}
		return a.measure(ctx, o, time.Now, out, out)
	}
}

// list shows the runs.
func (c benchSuiteCmd) list(a *app) error {
	if c.Names == "" {
		c.Names = strings.Join(suite.Groups(), ",")
	}
	loads, err := c.loads()
	if err != nil {
		return fail(exitUsage, err)
	}
	a.answers(&document.Suites{Head: document.NewHead("bench-suite"), Runs: entries(loads), Results: []document.Row{}})
	if a.json() {
		return nil
	}
	b := summary.Block{Table: terminal.Table{Columns: []terminal.Column{
		{Name: "run"}, {Name: "data"}, {Name: "input", Right: true}, {Name: "output", Right: true},
		{Name: "requests/s", Right: true}, {Name: "in flight", Right: true}, {Name: "prompts", Right: true},
	}}}
	for i := range loads {
		b.Table.Row(summary.Cells(shown(&loads[i])...)...)
	}
	return a.printBlocks(b)
}

// shown are the values of a run in the table.
func shown(l *measure.Load) []any {
	values := l.Arguments.Plain()
	first := func(keys ...string) any {
		for _, key := range keys {
			if v, ok := values[key]; ok {
				return v
			}
		}
		return "–"
	}
	name, _ := l.Arguments.Get("dataset_name").Text()
	return []any{l.Name, name,
		first("random_input_len", name+"_input_len", "prefix_repetition_suffix_len"),
		first("random_output_len", name+"_output_len", "output_len"),
		first("request_rate"), first("max_concurrency"), first("num_prompts")}
}

// entries are the runs of a document.
func entries(loads []measure.Load) []document.SuiteEntry {
	list := []document.SuiteEntry{}
	for i := range loads {
		l := &loads[i]
		list = append(list, document.SuiteEntry{Suite: l.Suite, Run: l.Name, Label: l.Label, Arguments: l.Arguments.Plain()})
	}
	return list
}
