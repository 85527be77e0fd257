package vllmoffline

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/clientfile"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// The lines of a console text of a benchmark that prints the table of a served load, as
// offline_bench.py of the public project pysheeet does. What it prints before tells it from a
// client's: it has loaded the engine, and has the prompts, itself.
var (
	blockBegin = lazyregexp.New(`^Running benchmark with ([0-9]+) total prompts\.\.\.$`)
	blockSize  = lazyregexp.New(`^\s*"data_parallel_size": ([0-9]+),?$`)
	blockTitle = lazyregexp.New(`^=+ Serving Benchmark Result =+$`)
	blockEnd   = lazyregexp.New(`^={40,}$`)
	blockValue = lazyregexp.New(`^((?:Successful|Failed) requests|Benchmark duration \(s\)|Total (?:input|generated) tokens|` +
		`Request throughput \(req/s\)|(?:Output|Total) token throughput \(tok/s\)|` +
		`(?:Mean|Median|P99) (?:TTFT|TPOT) \(ms\)): +([0-9.]+)$`)
)

// IsText reports whether a text is of such a benchmark.
func IsText(data []byte) bool {
	for line := range bytes.Lines(data) {
		if blockBegin.Match(bytes.TrimRight(line, "\r\n")) {
			return true
		}
	}
	return false
}

// errNoTable is a text of which no table is whole.
var errNoTable = errors.New("the text has no whole table of results")

// ReadText reads the last table of such a text. The name is for its warnings.
func ReadText(name string, data []byte) (result.Part, error) {
	lines, m := linesOf(bytes.NewReader(data)), &result.Metrics{Offline: &result.Offline{}, Source: name, FromLog: true}
	if !requestsLog(lines, m.Offline) {
		return result.Part{}, errNoTable
	}
	p := result.Part{Metrics: m}
	p.Benchmark.Kind = "vllm-" + requests
	r := &reader{File: &clientfile.File{Name: name}, part: &p}
	r.recovered(requests, lines)
	p.Warnings = r.Warnings
	return p, nil
}

// recovered notes that numbers are of a console text.
func (r *reader) recovered(name string, lines []line) {
	r.Warn(result.Recovered, pyjson.Value{}, name, "read from console text")
	if name != requests {
		return
	}
	if b := lastBlock(lines); b != nil && b.failed != nil && *b.failed > 0 {
		r.Warn(result.Incomplete, pyjson.Value{}, name, "%d requests failed, and no number is of them", *b.failed)
	}
	if n := engines(lines); n > 1 {
		r.Warn(result.Recovered, pyjson.Value{}, name,
			"the mean and the median are means over %d engines, the P99 is the largest of theirs", n)
	}
}

// block is what the table says.
type block struct {
	requests *result.OfflineRequests
	total    *result.OfflineThroughput
	failed   *int64
}

func newBlock() *block {
	return &block{requests: &result.OfflineRequests{TTFTFrom: result.FromScheduled}, total: &result.OfflineThroughput{}}
}

// requestsLog takes the last whole table. Its ITL is a copy of its TPOT, and is left out.
func requestsLog(lines []line, o *result.Offline) bool {
	last := lastBlock(lines)
	if last == nil {
		return false
	}
	if last.total.InputTokens != nil && last.total.OutputTokens != nil {
		last.total.TotalTokens = new(*last.total.InputTokens + *last.total.OutputTokens)
	}
	o.Requests, o.Throughput = last.requests, last.total
	return true
}

// lastBlock is the last whole table, nil if there is none.
func lastBlock(lines []line) *block {
	var last, open *block
	begun := false
	for _, l := range lines {
		switch {
		case blockBegin.MatchString(l.text):
			begun = true
		case begun && blockTitle.MatchString(l.text):
			open = newBlock()
		case open != nil && blockEnd.MatchString(l.text):
			if open.whole() {
				last = open
			}
			open = nil
		case open != nil:
			if m := blockValue.FindStringSubmatch(l.text); m != nil {
				open.take(m[1], m[2])
			}
		}
	}
	return last
}

func (b *block) whole() bool {
	return b.total.Requests != nil && b.total.Duration != nil && b.requests.TTFT != nil
}

// take sets the value of a label.
func (b *block) take(label, text string) {
	x, ok := seconds(text)
	if !ok {
		return
	}
	counts := map[string]**int64{"Successful requests": &b.total.Requests, "Failed requests": &b.failed,
		"Total input tokens": &b.total.InputTokens, "Total generated tokens": &b.total.OutputTokens}
	rates := map[string]**float64{"Benchmark duration (s)": &b.total.Duration,
		"Request throughput (req/s)":      &b.total.RequestThroughput,
		"Output token throughput (tok/s)": &b.total.OutputThroughput,
		"Total token throughput (tok/s)":  &b.total.TotalTokenThroughput}
	if to, ok := counts[label]; ok {
		if n, err := strconv.ParseInt(text, 10, 53); err == nil {
			*to = &n
		}
		return
	}
	if to, ok := rates[label]; ok {
		*to = &x
		return
	}
	words := strings.Fields(label) // Mean TTFT (ms)
	to := map[string]**result.Timing{"TTFT": &b.requests.TTFT, "TPOT": &b.requests.TPOT}
	if len(words) < 3 || to[words[1]] == nil {
		return
	}
	t := to[words[1]]
	if *t == nil {
		*t = &result.Timing{Percentiles: map[string]float64{}}
	}
	x /= 1000
	switch words[0] {
	case "Mean":
		(*t).Mean = &x
	case "Median":
		(*t).Percentiles["50"] = x
	case "P99":
		(*t).Percentiles["99"] = x
	}
}

// engines is how many engines the table is of, 1 if the text does not say: of several, its mean and
// its median are means of those of the engines, and its P99 is the largest.
func engines(lines []line) int {
	n := 1
	for _, l := range lines {
		if m := blockSize.FindStringSubmatch(l.text); m != nil {
			n, _ = strconv.Atoi(m[1]) // the pattern holds digits only; what is too long is 0
		}
	}
	return n
}
