package vllmoffline

import (
	"bufio"
	"io"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/result"
)

// Bounds of what is read of a console text: an engine writes for minutes, its
// tables are a few lines.
const (
	maxLog  = 1 << 30
	maxLine = 64 << 10
)

// A line of a console text, as a terminal would show it, with its number.
type line struct {
	text   string
	number int
}

var (
	escapes = lazyregexp.New("\x1b\\[[0-9;?]*[ -/]*[@-~]")
	// The lines that any of the tables has.
	interesting = lazyregexp.New(`latency:|Throughput:|^Total num |startup time|compilation time|Startup time|ompilation time percentiles|^\s*[0-9.]+%: |^(COLD|WARM) STARTUP:|STARTUP TIME BENCHMARK` +
		`|^={10,}|^Running benchmark with |"data_parallel_size":|requests:  |duration \(s\):|tokens:  |/s\):  |\(ms\):  `)

	average     = lazyregexp.New(`^(Avg|Std) latency: ([0-9.eE+-]+) seconds$`)
	percentile  = lazyregexp.New(`^([0-9.]+)% percentile latency: ([0-9.eE+-]+) seconds$`)
	throughput  = lazyregexp.New(`^Throughput: ([0-9.]+) requests/s, ([0-9.]+) (?:total )?tokens/s(?:, ([0-9.]+) output tokens/s)?$`)
	totals      = lazyregexp.New(`^Total num (prompt|output) tokens: +([0-9]+)$`)
	startTime   = lazyregexp.New(`^Avg (?:total )?(startup|compilation|encoder compilation) time: ([0-9.]+) seconds$`)
	startBlock  = lazyregexp.New(`^(COLD|WARM) STARTUP:$`)
	startHead   = lazyregexp.New(`^(Startup|Compilation|Encoder compilation) time percentiles:$`)
	startRank   = lazyregexp.New(`^\s+([0-9.]+)%: ([0-9.]+) seconds$`)
	startHeader = "STARTUP TIME BENCHMARK RESULTS"
)

// consoleLines reads the lines of a console text that may be of a table, and the
// name it was found under. A text that is not there, or damaged, has as many lines
// as could be read.
func consoleLines(dir fs.FS, name string) ([]line, string) {
	f, name, err := packed.Open(dir, name)
	if err != nil {
		return nil, name
	}
	defer f.Close()
	return linesOf(f), name
}

// linesOf reads such lines until the text ends or cannot be read.
func linesOf(f io.Reader) (lines []line) {
	in := bufio.NewReaderSize(io.LimitReader(f, maxLog), maxLine)
	for number := 1; ; number++ {
		raw, long, err := in.ReadLine() // a longer line comes in pieces, which no table has
		for long && err == nil {
			_, long, err = in.ReadLine()
			raw = nil
		}
		if err != nil {
			return lines
		}
		text := string(raw)
		text = strings.TrimRight(escapes.ReplaceAllString(text[strings.LastIndexByte(strings.TrimRight(text, "\r"),
			'\r')+1:], ""), " \r")
		if interesting.MatchString(text) {
			lines = append(lines, line{text, number})
		}
		if len(lines) > 10_000 { // the end of a text is the last run's
			lines = lines[len(lines)-5_000:]
		}
	}
}

// seconds reads a time; the second is false for what is none.
func seconds(s string) (float64, bool) {
	x, err := strconv.ParseFloat(s, 64)
	return x, err == nil && !math.IsInf(x, 0) && !math.IsNaN(x) && x >= 0
}

// latencyLog takes the last table.
func latencyLog(lines []line, o *result.Offline) bool {
	var t *result.Timing
	for _, l := range lines {
		if m := average.FindStringSubmatch(l.text); m != nil {
			x, ok := seconds(m[2])
			switch {
			case !ok:
			case m[1] == "Avg":
				t = &result.Timing{Mean: &x, Percentiles: map[string]float64{}}
			case t != nil:
				t.Std = &x
			}
		}
		if m := percentile.FindStringSubmatch(l.text); m != nil && t != nil && isRank(m[1]) {
			if x, ok := seconds(m[2]); ok {
				t.Percentiles[m[1]] = x
			}
		}
	}
	if t != nil {
		o.Batch = &result.BatchLatency{Latency: t}
	}
	return t != nil
}

// throughputLog takes the last line of results and the totals after it.
func throughputLog(lines []line, o *result.Offline) bool {
	var t *result.OfflineThroughput
	for _, l := range lines {
		if m := throughput.FindStringSubmatch(l.text); m != nil {
			t = &result.OfflineThroughput{}
			for i, to := range []**float64{&t.RequestThroughput, &t.TotalTokenThroughput, &t.OutputThroughput} {
				if x, ok := seconds(m[i+1]); ok {
					*to = &x
				}
			}
			if t.RequestThroughput == nil {
				t = nil
			}
		}
		if m := totals.FindStringSubmatch(l.text); m != nil && t != nil {
			if n, err := strconv.ParseInt(m[2], 10, 53); err == nil && m[1] == "prompt" {
				t.InputTokens = &n
			} else if err == nil {
				t.OutputTokens = &n
			}
		}
	}
	if t == nil {
		return false
	}
	if t.InputTokens != nil && t.OutputTokens != nil {
		t.TotalTokens = new(*t.InputTokens + *t.OutputTokens)
	}
	o.Throughput = t
	return true
}

// startupLog takes the last table.
func startupLog(lines []line, o *result.Offline) bool {
	var s *result.Startup
	block, part := "", ""
	at := func(part string) **result.Timing {
		to := partsOf(s)[block+"_"+strings.ReplaceAll(strings.ToLower(part), " ", "_")]
		if *to == nil {
			*to = &result.Timing{Percentiles: map[string]float64{}}
		}
		return to
	}
	for _, l := range lines {
		if strings.TrimSpace(l.text) == startHeader {
			s, block, part = &result.Startup{}, "", ""
			continue
		}
		if m := startBlock.FindStringSubmatch(l.text); m != nil {
			block, part = strings.ToLower(m[1]), ""
			continue
		}
		if s == nil || block == "" {
			continue
		}
		if m := startTime.FindStringSubmatch(l.text); m != nil {
			if x, ok := seconds(m[2]); ok {
				(*at(m[1])).Mean = &x
			}
		} else if m := startHead.FindStringSubmatch(l.text); m != nil {
			part = m[1]
		} else if m := startRank.FindStringSubmatch(l.text); m != nil && part != "" && isRank(m[1]) {
			if x, ok := seconds(m[2]); ok {
				(*at(part)).Percentiles[m[1]] = x
			}
		}
	}
	if s == nil || s.Cold == nil && s.Warm == nil {
		return false
	}
	o.Startup = s
	return true
}
