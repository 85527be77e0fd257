package answer

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/profllm/profllm/pkg/limit"
)

// A chunk is what the client takes from the payload of one event. Byte slices are JSON values
// that lie in the payload.
type chunk struct {
	list     bool   // it has a list of choices, perhaps an empty one
	choices  int    // entries of that list
	texts    int    // choices that carry text
	thoughts int    // choices that carry reasoning
	calls    int    // choices that carry a part of a tool call
	empties  int    // texts that are empty
	role     bool   // a choice names a role
	text     []byte // string: the text of the first choice; nil without
	at       int    // where that lies in the payload
	finish   []byte // finish_reason of a choice; nil if none is named, as before the end of an answer
	usage    []byte // object; nil if absent or null
	keys     int    // of the payload
	envelope int    // those among id, object and model
	failed   bool   // the server reports an error
}

var (
	errNoJSON   = errors.New("not a JSON object")
	errChoices  = errors.New("choices is not a list of objects")
	errTooDeep  = errors.New("nested too deep")
	errNoObject = errors.New("usage is not an object")
)

// readChunk reads a payload once, from its top level down: a text or a log probability may have
// any key inside. Like Python, whose client vLLM's is, it takes NaN and Infinity for numbers.
func readChunk(payload []byte) (c chunk, err error) {
	s := scanner{p: payload}
	for n := 0; s.member('{', n); n++ {
		c.keys++
		switch key := s.key(); string(key) {
		case "choices":
			s.choices(&c)
		case "usage":
			if c.usage = present(s.value()); c.usage != nil && c.usage[0] != '{' {
				s.fail(errNoObject)
			}
		case "error":
			c.failed = !empty(s.value()) || c.failed
		case "object":
			c.envelope++
			c.failed = string(s.value()) == `"error"` || c.failed
		case "id", "model":
			c.envelope++
			s.value()
		default:
			s.value()
		}
	}
	if s.space(); s.err == nil && s.i < len(s.p) {
		s.err = errNoJSON
	}
	return c, s.err
}

// present returns v, or nil if it is null.
func present(v []byte) []byte {
	if string(v) == "null" {
		return nil
	}
	return v
}

// Empty reports whether the error in an answer says that there is none: it is absent, null, or
// without content.
func Empty(v []byte) bool { return len(v) == 0 || empty(v) }

// empty reports whether a value says nothing. Of errors the proxy decides alike
// (testdata/errors.txt).
func empty(v []byte) bool {
	switch string(v) {
	case "null", "false", `""`, "{}":
		return true
	}
	return false
}

// choices reads the list of choices; null is an empty one.
func (s *scanner) choices(c *chunk) {
	c.list = true
	if s.space(); s.i < len(s.p) && s.p[s.i] != '[' {
		if present(s.value()) != nil {
			s.fail(errChoices)
		}
		return
	}
	for n := 0; s.member('[', n); n++ {
		if s.space(); s.i < len(s.p) && s.p[s.i] != '{' {
			s.fail(errChoices)
			return
		}
		c.choices++
		s.choice(c)
	}
}

// choice reads one choice, or what it adds to the answer.
func (s *scanner) choice(c *chunk) {
	for n := 0; s.member('{', n); n++ {
		switch key := s.key(); string(key) {
		case "text", "content":
			v := s.value()
			c.carry(v, s.i-len(v))
		case "reasoning", "reasoning_content": // vLLM's name, and an older one
			if v := s.value(); len(v) > 2 && v[0] == '"' {
				c.thoughts++
			}
		case "tool_calls", "function_call":
			if v := s.value(); len(v) > 2 && (v[0] == '[' || v[0] == '{') {
				c.calls++
			}
		case "delta":
			if s.space(); s.i < len(s.p) && s.p[s.i] == '{' {
				s.choice(c)
			} else {
				s.value()
			}
		case "role":
			c.role = present(s.value()) != nil || c.role
		case "finish_reason":
			if v := s.value(); !empty(v) {
				c.finish = v
			}
		case "error":
			c.failed = !empty(s.value()) || c.failed
		default:
			s.value()
		}
	}
}

// carry notes the text of a choice, which begins there in the payload.
func (c *chunk) carry(v []byte, at int) {
	if len(v) < 2 || v[0] != '"' {
		return
	}
	if len(v) == 2 {
		c.empties++
		return
	}
	c.texts++
	if c.choices == 1 {
		c.text, c.at = v, at
	}
}

// A scanner reads JSON that lies in memory. After an error every method does nothing.
type scanner struct {
	p     []byte
	i     int
	depth int
	err   error
}

func (s *scanner) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *scanner) space() {
	for s.i < len(s.p) && (s.p[s.i] == ' ' || s.p[s.i] == '\t' || s.p[s.i] == '\n' || s.p[s.i] == '\r') {
		s.i++
	}
}

// member goes to member n of the object or list that begins here with open. It returns false
// behind the last one.
func (s *scanner) member(open byte, n int) bool {
	if n == 0 && !s.enter(open) || s.err != nil {
		return false
	}
	s.space()
	switch {
	case s.i >= len(s.p):
		s.fail(errNoJSON)
	case s.p[s.i] == open+2: // the closing one, in ASCII
		s.i++
		s.depth--
		return false
	case n == 0:
		return true
	case s.p[s.i] != ',':
		s.fail(errNoJSON)
	default:
		s.i++
		s.space()
		return true
	}
	return false
}

func (s *scanner) enter(open byte) bool {
	if s.space(); s.i >= len(s.p) || s.p[s.i] != open {
		s.fail(errNoJSON)
		return false
	}
	s.i++
	if s.depth++; s.depth > limit.Depth {
		s.fail(errTooDeep)
	}
	return s.err == nil
}

// key reads a key and its colon, and returns the key without quotes.
func (s *scanner) key() []byte {
	start := s.i
	s.text()
	end := s.i
	if s.space(); s.err != nil || s.i >= len(s.p) || s.p[s.i] != ':' {
		s.fail(errNoJSON)
		return nil
	}
	s.i++
	key := s.p[start+1 : end-1]
	if bytes.IndexByte(key, '\\') >= 0 {
		var plain string
		if json.Unmarshal(s.p[start:end], &plain) == nil {
			return []byte(plain)
		}
	}
	return key
}

// value reads any value and returns its bytes, of which there is at least one; nil after an error.
func (s *scanner) value() []byte {
	s.space()
	if s.err != nil || s.i >= len(s.p) {
		s.fail(errNoJSON)
		return nil
	}
	start := s.i
	switch s.p[s.i] {
	case '"':
		s.text()
	case '{':
		for n := 0; s.member('{', n); n++ {
			s.key()
			s.value()
		}
	case '[':
		for n := 0; s.member('[', n); n++ {
			s.value()
		}
	default:
		s.word()
	}
	if s.err != nil {
		return nil
	}
	return s.p[start:s.i]
}

// text reads a string.
func (s *scanner) text() {
	if s.err != nil || s.i >= len(s.p) || s.p[s.i] != '"' {
		s.fail(errNoJSON)
		return
	}
	for i := s.i + 1; i < len(s.p); i++ {
		switch c := s.p[i]; {
		case c == '"':
			s.i = i + 1
			return
		case c == '\\':
			i += s.escape(i + 1)
		case c < ' ':
			s.fail(errNoJSON)
			return
		}
		if s.err != nil {
			return
		}
	}
	s.fail(errNoJSON)
}

// escape returns the length of what follows a backslash.
func (s *scanner) escape(i int) int {
	switch {
	case i < len(s.p) && bytes.IndexByte([]byte(`"\/bfnrt`), s.p[i]) >= 0:
		return 1
	case i+4 < len(s.p) && s.p[i] == 'u' && hexadecimal(s.p[i+1:i+5]):
		return 5
	}
	s.fail(errNoJSON)
	return 0
}

func hexadecimal(p []byte) bool {
	for _, c := range p {
		if _, ok := hexDigit(c); !ok {
			return false
		}
	}
	return true
}

// word reads a number or a bare word.
func (s *scanner) word() {
	start := s.i
	for s.i < len(s.p) && bytes.IndexByte([]byte(",:]} \t\r\n"), s.p[s.i]) < 0 {
		s.i++
	}
	switch w := s.p[start:s.i]; string(w) {
	case "null", "true", "false", "NaN", "Infinity", "-Infinity":
	default:
		if !isNumber(w) {
			s.fail(errNoJSON)
		}
	}
}

// isNumber reports whether p is a JSON number.
func isNumber(p []byte) bool {
	p = bytes.TrimPrefix(p, []byte("-"))
	whole, p := digits(p)
	if len(whole) == 0 || len(whole) > 1 && whole[0] == '0' {
		return false
	}
	if len(p) > 0 && p[0] == '.' {
		var fraction []byte
		if fraction, p = digits(p[1:]); len(fraction) == 0 {
			return false
		}
	}
	if len(p) > 0 && p[0]|0x20 == 'e' {
		if p = p[1:]; len(p) > 0 && (p[0] == '+' || p[0] == '-') {
			p = p[1:]
		}
		var power []byte
		if power, p = digits(p); len(power) == 0 {
			return false
		}
	}
	return len(p) == 0
}

// digits splits p behind its leading digits.
func digits(p []byte) (number, rest []byte) {
	n := 0
	for n < len(p) && p[n] >= '0' && p[n] <= '9' {
		n++
	}
	return p[:n], p[n:]
}
