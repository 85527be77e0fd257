package dataset

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/regular"
)

// lineLimit bounds one line of a data set, in bytes: ten times a prompt of a million tokens.
const lineLimit = 64 << 20

// eachLine calls take with each line of a file, end included, and its number. An error of take gets
// the place in front.
func eachLine(path string, take func(n int, line []byte) error) error {
	f, err := regular.Open(path)
	if err != nil {
		return unreadable(path, err)
	}
	defer f.Close()
	in := bufio.NewReaderSize(pyjson.SkipMark(f), 1<<20)
	var line []byte
	for n := 1; ; n++ {
		line = line[:0]
		for {
			part, err := in.ReadSlice('\n')
			if len(line)+len(part) > lineLimit {
				return fmt.Errorf("%s:%d: the line is longer than %d MiB: this format has one document in each line",
					path, n, lineLimit>>20)
			}
			line = append(line, part...)
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return unreadable(path, err)
			}
			if len(line) > 0 {
				if err := take(n, line); err != nil {
					return fmt.Errorf("%s:%d: %w", path, n, err)
				}
			}
			if err != nil {
				return nil
			}
			break
		}
	}
}

// errEnough ends the reading of a file of which no more is needed.
var errEnough = errors.New("enough was read")

// unreadable says what is wrong with a file that cannot be read, and what to do.
func unreadable(path string, err error) error {
	if errors.Is(err, regular.ErrKind) {
		return fmt.Errorf("read %s: %w: --dataset-path needs a file, which is read more than once", path, err)
	}
	return fmt.Errorf("read the data set: %w", err)
}

// eachObject calls take with the JSON object of each line of a file.
func eachObject(path string, take func(v pyjson.Value) error) error {
	return eachLine(path, func(n int, line []byte) error {
		if len(bytes.TrimSpace(line)) == 0 {
			return nil
		}
		r := pyjson.NewPart(line, n, 1)
		v, err := r.Value()
		if err == nil {
			err = r.End()
		}
		if err != nil {
			return notJSON(err)
		}
		if v.Kind != pyjson.Object {
			return errors.New("the line is no JSON object")
		}
		return take(v)
	})
}

// notJSON is an error of pyjson without its line, which the caller has written already.
func notJSON(err error) error {
	var e *pyjson.Error
	if errors.As(err, &e) {
		return fmt.Errorf("the line is no JSON: column %d: %s", e.Col, e.Text)
	}
	return err
}

// eachItem calls take with each element of a file that is one JSON list. An error gets the place in
// front.
func eachItem(path string, in io.Reader, take func(v pyjson.Value) error) error {
	r := pyjson.NewReader(in)
	err := r.List(func() error { return takeValue(path, r, take) })
	if err == nil {
		err = r.End()
	}
	return placed(path, "the file is no JSON list", err)
}

// eachDocument calls take with each of the JSON documents that follow each other in a file, which may
// be lines. An error gets the place in front.
func eachDocument(path string, in io.Reader, take func(v pyjson.Value) error) error {
	r := pyjson.NewReader(in)
	var err error
	for err == nil && r.Kind() != pyjson.Absent {
		err = takeValue(path, r, take)
	}
	if err == nil {
		err = r.End()
	}
	return placed(path, "the file is no JSON", err)
}

// takeValue calls take with the value that comes next.
func takeValue(path string, r *pyjson.Reader, take func(v pyjson.Value) error) error {
	v, err := r.Value()
	if err != nil {
		return err
	}
	if err := take(v); err != nil {
		return fmt.Errorf("%s:%d: %w", path, v.Line, err)
	}
	return nil
}

// placed is an error of pyjson with the file and the line in front.
func placed(path, what string, err error) error {
	if e, ok := errors.AsType[*pyjson.Error](err); ok {
		return fmt.Errorf("%s:%d: %s: column %d: %s", path, e.Line, what, e.Col, e.Text)
	}
	return err
}

// text returns a member of an object that has to be a string.
func text(v pyjson.Value, key string) (string, error) {
	m := v.At(key)
	switch m.Kind {
	case pyjson.Text:
		return m.Str, nil
	case pyjson.Absent:
		return "", fmt.Errorf("the entry has no %q", key)
	}
	return "", fmt.Errorf("%q is no string", key)
}

// whole returns a member of an object that has to be a whole number, as a number or a string.
func whole(v pyjson.Value, key string, least int) (int, error) {
	m := v.At(key)
	x, ok := m.Finite()
	if m.Kind == pyjson.Text {
		n, err := strconv.Atoi(m.Str)
		x, ok = float64(n), err == nil
	}
	switch {
	case m.Kind == pyjson.Absent:
		return 0, fmt.Errorf("the entry has no %q", key)
	case !ok || x != math.Trunc(x) || x < float64(least) || x > 1<<31:
		return 0, fmt.Errorf("%q is no whole number of %d or more", key, least)
	}
	return int(x), nil
}
