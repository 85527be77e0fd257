// Package terminal shows tables and messages to a person: on a terminal they fit its width
// and have colours, elsewhere they are whole and plain, for other programs.
//
// Texts are made harmless first (printable), because what is written with colours does not
// go through a printable.Writer.
//
//	t := terminal.Table{Columns: []terminal.Column{{Name: "run"}, {Name: "verdict"}, {Name: "directory", Drop: 1}}}
//	t.Row(terminal.Cell{Text: "a/0"}, terminal.Cell{Text: "valid", Tone: terminal.Good}, terminal.Cell{Text: dir})
//	fmt.Print(t.Text(terminal.Screen{Width: 80, Colour: true}))
package terminal

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/profllm/profllm/pkg/printable"
)

// Screen is what a text is shown on. The zero value is a file or a pipe.
type Screen struct {
	Width  int // of a line, in columns; 0: as long as it is
	Colour bool
}

// Tone is how a word is to be taken.
type Tone int

// The tones.
const (
	Plain    Tone = iota
	Good          // valid, succeeded
	Doubtful      // suspect, waiting, unknown
	Bad           // invalid, failed
	Busy          // running
	Faint         // what matters less
)

// codes are SGR codes (ECMA-48) that are read well on light and on dark ground.
var codes = [...]string{Good: "32", Doubtful: "33", Bad: "31", Busy: "36", Faint: "2"}

// Paint gives a text the colour of a tone.
func (s Screen) Paint(t Tone, line string) string {
	if !s.Colour || t == Plain || line == "" {
		return line
	}
	return "\x1b[" + codes[t] + "m" + line + "\x1b[0m"
}

// Harmless is a line without what a screen would obey. Off a terminal it is as it was.
func (s Screen) Harmless(line string) string {
	if s == (Screen{}) {
		return line
	}
	return printable.Line(line)
}

// indent stands before the second line of what was one.
const indent = "  "

// Fold breaks the lines of a text between words where they are too long. Lines that begin
// with a space or tab stay whole: they are commands to be copied, or lists.
func (s Screen) Fold(long string) string {
	if s.Width <= 0 {
		return long
	}
	var out strings.Builder
	for line := range strings.Lines(long) {
		line, end := strings.CutSuffix(line, "\n")
		if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
			line = s.foldLine(line)
		}
		out.WriteString(line)
		if end {
			out.WriteString("\n")
		}
	}
	return out.String()
}

// Hang is a text behind its head, folded into a column of its own.
func (s Screen) Hang(head, line string) string {
	n := text.StringWidth(head)
	if s.Width < 2*n {
		return head + line // no room for a column
	}
	return head + Screen{Width: s.Width - n}.foldTo(line, strings.Repeat(" ", n), 0)
}

func (s Screen) foldLine(line string) string { return s.foldTo(line, indent, text.StringWidth(indent)) }

// foldTo breaks one line; each that follows begins with an indent, of which so many columns
// are within the width. A word that is longer than a line has a line of its own.
func (s Screen) foldTo(line, indent string, within int) string {
	if text.StringWidth(line) <= s.Width {
		return line
	}
	var out strings.Builder
	used := 0
	for i, word := range strings.Split(line, " ") {
		switch n := text.StringWidth(word); {
		case i == 0:
			used = n
		case used+1+n > s.Width && used > within:
			out.WriteString("\n" + indent)
			used = within + n
		default:
			out.WriteString(" ")
			used += 1 + n
		}
		out.WriteString(word)
	}
	return out.String()
}

// Message is a message as it is printed: folded, with the first word of a note, a warning
// or a hint in its colour. All of an error's first line is in the tone.
func (s Screen) Message(t Tone, message string) string {
	if s == (Screen{}) {
		return message
	}
	message = printable.Text(message)
	head, rest, more := strings.Cut(message, "\n")
	head = s.Fold(head)
	switch {
	case t != Plain:
		lines := strings.Split(head, "\n")
		for i := range lines {
			lines[i] = s.Paint(t, lines[i])
		}
		head = strings.Join(lines, "\n")
	case strings.HasPrefix(head, "note: "):
		head = s.Paint(Busy, "note:") + head[len("note:"):]
	case strings.HasPrefix(head, "warning: "):
		head = s.Paint(Doubtful, "warning:") + head[len("warning:"):]
	}
	if !more {
		return head
	}
	return head + "\n" + strings.ReplaceAll(s.Fold(rest), "\thint:", "\t"+s.Paint(Busy, "hint:"))
}
