// Package startlog reads what an engine's logs say about its start: the room in its KV cache,
// the memory that weights and CUDA graphs take, and the phases with their times. It knows the
// lines of vLLM since 0.6.0 and of SGLang since 0.3. What no line says is absent.
//
//	var s startlog.Start
//	err := s.Add(file) // each log of one instance
//	c := s.Capacity()  // nil if the logs say nothing
package startlog

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/textlines"
)

// Bounds of what is read of one log. A start takes some thousand lines; the log of a rank without
// a server never says that the start is over.
const (
	mostBytes   = 32 << 20
	longestLine = 32 << 10 // of a longer one, only the beginning is read
	mostEngines = 1 << 12
)

// Start is what the logs of one instance said so far. The zero value has read nothing.
type Start struct {
	said    result.Capacity
	engines map[string]bool // processes that reported a KV cache, by their tag and log
	workers map[string]bool // of SGLang, that reported one
	phases  map[string]*result.StartPhase
	logs    int

	resolved map[string]any
}

// Add reads the next log of the instance, up to the line that says that the server is ready.
func (s *Start) Add(log io.Reader) error {
	s.logs++
	in := bufio.NewReaderSize(io.LimitReader(log, mostBytes), longestLine)
	var c clock
	for {
		line, err := in.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !long && !errors.Is(err, io.EOF) {
			return err
		}
		for part := range bytes.SplitSeq(line, []byte{'\r'}) { // progress bars
			if s.line(&c, string(part)) {
				return nil
			}
		}
		if long {
			if err = textlines.SkipRest(in); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
}

// clock is the time of one log: that of its first dated line, and of the last.
type clock struct{ first, last time.Time }

// after is the time since the first dated line, in s; nil if no line had a date.
func (c *clock) after() *float64 {
	if c.first.IsZero() {
		return nil
	}
	passed := c.last.Sub(c.first)
	if passed < -300*24*time.Hour { // the dates have no year, and one began
		passed = c.last.AddDate(1, 0, 0).Sub(c.first)
	}
	return new(max(0, passed.Seconds()))
}

// set takes the time of a line, such as 11-21 01:57:14.
func (c *clock) set(date, hour string) {
	// 2000 is a leap year, so that 29 February is a date.
	at, err := time.Parse("2006-01-02 15:04:05", "2000-"+date+" "+hour)
	if err != nil {
		return
	}
	if c.last = at; c.first.IsZero() {
		c.first = at
	}
}

// line reads one line, and reports whether the start is over.
func (s *Start) line(c *clock, line string) (over bool) {
	line = strings.TrimSpace(plain(line))
	if is, over := s.sglang(c, line); is {
		return over
	}
	tag, rest := splitTag(line)
	level, rest, _ := strings.Cut(rest, " ")
	switch {
	case level == "INFO:" && strings.TrimSpace(rest) == ready: // uvicorn's, without a date
		s.phase(c, result.PhaseReady, nil)
		return true
	case level != "INFO" && level != "DEBUG" && level != "WARNING":
		return false
	}
	date, rest, _ := strings.Cut(rest, " ")
	hour, rest, _ := strings.Cut(rest, " ")
	c.set(date, hour)
	_, text, ok := strings.Cut(rest, "] ") // [file.py:12] text, or file.py:12] text
	if !ok {
		return false
	}
	if text == ready {
		s.phase(c, result.PhaseReady, nil)
		return true
	}
	s.resolve(text)
	s.message(forms, c, tag, text)
	return false
}

// ready is the message of the server when it accepts requests.
const ready = "Application startup complete."

// splitTag parts the tags that name a line's process from the line. Ray writes its own before
// vLLM's: (EngineCore pid=1) (RayWorkerWrapper pid=2) INFO …
func splitTag(line string) (tag, rest string) {
	for rest = line; strings.HasPrefix(rest, "("); {
		one, after, ok := strings.Cut(rest, ") ")
		if !ok || len(one) > 200 {
			break
		}
		tag, rest = tag+one, strings.TrimSpace(after)
	}
	return tag, rest
}

// plain removes the colours of terminals.
func plain(line string) string {
	if !strings.Contains(line, "\x1b[") {
		return line
	}
	var b strings.Builder
	for i, part := range strings.Split(line, "\x1b[") {
		if i > 0 {
			_, part, _ = strings.Cut(part, "m")
		}
		b.WriteString(part)
	}
	return b.String()
}
