package answer

import (
	"bytes"
	"errors"
	"fmt"
)

// A responseEvent is what the client takes from an event of the Responses API. Byte slices are
// JSON values that lie in the payload.
type responseEvent struct {
	kind     []byte // string: the event's type
	delta    []byte // string: the text that the event adds
	response []byte // object: the response so far
	status   []byte // string: of the response
	reason   []byte // string: why the response is incomplete
	usage    []byte // object: of the response; nil if absent or null
	failed   bool   // the server reports an error
}

var errNoResponse = errors.New("response is not an object")

// readResponseEvent reads a payload once, from its top level down.
func readResponseEvent(payload []byte) (e responseEvent, err error) {
	s := scanner{p: payload}
	for n := 0; s.member('{', n); n++ {
		switch key := s.key(); string(key) {
		case "type":
			e.kind = s.value()
		case "delta":
			e.delta = s.value()
		case "response":
			s.response(&e)
		case "error":
			e.failed = !empty(s.value()) || e.failed
		case "object":
			e.failed = string(s.value()) == `"error"` || e.failed
		default:
			s.value()
		}
	}
	if s.space(); s.err == nil && s.i < len(s.p) {
		s.err = errNoJSON
	}
	return e, s.err
}

// response reads the response that an event carries.
func (s *scanner) response(e *responseEvent) {
	if s.space(); s.i < len(s.p) && s.p[s.i] != '{' {
		if present(s.value()) != nil {
			s.fail(errNoResponse)
		}
		return
	}
	start := s.i
	for n := 0; s.member('{', n); n++ {
		switch key := s.key(); string(key) {
		case "status":
			e.status = s.value()
		case "usage":
			if e.usage = present(s.value()); e.usage != nil && e.usage[0] != '{' {
				s.fail(errNoObject)
			}
		case "incomplete_details":
			s.reason(e)
		default:
			s.value()
		}
	}
	if s.err == nil {
		e.response = s.p[start:s.i]
	}
}

// reason reads why a response is incomplete.
func (s *scanner) reason(e *responseEvent) {
	if s.space(); s.i >= len(s.p) || s.p[s.i] != '{' {
		s.value()
		return
	}
	for n := 0; s.member('{', n); n++ {
		if key := s.key(); string(key) == "reason" {
			e.reason = s.value()
		} else {
			s.value()
		}
	}
}

// responseEvent takes one payload of the Responses API. Token events are those of vLLM's client
// (0.32, vllm/benchmarks/lib/endpoint_request_func.py): text, and reasoning, which is decoded
// alike. All others only frame them, but for the last.
func (s *stream) responseEvent(payload []byte, at int64) {
	e, err := readResponseEvent(payload)
	kind := bytes.Trim(e.kind, `"`)
	switch {
	case err != nil:
		s.fault("an event cannot be read: %v: %.100q", err, payload)
	case string(kind) == "response.failed" || string(kind) == "response.cancelled":
		s.fault("%s", errorText(firstOf(e.response, payload)))
	case string(kind) == "error" || e.failed:
		s.fault("%s", errorText(payload))
	case string(kind) == "response.output_text.delta" && len(e.delta) > 2 && e.delta[0] == '"':
		s.texts++
		s.keepText(e.delta)
		s.token(&s.out.Tokens, at)
	case string(kind) == "response.reasoning_text.delta" && len(e.delta) > 2 && e.delta[0] == '"',
		string(kind) == "response.function_call_arguments.delta" && len(e.delta) > 2:
		s.thoughts++
		s.token(&s.out.Tokens, at)
	case string(kind) == "response.output_text.delta" && len(s.out.Tokens) == 0:
		s.token(&s.early, at)
	case string(kind) == "response.output_text.delta":
		s.token(&s.out.Tokens, at)
	case string(kind) == "response.completed" || string(kind) == "response.incomplete":
		s.endResponse(&e)
	case len(kind) == 0:
		s.stray(payload)
	}
}

// endResponse takes the last event of a response. One that reached its length is whole: vLLM
// calls its status incomplete, in an event response.completed.
func (s *stream) endResponse(e *responseEvent) {
	s.done = true
	if e.usage != nil {
		s.usage = append(s.usage[:0], e.usage...)
	}
	switch status, reason := string(e.status), present(e.reason); {
	case status != "" && status != `"completed"` && status != `"incomplete"`:
		s.fault("the response ended with status %.40s", status)
	case reason != nil && string(reason) != `"max_output_tokens"`:
		s.fault("the response is incomplete: %.80s", reason)
	}
}

// firstOf returns the first of two that is not empty.
func firstOf(a, b []byte) []byte {
	if len(a) > 0 {
		return a
	}
	return b
}

// responseShortcoming says why a stream of the Responses API that has ended is no whole answer
// whose tokens are known, or "".
func (s *stream) responseShortcoming(u usage) string {
	switch n := u.completion; {
	case !s.done && len(s.out.Tokens) > 0:
		return "the stream ended without response.completed"
	case len(s.out.Tokens) == 0:
		return "the answer carried no token event"
	case n == nil:
		return ""
	default:
		return s.miscounted(*n)
	}
}

// miscounted says why the server cannot have generated the n tokens that it counts, or "".
func (s *stream) miscounted(n int) string {
	switch {
	case n < 1:
		return fmt.Sprintf("the server counts %d completion tokens", n)
	case s.asked > 0 && n > s.asked+overshoot:
		return fmt.Sprintf("the server counts %d completion tokens, but %d were asked for", n, s.asked)
	case s.asked > 0 && s.texts > n:
		return fmt.Sprintf("the server counts %d completion tokens, but sent text %d times", n, s.texts)
	}
	return ""
}

// lastEvent names the event that ends a stream, in messages.
func (s *stream) lastEvent() string {
	if s.form == Responses {
		return "response.completed"
	}
	return "[DONE]"
}
