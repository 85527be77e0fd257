package interchange

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/result"
)

// Writable lists the formats that Write makes.
func Writable() []Format { return []Format{LLMD, InferenceX, PyTorch} }

// Options are how records are written.
type Options struct {
	// Invalid writes also what must not be believed, with its words where the
	// format has a place for them.
	Invalid bool
	// Set has what a record does not say of itself, by the keys of an InferenceX
	// row, such as hw and precision. It never replaces what the record says.
	Set map[string]string
}

// into adds the values that are set to a row.
func (o Options) into(row map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(o.Set)) {
		if !slices.Contains(inferenceXNames, key) {
			return fmt.Errorf("%q does not describe the run and cannot be set; known are %s", key,
				strings.Join(inferenceXNames, ", "))
		}
		var v any = o.Set[key]
		if slices.Contains(numericNames, key) {
			n, err := strconv.Atoi(o.Set[key])
			if err != nil || n < 0 {
				return fmt.Errorf("%s=%s is not a whole number, 0 or more", key, o.Set[key])
			}
			v = n
		}
		if have, ok := row[key]; ok && have != v {
			return fmt.Errorf("%s=%s contradicts the record, which says %v", key, o.Set[key], have)
		}
		row[key] = v
	}
	return nil
}

// MissingError is a record that does not say what a format needs.
type MissingError struct {
	Format Format
	Keys   []string
}

func (e *MissingError) Error() string {
	sets := make([]string, len(e.Keys))
	for i, k := range e.Keys {
		sets[i] = "--set " + k + "=…"
	}
	return fmt.Sprintf("the record does not say %s\n\thint: %s", strings.Join(e.Keys, ", "), strings.Join(sets, " "))
}

// RefusedError is a run whose numbers would mislead in the format.
type RefusedError struct {
	Why string
	// Never says that no option changes it.
	Never bool
}

func (e *RefusedError) Error() string {
	if e.Never {
		return e.Why
	}
	return e.Why + "\n\thint: --include-invalid exports it anyway"
}

// refuse says why a run is not written, nil if it is. As in a report, an invalid run
// stands in no table by default and a suspect one stands there with its word, where
// the format has a place for words; simulated and profiled numbers go nowhere
// without theirs.
func refuse(f Format, r *result.Result, invalid bool) error {
	labelled := f != InferenceX
	v := r.Validity
	switch {
	case !labelled && (r.Simulated || r.Provenance != nil && r.Provenance.Simulated):
		return &RefusedError{Why: "simulated, but a row of " + from[f] + " cannot say so", Never: true}
	case !labelled && r.Profiling != nil && r.Profiling.Enabled:
		return &RefusedError{Why: "profiled, but a row of " + from[f] + " cannot say so", Never: true}
	case r.Status == result.Unknown:
		return &RefusedError{Why: "not over", Never: true}
	case invalid:
	case v == nil:
		return &RefusedError{Why: "not judged"}
	case !v.Valid:
		return &RefusedError{Why: "invalid: " + strings.Join(v.Words, ", ")}
	case r.Status != result.Completed && r.Status != result.Partial:
		return &RefusedError{Why: r.Status.String()}
	case v.Verdict == result.VerdictSuspect && !labelled:
		return &RefusedError{Why: "suspect: " + strings.Join(v.Words,
			", ") + "; a row of " + from[f] + " cannot say so"}
	}
	return nil
}

// labels are the words that go with a run's numbers; none for a valid measurement.
func labels(r *result.Result) []string {
	var words []string
	if r.Simulated {
		words = append(words, "simulated")
	}
	if r.Profiling != nil && r.Profiling.Enabled {
		words = append(words, "profiled")
	}
	if v := r.Validity; v == nil {
		words = append(words, "not judged")
	} else if v.Verdict != result.VerdictValid {
		words = append(words, string(v.Verdict))
		for _, w := range v.Words {
			if c := v.Check(w); c != nil && (c.Severity == result.Invalid || c.Severity == result.Suspect) {
				words = append(words, w)
			}
		}
	}
	return words
}

// Write makes one file of the records: a report of llm-d holds one, a file of
// InferenceX rows or PyTorch records any number. The error of a record that cannot
// be written is a *RefusedError, a *MissingError or says what the format lacks.
func Write(f Format, records []*result.Result, o Options) ([]byte, error) {
	if len(records) == 0 || f == LLMD && len(records) > 1 {
		return nil, fmt.Errorf("%d records in one file of %s", len(records), f)
	}
	var rows []any
	for _, r := range records {
		if err := refuse(f, r, o.Invalid); err != nil {
			return nil, err
		}
		var row any
		var err error
		switch f {
		case LLMD:
			row, err = writeLLMD(r)
		case InferenceX:
			row, err = writeInferenceX(r, o)
		case PyTorch:
			var list []pytorchRecord
			list, err = writePyTorch(r)
			for _, x := range list {
				rows = append(rows, x)
			}
		default:
			err = fmt.Errorf("%s can be imported, but not exported", f)
		}
		if err != nil {
			return nil, err
		}
		if f != PyTorch {
			rows = append(rows, row)
		}
	}
	var doc any = rows
	if f != PyTorch && len(rows) == 1 {
		doc = rows[0]
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(doc); err != nil {
		return nil, err
	}
	return []byte(printable.Text(b.String())), nil
}

// Output is a file for what Write makes.
func Output(f Format, path string) durable.Output {
	return durable.Output{
		Option: "--output", Path: path, Kind: "an export to " + string(f),
		Ours: func(head []byte) bool { return Wrote(f, head) },
	}
}

// Wrote reports whether a file begins as one that Write made in the format. A row of InferenceX
// has no place for the name of its writer: such a file is known by the order and the
// indentation of its keys.
func Wrote(f Format, head []byte) bool {
	text := string(head)
	begins := func(list ...string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(text, s) })
	}
	switch f {
	case LLMD:
		return begins("{\n  \"version\": \"") && strings.Contains(text, "\"keywords\": [\n      \""+writer+"\"")
	case PyTorch:
		return begins("[\n  {\n    \"benchmark\": {\n      \"name\": \"" + writer + " benchmark")
	case InferenceX:
		return begins("{\n  \"conc\": ", "[\n  {\n    \"conc\": ")
	}
	return false
}

// writer is who wrote a file, where a format has a place for the name.
const writer = "profllm"

// latencies are the statistics of a record that may be shown, in ms by their keys.
func latencies(r *result.Result) map[string]float64 {
	all := map[string]float64{}
	for _, f := range result.Families() {
		d, ok := r.Results.Latency[f]
		if !ok {
			continue
		}
		for _, s := range d.Statistics() {
			if key := f.Key(s.Name); !r.Validity.Withholds(key) {
				all[key] = s.Value
			}
		}
	}
	return all
}

// serveKeys are the numbers that are no latencies, by the keys of vllm bench serve.
// A number of failures that nobody reported is left out: whoever reads it back could
// not tell.
func serveKeys(r *result.Result) map[string]any {
	m := &r.Results
	keys := map[string]any{}
	put := func(key, ours string, v any, known bool) {
		if known && !r.Validity.Withholds(ours) {
			keys[key] = v
		}
	}
	for _, x := range []struct {
		key, ours string
		v         *float64
	}{
		{"duration", "duration_s", m.Duration}, {"request_throughput", "request_throughput", m.RequestThroughput},
		{"request_goodput", "request_goodput", m.RequestGoodput},
		{"input_throughput", "input_throughput", m.InputThroughput},
		{"output_throughput", "output_throughput", m.OutputThroughput},
		{"total_token_throughput", "total_token_throughput", m.TotalTokenThroughput},
		{"max_output_tokens_per_s", "max_output_tokens_per_s", m.MaxOutputTokensPerS},
		{"max_concurrent_requests", "max_concurrent_requests", m.MaxConcurrentRequests},
		{"spec_decode_acceptance_rate", "spec_decode_acceptance_rate", m.AcceptanceRate},
		{"spec_decode_acceptance_length", "spec_decode_acceptance_length", m.AcceptanceLength},
	} {
		put(x.key, x.ours, x.v, x.v != nil)
	}
	for _, x := range []struct {
		key, ours string
		v         *int
	}{
		{"completed", "completed_requests", m.CompletedRequests}, {"num_prompts", "num_prompts", m.NumPrompts},
		{"max_concurrency", "max_concurrency", m.MaxConcurrency},
	} {
		put(x.key, x.ours, x.v, x.v != nil)
	}
	put("failed", "failed_requests", m.FailedRequests, m.FailedRequests != nil &&
		!slices.Contains(m.Derived, "failed_requests"))
	put("total_input_tokens", "total_input_tokens", m.TotalInputTokens, m.TotalInputTokens != nil)
	put("total_output_tokens", "total_output_tokens", m.TotalOutputTokens, m.TotalOutputTokens != nil)
	put("request_rate", "request_rate", m.RequestRate, m.RequestRate != nil)
	return keys
}
