// Package format writes what package report concludes: for people as text, Markdown and
// one HTML page that needs no network; for other programs as CSV, JSON, JUnit's XML,
// Prometheus' text and a CSV for Apache Otava. It concludes nothing: every verdict and
// every number is the report's.
//
//	rep := report.Build(runs, report.Options{})
//	err := format.Text(os.Stdout, rep)
package format

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/report"
)

// Write writes the report in the format of that name: text, json, csv, markdown,
// prometheus.
func Write(w io.Writer, r *report.Report, name string) error {
	w = printable.NewWriter(w)
	switch name {
	case "text":
		return Text(w, r)
	case "json":
		return JSON(w, r)
	case "csv":
		return CSV(w, r)
	case "markdown":
		return Markdown(w, r)
	case "prometheus":
		return Prometheus(w, r)
	}
	return fmt.Errorf("unknown format %q", name)
}

// JSON writes the report as one object.
func JSON(w io.Writer, r *report.Report) error { return object(w, r) }

// object writes a value as one object in JSON.
func object(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
