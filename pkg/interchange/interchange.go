// Package interchange reads the result files of other benchmark programs into
// records, and writes records as such files.
//
// It is pure: bytes in, records out. It neither finds files nor keeps anything, and
// it judges no number; what a file does not say is absent from the record, and what
// a record has no place for is kept beside it. Which key becomes what stands in
// docs/reference/interchange.md.
//
//	format, items, err := interchange.Read("report.yaml", data)
//	r := items[0].Record
//	data, err = interchange.Write(interchange.LLMD, []*result.Result{r}, interchange.Options{})
package interchange

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/bench/vllmoffline"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/validity"
)

// Format is a form of result files, by its name on the command line.
type Format string

// The formats.
const (
	LLMD       Format = "llm-d"      // benchmark report 0.2 and 0.2.1 of llm-d-benchmark
	InferenceX Format = "inferencex" // row of InferenceX, or a list of them
	PyTorch    Format = "pytorch"    // PyTorch benchmark records, as vLLM writes them
	SRTSlurm   Format = "srt-slurm"  // benchmark-rollup.json of srt-slurm
	Offline    Format = "offline"    // console text of pysheeet's benchmark without a server
	VLLMServe  Format = "vllm-serve" // result of vllm bench serve, also of a sweep, its summary.json or summary.csv
)

// from names the program that writes a format.
var from = map[Format]string{
	LLMD: "llm-d-benchmark", InferenceX: "InferenceX", PyTorch: "vLLM", SRTSlurm: "srt-slurm",
	Offline: "offline_bench.py", VLLMServe: "vllm bench serve",
}

// formatNames lists the formats that are read.
func formatNames() string {
	return strings.Join([]string{string(LLMD), string(InferenceX), string(Offline), string(PyTorch), string(SRTSlurm),
		string(VLLMServe)}, ", ")
}

// An Item is one result of a file.
type Item struct {
	// Name tells it from the others of its file, as elements of a path; empty if it
	// is the only one.
	Name []string
	// Index is its place in the file, from 0, also behind others that cannot be read.
	Index int
	// ID is what the file calls it; "" if it has no name of its own.
	ID string
	// Record has the configuration, the numbers, and the provenance with everything
	// that has no place of its own. It is not judged, and has no id.
	Record *result.Result
	// Evidence is what the file says for the judgement.
	Evidence validity.Evidence
}

// ErrUnknown is a readable file of an unknown format.
var ErrUnknown = errors.New("unknown format")

// Read returns the results of a file, whatever its format. With an error of some
// results it returns the others. A file of an unknown format is ErrUnknown; one that
// cannot be read at all is a *PlaceError.
func Read(file string, data []byte) (Format, []Item, error) {
	if path.Ext(file) == ".csv" {
		return readCSV(file, data)
	}
	if vllmoffline.IsText(data) {
		return readOffline(file, data)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	docs, err := documents(file, data)
	if err != nil {
		return "", nil, err
	}
	for _, f := range []struct {
		format Format
		is     func(n *node) bool
		read   func(s *source) error
	}{
		{LLMD, isLLMD, readLLMD},
		{InferenceX, isInferenceX, readInferenceX},
		{PyTorch, isPyTorch, readPyTorch},
		{SRTSlurm, isSRTSlurm, readSRTSlurm},
		{VLLMServe, isServe, readServe},
	} {
		if !f.is(docs[0]) {
			continue
		}
		s := &source{file: file, data: data, docs: docs}
		err := f.read(s)
		for i := range s.items {
			s.items[i].Record.Provenance.Imported.From = cmp.Or(s.items[i].Record.Provenance.Imported.From,
				from[f.format])
			s.items[i].Record.Provenance.Imported.Format = string(f.format)
		}
		return f.format, distinct(s.items), err
	}
	return "", nil, fmt.Errorf("%s: %w", file, ErrUnknown)
}

// Suspected reports whether a file that cannot be read looks as if it were of a
// format known here, so that it is missed and not passed over.
func Suspected(file string, data []byte) bool {
	name := path.Base(file)
	for _, pattern := range []string{"run=*.json", "summary.csv", "benchmark-rollup.json", "agg_*.json",
		"*.pytorch.json", "benchmark_report*.json", "benchmark_report*.y*ml"} {
		if ok, _ := path.Match(pattern, name); ok { // the patterns are good
			return true
		}
	}
	head := string(data[:min(len(data), 64<<10)])
	for _, marks := range [][]string{
		{"request_performance"}, {`"tput_per_gpu"`}, {`"benchmark_values"`}, {`"benchmark_type"`, `"throughput_toks"`},
		{`"request_throughput"`, `"completed"`},
	} {
		if !slices.ContainsFunc(marks, func(m string) bool { return !strings.Contains(head, m) }) {
			return true
		}
	}
	return false
}

// source is a file that is being read.
type source struct {
	file  string
	data  []byte
	docs  []*node
	items []Item
}

// add makes an item. What is not taken of n when finish is called is kept.
func (s *source) add(index int, version string) *Item {
	s.items = append(s.items, Item{Index: index, Record: &result.Result{
		Config:     result.Config{Server: map[string]any{}},
		Provenance: &result.Provenance{Imported: &result.Imported{Version: version}},
	}})
	return &s.items[len(s.items)-1]
}

// finish adds numbers to the record, and keeps what is left of the file.
func (it *Item) finish(n *node, p result.Part) {
	r := it.Record
	if p.Model != "" {
		r.Config.Server["model"] = p.Model
	}
	r.Merge(p)
	it.Evidence.Samples = p.Samples
	b := &r.Config.Benchmark
	b.InputTokens, b.OutputTokens = cmp.Or(b.InputTokens, p.Benchmark.InputTokens), cmp.Or(b.OutputTokens,
		p.Benchmark.OutputTokens)
	e := &it.Evidence.Planned
	e.NumPrompts = cmp.Or(e.NumPrompts, value(b.NumPrompts))
	e.InputTokens, e.OutputTokens = value(b.InputTokens), value(b.OutputTokens)
	e.IgnoreEOS = b.IgnoreEOS != nil && *b.IgnoreEOS
	e.Concurrency, e.Warmups = value(b.MaxConcurrency), value(b.Warmups)
	if rate := b.RequestRate; rate != nil && !math.IsInf(float64(*rate), 0) {
		e.RequestRate = float64(*rate)
	}
	if left, ok := n.rest().(map[string]any); ok {
		r.Provenance.Imported.Fields = left
	}
	// A label of a simulator counts wherever it comes from.
	if v, ok := r.Provenance.Imported.Fields["simulated"]; ok && result.Labelled(fmt.Append(nil, v)) {
		r.Simulated = true
	}
	r.Provenance.Simulated = r.Simulated
}

func value(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// warn adds a warning with a place.
func (it *Item) warn(s *source, n *node, k result.WarningKind, key, format string, args ...any) {
	it.Record.Warnings = append(it.Record.Warnings, result.Warning{
		Kind: k, File: s.file, Line: n.line, Col: n.col, Key: key, Text: fmt.Sprintf(format, args...),
	})
}

// noNumber notes a value that is not a number where one was expected; null is ignored.
func (it *Item) noNumber(s *source, n *node, key string) {
	if n == nil || n.kind == nothing {
		return
	}
	if v, err := strconv.ParseFloat(strings.TrimPrefix(n.text, "."), 64); err == nil && v-v != 0 { // YAML has .nan
		it.warn(s, n, result.NotFinite, key, "not a finite number: %.40s", n.text)
		return
	}
	it.warn(s, n, result.NoNumber, key, "not a number of the expected kind: %.40s", n.text)
}

// rate takes a measured number, times by.
func (it *Item) rate(s *source, n *node, key string, by float64) *float64 {
	v := n.times(by)
	if v == nil {
		it.noNumber(s, n, key)
	}
	return v
}

// count takes a measured whole number.
func (it *Item) count(s *source, n *node, key string) *int {
	v := n.whole()
	if v == nil {
		it.noNumber(s, n, key)
	}
	return v
}

// distinct numbers items that would be called the same.
func distinct(items []Item) []Item {
	if len(items) == 1 {
		return items
	}
	seen := map[string]int{}
	for i := range items {
		name := items[i].Name
		if len(name) == 0 {
			name = []string{fmt.Sprint(items[i].Index)}
		}
		key := strings.ToLower(strings.Join(name, "/"))
		if seen[key]++; seen[key] > 1 {
			name = slices.Clone(name)
			name[len(name)-1] += fmt.Sprintf("-%d", seen[key])
		}
		items[i].Name = name
	}
	return items
}

// stampLayouts are the forms of vLLM's date: of its Python client, without a zone,
// and of vllm-rs.
var stampLayouts = []string{"20060102-150405", time.RFC3339}

// stamp reads vLLM's date; without a zone it is taken for UTC, and the record says
// so.
func (it *Item) stamp(s *source, n *node) {
	if n == nil || n.kind != text {
		return
	}
	for _, layout := range stampLayouts {
		if t, err := time.Parse(layout, n.text); err == nil {
			it.Record.Timestamp = t.UTC()
			if layout != time.RFC3339 {
				it.warn(s, n, "no-zone", "date", "%s has no time zone; UTC was assumed", n.text)
			}
			return
		}
	}
}

// headerOf reads the names of a CSV file's columns.
func headerOf(file string, data []byte) (*csv.Reader, []string, error) {
	if len(data) > maxYAML {
		return nil, nil, tooLarge(file, len(data), maxYAML)
	}
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(data), "\xef\xbb\xbf")))
	head, err := r.Read()
	if err != nil {
		return nil, nil, csvError(file, err)
	}
	return r, head, nil
}

func csvError(file string, err error) *PlaceError {
	e := &PlaceError{File: file, Text: err.Error(), Hint: "copy the file again from its origin"}
	var p *csv.ParseError
	if errors.As(err, &p) {
		e.Line, e.Col, e.Text = p.Line, p.Column, p.Err.Error()
	}
	return e
}
