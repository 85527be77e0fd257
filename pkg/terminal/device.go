package terminal

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Size is the size of the terminal that w writes to, 0 where the terminal does not know; ok is
// false if w writes to none.
func Size(w io.Writer) (cols, rows int, ok bool) {
	f, ok := Below(w).(*os.File)
	if !ok {
		return 0, 0, false
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, false
	}
	return int(size.Col), int(size.Row), true
}

// Below is the stream under what makes text harmless.
func Below(w io.Writer) io.Writer {
	for {
		u, ok := w.(interface{ Unwrap() io.Writer })
		if !ok {
			return w
		}
		w = u.Unwrap()
	}
}

// Writer returns where text for a screen is written: text with colours is harmless already, and
// goes past what would make its colours visible.
func (s Screen) Writer(w io.Writer) io.Writer {
	if s == (Screen{}) {
		return w
	}
	return Below(w)
}
