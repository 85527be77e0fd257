package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/apicheck"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/summary"
	"github.com/profllm/profllm/pkg/terminal"
)

type checkCmd struct {
	URL      string        `arg:"" name:"url" help:"Server: a URL with or without /v1, HOST:PORT, or HOST (port 8000). OPENAI_API_KEY is sent as its key."`
	Only     []string      `placeholder:"CHECK" help:"Only these checks, by number or name: ${api_checks}."`
	Model    string        `help:"Model to ask; default: the first that the server lists."`
	Timeout  time.Duration `default:"60s" help:"Time for one check."`
	Insecure bool          `help:"Do not verify the server's certificate."`
	outputFlag
}

// Run asks a server, and fails if an answer is not as the API promises.
func (c checkCmd) Run(ctx context.Context, a *app) error {
	checks, err := apicheck.Select(c.Only)
	if err != nil {
		return fail(exitUsage, fmt.Errorf("--only: %w", err))
	}
	if c.Timeout <= 0 {
		return fail(exitUsage, fmt.Errorf("--timeout is %s, but must be above 0", c.Timeout))
	}
	if _, err := os.Stat(c.URL); err == nil || strings.HasSuffix(c.URL, ".toml") {
		return fail(exitUsage, fmt.Errorf("%s names a file, not a server\n\thint: did you mean \"profllm verify\"?", c.URL))
	}
	if _, err := apicheck.Base(c.URL); err != nil {
		return fail(exitUsage, err)
	}
	server, err := apicheck.Open(ctx, apicheck.Options{
		Address: c.URL, Model: c.Model, APIKey: a.env("OPENAI_API_KEY"), Insecure: c.Insecure, Timeout: c.Timeout,
		Proxy: http.ProxyFromEnvironment,
	})
	var unknown *apicheck.UnknownModelError
	switch {
	case errors.As(err, &unknown):
		return fail(exitUsage, err)
	case err != nil:
		return err
	}
	outcomes, err := server.Run(ctx, checks)
	doc := document.NewCheck(server.URL(), server.Model(), outcomes)
	a.answers(doc)
	if !a.json() && len(outcomes) > 0 {
		err = errors.Join(err, a.printBlocks(checked(doc)))
	}
	if err != nil {
		return err
	}
	if doc.Failed > 0 {
		return exit(exitInternal)
	}
	return nil
}

// apiChecks lists the checks with their numbers, for the help.
func apiChecks() string {
	var names []string
	for _, c := range apicheck.Checks() {
		names = append(names, fmt.Sprintf("%d %s", c.Number, c.Name))
	}
	return strings.Join(names, ", ")
}

// checked shows the checks as a table, with the requests of those that failed below it.
func checked(d *document.Check) summary.Block {
	b := summary.Block{Table: terminal.Table{Columns: []terminal.Column{
		{Name: "#", Right: true}, {Name: "check"}, {Name: ""}, {Name: "answer"},
	}}}
	for _, c := range d.Checks {
		verdict := terminal.Cell{Text: "ok", Tone: terminal.Good}
		if !c.Passed {
			verdict = terminal.Cell{Text: "failed", Tone: terminal.Bad}
			b.Lines = append(b.Lines, c.Name+": "+c.Failure())
		}
		b.Table.Row(summary.Cells(c.Number, c.Name, verdict, c.Came)...)
	}
	verdict := fmt.Sprintf("%s passed", quantity.Count(d.Passed, "check"))
	if d.Failed > 0 {
		verdict = fmt.Sprintf("%d of %s failed", d.Failed, quantity.Count(len(d.Checks), "check"))
	}
	b.Lines = append(b.Lines, fmt.Sprintf("%s: %s, model %s", d.URL, verdict, d.Model))
	return b
}
