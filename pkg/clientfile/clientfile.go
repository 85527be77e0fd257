// Package clientfile reads one file that a load client wrote, plain or packed, and
// keeps what there is to say about it: warnings with their places.
//
//	f := &clientfile.File{Name: "report.json"}
//	err := f.Read(dir, func(in *pyjson.Reader) error { … })
package clientfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// A File reads one file of a client, and keeps what there is to say about it.
type File struct {
	Name     string
	Warnings []result.Warning
}

// Warn notes something at a value's place.
func (f *File) Warn(kind result.WarningKind, at pyjson.Value, key, format string, args ...any) {
	f.Warnings = append(f.Warnings, result.Warning{
		Kind: kind, File: f.Name, Line: at.Line, Col: at.Col, Key: key, Text: fmt.Sprintf(format, args...),
	})
}

// Read opens the file, or the same with .xz, hands it on, and expects nothing behind
// what was read. Text that is no JSON is an error with its place, and a warning.
func (f *File) Read(dir fs.FS, use func(*pyjson.Reader) error) error {
	in, name, err := packed.Open(dir, f.Name)
	if f.Name = name; err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	defer in.Close()
	r := pyjson.NewReader(in)
	if err = use(r); err == nil {
		err = r.End()
	}
	for _, key := range r.Twice() {
		f.Warn(result.Contradicts, key, key.Str, pyjson.TwiceMessage)
	}
	var at *pyjson.Error
	if errors.As(err, &at) {
		kind, mend := result.BadValue, ""
		if at.Cut {
			kind, mend = result.Truncated, ": the client was stopped while it wrote, or the copy is not whole"
		}
		f.Warn(kind, pyjson.Value{Line: at.Line, Col: at.Col}, "", "%s", at.Text)
		return fmt.Errorf("parse %s:%w%s", name, err, mend)
	}
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	return nil
}

// largest is more than any time, count or rate can be, and small enough to be turned
// into other units.
const largest = 1e30

// Number is a measured value; nil where there is none. What is neither a number nor
// null is noted, and so is what is not finite.
func (f *File) Number(v pyjson.Value, key string) *float64 {
	x, finite := v.Finite()
	switch {
	case finite && math.Abs(x) > largest:
		f.Warn(result.NoNumber, v, key, "is %v", x)
	case finite:
		return &x
	case v.Kind == pyjson.Number:
		f.Warn(result.NotFinite, v, key, "is %v", v.Num)
	case v.Kind != pyjson.Absent && v.Kind != pyjson.Null:
		f.Warn(result.NoNumber, v, key, "no number")
	}
	return nil
}

// Count is a whole number, not below zero.
func (f *File) Count(v pyjson.Value, key string) *int64 {
	x := f.Number(v, key)
	if x == nil {
		return nil
	}
	if *x != math.Trunc(*x) || *x < 0 || *x > 1<<53 {
		f.Warn(result.NoNumber, v, key, "no count: %v", *x)
		return nil
	}
	return new(int64(*x))
}

// Int is a Count for numbers of requests.
func (f *File) Int(v pyjson.Value, key string) *int {
	if n := f.Count(v, key); n != nil {
		return new(int(*n))
	}
	return nil
}
