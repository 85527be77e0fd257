package load

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The life of a request.
type state byte

const (
	unsent state = iota
	inFlight
	completed
	failed
	interrupted
)

// An outcome is what one request did. Times are readings of the run's clock in ns. It is written by one goroutine.
type outcome struct {
	state  state
	due    int64   // when the schedule wanted it sent
	ready  int64   // when it could be sent: due, or later if the cap on concurrency held it back
	start  int64   // when its first byte was handed to an open connection
	tokens []int64 // arrival of every token event
	input  int     // prompt tokens by the server's usage; else by the client
	output int     // answer tokens by the server's usage; else the number of token events
	usage  bool    // the server counted output
	text   string  // the answer, if kept
	err    string  // why it failed, for people
}

// lineLimit bounds one line of a stream, in bytes.
const lineLimit = 16 << 20

// A stream reads the server-sent events of one answer. Bytes may be cut anywhere. Ordinary token events are not
// decoded: a scan decides whether one carries a choice. Lines end in LF or CRLF.
type stream struct {
	out  *outcome
	keep bool // keep payloads for the text

	line    []byte // start of a line that has not ended yet
	pending []byte // payload of the event being read, lying in the bytes fed
	held    []byte // the same, copied
	has     bool   // one of the two holds a payload
	done    bool   // [DONE] was seen
	usage   []byte // last event with a usage object
	kept    []byte // payloads of token events, a line each
	problem string // what the server called an error, or what is wrong with the stream
}

// reset prepares s to read the answer of another request, keeping its buffers.
func (s *stream) reset(out *outcome, keep bool) {
	*s = stream{out: out, keep: keep, line: s.line[:0], held: s.held[:0], usage: s.usage[:0], kept: s.kept[:0]}
}

// feed reads p, which arrived at that time. It keeps no reference to p.
func (s *stream) feed(p []byte, at int64) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			if s.line = append(s.line, p...); len(s.line) > lineLimit {
				s.problem, s.line = fmt.Sprintf("a line of the stream is longer than %d MiB", lineLimit>>20), s.line[:0]
			}
			break
		}
		if len(s.line) == 0 {
			s.endLine(p[:end], at)
		} else {
			s.line = append(s.line, p[:end]...)
			s.endLine(s.line, at)
			s.hold() // a payload must not lie in s.line, which is reused
			s.line = s.line[:0]
		}
		p = p[end+1:]
	}
	s.hold()
}

// hold copies a payload that lies in bytes about to be reused.
func (s *stream) hold() {
	if s.pending != nil {
		s.held, s.pending = append(s.held[:0], s.pending...), nil
	}
}

// endLine reads one line without its LF.
func (s *stream) endLine(line []byte, at int64) {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) == 0 {
		s.dispatch(at)
		return
	}
	value, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return // a comment (keep-alive), or a field no server uses for data
	}
	value = bytes.TrimPrefix(value, []byte(" "))
	if s.has {
		s.hold()
		s.held = append(append(s.held, '\n'), value...)
		return
	}
	s.pending, s.has = value, true
}

// dispatch ends the event being read, if any.
func (s *stream) dispatch(at int64) {
	if !s.has {
		return
	}
	payload := s.pending
	if payload == nil {
		payload = s.held
	}
	s.event(payload, at)
	s.pending, s.held, s.has = nil, s.held[:0], false
}

// event takes one payload.
func (s *stream) event(payload []byte, at int64) {
	if string(payload) == "[DONE]" {
		s.done = true
		return
	}
	choice := carriesChoice(payload)
	if choice {
		s.out.tokens = append(s.out.tokens, at)
		if s.keep {
			s.kept = append(append(s.kept, payload...), '\n')
		}
	}
	if v := member(payload, `"usage"`); len(v) > 0 && v[0] == '{' {
		s.usage = append(s.usage[:0], payload...)
	} else if !choice && s.problem == "" {
		s.problem = errorMessage(payload)
	}
}

// close ends the stream: the last event counts even without the empty line after it, as it does for vLLM.
func (s *stream) close(at int64) {
	if len(s.line) > 0 {
		s.endLine(s.line, at)
		s.hold()
		s.line = s.line[:0]
	}
	s.dispatch(at)
}

// finish settles the outcome. why is what ended the exchange before its time, or "".
func (s *stream) finish(why string) {
	o := s.out
	if why == "" {
		why = s.problem
	}
	if why == "" && len(o.tokens) == 0 {
		why = "the answer carried no token event"
	}
	if why != "" {
		o.state, o.err = failed, why
		if n := len(o.tokens); n > 0 {
			o.err = fmt.Sprintf("%s (after %d token events)", why, n)
		}
		o.tokens = nil
		return
	}
	o.state = completed
	o.output = len(o.tokens)
	var u struct {
		Usage struct {
			Prompt     *int `json:"prompt_tokens"`
			Completion *int `json:"completion_tokens"`
		}
	}
	if len(s.usage) > 0 && json.Unmarshal(s.usage, &u) == nil {
		if u.Usage.Prompt != nil {
			o.input = *u.Usage.Prompt
		}
		if u.Usage.Completion != nil && *u.Usage.Completion > 0 {
			o.output, o.usage = *u.Usage.Completion, true
		}
	}
	if s.keep {
		o.text = answerText(s.kept)
	}
}

// carriesChoice reports whether a payload has a choices list that is not empty. Inside a JSON string every quote is
// escaped, so the bytes "choices" between two bare quotes are a key or a value, and only a key is followed by a colon.
func carriesChoice(payload []byte) bool {
	v := member(payload, `"choices"`)
	if len(v) == 0 || v[0] != '[' {
		return false
	}
	v = skipSpace(v[1:])
	return len(v) > 0 && v[0] != ']'
}

// member returns what follows the first key of that name (given with its quotes) and its colon, or nil.
func member(payload []byte, key string) []byte {
	for {
		i := bytes.Index(payload, []byte(key))
		if i < 0 {
			return nil
		}
		payload = payload[i+len(key):]
		if rest := skipSpace(payload); len(rest) > 0 && rest[0] == ':' {
			return skipSpace(rest[1:])
		}
	}
}

func skipSpace(p []byte) []byte {
	for len(p) > 0 && (p[0] == ' ' || p[0] == '\t' || p[0] == '\n' || p[0] == '\r') {
		p = p[1:]
	}
	return p
}

// answerText joins the texts of token events, one payload a line.
func answerText(payloads []byte) string {
	var text []byte
	for line := range bytes.Lines(payloads) {
		var e struct {
			Choices []struct {
				Text  string
				Delta struct{ Content string }
			}
		}
		if json.Unmarshal(line, &e) == nil && len(e.Choices) > 0 {
			text = append(append(text, e.Choices[0].Text...), e.Choices[0].Delta.Content...)
		}
	}
	return string(text)
}
