package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
)

const (
	maxHeaders = 256 // header lines of a request, and of an answer
	maxInterim = 16  // answers of status 1xx before the final one
)

// checkHead looks at the head of the next answer, without taking it from br, and
// refuses what two readers could understand in two ways: where the head ends,
// what its lines are, how long the body is. A backend that writes such a head is
// broken or lied to, and the rest of its bytes would be the next client's answer.
// http.ReadResponse lets most of it pass.
//
// The head must fit in br's buffer.
func checkHead(br *bufio.Reader) error {
	var h headLines
	for at := 0; ; {
		seen, _ := br.Peek(br.Buffered())
		for {
			line, _, found := bytes.Cut(seen[at:], []byte("\n"))
			if !found {
				break
			}
			at += len(line) + 1
			if last, err := h.add(line); last || err != nil {
				return err
			}
		}
		switch _, err := br.Peek(len(seen) + 1); {
		case errors.Is(err, bufio.ErrBufferFull):
			return faultf(tooLarge, "its head is longer than %d bytes", br.Size())
		case err != nil:
			return faultf(closedEarly, "its head is cut off: %w", err)
		}
	}
}

// headLines is what was learnt from the lines of a head so far.
type headLines struct {
	count   int
	old     bool // HTTP/1.0
	interim bool // 1xx
	length  bool // there is a Content-Length
	chunked bool // there is a Transfer-Encoding
}

// add takes the next line, without its line feed. last is true for the empty line
// that ends the head.
func (h *headLines) add(line []byte) (last bool, err error) {
	text, terminated := bytes.CutSuffix(line, []byte("\r"))
	h.count++
	switch {
	case !terminated:
		return false, faultf(badAnswer, "line %d of its head ends without a carriage return", h.count)
	case h.count == 1:
		return false, h.status(text)
	case len(text) == 0:
		return true, h.framing()
	case h.count-1 > maxHeaders:
		return false, faultf(tooLarge, "its head has more than %d headers", maxHeaders)
	}
	return false, h.header(text)
}

// status reads `HTTP/1.1 200 OK`.
func (h *headLines) status(line []byte) error {
	version, rest, _ := bytes.Cut(line, []byte(" "))
	code, phrase, _ := bytes.Cut(rest, []byte(" "))
	h.old = string(version) == "HTTP/1.0"
	if !h.old && string(version) != "HTTP/1.1" || len(code) != 3 || code[0] < '1' || code[0] > '5' || !digits(code) ||
		!printable(phrase) {
		return faultf(badAnswer, "its first line is %.40q, not HTTP/1.1 and a status from 100 to 599", line)
	}
	h.interim = code[0] == '1'
	return nil
}

// header reads `Name: value`.
func (h *headLines) header(line []byte) error {
	name, value, found := bytes.Cut(line, []byte(":"))
	if !found || !isToken(name) || !printable(value) {
		return faultf(badAnswer, "line %d of its head is not a header: %.40q", h.count, line)
	}
	switch {
	case is(name, "Content-Length"):
		value = bytes.Trim(value, " \t")
		if h.length || !digits(value) || len(value) > 18 {
			return faultf(badAnswer, "Content-Length %.40q, or a second one", value)
		}
		h.length = true
	case is(name, "Transfer-Encoding"):
		if h.chunked || !is(bytes.Trim(value, " \t"), "chunked") {
			return faultf(badAnswer, "Transfer-Encoding %.40q, or a second one: only chunked is supported", value)
		}
		h.chunked = true
	}
	return nil
}

// framing checks that the head says at most once how long the body is.
func (h *headLines) framing() error {
	switch {
	case h.length && h.chunked:
		return faultf(badAnswer, "both Content-Length and Transfer-Encoding")
	case h.chunked && h.old:
		return faultf(badAnswer, "Transfer-Encoding in HTTP/1.0")
	case h.interim && (h.length || h.chunked):
		return faultf(badAnswer, "a body after an interim answer")
	}
	return nil
}

// framed reports whether an answer says where its body ends. One that has no
// body by its kind (to HEAD, or of status 204 and 304) does not: what a wrong
// backend writes behind its head would be the next answer.
func framed(resp *http.Response, method string) bool {
	switch {
	case method == http.MethodHead, resp.StatusCode == http.StatusNoContent, resp.StatusCode == http.StatusNotModified:
		return false
	}
	return bounded(resp)
}

// bounded reports whether the body ends otherwise than with its connection, where
// the end of an answer and the end of its backend look alike.
func bounded(resp *http.Response) bool {
	return resp.ContentLength >= 0 || len(resp.TransferEncoding) > 0
}

// is compares a name whose case does not matter.
func is(text []byte, name string) bool {
	return len(text) == len(name) && bytes.EqualFold(text, []byte(name))
}

func digits(text []byte) bool {
	for _, b := range text {
		if b < '0' || b > '9' {
			return false
		}
	}
	return len(text) > 0
}

// printable reports whether text has no control character but tabs (RFC 9110,
// 5.5: field-vchar and obs-text).
func printable(text []byte) bool {
	for _, b := range text {
		if b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}

// isToken reports whether text is a token (RFC 9110, 5.6.2), as names are.
func isToken(text []byte) bool {
	for _, b := range text {
		if !tokenByte[b] {
			return false
		}
	}
	return len(text) > 0
}

// tokenByte says which bytes a token may have.
var tokenByte = func() (allowed [256]bool) {
	const all = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for i := range len(all) {
		allowed[all[i]] = true
	}
	return allowed
}()
