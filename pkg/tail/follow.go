package tail

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/profllm/profllm/pkg/regular"
)

// A Follower returns what is added to a file. The file may be missing at first,
// be cut, or give way to another of its name, which is then read from its start.
// It holds nothing open. Not safe for concurrent use.
type Follower struct {
	Path string
	Last int // lines of what is there at the first look

	seen   fs.FileInfo // nil before the first look
	offset int64
	rest   []byte // of an unfinished line, its end
}

// More returns the lines that were finished since the last call; none, and no
// error, of a file that is missing.
func (t *Follower) More() ([]string, error) {
	f, err := regular.OpenLarge(t.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	first := t.seen == nil
	if !first && (!os.SameFile(info, t.seen) || info.Size() < t.offset) {
		t.offset, t.rest = 0, nil
	}
	t.seen = info
	switch {
	case first && isPacked(f): // nobody adds to it
		t.offset = info.Size()
		return Last(t.Path, t.Last)
	case first:
		text, err := end(f, info.Size(), t.Last+1)
		t.offset = info.Size()
		return lastOf(t.finished(text), t.Last), err
	case isPacked(f):
		return nil, nil
	}
	return t.added(f, info.Size())
}

// added reads from where the last look ended.
func (t *Follower) added(f io.ReaderAt, size int64) ([]string, error) {
	var list []string
	if left := size - t.offset - farthest; left > 0 {
		list = []string{fmt.Sprintf("… %d bytes left out", left)}
		t.offset, t.rest = t.offset+left, nil
	}
	text := make([]byte, size-t.offset)
	got, err := f.ReadAt(text, t.offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	t.offset += int64(got)
	return append(list, t.finished(text[:got])...), err
}

// finished returns the lines that have an end, and keeps the rest.
func (t *Follower) finished(text []byte) []string {
	text = append(t.rest, text...)
	cut := bytes.LastIndexByte(text, '\n') + 1
	list := lines(text[:cut])
	t.rest = bytes.Clone(text[max(cut, len(text)-block):])
	return list
}

// Rest returns the line that has no end yet, if it holds something; the next
// call does not return it again.
func (t *Follower) Rest() []string {
	line := Line(t.rest)
	if t.rest = nil; line == "" {
		return nil
	}
	return []string{line}
}
