// Package printable makes text of unknown origin harmless where it is written: on a
// terminal, which obeys control characters, and in a table, which computes cells. A
// character that is not shown but obeyed is written as JSON writes it, such as \u001b.
// In JSON that is the very same text.
//
//	fmt.Fprintln(printable.NewWriter(os.Stdout), "\x1b[2J") // \u001b[2J
package printable

import (
	"fmt"
	"io"
	"sync"
	"unicode/utf8"
)

// Line is text for one line or one cell: line ends and tabs are written out too.
func Line(s string) string { return escaped(s, "") }

// Text is text of several lines, with tabs.
func Text(s string) string { return escaped(s, "\n\t") }

func escaped(s, keep string) string {
	clean := true
	for i, r := range s {
		clean = clean && !obeyed(s, i, r, keep)
	}
	if clean {
		return s
	}
	out := make([]byte, 0, len(s)+16)
	for i, r := range s {
		out = appendRune(out, s, i, r, keep)
	}
	return string(out)
}

// obeyed reports whether the rune at i is a character that does something instead
// of being shown: C0 but for those to keep, DEL and C1 (ECMA-48), what turns the
// direction of writing (UAX 9), the line ends of Unicode, and bytes that are no UTF-8.
func obeyed(s string, i int, r rune, keep string) bool {
	switch {
	case r == utf8.RuneError:
		_, n := utf8.DecodeRuneInString(s[i:])
		return n == 1
	case r < ' ':
		for _, k := range keep {
			if r == k {
				return false
			}
		}
		return true
	case r < 0x7f:
		return false
	}
	return r <= 0x9f || r == 0x061c || r == 0x200e || r == 0x200f || r >= 0x2028 && r <= 0x202e ||
		r >= 0x2066 && r <= 0x2069 || r == 0xfeff
}

func appendRune(out []byte, s string, i int, r rune, keep string) []byte {
	switch {
	case !obeyed(s, i, r, keep):
		return utf8.AppendRune(out, r)
	case r == utf8.RuneError:
		return utf8.AppendRune(out, r) // the replacement character, as JSON has it
	}
	return fmt.Appendf(out, `\u%04x`, r)
}

// A Writer writes Text to another one. Of a line end CR LF it keeps both. It is safe
// for concurrent use.
type Writer struct {
	w    io.Writer
	mu   sync.Mutex
	rest []byte // of a rune that is not complete, or a CR
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Unwrap returns the writer below.
func (w *Writer) Unwrap() io.Writer { return w.w }

// Write writes p; it keeps what may be the beginning of a character until the next.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) == 0 && plain(p) {
		return w.w.Write(p)
	}
	text := string(append(w.rest, p...))
	whole := len(text) - incomplete(text)
	w.rest = []byte(text[whole:])
	if _, err := io.WriteString(w.w, stream(text[:whole])); err != nil {
		return 0, err
	}
	return len(p), nil
}

// plain reports whether nothing is to be done: printed ASCII, as nearly always.
func plain(p []byte) bool {
	for _, c := range p {
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

// stream is Text that keeps the line ends of CSV.
func stream(s string) string {
	out := make([]byte, 0, len(s)+16)
	for i, r := range s {
		if r == '\r' && i+1 < len(s) && s[i+1] == '\n' {
			out = append(out, '\r')
			continue
		}
		out = appendRune(out, s, i, r, "\n\t")
	}
	return string(out)
}

// incomplete is how many bytes at the end of a text may belong to what follows.
func incomplete(s string) int {
	if n := len(s); n > 0 && s[n-1] == '\r' {
		return 1
	}
	for k := 1; k <= min(utf8.UTFMax-1, len(s)); k++ {
		if c := s[len(s)-k:]; utf8.RuneStart(c[0]) {
			if utf8.FullRuneInString(c) {
				return 0
			}
			return k
		}
	}
	return 0
}
