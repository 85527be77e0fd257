package terminal

import (
	"io"
	"sync"
)

// StatusLine keeps one line at the bottom of a terminal. What is written to it goes above that
// line. Elsewhere than on a terminal it passes on what is written. It is safe for concurrent
// use.
type StatusLine struct {
	Text    io.Writer // for what is written
	Device  io.Writer // for the line, which moves the cursor
	Columns int       // of the terminal; 0: as long as the line is

	mu    sync.Mutex
	drawn string // "" for no line
}

// Write implements io.Writer.
func (l *StatusLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.drawn
	l.draw("")
	n, err := l.Text.Write(p)
	l.draw(line)
	return n, err
}

// Set replaces the line; "" removes it.
func (l *StatusLine) Set(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draw(line)
}

// draw replaces the line. Write errors are those of a terminal that is gone.
func (l *StatusLine) draw(line string) {
	if l.drawn != "" {
		io.WriteString(l.Device, "\r\x1b[K")
	}
	if l.Columns > 1 && len(line) >= l.Columns {
		line = line[:l.Columns-1]
	}
	io.WriteString(l.Device, line)
	l.drawn = line
}
