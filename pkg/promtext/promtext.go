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
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

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

// maxLine bounds a line; longer ones end the scan with bufio.ErrTooLong.
const maxLine = 1 << 20

// mostErrors bounds how many lines that are no samples are reported of a page.
const mostErrors = 100

// A Scanner reads samples from a page. Lines that are no sample are skipped
// and counted as errors; the scan goes on behind them.
type Scanner struct {
	lines  *bufio.Scanner
	line   int
	sample Sample
	types  map[string]string
	keep   func(name []byte) bool // nil: every sample
	bad    *multierror.Error
}

// NewScanner returns a Scanner that reads r.
func NewScanner(r io.Reader) *Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	return &Scanner{lines: lines, types: map[string]string{}}
}

// Scan advances to the next sample and reports whether there is one.
func (s *Scanner) Scan() bool {
	for s.lines.Scan() {
		s.line++
		line := bytes.TrimSpace(s.lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if line[0] == '#' {
			s.comment(string(line))
			continue
		}
		if end := bytes.IndexAny(line, "{ \t"); end > 0 && s.keep != nil && !s.keep(line[:end]) {
			continue
		}
		sample, err := parseSample(string(line))
		if err != nil {
			if s.bad == nil || len(s.bad.Errors) < mostErrors {
				s.bad = multierror.Append(s.bad, fmt.Errorf("line %d: %w", s.line, err))
			}
			continue
		}
		s.sample = sample
		return true
	}
	return false
}

// Sample returns the sample of the last Scan.
func (s *Scanner) Sample() Sample { return s.sample }

// Err returns the lines that were no samples, at most 100, and the error that ended the
// scan if it was not the end of the input.
func (s *Scanner) Err() error {
	if err := s.lines.Err(); err != nil {
		return multierror.Append(s.bad, fmt.Errorf("line %d: %w", s.line+1, err)).ErrorOrNil()
	}
	return s.bad.ErrorOrNil()
}

// comment keeps "# TYPE name kind"; help and free comments say nothing we use.
func (s *Scanner) comment(line string) {
	if f := strings.Fields(line); len(f) == 4 && f[0] == "#" && f[1] == "TYPE" {
		s.types[f[2]] = f[3]
	}
}

func parseSample(line string) (Sample, error) {
	end := strings.IndexAny(line, "{ \t")
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
		if s.Labels, rest, err = parseLabels(rest[1:]); err != nil {
			return Sample{}, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	f := strings.Fields(rest)
	if len(f) != 1 && len(f) != 2 {
		return Sample{}, fmt.Errorf("%s: want a value and at most a time, got %.60q", s.Name, rest)
	}
	v, err := strconv.ParseFloat(f[0], 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return Sample{}, fmt.Errorf("%s: bad value %.60q", s.Name, f[0])
	}
	if len(f) == 2 {
		if _, err := strconv.ParseFloat(f[1], 64); err != nil {
			return Sample{}, fmt.Errorf("%s: bad time %.60q", s.Name, f[1])
		}
	}
	s.Value = v
	return s, nil
}

// parseLabels reads `name="value",…}` and returns what follows the brace.
func parseLabels(s string) ([]Label, string, error) {
	var labels []Label
	for {
		s = strings.TrimLeft(s, " \t,")
		if strings.HasPrefix(s, "}") {
			return labels, s[1:], nil
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
		labels = append(labels, Label{name, value})
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
