package answer

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

const (
	// HeadLimit bounds the head of an answer with the interim ones before it, its trailer, and
	// a line around a chunk, in bytes.
	HeadLimit = 64 << 10
	// bodyLimit bounds the body of an answer, in bytes: a million tokens with log probabilities.
	bodyLimit = 1 << 30
)

// A part is what the next byte of an answer belongs to.
type part byte

const (
	partStatus part = iota
	partHead
	partSized
	partToEOF
	partChunkSize
	partChunk
	partChunkEnd
	partTrailer
	partOver
)

// A Reader reads one HTTP/1.1 response whose bytes may be cut anywhere. It hands the body of a
// 200 to its stream.
type Reader struct {
	stream    stream
	part      part
	line      []byte // start of a line that has not ended yet
	framing   int    // bytes of head lines or trailer lines so far
	left      int64  // bytes left of the chunk or of the sized body
	body      int64  // bytes of the body so far
	length    int64  // by Content-Length; -1 is none
	code      int
	status    string // "404 Not Found"
	chunked   bool
	KeepAlive bool
	excuse    []byte // start of the body of an answer that is not 200
	Bytes     int64  // bytes fed
}

// Reset prepares a to read the answer to another request, keeping its buffers.
func (a *Reader) Reset(out *Outcome, w Wanted) {
	a.stream.reset(out, w)
	*a = Reader{stream: a.stream, line: a.line[:0], excuse: a.excuse[:0]}
}

// ResetBody prepares a to read the body of a 200 whose head, and whatever divides the body, was
// read elsewhere.
func (a *Reader) ResetBody(out *Outcome, w Wanted) {
	a.Reset(out, w)
	a.part, a.code, a.status = partToEOF, http.StatusOK, "200 OK"
}

// Done reports whether the stream said that it is over, by [DONE].
func (a *Reader) Done() bool { return a.stream.done }

// Spoke reports whether an event carried text or reasoning. A server may send events that
// carry neither.
func (a *Reader) Spoke() bool { return a.stream.texts > 0 || a.stream.thoughts > 0 }

var (
	errMalformed = errors.New("malformed HTTP answer")
	// ErrTooEarly is an answer that came whole before its request had left whole.
	ErrTooEarly = errors.New("the server answered before the whole request was sent")
	errStream   = errors.New("the rest of the answer was not read")
)

// Feed reads p, which arrived at that time. over says that the answer has ended; bytes after it
// are an error.
func (a *Reader) Feed(p []byte, at int64) (over bool, err error) {
	a.Bytes += int64(len(p))
	for len(p) > 0 && err == nil {
		switch a.part {
		case partSized, partChunk, partToEOF:
			p, err = a.feedBody(p, at)
		case partOver:
			return true, fmt.Errorf("%w: %d bytes after its end", errMalformed, len(p))
		default:
			p, err = a.feedLine(p)
		}
	}
	return a.part == partOver, err
}

// EOF says that the connection ended. It returns an error if the answer had not.
func (a *Reader) EOF() error {
	switch {
	case a.part == partOver:
		return nil
	case a.part == partToEOF && (a.code != http.StatusOK || a.stream.done || a.stream.document.over):
		a.part = partOver
		return nil
	case a.Bytes == 0:
		return errors.New("the server closed the connection without an answer")
	}
	return errors.New("the server closed the connection in the middle of its answer")
}

// Ended returns what is wrong with an answer that has ended, or malformed; sent says that the
// request left whole. Bytes behind a whole answer only cost the connection.
func (a *Reader) Ended(sent bool, malformed error) error {
	if malformed != nil && a.part == partOver {
		a.KeepAlive, malformed = false, nil
	}
	if !sent {
		a.KeepAlive = false
		if malformed == nil && a.code == http.StatusOK {
			return ErrTooEarly
		}
	}
	return malformed
}

// Close settles the outcome of an answer that has ended, at that time; broken is why it ended
// early, or nil.
func (a *Reader) Close(at int64, broken error) {
	a.stream.out.End, a.stream.out.Status = at, a.code
	switch {
	case broken != nil && a.code != http.StatusOK && a.code != 0 && len(a.excuse) > 0:
		a.stream.settle(StatusText(a.status, a.excuse)) // what the server said before it hung up
	case broken != nil:
		a.stream.settle(broken.Error())
	case a.code != http.StatusOK:
		a.stream.settle(StatusText(a.status, a.excuse))
	default:
		a.stream.close(at)
		a.stream.settle("")
	}
}

// feedBody reads bytes of the body, up to the end of the chunk or of p.
func (a *Reader) feedBody(p []byte, at int64) ([]byte, error) {
	n := int64(len(p))
	if a.part != partToEOF {
		n = min(n, a.left)
		a.left -= n
	}
	if a.body += n; a.body > bodyLimit {
		return nil, fmt.Errorf("the answer is longer than %d MiB", bodyLimit>>20)
	}
	if a.code != http.StatusOK {
		a.excuse = append(a.excuse, p[:min(int64(max(ErrorBytes-len(a.excuse), 0)), n)]...)
	} else if a.stream.feed(p[:n], at); a.stream.fatal {
		return nil, errStream
	}
	switch {
	case a.left > 0 || a.part == partToEOF:
	case a.part == partSized:
		a.part = partOver
	default:
		a.part = partChunkEnd
	}
	return p[n:], nil
}

// feedLine reads the lines of the head and around chunks. They end in CRLF or, as RFC 9112
// allows, in LF.
func (a *Reader) feedLine(p []byte) ([]byte, error) {
	end := bytes.IndexByte(p, '\n')
	if a.framing += len(p[:end+1]); end < 0 {
		a.framing += len(p)
	}
	if a.framing > HeadLimit {
		return nil, fmt.Errorf("%w: its head, its trailer or a line is longer than %d KiB", errMalformed, HeadLimit>>10)
	}
	if end < 0 {
		a.line = append(a.line, p...)
		return nil, nil
	}
	line := p[:end]
	if len(a.line) > 0 {
		a.line = append(a.line, line...)
		line, a.line = a.line, a.line[:0]
	}
	return p[end+1:], a.takeLine(bytes.TrimSuffix(line, []byte("\r")))
}

// takeLine takes one line without its end.
func (a *Reader) takeLine(line []byte) error {
	switch a.part {
	case partStatus:
		return a.readStatus(string(line))
	case partHead:
		if len(line) > 0 {
			return a.readHeader(string(line))
		}
		a.endHead()
	case partChunkSize:
		size, err := chunkSize(line)
		if err != nil {
			return err
		}
		if a.left, a.part, a.framing = size, partChunk, 0; size == 0 {
			a.part = partTrailer
		}
	case partChunkEnd:
		if len(line) > 0 {
			return fmt.Errorf("%w: a chunk is longer than its size", errMalformed)
		}
		a.part = partChunkSize
	case partTrailer:
		if len(line) == 0 {
			a.part = partOver
		}
	}
	return nil
}

// chunkSize reads the hexadecimal size of a chunk, up to an extension.
func chunkSize(line []byte) (int64, error) {
	size, _, _ := bytes.Cut(line, []byte(";"))
	size = bytes.TrimRight(size, " \t")
	var n int64
	for _, c := range size {
		d, ok := hexDigit(c)
		if !ok {
			return 0, fmt.Errorf("%w: chunk size %.20q", errMalformed, line)
		}
		n = n<<4 | int64(d)
	}
	if len(size) == 0 || len(size) > 15 {
		return 0, fmt.Errorf("%w: chunk size %.20q", errMalformed, line)
	}
	return n, nil
}

func hexDigit(c byte) (d byte, ok bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// readStatus reads the first line of a head.
func (a *Reader) readStatus(line string) error {
	proto, status, _ := strings.Cut(line, " ")
	status = strings.TrimSpace(status)
	number, _, _ := strings.Cut(status, " ")
	code, err := strconv.Atoi(number)
	if err != nil || len(number) != 3 || code < 100 || proto != "HTTP/1.1" && proto != "HTTP/1.0" {
		return fmt.Errorf("%w: first line %.60q", errMalformed, line)
	}
	a.part, a.code, a.status, a.length, a.chunked, a.KeepAlive = partHead, code, status, -1, false, proto == "HTTP/1.1"
	return nil
}

// readHeader reads one header. Only those that delimit the answer matter.
func (a *Reader) readHeader(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok || name == "" || strings.ContainsAny(name, " \t") {
		return fmt.Errorf("%w: header %.60q", errMalformed, line)
	}
	value = strings.TrimSpace(value)
	switch strings.ToLower(name) {
	case "transfer-encoding":
		if a.chunked || !strings.EqualFold(value, "chunked") {
			return fmt.Errorf("%w: transfer encoding %.40q", errMalformed, value)
		}
		a.chunked = true
	case "content-length":
		length, err := strconv.ParseUint(value, 10, 63)
		if err != nil || a.length >= 0 && a.length != int64(length) {
			return fmt.Errorf("%w: content length %.40q", errMalformed, value)
		}
		a.length = int64(length)
	case "connection":
		for option := range strings.SplitSeq(value, ",") {
			a.KeepAlive = a.KeepAlive && !strings.EqualFold(strings.TrimSpace(option), "close")
		}
	}
	return nil
}

// endHead decides how the body is delimited.
func (a *Reader) endHead() {
	switch {
	case a.code < 200 && a.code != http.StatusSwitchingProtocols:
		a.part = partStatus // an interim answer: the real one follows
		return
	case a.code == http.StatusNoContent || a.code == http.StatusNotModified || a.code == http.StatusSwitchingProtocols:
		a.part = partOver
	case a.chunked:
		a.part, a.KeepAlive = partChunkSize, a.KeepAlive && a.length < 0 // who sends both may mean the other
	case a.length == 0:
		a.part = partOver
	case a.length > 0:
		a.part, a.left = partSized, a.length
	default:
		a.part, a.KeepAlive = partToEOF, false
	}
	if a.code == http.StatusSwitchingProtocols {
		a.KeepAlive = false
	}
	a.framing = 0
}
