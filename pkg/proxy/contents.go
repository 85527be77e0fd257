package proxy

import (
	"bytes"
)

// maxLine bounds a line of an answer that is examined. A longer event holds
// logprobs. An answer that is not streamed is one line: if it is longer, it is
// passed on without being examined.
const maxLine = 64 << 10

// contents is what the body of an answer of status 200 says about its own
// success: of a completion, as one JSON object or as server-sent events.
type contents struct {
	part     []byte // a line whose end has not come
	skipping bool   // it was longer than maxLine
	bytes    int64
	done     bool   // data: [DONE]
	trouble  string // the first error's kind
}

// add takes the next bytes.
func (c *contents) add(p []byte) {
	c.bytes += int64(len(p))
	for {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		if !ended {
			c.keep(line)
			return
		}
		if len(c.part) > 0 || c.skipping {
			c.keep(line)
			line = c.part
		}
		if !c.skipping {
			c.line(line)
		}
		c.part, c.skipping, p = c.part[:0], false, rest
	}
}

// keep adds to the line whose end has not come.
func (c *contents) keep(p []byte) {
	if c.skipping || len(c.part)+len(p) > maxLine {
		c.part, c.skipping = c.part[:0], true
		return
	}
	c.part = append(c.part, p...)
}

var (
	dataField  = []byte("data:")
	doneMark   = []byte("[DONE]")
	errorEvent = []byte("event: error")
)

// line looks at one whole line: an event's, or all of a JSON body.
func (c *contents) line(line []byte) {
	data, _ := bytes.CutPrefix(bytes.TrimSpace(line), dataField)
	data = bytes.TrimSpace(data)
	switch {
	case bytes.Equal(data, doneMark):
		c.done = true
	case c.trouble != "":
	case bytes.Equal(data, errorEvent):
		c.trouble = "an error event"
	default:
		c.trouble = trouble(data)
	}
}

// trouble says what is wrong with an event's or an answer's JSON, "" if nothing
// is.
func trouble(data []byte) string {
	if bytes.Contains(data, errorWord) {
		var few [16]member
		if o, err := scan(data, few[:0]); err == nil && o.failed() {
			return "an error object"
		}
	}
	for rest := data; ; {
		var found bool
		if _, rest, found = bytes.Cut(rest, finishReason); !found {
			return ""
		}
		switch value := bytes.TrimLeft(rest, " :"); {
		case bytes.HasPrefix(value, errorWord):
			return `finish_reason "error"`
		case bytes.HasPrefix(value, abortWord):
			return `finish_reason "abort"`
		}
	}
}

var (
	errorWord = []byte(`"error"`)
	abortWord = []byte(`"abort"`)
	// In a generated text the quotes would be escaped.
	finishReason = []byte(`"finish_reason"`)
)

// fault is why a whole answer of status 200 is no success, nil if it is one.
// stream says that it was server-sent events.
func (c *contents) fault(stream bool) error {
	if len(c.part) > 0 {
		c.line(c.part)
		c.part = c.part[:0]
	}
	switch {
	case c.bytes == 0:
		return faultf(badBody, "answer of status 200 is empty")
	case c.trouble != "":
		return faultf(badBody, "answer of status 200 holds %s", c.trouble)
	case stream && !c.done:
		return faultf(unfinished, "event stream of status 200 ends without data: [DONE]")
	}
	return nil
}
