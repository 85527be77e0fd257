package result

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/profllm/profllm/pkg/redact"
)

// alertLine is how much of a log line OneLine has, characters. Records have no more
// (Failure.Line), unless another program wrote them.
const alertLine = 500

// OneLine is the failure for an alert: cause, role, node, log and the line that shows it. What
// to do (Next) is not in it.
func (f *Failure) OneLine() string {
	var b strings.Builder
	if f.Confidence == NoCause {
		b.WriteString("cause unknown")
	} else {
		fmt.Fprintf(&b, "cause %s (%s)", f.Cause, f.Confidence)
	}
	for _, part := range [][2]string{{" in ", f.Role}, {", rank ", f.Rank}, {" on ", f.Node}, {": ", f.File}} {
		if part[1] != "" {
			b.WriteString(part[0] + part[1])
		}
	}
	if f.File != "" && f.LineNumber > 0 {
		fmt.Fprintf(&b, ":%d", f.LineNumber)
	}
	if line := f.shows(); line != "" {
		b.WriteString(": " + line)
	}
	return b.String()
}

// shows is the line that shows the failure, else the last line of its log, without secrets
// and on one line.
func (f *Failure) shows() string {
	line := f.Line
	for i := len(f.Tail) - 1; i >= 0 && strings.TrimSpace(line) == ""; i-- {
		line = f.Tail[i]
	}
	line = redact.Line(strings.Join(strings.Fields(line), " "))
	if utf8.RuneCountInString(line) > alertLine {
		line = string([]rune(line)[:alertLine-1]) + "…"
	}
	return line
}
