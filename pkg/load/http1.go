package load

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// headLimit bounds the head of an answer, in bytes.
const headLimit = 64 << 10

// A phase is what the next byte of an answer belongs to.
type phase byte

const (
	phaseHead phase = iota
	phaseSized
	phaseToEOF
	phaseChunkSize
	phaseChunk
	phaseChunkEnd
	phaseTrailer
	phaseOver
)

// An answer reads one HTTP/1.1 response whose bytes may be cut anywhere. It hands the body of a 200 to its stream.
type answer struct {
	stream    stream
	phase     phase
	line      []byte // head or line that has not ended yet
	left      int64  // bytes left of the chunk or of the sized body
	code      int
	status    string // "404 Not Found"
	keepAlive bool
	excuse    []byte // start of the body of an answer that is not 200
	bytes     int64  // bytes fed
}

// reset prepares a to read the answer to another request, keeping its buffers.
func (a *answer) reset(out *outcome, keep bool) {
	s := a.stream
	s.reset(out, keep)
	*a = answer{stream: s, line: a.line[:0], excuse: a.excuse[:0]}
}

var errMalformed = errors.New("malformed HTTP answer")

// feed reads p, which arrived at that time. over says that the answer has ended; bytes after it are an error.
func (a *answer) feed(p []byte, at int64) (over bool, err error) {
	a.bytes += int64(len(p))
	for len(p) > 0 && err == nil {
		switch a.phase {
		case phaseHead:
			p, err = a.feedHead(p)
		case phaseSized, phaseChunk:
			n := min(int64(len(p)), a.left)
			a.body(p[:n], at)
			p, a.left = p[n:], a.left-n
			if a.left == 0 && a.phase == phaseSized {
				a.phase = phaseOver
			} else if a.left == 0 {
				a.phase = phaseChunkEnd
			}
		case phaseToEOF:
			a.body(p, at)
			p = nil
		case phaseOver:
			return true, fmt.Errorf("%w: %d bytes after its end", errMalformed, len(p))
		default:
			p, err = a.feedLine(p)
		}
	}
	return a.phase == phaseOver, err
}

// eof says that the connection ended. It returns an error if the answer had not.
func (a *answer) eof() error {
	switch {
	case a.phase == phaseOver:
		return nil
	case a.phase == phaseToEOF && (a.code != http.StatusOK || a.stream.done):
		a.phase = phaseOver
		return nil
	case a.bytes == 0:
		return errors.New("the server closed the connection without an answer")
	}
	return errors.New("the server closed the connection in the middle of its answer")
}

// close settles the outcome of an answer that has ended, at that time; broken is why it ended early, or nil.
func (a *answer) close(at int64, broken error) {
	switch {
	case broken != nil:
		a.stream.finish(broken.Error())
	case a.code != http.StatusOK:
		a.stream.finish(statusText(a.status, a.excuse))
	default:
		a.stream.close(at)
		a.stream.finish("")
	}
}

func (a *answer) body(p []byte, at int64) {
	if a.code == http.StatusOK {
		a.stream.feed(p, at)
	} else if room := errorBytes - len(a.excuse); room > 0 {
		a.excuse = append(a.excuse, p[:min(room, len(p))]...)
	}
}

// feedLine reads the short lines around chunks.
func (a *answer) feedLine(p []byte) ([]byte, error) {
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		if a.line = append(a.line, p...); len(a.line) > headLimit {
			return nil, fmt.Errorf("%w: endless line", errMalformed)
		}
		return nil, nil
	}
	line := p[:end]
	if len(a.line) > 0 {
		a.line = append(a.line, line...)
		line, a.line = a.line, a.line[:0]
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	switch a.phase {
	case phaseChunkSize:
		size, err := chunkSize(line)
		if err != nil {
			return nil, err
		}
		if a.left, a.phase = size, phaseChunk; size == 0 {
			a.phase = phaseTrailer
		}
	case phaseChunkEnd:
		if len(line) > 0 {
			return nil, fmt.Errorf("%w: a chunk is longer than its size", errMalformed)
		}
		a.phase = phaseChunkSize
	case phaseTrailer:
		if len(line) == 0 {
			a.phase = phaseOver
		}
	}
	return p[end+1:], nil
}

// chunkSize reads the hexadecimal size of a chunk, up to an extension.
func chunkSize(line []byte) (int64, error) {
	var n int64
	digits := 0
	for _, c := range line {
		var d byte
		switch {
		case c >= '0' && c <= '9':
			d = c - '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			d = c | 0x20 - 'a' + 10
		default:
			d = 16
		}
		if d == 16 {
			if c == ';' || c == ' ' || c == '\t' {
				break
			}
			return 0, fmt.Errorf("%w: chunk size %.20q", errMalformed, line)
		}
		n = n<<4 | int64(d)
		if digits++; digits > 15 {
			return 0, fmt.Errorf("%w: chunk size %.20q", errMalformed, line)
		}
	}
	if digits == 0 {
		return 0, fmt.Errorf("%w: chunk size %.20q", errMalformed, line)
	}
	return n, nil
}

// feedHead collects the head and, at its end, decides how the body is delimited.
func (a *answer) feedHead(p []byte) ([]byte, error) {
	from := max(len(a.line)-3, 0)
	kept := len(a.line)
	a.line = append(a.line, p...)
	end := bytes.Index(a.line[from:], []byte("\r\n\r\n"))
	if end < 0 {
		if len(a.line) > headLimit {
			return nil, fmt.Errorf("%w: its head is longer than %d KiB", errMalformed, headLimit>>10)
		}
		return nil, nil
	}
	end += from + 4
	head := string(a.line[:end-4])
	a.line = a.line[:0]
	return p[end-kept:], a.readHead(head)
}

// readHead reads status line and headers.
func (a *answer) readHead(head string) error {
	first, rest, _ := strings.Cut(head, "\r\n")
	proto, status, _ := strings.Cut(first, " ")
	status = strings.TrimSpace(status)
	number, _, _ := strings.Cut(status, " ")
	code, err := strconv.Atoi(number)
	if err != nil || len(number) != 3 || code < 100 || !strings.HasPrefix(proto, "HTTP/1.") {
		return fmt.Errorf("%w: first line %.60q", errMalformed, first)
	}
	if code < 200 {
		return nil // an interim answer: the real one follows
	}
	a.code, a.status, a.keepAlive = code, status, proto == "HTTP/1.1"
	length, chunked := int64(-1), false
	for line := range strings.SplitSeq(rest, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.ToLower(name) {
		case "transfer-encoding":
			chunked = strings.EqualFold(value, "chunked")
		case "content-length":
			if length, err = strconv.ParseInt(value, 10, 64); err != nil || length < 0 {
				return fmt.Errorf("%w: content length %.40q", errMalformed, value)
			}
		case "connection":
			a.keepAlive = a.keepAlive && !strings.EqualFold(value, "close")
		}
	}
	switch {
	case chunked:
		a.phase = phaseChunkSize
	case code == http.StatusNoContent || code == http.StatusNotModified || length == 0:
		a.phase = phaseOver
	case length > 0:
		a.phase, a.left = phaseSized, length
	default:
		a.phase, a.keepAlive = phaseToEOF, false
	}
	return nil
}
