package story

import (
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// cause names the cause, how sure it is, and where it shows.
func cause(f *result.Failure) string {
	text := f.Cause
	switch f.Confidence {
	case result.FromSymptom:
		text += " (the first thing that went wrong; no log says what led to it)"
	case result.FromState:
		text += " (from how it ended)"
	case result.NoCause:
		text = "unknown, no signature knows it; it shows"
	}
	if f.Kind != "" {
		text += ", " + strings.TrimSuffix(f.Kind+": "+f.About, ": ")
	}
	if f.Role != "" {
		text += in(f.Role)
	}
	if f.Rank != "" {
		text += ", rank " + f.Rank
	}
	if f.Node != "" {
		text += ", on " + f.Node
	}
	return text + at(f.File, f.LineNumber)
}

func at(file string, line int) string {
	switch {
	case file == "":
		return ""
	case line == 0:
		return ": " + file
	}
	return fmt.Sprintf(": %s:%d", file, line)
}

// followers lists the other causes.
func followers(f *result.Failure) []string {
	var parts []string
	if f != nil {
		for _, o := range f.Others {
			if o.Cause == f.Cause {
				continue // the same, told again elsewhere
			}
			parts = append(parts, o.Cause+in(o.Role)+at(o.File, o.LineNumber))
		}
	}
	return parts
}

func in(role string) string {
	if role == "" {
		return ""
	}
	return " in " + role
}
