package sglang

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// record is one line of the file.
type record struct {
	file string
	line int
	part result.Part
	lens lengths
}

// lengths are what the client was told to make; nil where it does not say so.
type lengths struct{ input, output, ratio *float64 }

// positionError is a line that is no JSON object.
type positionError struct {
	col int // from 1, in bytes
	cut bool
	err error
}

func (e *positionError) Error() string { return e.err.Error() }
func (e *positionError) Unwrap() error { return e.err }

var errNoResult = errors.New("no number of completed requests or no duration")

// parseLine reads one object. A key of the wrong type costs only itself.
func parseLine(line []byte, file string, number int) (*record, error) {
	text, quoted := quoteNumbers(line)
	column := func(offset int) int {
		for _, at := range quoted {
			if at < offset {
				offset -= 2
			}
		}
		return max(offset, 0) + 1
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	fail := func(err error) error {
		cut := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) { // the decoder's way of saying that the text ends too soon
			cut = cut || syntax.Offset >= int64(len(text)) && strings.Contains(syntax.Error(), "unexpected end")
		}
		if cut {
			return &positionError{len(line) + 1, true, err}
		}
		return &positionError{column(int(dec.InputOffset())), false, err}
	}
	if t, err := dec.Token(); err != nil {
		return nil, fail(err)
	} else if t != json.Delim('{') {
		return nil, &positionError{1, false, fmt.Errorf("want an object, got %.20q", line)}
	}
	r := &record{file: file, line: number}
	r.part.Metrics = &result.Metrics{Source: file}
	seen := map[string]int{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, fail(err)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, fail(err)
		}
		name, _ := key.(string) // the decoder lets nothing else stand there
		if seen[name]++; seen[name] == 2 {
			r.warn(result.Contradicts, name, column(int(dec.InputOffset())-len(raw)), pyjson.TwiceMessage)
		}
		r.key(name, raw, column(int(dec.InputOffset())-len(raw)))
	}
	if _, err := dec.Token(); err != nil {
		return nil, fail(err)
	}
	if rest := bytes.TrimSpace(text[dec.InputOffset():]); len(rest) > 0 {
		return nil, &positionError{column(int(dec.InputOffset())), false, fmt.Errorf("text after the object: %.20q", rest)}
	}
	m := r.part.Metrics
	if m.CompletedRequests == nil || m.Duration == nil {
		return nil, errNoResult
	}
	r.countRequests()
	r.compare()
	return r, nil
}

// countRequests counts in the lists what the client gives no sum of.
func (r *record) countRequests() {
	m, s := r.part.Metrics, r.part.Samples
	if s == nil {
		return
	}
	if m.NumPrompts == nil && s.InputLen != nil {
		m.NumPrompts = new(len(s.InputLen))
		m.NoteDerived("num_prompts")
	}
	if s.Errors != nil {
		failed := 0
		for _, e := range s.Errors {
			if e != "" {
				failed++
			}
		}
		m.FailedRequests = &failed
	}
}

// quoteNumbers puts Python's bare NaN, Infinity and -Infinity in quotes, outside
// of strings, and returns the offsets of what it quoted in the new text.
func quoteNumbers(line []byte) (text []byte, quoted []int) {
	if !bytes.Contains(line, []byte("NaN")) && !bytes.Contains(line, []byte("Infinity")) {
		return line, nil
	}
	inString := false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case inString && c == '\\' && i+1 < len(line):
			text = append(text, c)
			i++
			c = line[i]
		case c == '"':
			inString = !inString
		case !inString:
			if word := bareWord(line[i:]); word != "" {
				quoted = append(quoted, len(text))
				text = append(append(append(text, '"'), word...), '"')
				i += len(word) - 1
				continue
			}
		}
		text = append(text, c)
	}
	return text, quoted
}

func bareWord(at []byte) string {
	for _, w := range []string{"NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(at, []byte(w)) {
			return w
		}
	}
	return ""
}

func (r *record) warn(kind result.WarningKind, key string, col int, text string) {
	r.part.Warnings = append(r.part.Warnings, result.Warning{Kind: kind, File: r.file, Line: r.line, Col: col, Key: key, Text: text})
}

// ignored are keys that are known and kept out: what was asked for, texts, and
// counts of another tokenizer.
var ignored = map[string]bool{
	"tag": true, "sharegpt_output_len": true,
	"total_input_text_tokens": true, "total_input_vision_tokens": true, "total_output_tokens_retokenized": true,
	"generated_texts": true, "output_throughput_retokenized": true, "total_throughput_retokenized": true,
}

func (r *record) key(name string, raw []byte, col int) {
	m := r.part.Metrics
	if string(raw) == "null" {
		return
	}
	// SGLang's e2e_latency is the family e2el.
	if family, stat, ok := result.SplitKey(strings.Replace(name, "_e2e_latency_ms", "_e2el_ms", 1)); ok {
		if v, ok := r.finite(name, raw, col); ok {
			_ = m.SetLatency(family, stat, v) // SplitKey accepted the name
		}
		return
	}
	switch {
	case r.asked(name, raw):
	case r.float(name, raw, col), r.integer(name, raw, col), r.list(name, raw, col), r.identity(name, raw, col), ignored[name]:
	default:
		r.part.UnknownKeys++
	}
}

func (r *record) float(name string, raw []byte, col int) bool {
	m := r.part.Metrics
	to, ok := map[string]**float64{
		"duration": &m.Duration, "request_throughput": &m.RequestThroughput, "input_throughput": &m.InputThroughput,
		"output_throughput": &m.OutputThroughput, "total_throughput": &m.TotalTokenThroughput, "accept_length": &m.AcceptanceLength,
		"max_output_tokens_per_s": &m.MaxOutputTokensPerS, "max_concurrent_requests": &m.MaxConcurrentRequests,
		"concurrency": &m.MeanConcurrentRequests, // measured; max_concurrency is the cap
	}[name]
	if !ok {
		return false
	}
	if v, ok := r.finite(name, raw, col); ok {
		*to = &v
	}
	return true
}

func (r *record) integer(name string, raw []byte, col int) bool {
	m := r.part.Metrics
	small, ok := map[string]**int{
		"num_prompts": &m.NumPrompts, "completed": &m.CompletedRequests, "max_concurrency": &m.MaxConcurrency,
	}[name]
	large, okLarge := map[string]**int64{
		"total_input_tokens": &m.TotalInputTokens, "total_output_tokens": &m.TotalOutputTokens,
	}[name]
	if !ok && !okLarge {
		return false
	}
	v, finite := r.finite(name, raw, col)
	switch {
	case !finite:
	case v != math.Trunc(v) || math.Abs(v) > 1<<53:
		r.warn(result.NoNumber, name, col, fmt.Sprintf("no whole number: %.40s", raw))
	case ok:
		*small = new(int(v))
	default:
		*large = new(int64(v))
	}
	return true
}

// finite decodes a measured number.
func (r *record) finite(name string, raw []byte, col int) (float64, bool) {
	v, err := number(raw)
	switch {
	case err != nil:
		r.warn(result.NoNumber, name, col, err.Error())
		return 0, false
	case math.IsNaN(v) || math.IsInf(v, 0):
		r.warn(result.NotFinite, name, col, fmt.Sprintf("is %v", v))
		return 0, false
	}
	return v, true
}

// number reads a JSON number, or one of Python's words in quotes.
func number(raw []byte) (float64, error) {
	switch string(raw) {
	case `"NaN"`:
		return math.NaN(), nil
	case `"Infinity"`, `"inf"`:
		return math.Inf(1), nil
	case `"-Infinity"`:
		return math.Inf(-1), nil
	}
	var v float64
	if err := json.Unmarshal(raw, &v); err != nil {
		return 0, fmt.Errorf("no number: %.40s", raw)
	}
	return v, nil
}

// list reads the lists of --output-details.
func (r *record) list(name string, raw []byte, col int) bool {
	s := r.part.Samples
	if s == nil {
		s = &result.Samples{}
	}
	var err error
	switch name {
	case "input_lens":
		err = json.Unmarshal(raw, &s.InputLen)
	case "output_lens":
		err = json.Unmarshal(raw, &s.OutputLen)
	case "ttfts":
		err = json.Unmarshal(raw, &s.TTFT)
	case "itls":
		err = json.Unmarshal(raw, &s.ITL)
	case "errors":
		err = json.Unmarshal(raw, &s.Errors)
	default:
		return false
	}
	if err != nil { // requests are matched by index, so the whole list is of no use
		kind := result.NoNumber
		if bytes.Contains(raw, []byte(`"NaN"`)) || bytes.Contains(raw, []byte(`Infinity"`)) {
			kind = result.NotFinite
		}
		r.warn(kind, name, col, err.Error())
		drop(s, name)
	}
	r.part.Samples = s
	return true
}

func drop(s *result.Samples, name string) {
	switch name {
	case "input_lens":
		s.InputLen = nil
	case "output_lens":
		s.OutputLen = nil
	case "ttfts":
		s.TTFT = nil
	case "itls":
		s.ITL = nil
	case "errors":
		s.Errors = nil
	}
}

// identity reads what the client says it was asked to do.
func (r *record) identity(name string, raw []byte, col int) bool {
	b := &r.part.Benchmark
	var to *string
	switch name {
	case "backend":
		to = &b.Backend
	case "dataset_name":
		to = &b.DatasetName
	case "server_info": // of the engine, whatever it says; a simulated one says so
		var info struct {
			Simulated json.RawMessage `json:"simulated"`
		}
		r.part.Simulated = r.part.Simulated || json.Unmarshal(raw, &info) == nil && result.Labelled(info.Simulated)
		return true
	case "simulated":
		r.part.Simulated = r.part.Simulated || result.Labelled(raw)
		return true
	case "request_rate":
		v, err := number(raw)
		switch {
		case string(raw) == `"trace"`: // the times of a trace: there is no rate
		case err != nil || math.IsNaN(v) || math.IsInf(v, -1):
			r.warn(result.BadValue, name, col, fmt.Sprintf("no rate: %.40s", raw))
		default:
			b.RequestRate = new(result.Rate(v))
			b.Arrivals = result.Drawn // numpy's exponential gaps, as they come
			r.part.Metrics.RequestRate = b.RequestRate
		}
		return true
	default:
		return false
	}
	if err := json.Unmarshal(raw, to); err != nil {
		r.warn(result.BadValue, name, col, fmt.Sprintf("no text: %.40s", raw))
	}
	return true
}
