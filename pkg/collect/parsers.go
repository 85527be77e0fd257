package collect

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/validity"
)

// splitParsers are the parsers of the client that was planned, and the others. Of a client that
// no parser knows by its name, and of files without a plan, anyone's files are read.
func splitParsers(e *evidence, parsers []Parser) (own, others []Parser) {
	for _, p := range parsers {
		if o, ok := p.(Of); ok && e.load != nil && e.load.Client != "" && o.Client(e.load.Client) {
			own = append(own, p)
		} else {
			others = append(others, p)
		}
	}
	if len(own) == 0 {
		return parsers, nil
	}
	return own, others
}

// addBenchmark adds the numbers of the client that was planned, and warns of results of
// other clients.
func addBenchmark(parsers []Parser) adder {
	return func(e *evidence, d *draft) {
		r, known := d.record, len(d.record.Warnings)
		own, others := splitParsers(e, parsers)
		bench := parseAny(e, d, own, "the benchmark's result",
			e.load != nil && e.load.Client != "" && !validity.WithoutNumbers(r))
		if e.load != nil {
			countRequests(&r.Results, e.load.Expect.NumPrompts)
		}
		d.facts.Samples, d.facts.GivenModel = bench.Samples, bench.Model
		addStrays(e, d, others)
		d.empty = len(r.Warnings) == known && r.Results.Source == ""
	}
}

// countRequests takes from the plan how many requests there should be, where several inputs went
// in each and the client counted those.
func countRequests(m *result.Metrics, planned int) {
	if m.NumPrompts != nil || m.TotalInputSequences == nil || m.CompletedRequests == nil || planned < *m.CompletedRequests {
		return
	}
	m.NumPrompts = &planned
	if m.FailedRequests == nil {
		m.FailedRequests = new(planned - *m.CompletedRequests)
		m.NoteDerived("failed_requests")
	}
}

// addAccuracy adds what the evaluation found.
func addAccuracy(parsers []Parser) adder {
	return func(e *evidence, d *draft) {
		parseAny(e, d, parsers, "the evaluation's result", e.load != nil && e.load.Expect.Accuracy)
	}
}

// addStrays warns of results of other clients than the planned one.
func addStrays(e *evidence, d *draft, others []Parser) {
	for _, p := range others {
		part, err := p.Parse(e.files)
		if err != nil || part.Metrics == nil || part.Metrics.FromLog || part.Metrics.Source == d.record.Results.Source {
			continue
		}
		d.late.add(result.Warning{
			Kind: result.OtherFile, File: part.Metrics.Source,
			Text: fmt.Sprintf("a result of %s, which is not in the plan, was not used: %s measured",
				part.Benchmark.Kind, e.load.Client),
		})
	}
}

// parseAny merges what the first parser finds. A network file system may believe an old
// list of names for a minute, so what is wanted and in no list is asked for by name.
func parseAny(e *evidence, d *draft, parsers []Parser, what string, required bool) result.Part {
	r, known := d.record, len(d.record.Warnings)
	part, found := parseIn(e.files, r, parsers, what)
	if !found && required {
		r.Warnings = r.Warnings[:known]
		part, found = parseIn(e.files.FS, r, parsers, what)
	}
	if !found && required {
		d.facts.Missing = append(d.facts.Missing, what)
	}
	return part
}

func parseIn(dir fs.FS, r *result.Result, parsers []Parser, what string) (part result.Part, found bool) {
	for _, p := range parsers {
		part, err := p.Parse(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.Warnings = append(r.Warnings, result.Warning{Kind: result.Unreadable, File: what, Text: err.Error()})
		}
		if err != nil {
			r.Warnings = append(r.Warnings, part.Warnings...)
			continue
		}
		r.Merge(part)
		return part, true
	}
	return result.Part{}, false
}
