package main

import (
	"context"
	"encoding/json"
	"io"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/terminal"
)

// outputFlag chooses the form of what a command answers.
type outputFlag struct {
	Output string `meant:"format" enum:"text,json" default:"text" help:"text, or json (one document at the end, also if the command fails; see docs/reference/output.md)."`
}

// answerDocument is what a command answers with --output json. One that is an io.Closer prints its
// parts as they come, and the rest when it is closed.
type answerDocument interface {
	End(code int, problems []document.Problem)
}

// answer collects what a command says with --output json. It is printed once, at the
// end, also if the command fails.
type answer struct {
	wanted   bool
	document answerDocument // nil: the command prints its own, or has failed before
	problems []document.Problem
	printed  *counted
}

// json reports whether the answer is to be one document.
func (a *app) json() bool { return a.answer != nil && a.answer.wanted }

// answers makes d the document of this command, if one is wanted.
func (a *app) answers(d answerDocument) {
	if a.json() {
		a.answer.document = d
	}
}

// documentOf is the document of this command, nil if it prints text.
func (a *app) documentOf() answerDocument {
	if !a.json() {
		return nil
	}
	return a.answer.document
}

// complain reports an error after which the command goes on.
func (a *app) complain(err error) {
	if err == nil {
		return
	}
	if a.json() {
		a.answer.problems = append(a.answer.problems, document.Problems(err)...)
	}
	a.say(terminal.Bad, campaign.Explain(err))
}

// finish prints the document of a command that has ended with err, and returns the
// exit code.
func (a *app) finish(ctx context.Context, code int, err error) int {
	if !a.json() {
		return code
	}
	x := a.answer
	if x.document == nil {
		if code == exitOK || x.printed.n > 0 {
			return code
		}
		x.document = &document.Error{Head: document.NewHead("error")}
	}
	x.document.End(code, a.problems(err))
	if c, ok := x.document.(io.Closer); ok {
		err = c.Close()
	} else {
		err = a.printJSON(x.document)
	}
	if err != nil {
		return max(code, a.code(ctx, err))
	}
	return code
}

// problems lists what the command has complained of, and then the error with which it ends.
func (a *app) problems(err error) []document.Problem {
	list := append([]document.Problem{}, a.answer.problems...)
	if err != nil && err.Error() != "" {
		list = append(list, document.Problems(err)...)
	}
	return list
}

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// counted knows how much was written.
type counted struct {
	io.Writer
	n int
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += n
	return n, err
}

// Unwrap returns the writer below.
func (c *counted) Unwrap() io.Writer { return c.Writer }
