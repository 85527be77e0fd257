// Package promtext reads the Prometheus text exposition format, line by line.
//
// It holds what a benchmark needs of it: the samples of one page, sums over
// series, and the difference of two pages of the same server. It is not a
// Prometheus client: it knows no exemplars and no native histograms, and it
// computes no quantiles.
//
//	before, err := promtext.Read(pageBefore)
//	after, err := promtext.Read(pageAfter)
//	d := promtext.Sub(before, after)
//	tokens, ok := d.Sum("vllm:generation_tokens_total")
package promtext

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/hashicorp/go-multierror"
)

// A Label is one name and value of a series, unescaped.
type Label struct {
	Name  string
	Value string
}

// A Sample is one series with its value at the time of the page.
type Sample struct {
	Name   string
	Labels []Label // in the order of the page
	Value  float64 // NaN and infinities are legal here
}

// Label returns the value of the named label, "" if the series has none.
func (s Sample) Label(name string) string {
	for _, l := range s.Labels {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}

func (s Sample) matches(want []Label) bool {
	for _, w := range want {
		if s.Label(w.Name) != w.Value {
			return false
		}
	}
	return true
}

// maxLine bounds a line; a longer one ends the page with bufio.ErrTooLong.
const maxLine = 1 << 20

// mostErrors bounds how many lines that are no samples are reported of a page.
const mostErrors = 100

// page is what a reader of a page knows so far. Lines that are no sample are skipped
// and counted as errors; the reader goes on behind them.
type page struct {
	Snapshot
	keep   func(name []byte) bool // nil: every sample
	labels []Label                // of all samples, in one piece of memory
	bad    *multierror.Error
}

// line takes the next line, the n-th. Comments are not kept, but for the types.
func (p *page) line(n int, line []byte) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	if line[0] == '#' {
		p.comment(line)
		return
	}
	if end := nameEnd(line); end > 0 && p.keep != nil && !p.keep(line[:end]) {
		return
	}
	sample, err := p.parseSample(string(line))
	switch {
	case err == nil:
		p.samples = append(p.samples, sample)
	case p.bad == nil || len(p.bad.Errors) < mostErrors:
		p.bad = multierror.Append(p.bad, fmt.Errorf("line %d: %w", n, err))
	}
}

// nameEnd is where the name of a series ends, -1 if nothing follows it.
func nameEnd[T string | []byte](line T) int {
	for i := range len(line) {
		if c := line[i]; c == '{' || c == ' ' || c == '\t' {
			return i
		}
	}
	return -1
}

var typeWord = []byte("TYPE")

// comment keeps "# TYPE name kind"; help and free comments say nothing we use.
func (p *page) comment(line []byte) {
	rest := bytes.TrimLeft(line[1:], " \t")
	if len(rest) == len(line)-1 || !bytes.HasPrefix(rest, typeWord) {
		return
	}
	if f := strings.Fields(string(rest)); len(f) == 3 && f[0] == "TYPE" {
		p.types[f[1]] = f[2]
	}
}

func (p *page) parseSample(line string) (Sample, error) {
	end := nameEnd(line)
	if end <= 0 {
		return Sample{}, fmt.Errorf("no value in %.60q", line)
	}
	s := Sample{Name: line[:end]}
	if !validName(s.Name) {
		return Sample{}, fmt.Errorf("bad metric name %.60q", s.Name)
	}
	rest := strings.TrimLeft(line[end:], " \t")
	if strings.HasPrefix(rest, "{") {
		var err error
		if s.Labels, rest, err = p.parseLabels(rest[1:]); err != nil {
			return Sample{}, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	value, at := word(rest)
	at, more := word(at)
	if value == "" || more != "" {
		return Sample{}, fmt.Errorf("%s: want a value and at most a time, got %.60q", s.Name, rest)
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return Sample{}, fmt.Errorf("%s: bad value %.60q", s.Name, value)
	}
	if at != "" {
		if _, err := strconv.ParseFloat(at, 64); err != nil {
			return Sample{}, fmt.Errorf("%s: bad time %.60q", s.Name, at)
		}
	}
	s.Value = v
	return s, nil
}

// word cuts the first word off a text, and the space around it.
func word(s string) (first, rest string) {
	s = strings.TrimLeftFunc(s, unicode.IsSpace)
	if end := strings.IndexFunc(s, unicode.IsSpace); end >= 0 {
		return s[:end], strings.TrimLeftFunc(s[end:], unicode.IsSpace)
	}
	return s, ""
}

// parseLabels reads `name="value",…}` and returns what follows the brace.
func (p *page) parseLabels(s string) ([]Label, string, error) {
	first := len(p.labels)
	for {
		s = strings.TrimLeft(s, " \t,")
		if strings.HasPrefix(s, "}") {
			if len(p.labels) == first {
				return nil, s[1:], nil
			}
			return slices.Clip(p.labels[first:]), s[1:], nil
		}
		name, after, ok := strings.Cut(s, "=")
		name = strings.TrimSpace(name)
		after = strings.TrimLeft(after, " \t")
		if !ok || !validName(name) || !strings.HasPrefix(after, `"`) {
			return nil, "", fmt.Errorf("bad label at %.60q", s)
		}
		value, rest, err := unquote(after[1:])
		if err != nil {
			return nil, "", err
		}
		p.labels = append(p.labels, Label{name, value})
		s = rest
	}
}

// unquote reads a label value up to its closing quote. The format escapes
// only the backslash, the quote and the line feed.
func unquote(s string) (value, rest string, err error) {
	end := strings.IndexAny(s, `"\`)
	if end >= 0 && s[end] == '"' {
		return s[:end], s[end+1:], nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], nil
		case c == '\\' && i+1 < len(s):
			i++
			switch s[i] {
			case 'n':
				b.WriteByte('\n')
			case '\\', '"':
				b.WriteByte(s[i])
			default:
				b.WriteByte('\\')
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", fmt.Errorf("unclosed label value %.60q", s)
}

func validName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c == ':':
		case c >= '0' && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return s != ""
}
