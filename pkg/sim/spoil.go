package sim

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
)

// answerFaults spoil answers that the engine made well: what a server, or a machine between server and client, gets wrong
// on the wire. Most are the share of generation requests that one kind meets.
type answerFaults struct {
	share    map[string]float64 // by the name of the fault
	usage    float64            // factor of the completion tokens that the client is told; 0: honest
	finish   string             // the finish reason that the client is told; empty: the truth
	noParams bool               // no kv_transfer_params
	noUsage  bool               // no usage
	noDone   bool               // the stream ends without [DONE]
}

// spoiltOnWire lists the faults that an answer meets on the wire, of which each answer has the first that is drawn.
var spoiltOnWire = []string{"drop", "cut", "error-event", "error-usage", "garbage", "html"}

// spoilt lists the faults that are a share of requests, in the order in which they are drawn.
var spoilt = slices.Concat(spoiltOnWire, []string{"short", "recompute"})

// answerFaultNames lists all of them.
var answerFaultNames = slices.Concat(spoilt, []string{"usage", "finish", "no-params", "no-usage", "no-done"})

func (f *answerFaults) set(name, value string) error {
	var err error
	switch name {
	case "usage":
		if f.usage, err = strconv.ParseFloat(value, 64); err != nil || !(f.usage > 0 && f.usage <= 1000) {
			return fmt.Errorf("usage=%q: want a factor, such as 1.1", value)
		}
		return nil
	case "finish":
		if f.finish = value; value == "" {
			return fmt.Errorf("finish wants a value, such as abort")
		}
		return nil
	case "no-params", "no-usage", "no-done":
		if value != "" {
			return fmt.Errorf("%s takes no value, got %q", name, value)
		}
		*map[string]*bool{"no-params": &f.noParams, "no-usage": &f.noUsage, "no-done": &f.noDone}[name] = true
		return nil
	}
	x, err := parseShare(value)
	if err != nil {
		return fmt.Errorf("%s=%q: want a number from 0 to 1", name, value)
	}
	if f.share == nil {
		f.share = map[string]float64{}
	}
	f.share[name] = x
	return nil
}

// hits reports whether a share of the requests includes the nth.
func (f *answerFaults) hits(name string, seed, n uint64) bool {
	return f.share[name] > 0 && unit(mix(seed, uint64(slices.Index(spoilt, name))), n) < f.share[name]
}

// of returns the fault that the nth request meets on the wire, "" if its answer arrives whole.
func (f *answerFaults) of(seed, n uint64) string {
	for _, name := range spoiltOnWire {
		if f.hits(name, seed, n) {
			return name
		}
	}
	return ""
}

// spoil answers a generation request under the answer faults.
func (s *server) spoil(w http.ResponseWriter, r *http.Request, n int64) http.ResponseWriter {
	f := &s.knobs.faults.answer
	kind := f.of(s.knobs.timing.seed, uint64(n))
	switch kind {
	case "drop":
		io.Copy(io.Discard, r.Body)
		wait(r.Context(), s.knobs.timing.ttft)
		panic(http.ErrAbortHandler)
	case "html":
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html><body><h1>It works</h1></body></html>\n")
		return nil
	}
	if kind == "" && f.usage == 0 && f.finish == "" && !f.noUsage && !f.noDone {
		return w
	}
	return &spoiler{ResponseWriter: w, faults: f, kind: kind}
}

// spoilAt is the event of a stream that is spoilt, counted from 1.
const spoilAt = 4

// A spoiler changes the events of a stream, of which each is one Write.
type spoiler struct {
	http.ResponseWriter
	faults *answerFaults
	kind   string
	events int
	over   bool // the rest is swallowed
}

func (w *spoiler) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Errors as vLLM 0.32.0 sends them inside a stream (create_streaming_error_response).
const (
	errorBody  = `{"error":{"message":"Internal server error","type":"InternalServerError","param":null,"code":500}`
	errorEvent = "data: " + errorBody + "}\n\ndata: [DONE]\n\n"
	errorUsage = "data: " + errorBody + `,"choices":[],"usage":{"prompt_tokens":8,"total_tokens":16,"completion_tokens":8}}` + "\n\ndata: [DONE]\n\n"
	garbage    = "data: upstream connect error or disconnect/reset before headers\n\n"
)

func (w *spoiler) Write(b []byte) (int, error) {
	w.events++
	done := bytes.HasPrefix(b, []byte("data: [DONE]"))
	switch {
	case w.over, done && w.faults.noDone:
		return len(b), nil
	case w.events != spoilAt || done:
		return w.send(b, w.honest(b))
	case w.kind == "cut":
		panic(http.ErrAbortHandler)
	case w.kind == "garbage":
		return w.send(b, []byte(garbage))
	case w.kind == "error-event", w.kind == "error-usage":
		w.over = true
		return w.send(b, []byte(map[string]string{"error-event": errorEvent, "error-usage": errorUsage}[w.kind]))
	}
	return w.send(b, w.honest(b))
}

// send writes other bytes in the place of b.
func (w *spoiler) send(b, instead []byte) (int, error) {
	if _, err := w.ResponseWriter.Write(instead); err != nil {
		return 0, err
	}
	return len(b), nil
}

var (
	toldUsage  = regexp.MustCompile(`"completion_tokens":(\d+)`)
	wholeUsage = regexp.MustCompile(`"usage":\{[^{}]*(\{[^{}]*\})?[^{}]*\}`)
	toldFinish = regexp.MustCompile(`"finish_reason":"[a-z]+"`)
)

// honest is an event, but for what all of them tell wrong.
func (w *spoiler) honest(b []byte) []byte {
	f := w.faults
	if f.finish != "" {
		b = toldFinish.ReplaceAllLiteral(b, fmt.Appendf(nil, `"finish_reason":%q`, f.finish))
	}
	if f.noUsage {
		b = wholeUsage.ReplaceAllLiteral(b, []byte(`"usage":null`))
	}
	if f.usage != 0 {
		b = toldUsage.ReplaceAllFunc(b, func(m []byte) []byte {
			n, _ := strconv.ParseFloat(string(toldUsage.FindSubmatch(m)[1]), 64)
			return fmt.Appendf(nil, `"completion_tokens":%.0f`, math.Round(n*f.usage))
		})
	}
	return b
}
