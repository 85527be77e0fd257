// Package sglang runs SGLang's load client, python3 -m sglang.bench_serving, since
// 0.5.15 sglang.benchmark.serving, and reads the JSON lines that it appends to its
// --output-file, in every form they had since 2024.
//
// A line is one benchmark. The first valid one with a completed request is
// taken. The package does not judge the numbers.
//
//	part, err := sglang.Parser{}.Parse(os.DirFS("run/raw"))
package sglang

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
)

// DefaultFile is read where a Parser names none; CloudAI uses the same.
const DefaultFile = "sglang-bench.jsonl"

// kind is what the record calls this client.
const kind = "sglang-bench"

// A Parser reads one client's output. The zero value reads the default file.
type Parser struct {
	File string // in the folder given to Parse; default DefaultFile
}

// Parse returns what the client measured, and a warning for everything it had to
// go past. The error is fs.ErrNotExist if there is no file, or no line that holds
// a result; the Part then still holds the warnings.
func (p Parser) Parse(out fs.FS) (result.Part, error) {
	name := p.File
	if name == "" {
		name = DefaultFile
	}
	data, name, err := read(out, name)
	if err != nil {
		return result.Part{}, fmt.Errorf("read %s: %w", name, err)
	}
	var good, empty []*record
	var warnings []result.Warning
	number := 0
	for raw := range bytes.Lines(data) {
		number++
		line := bytes.TrimSpace(raw)
		if len(line) == 0 {
			continue
		}
		r, err := parseLine(line, name, number)
		switch {
		case err == nil && *r.part.Metrics.CompletedRequests > 0:
			good = append(good, r)
		case err == nil:
			empty = append(empty, r)
		default:
			warnings = append(warnings, unreadable(err, name, number, raw))
		}
	}
	list := append(good, empty...)
	if len(list) == 0 {
		return result.Part{Warnings: warnings}, fmt.Errorf("parse %s: no line holds a result: %w", name, fs.ErrNotExist)
	}
	part := list[0].part
	part.Warnings = append(warnings, part.Warnings...)
	if n := len(list); n > 1 {
		part.Warnings = append(part.Warnings, result.Warning{
			Kind: result.Appended, File: name, Line: list[0].line,
			Text: fmt.Sprintf("%d results in one file, the one in line %d was used", n, list[0].line),
		})
	}
	part.Benchmark.Kind = kind
	part.Finish()
	return part, nil
}

// unreadable is the warning for a line that is no result. Only a line without an
// end can be cut off.
func unreadable(err error, name string, number int, raw []byte) result.Warning {
	w := result.Warning{Kind: result.BadValue, File: name, Line: number, Text: err.Error()}
	var at *pyjson.Error
	if errors.As(err, &at) {
		w.Col, w.Text = at.Col, at.Text
		if at.Cut && !bytes.HasSuffix(raw, []byte("\n")) {
			w.Kind = result.Truncated
		}
	}
	return w
}

// read returns a file's text and the name it was found under, with .xz if only
// that exists.
func read(out fs.FS, name string) ([]byte, string, error) {
	data, name, err := packed.Read(out, name, regular.Result)
	if errors.Is(err, packed.ErrDamaged) {
		err = nil // damage leaves a last line without an end, which is reported
	}
	return data, name, err
}
