package failure

import (
	"bytes"
	"strings"
)

// Programs that draw with rich, among them all made with typer, put an error into a
// box with a title:
//
//	╭─ Error ──────────────────────────╮
//	│ No such option: --mesage         │
//	╰──────────────────────────────────╯
const (
	boxTop    = "╭─"
	boxSide   = "│"
	boxPrefix = "Error: "
	// mostBoxed bounds how many lines of a box are read.
	mostBoxed = 40
)

// ownMessage is the id of an error that a program words itself.
const ownMessage = "error-message"

// boxed returns what the box says that begins in a line, "" if none does.
func (s *scanner) boxed(x span) string {
	if !bytes.Contains(s.text[x.start:x.end], []byte(boxTop)) {
		return ""
	}
	var parts []string
	rest := s.text[x.end:min(len(s.text), x.end+reach)]
	for range mostBoxed {
		var line []byte
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			rest = rest[i+1:]
		}
		line, _, _ = bytes.Cut(rest, []byte("\n"))
		inner, ok := strings.CutPrefix(strings.TrimSpace(string(line)), boxSide)
		if !ok {
			break
		}
		if inner = strings.TrimSpace(strings.TrimSuffix(inner, boxSide)); inner != "" {
			parts = append(parts, inner)
		}
	}
	return strings.Join(parts, " ")
}

// firstFor returns the first entry that matches a line in a log of such a role, or the
// one that is given if none does.
func (t *Table) firstFor(line string, conditions []string, otherwise int) int {
	for i := range t.entries {
		if e := &t.entries[i]; e.meets(conditions) && e.re.MatchString(line) {
			return i
		}
	}
	return otherwise
}
