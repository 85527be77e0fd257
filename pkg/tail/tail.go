// Package tail reads logs as a person at a terminal would see them: the last
// lines, the lines around one, what is added while a program writes, and how far
// a progress bar has come. Of a bar that returns to the start of its line the
// last state counts, and terminal sequences are left out.
//
// It reads the end of a file only, unless xz packed it, and understands nothing
// of what the lines say.
//
//	lines, err := tail.Last("logs/serve-0.log", 20)
package tail

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/regular"
)

const (
	block    = 64 << 10
	farthest = 8 << 20  // most bytes of a file that are read from its end
	longest  = 16 << 10 // most bytes of a line that are shown, its last ones
)

// sequences are what a terminal obeys: CSI with its parameters, OSC up to its
// end, and the short ones (ECMA-48, 5.4 and 8.3.89).
var sequences = lazyregexp.New("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_])")

// Line returns what a terminal would show in the end of one line of a log,
// without its newline: valid UTF-8 that moves no cursor.
func Line(raw []byte) string {
	raw = bytes.TrimRight(sequences.ReplaceAll(raw, nil), "\r\n")
	for {
		i := bytes.LastIndexByte(raw, '\r')
		if i < 0 {
			break
		}
		if len(bytes.TrimSpace(raw[i:])) > 0 {
			raw = raw[i+1:]
			break
		}
		raw = raw[:i] // a bar that was wiped off
	}
	text := strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(raw), "\uFFFD"))
	if len(text) > longest {
		text = "…" + strings.ToValidUTF8(text[len(text)-longest:], "")
	}
	return strings.TrimRight(text, " ")
}

// lines returns the lines of a text, an unfinished one at its end among them.
func lines(text []byte) []string {
	var list []string
	for raw := range bytes.Lines(text) {
		list = append(list, Line(raw))
	}
	return list
}

func lastOf(list []string, n int) []string { return list[max(0, len(list)-n):] }

// Last returns at most n lines from the end of a file, packed by xz or not. Of
// one that is not, at most the last 8 MiB are read.
func Last(path string, n int) ([]string, error) {
	f, err := regular.OpenLarge(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !isPacked(f) {
		size, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			return nil, err
		}
		text, err := end(f, size, n)
		return lastOf(lines(text), n), err
	}
	var list []string
	err = each(f, func(_ int, line []byte) bool {
		if list = append(list, Line(line)); len(list) >= 2*n+block/longest {
			list = append([]string(nil), lastOf(list, n)...)
		}
		return true
	})
	return lastOf(list, n), err
}

// end reads a file of that size backwards until it has n lines, and some bytes
// of more.
func end(f io.ReaderAt, size int64, n int) ([]byte, error) {
	var text []byte
	at := size
	for at > 0 && size-at < farthest && bytes.Count(text, []byte("\n")) <= n {
		step := min(at, max(block, int64(len(text)))) // doubles, so that little is copied
		at -= step
		more := make([]byte, step, step+int64(len(text)))
		if got, err := f.ReadAt(more, at); err != nil && !errors.Is(err, io.EOF) {
			return text, err
		} else if int64(got) < step { // cut meanwhile
			more = more[:got]
		}
		text = append(more, text...)
	}
	if at > 0 { // begin with a line's start, if there is one
		if i := bytes.IndexByte(text, '\n'); i >= 0 && i < len(text)-1 {
			text = text[i+1:]
		}
	}
	return text, nil
}

// End returns at most the last n bytes of a file that is not packed.
func End(path string, n int) ([]byte, error) {
	f, err := regular.OpenLarge(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	text := make([]byte, min(size, int64(n)))
	got, err := f.ReadAt(text, size-int64(len(text)))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return text[:got], err
}

// Numbered is a line with its place in the file, from 1.
type Numbered struct {
	Number int
	Text   string
}

// Around returns a line of a file, packed by xz or not, with some before and
// after it. A file that ends earlier gives fewer lines, or none.
func Around(path string, line, before, after int) ([]Numbered, error) {
	f, err := regular.OpenLarge(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []Numbered
	err = each(f, func(number int, text []byte) bool {
		if number >= line-before && number <= line+after {
			list = append(list, Numbered{number, Line(text)})
		}
		return number < line+after
	})
	return list, err
}

var magic = []byte("\xfd7zXZ\x00") // begins every file that xz wrote

func isPacked(f io.ReaderAt) bool {
	head := make([]byte, len(magic))
	_, err := f.ReadAt(head, 0)
	return err == nil && bytes.Equal(head, magic)
}

// each calls visit with every line and its number, until it returns false. What
// is left of a packed file that was cut short is read as far as it goes.
func each(f *os.File, visit func(number int, line []byte) bool) error {
	r := regular.Limit(f, regular.Most)
	isPacked := isPacked(f)
	if isPacked {
		x, err := packed.NewReader(f)
		if err != nil {
			return err
		}
		r = x
	}
	in := bufio.NewReaderSize(r, block)
	var line []byte
	for number := 1; ; {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); len(line) > 2*block {
			line = append(line[:0], line[len(line)-block:]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(line) > 0 && !visit(number, line) {
			return nil
		}
		if err != nil && (isPacked || errors.Is(err, io.EOF)) {
			return nil
		}
		if err != nil {
			return err
		}
		line = line[:0]
		number++
	}
}

// bars are how far something has come: as tqdm says it ("12/64 [00:03<00:14"),
// and as profllm bench serve does.
var bars = lazyregexp.New(`(?:^|[|\s])(\d{1,9})/(\d{1,9})(?: \[| done)`)

// Progress finds the last progress in the end of a log: so many of so many. ok
// is false if there is none; total is never 0.
func Progress(text []byte) (done, total int, ok bool) {
	all := bars.FindAllSubmatch(sequences.ReplaceAll(text, nil), -1)
	for i := len(all) - 1; i >= 0; i-- {
		done, _ = strconv.Atoi(string(all[i][1]))
		total, _ = strconv.Atoi(string(all[i][2]))
		if total > 0 && done <= total {
			return done, total, true
		}
	}
	return 0, 0, false
}
