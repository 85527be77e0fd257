package promtext

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"
)

// A Snapshot is one page of a server. It is safe for concurrent reads.
type Snapshot struct {
	samples []Sample
	types   map[string]string // metric family to counter, gauge, histogram, summary, untyped
}

// Read reads a whole page. It keeps every sample it understands and returns
// the lines it did not understand as one error beside them; the Snapshot is
// usable, and never nil, in both cases.
func Read(r io.Reader) (*Snapshot, error) {
	data, err := io.ReadAll(r)
	s, bad := Some(data, nil)
	return s, errors.Join(bad, err)
}

// usualSample is how many bytes of a page there are for each sample that is kept, by
// the pages of vLLM without buckets: 140 samples in 50 kB.
const usualSample = 340

// Some is Read of a page in memory, for the samples whose names keep accepts; the
// others are not looked at, so that their mistakes are no errors. A nil keep accepts
// every name.
func Some(data []byte, keep func(name []byte) bool) (*Snapshot, error) {
	p := page{Snapshot: Snapshot{types: map[string]string{}}, keep: keep}
	p.samples = make([]Sample, 0, len(data)/usualSample)
	p.labels = make([]Label, 0, 2*cap(p.samples))
	n := 0
	for len(data) > 0 {
		n++
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			end = len(data) - 1
		}
		if end >= maxLine {
			return &p.Snapshot, multierror.Append(p.bad, fmt.Errorf("line %d: %w", n, bufio.ErrTooLong)).ErrorOrNil()
		}
		p.line(n, data[:end+1])
		data = data[end+1:]
	}
	return &p.Snapshot, p.bad.ErrorOrNil()
}

// Sum adds up all series of the metric that carry the wanted labels. The
// second result is false if there is no such series, which is not zero.
func (s *Snapshot) Sum(name string, want ...Label) (float64, bool) {
	return sum(s.samples, name, want)
}

// Max is the highest value of all series of the metric, for one that cannot be added up, such as a
// share. The second result is false if there is no such series.
func (s *Snapshot) Max(name string) (highest float64, found bool) {
	for _, x := range s.samples {
		if x.Name == name && (!found || x.Value > highest) {
			highest, found = x.Value, true
		}
	}
	return highest, found
}

func sum(samples []Sample, name string, want []Label) (total float64, found bool) {
	for _, x := range samples {
		if x.Name == name && x.matches(want) {
			total += x.Value
			found = true
		}
	}
	return total, found
}

// cumulative reports whether the series only ever grows: a counter, or one
// of the sums a histogram or summary consists of.
func (s *Snapshot) cumulative(name string) bool {
	if s.types[name] == "counter" {
		return true
	}
	if base, ok := strings.CutSuffix(name, "_total"); ok {
		// The text format names the family with or without the suffix.
		kind, known := s.types[base]
		return !known && s.types[name] == "" || kind == "counter"
	}
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			switch s.types[base] {
			case "histogram", "summary":
				return true
			}
		}
	}
	return false
}

// A Difference is what happened between two pages of one server.
type Difference struct {
	samples []Sample // value = after minus before, cumulative series only

	// Resets names the metrics that show a restart in between: a counter
	// fell, or its birth or the process's start changed. Their differences
	// count from zero and are a lower bound. Sorted, without repeats.
	Resets []string
	// Gone names the metrics of which a series was on the first page and is
	// missing on the second. Sorted, without repeats.
	Gone []string
}

// Sub returns after minus before, series by series. A series that is new on
// the second page counts from zero. Gauges have no difference and are left out.
func Sub(before, after *Snapshot) *Difference {
	old := make(map[string]float64, len(before.samples))
	keys := make([]string, len(before.samples))
	for i, x := range before.samples {
		keys[i] = seriesKey(x)
		old[keys[i]] = x.Value
	}
	d := &Difference{}
	still := make(map[string]bool, len(after.samples))
	for _, x := range after.samples {
		key := seriesKey(x)
		was, known := old[key]
		still[key] = true
		if birth(x.Name) {
			if known && was != x.Value {
				d.Resets = append(d.Resets, x.Name)
			}
			continue
		}
		if !after.cumulative(x.Name) {
			continue
		}
		if known && x.Value < was {
			d.Resets = append(d.Resets, x.Name)
			was = 0
		}
		x.Value -= was
		d.samples = append(d.samples, x)
	}
	for i, x := range before.samples {
		if before.cumulative(x.Name) && !still[keys[i]] {
			d.Gone = append(d.Gone, x.Name)
		}
	}
	d.Resets = sortedSet(d.Resets)
	d.Gone = sortedSet(d.Gone)
	return d
}

// birth reports whether the gauge holds the time at which something started.
func birth(name string) bool {
	return name == "process_start_time_seconds" || strings.HasSuffix(name, "_created")
}

// Reset reports whether the server restarted between the pages.
func (d *Difference) Reset() bool { return len(d.Resets) > 0 }

// Samples returns the differences, series by series. The caller must not change
// them.
func (d *Difference) Samples() []Sample { return d.samples }

// Sum adds up the differences of the metric over the series that carry the
// wanted labels; false if there is no such series.
func (d *Difference) Sum(name string, want ...Label) (float64, bool) {
	return sum(d.samples, name, want)
}

// Totals returns the summed difference of each metric that keep accepts.
func (d *Difference) Totals(keep func(name string) bool) map[string]float64 {
	totals := map[string]float64{}
	for _, x := range d.samples {
		if keep(x.Name) {
			totals[x.Name] += x.Value
		}
	}
	return totals
}

// seriesKey identifies a series whatever the order of its labels.
func seriesKey(s Sample) string {
	labels := s.Labels
	byName := func(a, b Label) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(labels, byName) {
		labels = slices.Clone(labels)
		slices.SortFunc(labels, byName)
	}
	var b strings.Builder
	b.WriteString(s.Name)
	for _, l := range labels {
		b.WriteByte(0xff) // occurs in no UTF-8 text
		b.WriteString(l.Name)
		b.WriteByte(0xff)
		b.WriteString(l.Value)
	}
	return b.String()
}

func sortedSet(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
