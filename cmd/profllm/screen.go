package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"

	"github.com/profllm/profllm/pkg/terminal"
)

// screenOf is what w is shown on: a terminal with its width and its colours, or the zero
// value, a file or pipe.
func (a *app) screenOf(w io.Writer) terminal.Screen {
	cols, _, ok := terminal.Size(w)
	if !ok {
		return terminal.Screen{}
	}
	if cols == 0 { // the terminal does not know
		cols, _ = strconv.Atoi(a.env("COLUMNS"))
	}
	s := terminal.Screen{Width: max(cmp.Or(cols, 80), 20), Colour: a.colour()}
	if a.wide {
		s.Width = 0
	}
	return s
}

// cursorOf is the size of the terminal that w writes to; ok is false if it is none, or
// none that can move its cursor.
func (a *app) cursorOf(w io.Writer) (cols, rows int, ok bool) {
	if term := a.env("TERM"); term == "" || term == "dumb" {
		return 0, 0, false
	}
	if cols, rows, ok = terminal.Size(w); ok && (cols == 0 || rows == 0) { // the terminal does not know
		return 80, 24, true
	}
	return cols, rows, ok
}

// colour reports whether a terminal may be sent colours, see no-color.org.
func (a *app) colour() bool {
	kind := a.env("TERM")
	return a.env("NO_COLOR") == "" && kind != "" && kind != "dumb"
}

// printTable shows a table on standard output.
func (a *app) printTable(t *terminal.Table) error {
	s := a.screenOf(a.stdout)
	_, err := fmt.Fprintln(s.Writer(a.stdout), t.Text(s))
	return err
}

// printLine shows a line on standard output.
func (a *app) printLine(line string) error {
	s := a.screenOf(a.stdout)
	_, err := fmt.Fprintln(s.Writer(a.stdout), s.Message(terminal.Plain, line))
	return err
}

// say prints a message of a tone to standard error.
func (a *app) say(t terminal.Tone, message string) {
	s := a.screenOf(a.stderr)
	fmt.Fprintln(s.Writer(a.stderr), s.Message(t, message))
}

func (a *app) logf(format string, args ...any) { a.say(terminal.Plain, fmt.Sprintf(format, args...)) }
