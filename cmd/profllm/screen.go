package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/terminal"
)

// screenOf is what w is shown on: a terminal with its width and its colours, or the zero
// value, a file or pipe.
func (a *app) screenOf(w io.Writer) terminal.Screen {
	f, ok := below(w).(*os.File)
	if !ok {
		return terminal.Screen{}
	}
	cols, _, ok := windowSize(f)
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
	f, isFile := below(w).(*os.File)
	if term := a.env("TERM"); !isFile || term == "" || term == "dumb" {
		return 0, 0, false
	}
	if cols, rows, ok = windowSize(f); ok && (cols == 0 || rows == 0) { // the terminal does not know
		return 80, 24, true
	}
	return cols, rows, ok
}

// colour reports whether a terminal may be sent colours, see no-color.org.
func (a *app) colour() bool {
	kind := a.env("TERM")
	return a.env("NO_COLOR") == "" && kind != "" && kind != "dumb"
}

// windowSize is the size of a terminal, 0 where it does not know; ok is false for a file
// that is none.
func windowSize(f *os.File) (cols, rows int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, false
	}
	return int(size.Col), int(size.Row), true
}

// below is the stream under what makes text harmless.
func below(w io.Writer) io.Writer {
	for {
		u, ok := w.(interface{ Unwrap() io.Writer })
		if !ok {
			return w
		}
		w = u.Unwrap()
	}
}

// onScreen returns where text for a screen is written: text with colours is harmless
// already, and goes past what would make its colours visible.
func onScreen(w io.Writer, s terminal.Screen) io.Writer {
	if s == (terminal.Screen{}) {
		return w
	}
	return below(w)
}

// printTable shows a table on standard output.
func (a *app) printTable(t *terminal.Table) error {
	s := a.screenOf(a.stdout)
	_, err := fmt.Fprintln(onScreen(a.stdout, s), t.Text(s))
	return err
}

// printLine shows a line on standard output.
func (a *app) printLine(line string) error {
	s := a.screenOf(a.stdout)
	_, err := fmt.Fprintln(onScreen(a.stdout, s), s.Message(terminal.Plain, line))
	return err
}

// say prints a message of a tone to standard error.
func (a *app) say(t terminal.Tone, message string) {
	s := a.screenOf(a.stderr)
	fmt.Fprintln(onScreen(a.stderr, s), s.Message(t, message))
}

func (a *app) logf(format string, args ...any) { a.say(terminal.Plain, fmt.Sprintf(format, args...)) }

// stateTones are the tones of job states; the ends that are not listed are bad.
var stateTones = map[string]terminal.Tone{
	run.Running: terminal.Busy, run.Succeeded: terminal.Good,
	run.Queued: terminal.Doubtful, run.Unknown: terminal.Doubtful,
}

// stateTone is the tone of a job's state, plain where there is no job.
func stateTone(st run.State) terminal.Tone {
	if tone, ok := stateTones[st.State]; ok || !st.Final() {
		return tone
	}
	return terminal.Bad
}
