package engine

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
)

// spoil answers a generation request under the answer faults.
func (s *Server) spoil(w http.ResponseWriter, r *http.Request, n int64) http.ResponseWriter {
	f := &s.knobs.Planted.Answer
	kind := f.Of(s.knobs.Timing.Seed, uint64(n))
	switch kind {
	case "drop":
		io.Copy(io.Discard, r.Body)
		program.Wait(r.Context(), s.knobs.Timing.TTFT)
		panic(http.ErrAbortHandler)
	case "html":
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html><body><h1>It works</h1></body></html>\n")
		return nil
	}
	if kind == "" && f.Usage == 0 && f.Finish == "" && !f.NoUsage && !f.NoDone {
		return w
	}
	return &spoiler{ResponseWriter: w, faults: f, kind: kind}
}

// spoilAt is the event of a stream that is spoilt, counted from 1.
const spoilAt = 4

// A spoiler changes the events of a stream, of which each is one Write.
type spoiler struct {
	http.ResponseWriter
	faults *knobs.AnswerFaults
	kind   string
	events int
	over   bool // the rest is swallowed
}

func (w *spoiler) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Errors as vLLM 0.32.0 sends them inside a stream (create_streaming_error_response).
const (
	errorBody  = `{"error":{"message":"Internal server error","type":"InternalServerError","param":null,"code":500}`
	errorEvent = "data: " + errorBody + "}\n\ndata: [DONE]\n\n"
	errorUsage = "data: " + errorBody +
		`,"choices":[],"usage":{"prompt_tokens":8,"total_tokens":16,"completion_tokens":8}}` + "\n\ndata: [DONE]\n\n"
	garbage = "data: upstream connect error or disconnect/reset before headers\n\n"
)

func (w *spoiler) Write(b []byte) (int, error) {
	w.events++
	done := bytes.HasPrefix(b, []byte("data: [DONE]"))
	switch {
	case w.over, done && w.faults.NoDone:
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
	toldUsage  = lazyregexp.New(`"completion_tokens":(\d+)`)
	wholeUsage = lazyregexp.New(`"usage":\{[^{}]*(\{[^{}]*\})?[^{}]*\}`)
	toldFinish = lazyregexp.New(`"finish_reason":"[a-z]+"`)
)

// honest is an event, but for what all of them tell wrong.
func (w *spoiler) honest(b []byte) []byte {
	f := w.faults
	if f.Finish != "" {
		b = toldFinish.ReplaceAllLiteral(b, fmt.Appendf(nil, `"finish_reason":%q`, f.Finish))
	}
	if f.NoUsage {
		b = wholeUsage.ReplaceAllLiteral(b, []byte(`"usage":null`))
	}
	if f.Usage != 0 {
		b = toldUsage.ReplaceAllFunc(b, func(m []byte) []byte {
			n, _ := strconv.ParseFloat(string(toldUsage.FindSubmatch(m)[1]), 64)
			return fmt.Appendf(nil, `"completion_tokens":%.0f`, math.Round(n*f.Usage))
		})
	}
	return b
}
