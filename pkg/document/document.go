// Package document holds the JSON documents that profllm prints with --output json, one type
// for each form of docs/reference/output.md. A Go program decodes what a command printed:
//
//	var jobs document.Jobs
//	err := json.Unmarshal(printed, &jobs)
//
// report, compare, trend, diff and doctor print the types of other packages: report.Report,
// report.Delta and doctor.Report.
package document

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/source"
)

// Head stands in every document.
type Head struct {
	Schema   string `json:"schema"`    // name and version of the form
	ExitCode int    `json:"exit_code"` // of the command, see [exit codes](exit-codes.md)
	// what failed; empty if nothing did, also if a job failed or a result is invalid
	Errors []Problem `json:"errors"`
}

// NewHead is the head of a form of version 1.
func NewHead(form string) Head { return Head{Schema: "profllm.output." + form + "/1"} }

// End completes a document when its command ends.
func (h *Head) End(code int, problems []Problem) { h.ExitCode, h.Errors = code, problems }

// Error is the document of a command that fails before it has an answer.
type Error struct{ Head }

// Problem is one error of a command.
type Problem struct {
	What   string `json:"what"`             // what is wrong
	File   string `json:"file,omitempty"`   // the file that it is about
	Line   int    `json:"line,omitempty"`   // in that file, 1 for the first
	Column int    `json:"column,omitempty"` // in bytes, 1 for the first
	Hint   string `json:"hint,omitempty"`   // what to do about it
}

// Problems lists the errors that one error joins. An error that only adds a kind or an exit
// code to another, and keeps its text, is the other.
func Problems(err error) []Problem {
	switch e := err.(type) {
	case interface{ WrappedErrors() []error }:
		return distinct(e.WrappedErrors())
	case interface{ Unwrap() []error }:
		if parts := e.Unwrap(); errors.Join(parts...).Error() == err.Error() { // and nothing around them
			return distinct(parts)
		}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil && inner.Error() == err.Error() {
			return Problems(inner)
		}
	}
	var p Problem
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
	return []Problem{p}
}

// distinct lists the problems of errors, each once.
func distinct(errs []error) []Problem {
	var list []Problem
	for _, err := range errs {
		for _, p := range Problems(err) {
			if !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}
	return list
}
