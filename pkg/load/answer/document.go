package answer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/profllm/profllm/pkg/limit"
)

// memberLimit bounds the members of a document that are kept, in bytes.
const memberLimit = 64 << 10

// A document reads one JSON object as it arrives, cut anywhere. It keeps the few members that a
// load client needs and counts the results, so that many megabytes of numbers take no room. The
// rest is only looked at as far as its brackets and strings go.
type document struct {
	open    []byte // the brackets that are open
	inText  bool
	escaped bool // behind a backslash of a text
	over    bool // the object has ended

	keeps   bool   // the bytes being read are kept: a key at the top, or a value that is needed
	kept    []byte // those bytes
	key     string // of the member at the top whose value is being read; "" before its colon
	fresh   bool   // the next value is another result
	results int
	members int // that have ended

	usage  []byte // object; nil if absent or null
	excuse []byte // what the document says of an error, as a JSON object without its end
	failed bool
}

// reset prepares d to read another document, keeping its buffers.
func (d *document) reset() {
	*d = document{open: d.open[:0], kept: d.kept[:0], excuse: d.excuse[:0]}
}

// read reads p, and returns what is wrong with the document.
func (d *document) read(p []byte) error {
	for _, c := range p {
		switch {
		case d.inText:
			d.text(c)
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			continue
		case d.over || len(d.open) == 0 && c != '{':
			return errNoJSON
		default:
			if inside, err := d.mark(c); err != nil {
				return err
			} else if !inside {
				continue
			}
		}
		if d.keeps {
			if d.kept = append(d.kept, c); len(d.kept) > memberLimit {
				return fmt.Errorf("a member of the answer is longer than %d KiB", memberLimit>>10)
			}
		}
	}
	return nil
}

// text reads a byte of a string.
func (d *document) text(c byte) {
	switch {
	case d.escaped:
		d.escaped = false
	case c == '\\':
		d.escaped = true
	case c == '"':
		d.inText = false
	}
}

// mark reads a byte outside of strings, which is no space. inside says that it is part of a key or
// of a value of the object.
func (d *document) mark(c byte) (inside bool, err error) {
	depth := len(d.open)
	switch {
	case c == '{' || c == '[':
		d.count(depth)
		if d.open = append(d.open, c); len(d.open) > limit.Depth {
			return false, errTooDeep
		}
		d.fresh = depth == 1 && c == '[' && (d.key == "data" || d.key == "results")
		d.keeps = d.keeps || depth == 0
		return depth > 0, nil
	case c == '}' || c == ']':
		if d.open[depth-1] != c-2 { // the opening one, in ASCII
			return false, errNoJSON
		}
		if d.open = d.open[:depth-1]; depth > 1 {
			return true, nil
		}
		d.over = true
		return false, d.endMember(c)
	case c == ',' && depth == 1:
		return false, d.endMember(c)
	case c == ':' && depth == 1 && d.key == "":
		return false, d.endKey()
	case c == ',':
		d.fresh = depth == 2 && d.results > 0 && (d.key == "data" || d.key == "results")
		return true, nil
	}
	d.inText = c == '"'
	d.count(depth)
	return true, nil
}

// count counts a value that begins at that depth, if it is a result.
func (d *document) count(depth int) {
	if d.fresh && depth == 2 {
		d.results++
		d.fresh = false
	}
}

// endKey takes the key of a member. A value is kept if it is needed.
func (d *document) endKey() error {
	if json.Unmarshal(d.kept, &d.key) != nil || d.kept[0] != '"' {
		return errNoJSON
	}
	switch d.kept = d.kept[:0]; d.key {
	case "usage", "error", "object", "message":
	case "":
		d.key, d.keeps = "?", false // any other
	default:
		d.keeps = false
	}
	return nil
}

// endMember takes the value of a member, which ends before that byte.
func (d *document) endMember(at byte) error {
	key, value, needed := d.key, d.kept, d.keeps
	d.key, d.keeps = "", !d.over
	defer func() { d.kept = d.kept[:0] }()
	switch {
	case key == "" && at == '}' && len(value) == 0 && d.members == 0: // an empty object
		return nil
	case key == "" || needed && !json.Valid(value):
		return errNoJSON
	}
	if d.members++; !needed {
		return nil
	}
	switch key {
	case "usage":
		if d.usage = bytes.Clone(present(value)); d.usage != nil && d.usage[0] != '{' {
			return errNoObject
		}
	case "error":
		d.failed = d.failed || !empty(value)
	case "object":
		d.failed = d.failed || string(value) == `"error"`
	}
	d.excuse = fmt.Appendf(append(d.excuse, ','), "%q:%s", key, value)
	return nil
}

// trouble says what is wrong with a document that has ended, or "".
func (d *document) trouble() string {
	said := d.excuse
	if len(said) > 0 {
		said = append(append([]byte{'{'}, said[1:]...), '}')
	}
	switch {
	case d.failed:
		return errorText(said)
	case !d.over:
		return "the answer ended within its JSON object"
	case d.results == 0:
		return cmp.Or(errorMessage(said), "the answer holds no result: neither data nor results")
	}
	return ""
}
