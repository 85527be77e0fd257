package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/terminal"
)

// outputFlag chooses the form of what a command answers.
type outputFlag struct {
	Output string `enum:"text,json" default:"text" help:"text, or json (one document at the end, also if the command fails; see docs/reference/output.md)."`
}

// head stands in every document.
type head struct {
	Schema   string    `json:"schema"`    // name and version of the form
	ExitCode int       `json:"exit_code"` // of the command, see [exit codes](exit-codes.md)
	Errors   []problem `json:"errors"`    // what failed; empty if nothing did, also if a job failed or a result is invalid
}

func (h *head) set(code int, problems []problem) {
	h.ExitCode, h.Errors = code, problems
}

// problem is one error of a command.
type problem struct {
	What   string `json:"what"`             // what is wrong
	File   string `json:"file,omitempty"`   // the file that it is about
	Line   int    `json:"line,omitempty"`   // in that file, 1 for the first
	Column int    `json:"column,omitempty"` // in bytes, 1 for the first
	Hint   string `json:"hint,omitempty"`   // what to do about it
}

// document is what a command answers with --output json.
type document interface {
	set(code int, problems []problem)
}

// streamed is a document that prints its parts as they come: end prints the rest.
type streamed interface{ end(w io.Writer) error }

// answer collects what a command says with --output json. It is printed once, at the
// end, also if the command fails.
type answer struct {
	wanted   bool
	document document // nil: the command prints its own, or has failed before
	problems []problem
	printed  *counted
}

// json reports whether the answer is to be one document.
func (a *app) json() bool { return a.answer != nil && a.answer.wanted }

// answers makes d the document of this command, if one is wanted.
func (a *app) answers(d document) {
	if a.json() {
		a.answer.document = d
	}
}

// documentOf is the document of this command, nil if it prints text.
func (a *app) documentOf() document {
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
		a.answer.problems = append(a.answer.problems, problems(err)...)
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
		x.document = &errorDocument{head{Schema: errorSchema}}
	}
	x.document.set(code, a.problems(err))
	if s, ok := x.document.(streamed); ok {
		err = s.end(a.stdout)
	} else {
		err = a.printJSON(x.document)
	}
	if err != nil {
		return max(code, a.code(ctx, err))
	}
	return code
}

// problems lists what the command has complained of, and then the error with which it ends.
func (a *app) problems(err error) []problem {
	list := append([]problem{}, a.answer.problems...)
	if err != nil && err.Error() != "" {
		list = append(list, problems(err)...)
	}
	return list
}

// asksJSON reports whether a command is to answer in JSON.
func asksJSON(k *kong.Context) bool {
	for _, f := range k.Flags() {
		if f.Name == "output" && slices.Contains(strings.Split(f.Enum, ","), "json") {
			return k.FlagValue(f) == "json"
		}
	}
	return false
}

// looksLikeJSON reports the same of words that are no command.
func looksLikeJSON(words []string) bool {
	i := slices.Index(words, "--output")
	return slices.Contains(words, "--output=json") || i >= 0 && i+1 < len(words) && words[i+1] == "json"
}

// problems lists the errors that one error joins.
func problems(err error) []problem {
	switch e := err.(type) {
	case *exitError:
		return problems(e.err)
	case *campaign.Error:
		return problems(e.Err)
	case interface{ WrappedErrors() []error }:
		return distinct(e.WrappedErrors())
	case interface{ Unwrap() []error }:
		if parts := e.Unwrap(); errors.Join(parts...).Error() == err.Error() { // and nothing around them
			return distinct(parts)
		}
	}
	var p problem
	text := campaign.Explain(err)
	p.What, p.Hint, _ = strings.Cut(text, "\n\thint: ")
	p.Hint = strings.ReplaceAll(p.Hint, "\n\t", "\n")
	var at *source.Error
	var path *fs.PathError
	switch {
	case errors.As(err, &at):
		p.File, p.Line, p.Column = at.Pos.File, at.Pos.Line, at.Pos.Col
		p.What = strings.TrimPrefix(p.What, at.Pos.String()+": ")
	case errors.As(err, &path):
		p.File = path.Path
	}
	return []problem{p}
}

// distinct lists the problems of errors, each once.
func distinct(errs []error) []problem {
	var list []problem
	for _, err := range errs {
		for _, p := range problems(err) {
			if !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
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
