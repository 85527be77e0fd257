package format

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/report"
)

var (
	//go:embed page.tmpl
	pageText string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string

	page = template.Must(template.New("page").Parse(pageText))
)

// PageFile is the file of a page.
func PageFile(path string) durable.Output {
	return durable.Output{Option: "--html", Path: path, Kind: "an HTML page of profllm", Ours: isPage}
}

// isPage reports whether a file begins as a page of HTML does.
func isPage(head []byte) bool {
	begin, _, _ := strings.Cut(pageText, "{{")
	return strings.HasPrefix(string(head), begin)
}

// HTML writes one page that needs nothing else: style, script and charts are in
// it, and its policy forbids any other script and every request.
func HTML(w io.Writer, r *report.Report) error {
	w = printable.NewWriter(w)
	type section struct {
		Heading string
		Group   string // number of the group, "" for all
		Lines   []string
		Tables  []htmlTable
		Charts  []template.HTML
	}
	data := struct {
		Title    string
		Policy   string
		Style    template.CSS
		Script   template.JS
		Remarks  []string
		Groups   []string
		Sections []section
	}{
		Title: pageTitle(r), Policy: policy(), Style: template.CSS(pageCSS), Script: template.JS(pageJS),
		Remarks: remarks(r), Groups: groups(r),
	}
	for _, b := range blocks(r) {
		s := section{Heading: b.heading, Group: groupNumber(data.Groups, b.group), Lines: b.lines}
		for _, t := range b.tables {
			s.Tables = append(s.Tables, t.html(data.Groups))
		}
		for _, svg := range b.charts {
			s.Charts = append(s.Charts, template.HTML(svg)) // package chart escapes what it is given
		}
		data.Sections = append(data.Sections, s)
	}
	return page.Execute(w, data)
}

// policy lets the page's own script run, by its digest, and nothing else.
func policy() string {
	sum := sha256.Sum256([]byte(pageJS))
	digest := base64.StdEncoding.EncodeToString(sum[:])
	return "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" + digest + "'"
}

// pageTitle names the scenarios.
func pageTitle(r *report.Report) string {
	names := distinct(r, func(e *report.Entry) string { return e.Case.Scenario })
	if len(names) == 0 {
		return "profllm report"
	}
	return "profllm report: " + strings.Join(names, ", ")
}

// groups lists the groups, if there is something to choose.
func groups(r *report.Report) []string {
	names := distinct(r, func(e *report.Entry) string { return e.Group })
	if len(names) < 2 {
		return nil
	}
	return names
}

// distinct are the names that runs have, each once, in the order of the runs.
func distinct(r *report.Report, of func(*report.Entry) string) []string {
	var names []string
	for i := range r.Runs {
		if n := printable.Line(of(&r.Runs[i])); n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// groupNumber is a group's place in the list, as text; "" if it is not in it.
func groupNumber(groups []string, name string) string {
	if i := slices.Index(groups, name); i >= 0 {
		return strconv.Itoa(i)
	}
	return ""
}

type htmlTable struct {
	Header []htmlCell
	Rows   []htmlRow
}

type htmlRow struct {
	Group string
	Cells []htmlCell
}

type htmlCell struct {
	Text  string
	Class string
}

func (t *table) html(groups []string) htmlTable {
	var out htmlTable
	for i, h := range t.header {
		c := htmlCell{Text: h}
		if t.numeric(i) {
			c.Class = "num"
		}
		out.Header = append(out.Header, c)
	}
	for _, row := range t.rows {
		r := htmlRow{Group: groupNumber(groups, row.group)}
		for _, c := range row.cells {
			r.Cells = append(r.Cells, htmlCell{c.text, string(c.role)})
		}
		out.Rows = append(out.Rows, r)
	}
	return out
}
