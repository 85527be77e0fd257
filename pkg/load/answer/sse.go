package answer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// What a server may send for one request. Whatever exceeds these ends the exchange.
const (
	// lineLimit bounds one line of a stream, and one event, in bytes.
	lineLimit = 16 << 20
	// eventLimit bounds the token events of an answer whose number of tokens is not known.
	eventLimit = 1 << 24
	// overshoot is how many tokens an answer may have beyond those asked for: speculative
	// decoding may accept a draft that reaches beyond the limit.
	overshoot = 64
)

// A stream reads the server-sent events of one answer. Bytes may be cut anywhere. Lines end in
// LF or CRLF.
//
// A token event carries text, reasoning or a part of a tool call. What announces the answer is none: a role, an empty
// delta. An empty text is a token only if it may be one, such as a special token: vLLM sends an event for it. It is one
// between texts, before an end was named; before the first text, or where the end is named, it is one only if the
// server's usage counts just these tokens more than there were texts: see [stream.emptyTokens].
//
// A stream is a whole answer only if the server says that it is: a finish_reason that means
// success, the token usage that was asked for, [DONE]. See [stream.shortcoming] for what may be
// missing.
type stream struct {
	out   *Outcome
	form  Form
	asked int  // tokens that the request asked for; 0 is unknown
	keep  bool // keep payloads for the text

	line    []byte // start of a line that has not ended yet
	pending []byte // payload of the event being read, lying in the bytes fed
	held    []byte // the same, copied
	has     bool   // one of the two holds a payload
	failing bool   // the event being read is named "error"
	named   bool   // it has a name of its own
	comment []byte // the newest comment of the event being read: Dynamo names its errors there

	begun    bool    // a line was read
	done     bool    // [DONE] was seen, or the event that ends a response
	finish   bool    // a finish_reason was seen
	texts    int     // choices that carried text
	thoughts int     // choices that carried reasoning, or a part of a tool call
	early    []int64 // arrivals of empty texts before the first token
	last     []int64 // arrivals of events without a text that name the end of a choice, or come after it
	usage    []byte  // newest usage object
	kept     []byte  // texts of token events, as JSON strings, a line each
	problem  string  // the first thing that is wrong with the stream, or that the server calls an error
	fatal    bool    // the problem is one that more bytes cannot end

	pattern  pattern  // of token events
	document document // the answer, if it is one
}

// reset prepares s to read the answer of another request, keeping its buffers.
func (s *stream) reset(out *Outcome, w Wanted) {
	*s = stream{
		out: out, form: w.Form, asked: w.Tokens, keep: w.Text, document: s.document, pattern: s.pattern,
		line: s.line[:0], held: s.held[:0], comment: s.comment[:0], usage: s.usage[:0], kept: s.kept[:0],
		early: s.early[:0], last: s.last[:0],
	}
	s.document.reset()
}

// fault notes what is wrong. The first fault counts: others follow from it.
func (s *stream) fault(format string, args ...any) {
	if s.problem == "" {
		s.problem = fmt.Sprintf(format, args...)
	}
}

// abort is a fault after which nothing more is read.
func (s *stream) abort(format string, args ...any) {
	s.fault(format, args...)
	s.fatal = true
}

// feed reads p, which arrived at that time. It keeps no reference to p.
func (s *stream) feed(p []byte, at int64) {
	if s.form == Document {
		if err := s.document.read(p); err != nil && !s.document.failed {
			s.abort("the answer cannot be read: %v", err)
		}
		return
	}
	for len(p) > 0 && !s.fatal {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			if s.line = append(s.line, p...); len(s.line) > lineLimit {
				s.abort("a line of the stream is longer than %d MiB", lineLimit>>20)
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
	if !s.begun {
		line, s.begun = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")), true // a byte order mark
	}
	if len(line) == 0 {
		s.dispatch(at)
		return
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		s.data(value)
	case "event":
		s.failing = string(value) == "error"
		s.named = !s.failing && len(value) > 0 && string(value) != "message"
	case "":
		s.comment = append(s.comment[:0], value[:min(len(value), ErrorBytes)]...)
	case "id", "retry":
	default:
		s.stray(line)
	}
}

// data adds a line to the payload of the event being read.
func (s *stream) data(value []byte) {
	if !s.has {
		s.pending, s.has = value, true
		return
	}
	s.hold()
	if s.held = append(append(s.held, '\n'), value...); len(s.held) > lineLimit {
		s.abort("an event of the stream is longer than %d MiB", lineLimit>>20)
	}
}

// stray takes what is no part of an answer: an error page, an answer that is not streamed, the
// words of a proxy.
func (s *stream) stray(text []byte) {
	s.fault("%s", cmp.Or(errorMessage(text), fmt.Sprintf("not part of a streamed answer: %.100q", text)))
}

// dispatch ends the event being read, if any.
func (s *stream) dispatch(at int64) {
	payload := s.pending
	if payload == nil {
		payload = s.held
	}
	switch {
	case s.failing && !s.has:
		s.fault("%s", errorText(s.comment))
	case s.failing:
		s.fault("%s", errorText(payload))
	case s.has:
		s.event(bytes.TrimSpace(payload), at)
	}
	s.pending, s.held, s.comment, s.has, s.failing, s.named = nil, s.held[:0], s.comment[:0], false, false, false
}

// event takes one payload.
func (s *stream) event(payload []byte, at int64) {
	switch {
	case len(payload) == 0:
		return
	case string(payload) == "[DONE]":
		s.done = true
		return
	case s.done:
		s.fault("an event after %s: %.100q", s.lastEvent(), payload)
		return
	case s.form == Responses:
		s.responseEvent(payload, at)
		return
	}
	c, err := s.pattern.read(payload)
	switch {
	case err != nil:
		s.fault("an event cannot be read: %v: %.100q", err, payload)
	case c.failed:
		s.fault("%s", errorText(payload))
	case !c.list && c.usage == nil && s.named:
		s.out.Lenient |= NamedEvent
	case !c.list && c.usage == nil && c.keys == 0:
		s.out.Lenient |= EmptyObject
	case !c.list && c.usage == nil && c.envelope == 3:
		s.out.Lenient |= NoChoices
	case !c.list && c.usage == nil:
		s.stray(payload)
	default:
		s.take(&c, at)
	}
}

// take adds a chunk to the answer.
func (s *stream) take(c *chunk, at int64) {
	if c.usage != nil {
		s.usage = append(s.usage[:0], c.usage...)
	}
	if c.choices == 0 {
		return
	}
	s.texts += c.texts
	s.thoughts += c.thoughts + c.calls
	switch {
	case c.texts+c.thoughts+c.calls > 0:
		s.token(&s.out.Tokens, at)
	case s.finish, c.finish != nil:
		s.token(&s.last, at)
	case c.role, c.empties == 0:
	case len(s.out.Tokens) == 0:
		s.token(&s.early, at)
	default:
		s.token(&s.out.Tokens, at)
	}
	if c.finish != nil {
		s.finish = true
		switch string(c.finish) {
		case `"eos"`, `"end_turn"`: // Together AI's, and that of Anthropic's API
			s.out.Lenient |= OtherFinish
		default:
			if !Succeeded(c.finish) {
				s.fault("finish_reason %s", c.finish)
			}
		}
	}
	if c.text != nil {
		s.keepText(c.text)
	}
}

// token notes a token event, or what may be one.
func (s *stream) token(list *[]int64, at int64) {
	if *list = append(*list, at); len(*list) > s.mostEvents() {
		s.abort("the server sent more than %d token events", s.mostEvents())
	}
}

// emptyTokens adds empty texts to the token events of an answer of n tokens if these are what is missing. Servers that
// send several tokens in an event miss more.
func (s *stream) emptyTokens(n int) {
	tokens := &s.out.Tokens
	none, missing := len(*tokens) == 0, n-len(*tokens)
	if first := len(s.early); first > 0 && (none || missing == first || missing == first+1 && len(s.last) > 0) {
		*tokens = slices.Insert(*tokens, 0, s.early...)
		missing -= first
	}
	if len(s.last) > 0 && (len(*tokens) == 0 && n > 0 || missing == 1) {
		*tokens = append(*tokens, s.last[0])
	}
}

// keepText keeps a text, a JSON string, if texts are wanted.
func (s *stream) keepText(text []byte) {
	if s.keep {
		s.kept = append(append(s.kept, text...), '\n')
	}
}

// mostEvents returns how many token events the answer may have: a token may come as reasoning
// and as content.
func (s *stream) mostEvents() int {
	if s.asked == 0 {
		return eventLimit
	}
	return 2*s.asked + overshoot
}

// Succeeded reports whether a finish_reason, as JSON, is the end of a whole answer. vLLM's others are
// "abort" and "error" (vLLM
// 0.32, vllm/v1/engine, FinishReason); OpenAI's "content_filter" withholds text. TGI names the stop by its kind.
func Succeeded(reason []byte) bool {
	switch string(reason) {
	case `"stop"`, `"length"`, `"tool_calls"`, `"function_call"`, `"repetition"`, `"eos_token"`, `"stop_sequence"`:
		return true
	}
	return false
}

// close ends the stream: the last event counts even without the empty line after it, as it does
// for vLLM.
func (s *stream) close(at int64) {
	if s.form == Document {
		if s.out.Tokens = append(s.out.Tokens[:0], at); s.problem == "" {
			s.problem = s.document.trouble()
		}
		return
	}
	if len(s.line) > 0 {
		s.endLine(s.line, at)
		s.hold()
		s.line = s.line[:0]
	}
	s.dispatch(at)
}

// settle settles the outcome. why is what ended the exchange before its time, or "". What the
// server said of an error comes before how the connection ended after it.
func (s *stream) settle(why string) {
	o := s.out
	var u usage
	why = cmp.Or(s.problem, why)
	if why == "" {
		var err error
		if u, err = s.readUsage(); err != nil {
			why = err.Error()
		} else if s.form != Document && u.completion != nil {
			s.emptyTokens(*u.completion)
		}
	}
	if why == "" {
		switch s.form {
		case Choices:
			why = s.shortcoming(u)
		case Responses:
			why = s.responseShortcoming(u)
		}
	}
	if why != "" {
		o.State, o.Err = Failed, why
		if n := len(o.Tokens); n > 0 && s.form != Document {
			o.Err = fmt.Sprintf("%s (after %d token events)", why, n)
		}
		o.Tokens = nil
		return
	}
	o.State, o.Output, o.Usage = Completed, len(o.Tokens), u.completion != nil
	if s.form == Document {
		o.Output, o.Usage = 0, u.prompt != nil
	} else if o.Usage {
		o.Output = *u.completion
	}
	if u.prompt != nil {
		o.Input = *u.prompt
	}
	if s.keep {
		o.Text = answerText(s.kept)
	}
}

// shortcoming says why a stream that has ended is no whole answer whose tokens are known, or "".
//
// A stream without [DONE] is whole if it named the reason of its end and its usage; one without
// a reason if it has exactly the tokens that were asked for. Without usage, tokens are counted
// by events.
func (s *stream) shortcoming(u usage) string {
	switch n := u.completion; {
	case n != nil && *n < 1:
		return s.miscounted(*n)
	case len(s.out.Tokens) == 0:
		return "the answer carried no token event"
	case !s.done && (!s.finish || n == nil):
		return "the stream ended without [DONE]"
	case !s.finish && n == nil:
		return "the stream ended without a finish_reason"
	case n == nil:
	case !s.finish && *n != s.asked:
		return fmt.Sprintf("the stream ended without a finish_reason, at %d of %d tokens", *n, s.asked)
	default:
		return s.miscounted(*n)
	}
	return ""
}

// A usage is how many tokens the server counts; nil is not said.
type usage struct{ prompt, completion *int }

// tokenLimit bounds the tokens of a prompt or an answer. The longest context of the field has
// 10 million.
const tokenLimit = 1 << 26

// readUsage reads the newest usage object, if there is one.
func (s *stream) readUsage() (u usage, err error) {
	raw := s.usage
	if s.form == Document {
		raw = s.document.usage
	}
	if len(raw) == 0 {
		return u, nil
	}
	var is struct {
		Prompt     json.RawMessage `json:"prompt_tokens"`
		Completion json.RawMessage `json:"completion_tokens"`
		Input      json.RawMessage `json:"input_tokens"` // of the Responses API, like the next
		Output     json.RawMessage `json:"output_tokens"`
	}
	if json.Unmarshal(raw, &is) != nil {
		return u, fmt.Errorf("the server's usage cannot be read: %.100q", raw)
	}
	if s.form == Responses {
		is.Prompt, is.Completion = is.Input, is.Output
	}
	for _, c := range []struct {
		raw json.RawMessage
		to  **int
	}{{is.Prompt, &u.prompt}, {is.Completion, &u.completion}} {
		if present(c.raw) == nil {
			continue
		}
		var f float64
		if json.Unmarshal(c.raw, &f) != nil || f < 0 || f > tokenLimit || f != math.Trunc(f) {
			return u, fmt.Errorf("the server's usage has no token count: %.100q", raw)
		}
		if bytes.ContainsAny(c.raw, ".eE") {
			s.out.Lenient |= FloatUsage
		}
		n := int(f)
		*c.to = &n
	}
	if u.prompt != nil && *u.prompt == 0 {
		return u, fmt.Errorf("the server counts 0 prompt tokens")
	}
	return u, nil
}

// answerText joins the texts of token events, one JSON string a line.
func answerText(lines []byte) string {
	var text []byte
	for line := range bytes.Lines(lines) {
		var s string
		if json.Unmarshal(line, &s) == nil {
			text = append(text, s...)
		}
	}
	return string(text)
}
