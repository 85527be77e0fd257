package format

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/inline"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/quantity"
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

// Page is a page of HTML that needs nothing else.
type Page struct {
	// Link is the relative path, as a URL, from the page to a run's directory; "" for none. A nil
	// function links nothing.
	Link func(dir string) string
	// Views adds the dashboard's views of the runs, for a reader whose browser runs scripts.
	Views bool
}

// section is a block of the page.
type section struct {
	ID      string
	Heading string
	Group   string // number of the group, "" for all
	Answers []htmlAnswer
	Lines   []string
	Tables  []htmlTable
	Charts  []template.HTML
	Absent  string
	CloudAI bool
	First   bool // of CloudAI's
}

type htmlAnswer struct {
	Label, Class, Text string
	Links              []htmlLink
}

type htmlLink struct{ Text, Href string }

// pageData is what the template shows.
type pageData struct {
	Title    string
	Policy   string
	Style    template.CSS
	Script   template.JS
	Remarks  []string
	Groups   []string
	Sections []section
	Views    *views
}

// views is what the dashboard's views need.
type views struct {
	Runs   string // how many
	Style  template.CSS
	Script template.JS
	Data   template.JS
}

// Write writes one page that needs nothing else: style, scripts, charts and data are in it, and its
// policy forbids any other script and every request. Without the scripts, nothing but the choice
// of a group and the views is missing.
func (p Page) Write(w io.Writer, r *report.Report) error {
	w = printable.NewWriter(w)
	data := pageData{
		Title: pageTitle(r), Policy: policy(pageJS), Style: template.CSS(pageCSS), Script: template.JS(pageJS),
		Remarks: remarks(r), Groups: groups(r),
	}
	if p.Views && len(r.Runs) > 0 {
		var err error
		if data.Views, err = p.views(r); err != nil {
			return err
		}
		data.Policy = policy(pageJS, inline.Script)
	}
	for i, b := range blocks(r) {
		s := section{
			ID: "s" + strconv.Itoa(i), Heading: b.heading, Group: groupNumber(data.Groups, b.group), Lines: b.lines,
			Absent: b.absent, CloudAI: b.cloudai,
		}
		s.First = b.cloudai && (i == 0 || !data.Sections[i-1].CloudAI)
		for _, a := range b.answers {
			s.Answers = append(s.Answers, p.answer(a))
		}
		for _, t := range b.tables {
			s.Tables = append(s.Tables, p.table(&t, data.Groups))
		}
		for _, svg := range b.charts {
			s.Charts = append(s.Charts, template.HTML(svg)) // package chart escapes what it is given
		}
		data.Sections = append(data.Sections, s)
	}
	return page.Execute(w, data)
}

// views packs the runs for the dashboard's views.
func (p Page) views(r *report.Report) (*views, error) {
	runs := make([]inline.Run, len(r.Runs))
	for i := range r.Runs {
		runs[i] = inline.Run{Run: r.Runs[i].Run, Link: p.link(r.Runs[i].Dir)}
	}
	data, err := inline.Pack(runs)
	if err != nil {
		return nil, fmt.Errorf("pack the runs of the page: %w", err)
	}
	return &views{
		Runs: quantity.Count(len(runs), "run"), Style: template.CSS(inline.Style), Script: template.JS(inline.Script),
		Data: template.JS(data),
	}, nil
}

// answer links an answer to the runs that it is about.
func (p Page) answer(a answer) htmlAnswer {
	const most = 4
	out := htmlAnswer{Label: a.label, Class: strings.ToLower(strings.ReplaceAll(a.label, " ", "-")), Text: a.text}
	for _, dir := range a.dirs[:min(most, len(a.dirs))] {
		if href := p.link(dir); href != "" {
			out.Links = append(out.Links, htmlLink{printable.Line(dir), href})
		}
	}
	return out
}

// link is the link to a run's directory, "" for none.
func (p Page) link(dir string) string {
	if p.Link == nil || dir == "" {
		return ""
	}
	return p.Link(dir)
}

// policy lets the page's own scripts run, by their digests, and nothing else.
func policy(scripts ...string) string {
	text := "default-src 'none'; style-src 'unsafe-inline'; script-src"
	for _, s := range scripts {
		sum := sha256.Sum256([]byte(s))
		text += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return text
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

// longCell is how many runes stay on one line.
const longCell = 56

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
	Href  string
}

func (p Page) table(t *table, groups []string) htmlTable {
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
		for i, c := range row.cells {
			cell := htmlCell{Text: c.text, Class: string(c.role)}
			if i == 0 {
				cell.Href = p.link(row.dir)
			}
			if len([]rune(c.text)) > longCell {
				cell.Class = strings.TrimSpace(cell.Class + " long")
			}
			r.Cells = append(r.Cells, cell)
		}
		out.Rows = append(out.Rows, r)
	}
	return out
}
