package vllmserve

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/result"
)

var (
	escapes = lazyregexp.New("\x1b\\[[0-9;?]*[ -/]*[@-~]")
	title   = lazyregexp.New(`^=+ Serving Benchmark Result =+\s*$`)
	rule    = lazyregexp.New(`^={40,}\s*$`)
	// A value line is a label, a colon, blanks and a number.
	valueLine = lazyregexp.New(`^\s*(.+?):\s+(-?[0-9.]+|-?inf|nan)\s*$`)
	latency   = lazyregexp.New(`^(mean|median|p[0-9.]+) (.+) \(ms\)$`)
	byDraft   = lazyregexp.New(`^position ([0-9]+)$`)
)

// labels maps the table's labels, in lower case, to the keys of the file.
var labels = map[string]string{
	"successful requests":                  "completed",
	"failed requests":                      "failed",
	"maximum request concurrency":          "max_concurrency",
	"request rate configured (rps)":        "request_rate",
	"benchmark duration (s)":               "duration",
	"total input tokens":                   "total_input_tokens",
	"total generated tokens":               "total_output_tokens",
	"request throughput (req/s)":           "request_throughput",
	"input throughput (inputs/s)":          "input_sequence_throughput",
	"request goodput (req/s)":              "request_goodput",
	"output token throughput (tok/s)":      "output_throughput",
	"peak output token throughput (tok/s)": "max_output_tokens_per_s",
	"peak concurrent requests":             "max_concurrent_requests",
	"rtfx (inverse real-time factor)":      "rtfx",
	"total token throughput (tok/s)":       "total_token_throughput",
	"probe requests completed":             "probe_completed",
	"probe requests failed":                "probe_failed",
	"median probe e2el (ms)":               "probe_median_e2el_ms",
	"p99 probe e2el (ms)":                  "probe_p99_e2el_ms",
	"max probe e2el (ms)":                  "probe_max_e2el_ms",
	"acceptance rate (%)":                  "spec_decode_acceptance_rate",
	"acceptance length":                    "spec_decode_acceptance_length",
	"drafts":                               "spec_decode_num_drafts",
	"draft tokens":                         "spec_decode_draft_tokens",
	"accepted tokens":                      "spec_decode_accepted_tokens",
	"committed throughput (tok/s)":         "diffusion_committed_throughput",
	"denoising steps per canvas":           "diffusion_steps_per_canvas",
	"committed per denoising step":         "diffusion_committed_per_step",
	"committed tokens":                     "diffusion_committed_tokens",
	"denoising steps":                      "diffusion_denoising_steps",
	"canvas positions evaluated":           "diffusion_canvas_positions",
}

var families = map[string]result.Family{
	"ttft": result.TTFT, "tpot": result.TPOT, "itl": result.ITL, "e2el": result.E2EL,
	"client queue time": result.ClientQueue, "e2el incl. client queue": result.E2ELIncludesQueue,
}

// parseLog reads the last summary table of a client's console text.
func parseLog(out fs.FS, name string, part *result.Part) error {
	data, name, err := read(out, name)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	var last *reader
	inside, simulated := false, false
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = visible(line)
		switch {
		case title.MatchString(line):
			last = &reader{file: name, part: &result.Part{}, m: &result.Metrics{Source: name, FromLog: true}}
			inside = true
		case !inside:
			simulated = simulated || strings.HasPrefix(line, "profllm sim:")
		case rule.MatchString(line):
			inside = false
		default:
			last.consoleLine(line, number)
		}
	}
	if last == nil || last.m.CompletedRequests == nil {
		return fmt.Errorf("parse %s: no table: %w", name, errors.Join(errNoResult, fs.ErrNotExist))
	}
	part.Metrics = last.m
	part.Benchmark = last.part.Benchmark
	part.Samples, part.Simulated = nil, part.Simulated || simulated
	part.Warnings = append(part.Warnings, last.part.Warnings...)
	part.Warnings = append(part.Warnings, result.Warning{
		Kind: result.Recovered, File: name, Text: "the numbers were read from console text, rounded to two decimals",
	})
	if inside {
		part.Warnings = append(part.Warnings,
			result.Warning{Kind: result.Truncated, File: name, Text: "the table is incomplete"})
	}
	part.Benchmark.Kind = kind
	part.Finish()
	return nil
}

// visible returns what a terminal would show of a line: the text behind the
// last carriage return, without colours.
func visible(line string) string {
	line = strings.TrimRight(line, "\r\n")
	line = line[strings.LastIndexByte(line, '\r')+1:]
	return escapes.ReplaceAllString(line, "")
}

func (r *reader) consoleLine(line string, number int) {
	match := valueLine.FindStringSubmatch(line)
	if match == nil {
		return
	}
	label := strings.ToLower(match[1])
	f := field{key: labels[label], raw: []byte(match[2]), line: number, col: 1}
	if f.key != "" {
		_ = r.float(f) || r.integer(f) || r.identity(f)
		return
	}
	if m := latency.FindStringSubmatch(label); m != nil {
		if family, ok := families[m[2]]; ok {
			f.key = family.Key(m[1])
			r.latency(f)
			return
		}
	}
	if m := byDraft.FindStringSubmatch(label); m != nil {
		percent, err := strconv.ParseFloat(match[2], 64)
		if position, _ := strconv.Atoi(m[1]); err == nil && !math.IsNaN(percent) && position == len(r.m.PerPosition) {
			r.m.PerPosition = append(r.m.PerPosition, percent/100)
		}
	}
}
