package result

import "fmt"

// Finish adds what follows from what a parser of a load client has read: the
// number of failures where the client has none, sample sizes, and doubts about
// its sums. Metrics must be set, with CompletedRequests.
func (p *Part) Finish() {
	m := p.Metrics
	p.Benchmark.NumPrompts = m.NumPrompts
	p.Benchmark.MaxConcurrency = m.MaxConcurrency
	doubt := func(key, format string, args ...any) {
		p.Warnings = append(p.Warnings, Warning{
			Kind: Contradicts, File: m.Source, Key: key, Text: fmt.Sprintf(format, args...),
		})
	}
	if lengths := p.Samples.Lengths(); len(lengths) > 1 {
		doubt("samples", "the lists per request have %v entries; they were left out", lengths)
		p.Samples = nil
	}
	done := *m.CompletedRequests
	if lengths := p.Samples.Lengths(); len(lengths) == 1 && lengths[0] < done {
		doubt("samples", "the lists per request have %d entries, %d requests completed", lengths[0], done)
	}
	if s := p.Samples; s != nil && s.Errors != nil {
		failed := 0
		for _, e := range s.Errors {
			if e != "" {
				failed++
			}
		}
		if n := len(s.Errors) - failed; n != done {
			doubt("completed", "%d completed, %d requests without an error", done, n)
		}
		if m.FailedRequests != nil && *m.FailedRequests != failed {
			doubt("failed", "%d failed, %d requests with an error", *m.FailedRequests, failed)
		}
	}
	if s := p.Samples; s != nil && s.OutputLen != nil && m.TotalOutputTokens != nil {
		var sum int64
		for i, n := range s.OutputLen {
			if !s.Failed(i) {
				sum += int64(n)
			}
		}
		if sum != *m.TotalOutputTokens {
			doubt("total_output_tokens", "%d in total, %d by request", *m.TotalOutputTokens, sum)
		}
	}
	if m.FailedRequests == nil && m.NumPrompts != nil && *m.NumPrompts >= done {
		m.FailedRequests = new(*m.NumPrompts - done)
		m.NoteDerived("failed_requests")
	}
	p.sampleSizes()
}

// sampleSizes notes how many values are behind each family, where the client does
// not say, and leaves out statistics over nothing.
func (p *Part) sampleSizes() {
	m := p.Metrics
	done := *m.CompletedRequests
	for _, f := range Families() {
		d, ok := m.Latency[f]
		if !ok {
			continue
		}
		switch f {
		case TPOT:
			d.N = p.answersOfSeveral()
		case ITL:
			if n, ok := p.Samples.Gaps(); ok {
				d.N = &n
			}
		default:
			if d.N == nil {
				d.N = &done
			}
		}
		if done == 0 || d.N != nil && *d.N == 0 {
			delete(m.Latency, f)
			p.Warnings = append(p.Warnings, Warning{
				Kind: EmptySample, File: m.Source, Key: string(f),
				Text: "statistics over an empty sample were left out",
			})
			continue
		}
		m.Latency[f] = d
	}
}

// answersOfSeveral returns the number of answers of two tokens or more, which
// alone have a TPOT; nil if it is not known.
func (p *Part) answersOfSeveral() *int {
	if s := p.Samples; s != nil && s.OutputLen != nil {
		n := 0
		for i, tokens := range s.OutputLen {
			if tokens > 1 && !s.Failed(i) {
				n++
			}
		}
		return &n
	}
	m := p.Metrics
	if m.TotalOutputTokens != nil && *m.TotalOutputTokens <= int64(*m.CompletedRequests) {
		return new(0)
	}
	return nil
}
