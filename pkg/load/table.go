package load

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/profllm/profllm/pkg/load/answer"
)

// familyTitles are the metric families in the order and with the words of vLLM's table.
var familyTitles = [...]struct{ key, short, long string }{
	{"ttft", "TTFT", "Time to First Token"},
	{"tpot", "TPOT", "Time per Output Token (excl. 1st token)"},
	{"itl", "ITL", "Inter-token Latency"},
	{"e2el", "E2EL", "End-to-end Latency"},
	{"client_queue_time", "Client Queue Time", "Client-side Queueing"},
	{"e2el_including_client_queue", "E2EL incl. Client Queue", "Queue-inclusive End-to-end Latency"},
}

// familyTitle returns the words for a family; short stands in its lines, long above them.
func familyTitle(key string) (t struct{ short, long string }, ok bool) {
	for _, f := range familyTitles {
		if f.key == key {
			return struct{ short, long string }{f.short, f.long}, true
		}
	}
	return t, false
}

// WriteTable prints the summary exactly as vLLM lays it out, so that what reads its logs reads
// ours.
func (r *Report) WriteTable(w io.Writer) error {
	var b bytes.Buffer
	count := func(label string, n int) { fmt.Fprintf(&b, "%-40s %-10d\n", label, n) }
	value := func(label string, f float64) { fmt.Fprintf(&b, "%-40s %-10.2f\n", label, f) }

	rule(&b, " Serving Benchmark Result ", "=")
	count("Successful requests:", r.Completed)
	count("Failed requests:", r.Failed)
	if r.MaxConcurrency != nil {
		count("Maximum request concurrency:", *r.MaxConcurrency)
	}
	if !math.IsInf(r.RequestRate, 1) {
		value("Request rate configured (RPS):", r.RequestRate)
	}
	value("Benchmark duration (s):", r.Duration)
	count("Total input tokens:", r.InputTokens)
	if r.Pooling == nil {
		count("Total generated tokens:", r.OutputTokens)
	}
	value("Request throughput (req/s):", r.RequestThroughput)
	if r.Pooling != nil {
		value("Input throughput (inputs/s):", r.Pooling.InputSequenceThroughput)
	}
	if r.Goodput != nil {
		value("Request goodput (req/s):", *r.Goodput)
	}
	if r.Pooling == nil {
		value("Output token throughput (tok/s):", r.OutputThroughput)
		value("Peak output token throughput (tok/s):", float64(r.PeakTokens))
		value("Peak concurrent requests:", float64(r.PeakRequests))
	}
	value("Total token throughput (tok/s):", r.TotalThroughput)
	if p := r.Probes; p != nil && p.Completed > 0 {
		rule(&b, "Probe Requests", "-")
		count("Probe requests completed:", p.Completed)
		count("Probe requests failed:", p.Failed)
		value("Median probe E2EL (ms):", p.quantile(0.5))
		value("P99 probe E2EL (ms):", p.quantile(0.99))
		value("Max probe E2EL (ms):", p.quantile(1))
	}
	for _, f := range r.Families {
		title, _ := familyTitle(f.Name)
		rule(&b, title.long, "-")
		value(fmt.Sprintf("Mean %s (ms):", title.short), f.Mean)
		value(fmt.Sprintf("Median %s (ms):", title.short), f.Median)
		for _, p := range f.Percentiles {
			value(fmt.Sprintf("P%s %s (ms):", p.name(), title.short), p.Value)
		}
	}
	rule(&b, "", "=")
	_, err := w.Write(b.Bytes())
	return err
}

// tableWidth is the width of vLLM's table in columns.
const tableWidth = 50

// rule prints a title centred in a line of fill; an odd column goes to the right, as in Python.
func rule(w io.Writer, title, fill string) {
	room := max(tableWidth-len(title), 0)
	fmt.Fprintf(w, "%s%s%s\n", strings.Repeat(fill, room/2), title, strings.Repeat(fill, room-room/2))
}

// errorsShown is how many failed requests are listed, as in vLLM.
const errorsShown = 10

// writeErrors lists the first failed requests.
func (r *Report) writeErrors(w io.Writer) {
	if r.Failed == 0 {
		return
	}
	fmt.Fprintf(w, "Failed requests during benchmark run detected (capping to %d):\n", errorsShown)
	shown := 0
	for i := range r.ended {
		if o := &r.ended[i]; o.State == answer.Failed && shown < errorsShown {
			fmt.Fprintf(w, "Error %d: %s\n", shown, o.Err)
			shown++
		}
	}
}
