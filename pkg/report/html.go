package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/printable"
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

// HTML writes one page that needs nothing else: style, script and charts are in
// it, and its policy forbids any other script and every request.
func (r *Report) HTML(w io.Writer) error {
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
		Title: r.title(), Policy: policy(), Style: template.CSS(pageCSS), Script: template.JS(pageJS),
		Remarks: r.remarks(), Groups: r.groups(),
	}
	for _, b := range r.blocks() {
		s := section{Heading: b.heading, Group: number(data.Groups, b.group), Lines: b.lines}
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
	return "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// title names the scenarios.
func (r *Report) title() string {
	var names []string
	for _, e := range r.Runs {
		if n := printable.Line(e.Case.Scenario); n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return "profllm report"
	}
	return "profllm report: " + strings.Join(names, ", ")
}

// groups lists the groups, if there is something to choose.
func (r *Report) groups() []string {
	var names []string
	for _, e := range r.Runs {
		if n := printable.Line(e.Group); n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if len(names) < 2 {
		return nil
	}
	return names
}

// number is a group's place in the list, as text; "" if it is not in it.
func number(groups []string, name string) string {
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

func (t table) html(groups []string) htmlTable {
	var out htmlTable
	for i, h := range t.header {
		c := htmlCell{Text: h}
		if first := t.first(); i < len(first) && (first[i].role == num || first[i].role == best) {
			c.Class = "num"
		}
		out.Header = append(out.Header, c)
	}
	for _, row := range t.rows {
		r := htmlRow{Group: number(groups, row.group)}
		for _, c := range row.cells {
			r.Cells = append(r.Cells, htmlCell{c.text, string(c.role)})
		}
		out.Rows = append(out.Rows, r)
	}
	return out
}
