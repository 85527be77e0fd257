package redact

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/profllm/profllm/pkg/regular"
)

// block is how much of a file is looked at at once.
const block = 1 << 20

// Hit is a place where a known value stood.
type Hit struct {
	Line int   // 1 for the first
	At   int64 // offset of its first byte
	Len  int
}

// Mask overwrites every known value in a file, each letter by an x, and says where
// they stood: the file keeps its length and each line its place, so that
// who still writes to it, or knows an offset, is not disturbed. A file without a
// value is not written to.
func (v Values) Mask(path string) ([]Hit, error) {
	if v.Empty() {
		return nil, nil
	}
	hits, err := v.find(path)
	if err != nil || len(hits) == 0 {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return hits, fmt.Errorf("mask secrets: %w", err)
	}
	for _, h := range hits {
		if err := cross(f, h); err != nil {
			return hits, errors.Join(fmt.Errorf("mask secrets in %s: %w", path, err), f.Close())
		}
	}
	return hits, errors.Join(f.Sync(), f.Close())
}

// cross overwrites a hit, but for its ends of lines.
func cross(f *os.File, h Hit) error {
	text := make([]byte, h.Len)
	if _, err := f.ReadAt(text, h.At); err != nil {
		return err
	}
	for i, b := range text {
		if b != '\n' && b != '\r' {
			text[i] = 'x'
		}
	}
	_, err := f.WriteAt(text, h.At)
	return err
}

// seekData is SEEK_DATA of lseek(2).
const seekData = 3

// find reads a file of any size once, in constant memory. Values that lie over the border of
// two blocks are found in the second. Holes are left out: a core dump may have hundreds of
// gigabytes of them. Where the file system knows no holes, lseek fails and moves nothing.
func (v Values) find(path string) ([]Hit, error) {
	f, err := regular.OpenLarge(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var hits []Hit
	longest := len(v.forms[0])
	text := make([]byte, 0, block+longest)
	var at int64 // of text[0]
	line, done := 1, int64(0)
	for {
		next, err := f.Seek(at+int64(len(text)), seekData)
		switch {
		case errors.Is(err, syscall.ENXIO): // nothing but a hole is left
			return hits, nil
		case err == nil && next > at+int64(len(text)):
			line += bytes.Count(text, []byte("\n"))
			text, at = text[:0], next
		}
		n, err := io.ReadFull(f, text[len(text):len(text)+block])
		text = text[:len(text)+n]
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return hits, fmt.Errorf("look for secrets in %s: %w", path, err)
		}
		for _, h := range v.within(text) {
			if start := at + h.At; start+int64(h.Len) > done {
				hits = append(hits, Hit{Line: line + bytes.Count(text[:h.At], []byte("\n")), At: start, Len: h.Len})
				done = start + int64(h.Len)
			}
		}
		if last {
			return hits, nil
		}
		// What may be the beginning of a value is kept for the next round.
		over := max(0, len(text)-longest+1)
		line += bytes.Count(text[:over], []byte("\n"))
		at += int64(over)
		text = append(text[:0], text[over:]...)
	}
}

// within finds every value in text, ascending. Where two overlap they are one hit.
// It looks once at each byte, however many values there are: a private key has
// dozens of lines, and a run's files gigabytes.
func (v Values) within(text []byte) []Hit {
	var merged []Hit
	heads := v.heads
	for i := 0; i+Least <= len(text); i++ {
		head := binary.LittleEndian.Uint64(text[i : i+Least])
		if slot := hash(head); heads[slot/64%uint64(len(heads))]&(1<<(slot%64)) == 0 {
			continue
		}
		length := 0
		for _, form := range v.starts[head] {
			if len(form) > length && len(text)-i >= len(form) && string(text[i:i+len(form)]) == form {
				length = len(form)
			}
		}
		if length == 0 {
			continue
		}
		if n := len(merged); n > 0 && int64(i) < merged[n-1].At+int64(merged[n-1].Len) {
			merged[n-1].Len = max(merged[n-1].Len, i-int(merged[n-1].At)+length)
			continue
		}
		merged = append(merged, Hit{At: int64(i), Len: length})
	}
	return merged
}

// hash spreads the first eight bytes of a value over the bits of Values.heads.
func hash(head uint64) uint64 { return head * 0x9e3779b97f4a7c15 >> (64 - headBits) }

const headBits = 16
