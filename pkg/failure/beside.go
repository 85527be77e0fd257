package failure

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/redact"
)

const (
	// thrown is what a C++ runtime prints above the message of an exception.
	thrown = "terminate called after throwing an instance of "
	// refused is how pydantic ends the reason for refusing a field.
	refused = " [type="
	// mostTrace is how many lines a traceback may have that is a part of a message.
	mostTrace = 200
	// mostBelow is how many lines below a message that ends in a colon belong to it.
	mostBelow = 3
)

var (
	// field is a line that names a field of a configuration.
	field = lazyregexp.New(`^[a-z_][\w.]*$`)
	// bareName is an exception without a message.
	bareName = lazyregexp.New(`^(?:[A-Za-z_]\w*\.)*[A-Z]\w*:?\s*$`)
)

// whole is a line with what stands beside it and belongs to it. A traceback that begins
// in it is replaced by the exception that ends it.
func (s *scanner) whole(x span, before []string) string {
	line := string(s.text[x.start:x.end])
	start, quotes := strings.CutSuffix(strings.TrimSpace(line), tracebackLine)
	if !quotes || strings.TrimSpace(start) == "" {
		return line + s.more(x, before)
	}
	for _, next := range s.linesAfter(x, mostTrace) {
		if _, text := split(next); raised.MatchString(text) {
			return start + text
		}
	}
	return line
}

// more is what a line needs to be understood that stands beside it: the message of a
// C++ exception below, the name of a refused field above, the program's own line that
// raised an exception without a message, and what a colon at the end announces.
func (s *scanner) more(x span, before []string) string {
	line := s.text[x.start:x.end]
	proc, text := split(string(line))
	switch {
	case bytes.Contains(line, []byte(thrown)):
		for _, next := range s.linesAfter(x, 1) {
			if next = strings.TrimSpace(next); strings.HasPrefix(next, "what():") {
				return " " + next
			}
		}
	case bytes.Contains(line, []byte(refused)):
		for _, above := range linesBefore(s.text, x.start, 1) {
			if _, name := split(above); field.MatchString(name) {
				return " (" + name + ")"
			}
		}
	case bareName.MatchString(text):
		for _, f := range frames(proc, before) {
			if f.source != "" {
				return ": " + f.source + " (" + path.Base(f.file) + ":" + f.line + ")"
			}
		}
	case s.causedBy(x) != "":
		return ": " + s.causedBy(x)
	case strings.HasSuffix(strings.TrimSpace(text), ":"):
		return s.below(x, proc)
	case raised.MatchString(text) && tracebackHead(string(line), before, x.no) > 0:
		return s.indented(x, proc)
	}
	return ""
}

// mostCauses bounds how long a chain of causes may be.
const mostCauses = 12

// numbered is a line of a chain of causes.
var numbered = lazyregexp.New(`^\s+(?:\d+: )?(\S.*)`)

// causedBy is the innermost of the causes that programs in Rust print below an error.
func (s *scanner) causedBy(x span) string {
	cause := ""
	for i, next := range s.linesAfter(x, mostCauses) {
		_, text := split(next)
		m := numbered.FindStringSubmatch(text)
		switch {
		case i == 0 && strings.TrimSpace(text) != "Caused by:", i > 0 && m == nil:
			return cause
		case i > 0:
			cause = strings.TrimSpace(m[1])
		}
	}
	return cause
}

// indented is the second line of an exception's message, such as the file and the line
// of a text that cannot be parsed.
func (s *scanner) indented(x span, proc string) string {
	for _, next := range s.linesAfter(x, 1) {
		if p, text := split(next); p == proc && strings.HasPrefix(text, "  ") && !isHeader(next) &&
			!pythonFrame.MatchString(text) {
			return " " + strings.TrimSpace(text)
		}
	}
	return ""
}

// below is what a message that ends in a colon announces.
func (s *scanner) below(x span, proc string) string {
	var parts []string
	for _, next := range s.linesAfter(x, mostBelow) {
		p, text := split(next)
		if text = strings.TrimSpace(text); p != proc || text == "" || isHeader(next) {
			break
		}
		parts = append(parts, text)
		if !strings.HasSuffix(text, ":") && !strings.HasSuffix(text, ",") {
			break
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " " + strings.Join(parts, " ")
}

// linesAfter returns up to most lines behind a line, as far as they are in memory.
func (s *scanner) linesAfter(x span, most int) []string {
	rest := bytes.TrimLeft(s.text[x.end:min(len(s.text), x.end+reach)], "\r\n")
	var lines []string
	for range most {
		line, after, more := bytes.Cut(rest, []byte("\n"))
		lines = append(lines, strings.TrimRight(string(line), "\r"))
		if rest = after; !more {
			break
		}
	}
	return lines
}

// wrapped are the ids of exceptions that only say that a library failed, and how the
// library itself says why, above.
var wrapped = map[string]*lazyregexp.Regexp{
	"nccl-system-error": lazyregexp.New(`\bNCCL WARN\b`),
	"nccl-cuda-error":   lazyregexp.New(`\bNCCL WARN\b`),
	"nixl-backend":      lazyregexp.New(`\bUCX +ERROR\b`),
}

// quoteLibrary puts the library's own words in the place of the exception.
func quoteLibrary(f *Finding, before []string) {
	re, ok := wrapped[f.ID]
	if !ok || f.Quoted {
		return
	}
	if i := slices.IndexFunc(before, re.MatchString); i >= 0 {
		for i+1 < len(before) && re.MatchString(before[i+1]) {
			i++ // the first of several that follow each other
		}
		f.Line, f.No = redact.Line(clip(before[i])), f.No-i-1
	}
}

// inJSON returns the line of a traceback that matches re, if a logger put the traceback
// into one line of JSON; "" if not, and if re is nil.
func inJSON(line string, re *lazyregexp.Regexp) string {
	const feed = `\n`
	if re == nil || !strings.Contains(line, `{"`) {
		return ""
	}
	m := re.FindStringIndex(line)
	if m == nil {
		return ""
	}
	start := strings.LastIndex(line[:m[0]], feed)
	if start < 0 {
		return ""
	}
	text := line[start+len(feed):]
	if end := strings.Index(text, feed); end >= 0 && end >= m[1]-start-len(feed) {
		text = text[:end]
	}
	text, _, _ = strings.Cut(text, `"}`)
	text, _, _ = strings.Cut(text, `", "`)
	return text
}
