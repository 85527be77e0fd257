// Command record runs commands in a terminal and writes what they print as an animated
// SVG. "make pictures" uses it.
//
//	record -columns 100 -prompt '$ ' 'profllm verify qwen.toml' 'profllm rehearse qwen.toml' > out.svg
//
// It needs script(1) of util-linux, which gives the commands a terminal.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

const longestPause = 900 * time.Millisecond // longer waits are shortened

func main() {
	columns := flag.Int("columns", 100, "width of the terminal in characters")
	flag.Parse()
	s := &screen{columns: *columns}
	for _, command := range flag.Args() {
		s.print("$ " + command + "\n")
		s.wait(longestPause)
		if err := s.run(command); err != nil {
			fmt.Fprintln(os.Stderr, "record:", err)
			os.Exit(1)
		}
		s.wait(2 * longestPause)
	}
	s.write(os.Stdout)
}

// run runs a command in a terminal and shows what it prints as it comes. How the command
// ends is not looked at, because a recording may show a failure.
func (s *screen) run(command string) error {
	cmd := exec.Command("script", "--quiet", "--flush", "--command",
		fmt.Sprintf("stty cols %d rows 50; %s", s.columns, command), os.DevNull)
	cmd.Stdin = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	in := bufio.NewReader(out)
	for last := time.Now(); ; {
		waits := in.Buffered() == 0
		r, _, err := in.ReadRune()
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if waits {
			s.wait(min(time.Since(last), longestPause))
			last = time.Now()
		}
		s.put(r)
	}
	_ = cmd.Wait()
	return nil
}

// piece is what a row of the screen shows from one moment to another.
type piece struct {
	row      int
	text     string // with its colours, as SVG
	from, to time.Duration
}

// screen is a terminal without an upper end: rows only grow.
type screen struct {
	columns int
	now     time.Duration
	rows    [][]cell
	changed map[int]bool
	pieces  []piece
	shown   map[int]int // row to the piece that it shows
	column  int
	style   string // class of the colour that is set
	escape  string // the escape sequence so far
}

type cell struct {
	char  rune
	style string
}

func (s *screen) wait(d time.Duration) { s.flush(); s.now += d }

// print shows a text.
func (s *screen) print(text string) {
	for _, r := range text {
		s.put(r)
	}
}

// put takes the next character that a program wrote. It knows line ends, returns,
// colours and the erasing of a line, and skips every other escape sequence.
func (s *screen) put(r rune) {
	switch {
	case s.escape != "":
		s.escape += string(r)
		if r >= '@' && r <= '~' && r != '[' {
			s.control(s.escape)
			s.escape = ""
		}
	case r == '\x1b':
		s.escape = string(r)
	case r == '\n':
		s.row()
		s.rows = append(s.rows, nil)
		s.column = 0
	case r == '\r':
		s.column = 0
	case r >= ' ':
		s.letter(r)
	}
}

// row is the number of the row that is written to.
func (s *screen) row() int {
	if len(s.rows) == 0 {
		s.rows = append(s.rows, nil)
	}
	return len(s.rows) - 1
}

func (s *screen) letter(r rune) {
	if s.column == s.columns { // the terminal wraps
		s.rows, s.column = append(s.rows, nil), 0
	}
	n := s.row()
	for len(s.rows[n]) <= s.column {
		s.rows[n] = append(s.rows[n], cell{char: ' '})
	}
	s.rows[n][s.column] = cell{r, s.style}
	s.column++
	s.touch(n)
}

func (s *screen) touch(row int) {
	if s.changed == nil {
		s.changed = map[int]bool{}
	}
	s.changed[row] = true
}

// control obeys an escape sequence.
func (s *screen) control(sequence string) {
	args, ok := strings.CutPrefix(sequence, "\x1b[")
	if !ok {
		return
	}
	args, final := args[:len(args)-1], args[len(args)-1]
	switch final {
	case 'K':
		n := s.row()
		if args == "2" {
			s.rows[n] = nil
		} else {
			s.rows[n] = s.rows[n][:min(s.column, len(s.rows[n]))]
		}
		s.touch(n)
	case 'm':
		for code := range strings.SplitSeq(args, ";") {
			switch code {
			case "", "0", "39", "22":
				s.style = ""
			case "1", "2", "31", "32", "33", "34", "35", "36", "90", "91", "92", "93":
				s.style = "c" + code
			}
		}
	}
}

// flush ends what changed rows showed, and begins what they show now.
func (s *screen) flush() {
	if s.shown == nil {
		s.shown = map[int]int{}
	}
	for row := range s.rows {
		if !s.changed[row] {
			continue
		}
		if old, ok := s.shown[row]; ok {
			s.pieces[old].to = s.now
		}
		s.shown[row] = len(s.pieces)
		s.pieces = append(s.pieces, piece{row: row, text: markup(s.rows[row]), from: s.now})
	}
	s.changed = nil
}

// markup is a row as SVG.
func markup(row []cell) string {
	var b strings.Builder
	for start := 0; start < len(row); {
		end := start
		var text strings.Builder
		for end < len(row) && row[end].style == row[start].style {
			text.WriteRune(row[end].char)
			end++
		}
		words := html.EscapeString(text.String())
		if style := row[start].style; style != "" {
			words = `<tspan class="` + style + `">` + words + "</tspan>"
		}
		b.WriteString(words)
		start = end
	}
	return b.String()
}

const (
	charWidth  = 7.8 // of 13 px, in pixels
	lineHeight = 18
	margin     = 16
)

const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img">
<style>
rect{fill:#14181d}
text{fill:#d8dee6;font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}
.p{fill:#8fd18f}.c1{font-weight:bold}.c2,.c90{fill:#8b949e}.c31,.c91{fill:#ff7b72}.c32,.c92{fill:#7ee787}.c33,.c93{fill:#e3b341}.c34{fill:#79c0ff}.c35{fill:#d2a8ff}.c36{fill:#76e3ea}
@keyframes i{from{visibility:hidden}to{visibility:visible}}
@keyframes o{from,to{visibility:visible}}
@media (prefers-reduced-motion:reduce){text{animation:none!important}}
</style>
<rect width="100%%" height="100%%" rx="8"/>
`

// write writes the SVG. It plays once and then shows the last state.
func (s *screen) write(w io.Writer) {
	s.flush()
	if n := len(s.rows); n > 0 && len(s.rows[n-1]) == 0 {
		s.rows = s.rows[:n-1]
	}
	fmt.Fprintf(w, head, int(float64(s.columns)*charWidth)+2*margin, len(s.rows)*lineHeight+2*margin)
	for _, p := range s.pieces {
		if p.text == "" {
			continue
		}
		class, hidden := "", ""
		if strings.HasPrefix(p.text, "$ ") {
			class = ` class="p"`
		}
		motion := fmt.Sprintf("i 1ms %dms both", p.from.Milliseconds())
		if p.to > 0 {
			motion = fmt.Sprintf("o %dms %dms", (p.to - p.from).Milliseconds(), p.from.Milliseconds())
			hidden = ` visibility="hidden"` // before and after
		}
		fmt.Fprintf(w, "<text%s x=\"%d\" y=\"%d\"%s style=\"animation:%s\">%s</text>\n", class, margin,
			margin+13+p.row*lineHeight, hidden, motion, p.text)
	}
	fmt.Fprintln(w, "</svg>")
}
