// Package vllmserve reads what `vllm bench serve` leaves behind, in every
// form it had since benchmark_serving.py, and what `vllm-rs bench serve`
// writes in its place.
//
// The first of these that exists is read: the result file, the same file
// with .xz, any other JSON file beside it that looks like a result, the
// summary table in the client's log. The package does not run the client and
// does not judge its numbers; statistics over nothing are left out, since the
// client writes zeros for them. JSON is read with package pyjson, which has the
// benchmark.
//
//	part, err := vllmserve.Parser{}.Parse(os.DirFS("run/raw"))
package vllmserve

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
)

// File names used where a Parser names none; CloudAI uses the same.
const (
	DefaultFile = "vllm-bench.json"
	DefaultLog  = "vllm-bench.log"
)

// kind is what the record calls this client.
const kind = "vllm-serve"

// A Parser reads one client's output. The zero value reads the default files.
type Parser struct {
	File string // result file, in the folder given to Parse; default DefaultFile
	Log  string // console text of the client; default DefaultLog
}

// Parse returns what the client measured, and a warning for everything it
// had to go past. The error is fs.ErrNotExist if there is neither a result
// nor a table; the Part then still holds the warnings.
func (p Parser) Parse(out fs.FS) (result.Part, error) {
	file, log := p.File, p.Log
	if file == "" {
		file = DefaultFile
	}
	if log == "" {
		log = DefaultLog
	}
	part := result.Part{}
	err := p.parseFile(out, file, &part)
	if err == nil {
		return part, nil
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNoResult) {
		return part, err
	}
	if errors.Is(err, fs.ErrNotExist) {
		if other := otherResult(out, file); other != "" {
			if err := p.parseFile(out, other, &part); err == nil {
				part.Warnings = append(part.Warnings, result.Warning{
					Kind: result.OtherFile, File: other, Text: file + " is missing, this file was read",
				})
				return part, nil
			}
		}
	}
	if logErr := parseLog(out, log, &part); logErr != nil {
		return part, fmt.Errorf("%w; %w", err, logErr)
	}
	return part, nil
}

// errNoResult is a file that is there and holds no usable result.
var errNoResult = errors.New("no result in the file")

func (p Parser) parseFile(out fs.FS, name string, part *result.Part) error {
	data, name, err := read(out, name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			part.Warnings = append(part.Warnings,
				result.Warning{Kind: result.Unreadable, File: name, Text: err.Error()})
		}
		return fmt.Errorf("read %s: %w", name, err)
	}
	return parseResult(name, data, part)
}

// Read returns what a result file says, whatever it is called; name is what
// warnings and the record call it.
func Read(name string, data []byte) (result.Part, error) {
	part := result.Part{}
	err := parseResult(name, data, &part)
	return part, err
}

// Keys returns what a document says by a result's keys, whether or not it is a whole
// result; nothing is concluded from it.
func Keys(name string, data []byte) (result.Part, error) {
	part := result.Part{}
	fields, err := lastDocument(data, name, &part)
	if err != nil {
		return part, err
	}
	r := reader{file: name, part: &part, m: &result.Metrics{Source: name}}
	r.document(fields)
	part.Metrics = r.m
	part.Benchmark.NumPrompts, part.Benchmark.MaxConcurrency = r.m.NumPrompts, r.m.MaxConcurrency
	return part, nil
}

func parseResult(name string, data []byte, part *result.Part) error {
	fields, err := lastDocument(data, name, part)
	if err != nil {
		return err
	}
	r := reader{file: name, part: part, m: &result.Metrics{Source: name}}
	r.document(fields)
	if r.m.CompletedRequests == nil || r.m.Duration == nil {
		part.Warnings = append(part.Warnings,
			result.Warning{Kind: result.BadValue, File: name,
				Text: "the number of completed requests or the duration is missing"})
		return fmt.Errorf("parse %s: %w", name, errNoResult)
	}
	if n := r.m.TotalInputSequences; n != nil && *n > int64(*r.m.CompletedRequests) {
		r.m.NumPrompts = nil // requests had several inputs each, and these are what it counts
	}
	part.Metrics = r.m
	part.Benchmark.Kind = kind
	if part.Benchmark.Arrivals == "" && r.rescales() {
		part.Benchmark.Arrivals = result.Rescaled
	}
	part.Finish()
	return nil
}

// rescales reports whether the client is known to stretch its schedule to the rate:
// profllm's does, and vLLM's since 0.10 (vllm-project/vllm#21108). Releases are told
// apart by a key that came with 0.11; vllm-rs, which has it too, by its steady state.
func (r *reader) rescales() bool {
	return r.m.Client != nil || r.m.MaxOutputTokensPerS != nil && r.m.SteadyState == nil
}

// lastDocument returns the fields of the last document of a file that may
// hold several. A truncated last one is not replaced by the one before it,
// which belongs to another benchmark.
func lastDocument(data []byte, name string, part *result.Part) ([]field, error) {
	var last []field
	in, n := open(data, 1, 1), 0
	for n == 0 || in.End() != nil {
		fields, err := document(in)
		if err != nil {
			at := pyjson.PlaceOf(err)
			w := result.Warning{Kind: result.BadValue, File: name, Line: at.Line, Col: at.Col, Text: at.Text}
			if at.Cut || len(data) == 0 {
				w.Kind = result.Truncated
			}
			part.Warnings = append(part.Warnings, w)
			return nil, fmt.Errorf("parse %s:%w: %w", name, err, errNoResult)
		}
		last = fields
		n++
	}
	if n > 1 {
		part.Warnings = append(part.Warnings, result.Warning{
			Kind: result.Appended, File: name, Text: fmt.Sprintf("%d documents in one file, the last one was used", n),
		})
	}
	return last, nil
}

// otherResult returns the first file beside name that has a result's keys.
func otherResult(out fs.FS, name string) string {
	dir := path.Dir(name)
	entries, err := fs.ReadDir(out, dir)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		plain := strings.TrimSuffix(e.Name(), ".xz")
		if e.IsDir() || path.Ext(plain) != ".json" || strings.HasSuffix(plain, ".pytorch.json") {
			continue
		}
		candidate := path.Join(dir, e.Name())
		data, _, err := read(out, candidate)
		if err != nil {
			continue
		}
		fields, err := document(open(data, 1, 1))
		has := func(key string) bool {
			return slices.ContainsFunc(fields, func(f field) bool { return f.key == key })
		}
		if err == nil && has("duration") && has("completed") {
			return candidate
		}
	}
	return ""
}

// read returns a file's text and the name it was found under, with .xz if
// only that exists.
func read(out fs.FS, name string) ([]byte, string, error) {
	text, name, err := packed.Read(out, name, regular.Result)
	switch {
	case errors.Is(err, packed.ErrNoXZ):
		err = fmt.Errorf("%w: %w", err, errNoResult)
	case errors.Is(err, packed.ErrDamaged):
		err = nil // what came out before damage ends inside a document, and is reported as such
	}
	return text, name, err
}
