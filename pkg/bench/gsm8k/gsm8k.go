// Package gsm8k runs the GSM8K evaluation of an engine and reads the accuracy
// that it leaves behind: the result file of vLLM's script
// (tests/evals/gsm8k/gsm8k_eval.py), or the line "Accuracy: 0.745" of its console
// text, which is "Score: 0.745" from SGLang's (sglang.test.run_eval).
//
// It does not judge the value. The speed that the
// script reports is not a benchmark and is left out.
//
//	part, err := gsm8k.Parser{}.Parse(os.DirFS("run/raw"))
package gsm8k

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/eval"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
)

// File names used where a Parser names none; CloudAI uses the same.
const (
	DefaultFile = "vllm-gsm8k.json"
	DefaultLog  = "vllm-semantic-eval.log"
)

// A Parser reads one evaluation. The zero value reads the default files.
type Parser struct {
	File string // result file, in the folder given to Parse; default DefaultFile
	Log  string // console text; default DefaultLog
}

// Parse returns the accuracy, and a warning for everything it had to go past.
// The error is fs.ErrNotExist if neither file holds one; the Part then still
// holds the warnings.
func (p Parser) Parse(out fs.FS) (result.Part, error) {
	file, log := p.File, p.Log
	if file == "" {
		file = DefaultFile
	}
	if log == "" {
		log = DefaultLog
	}
	part := result.Part{}
	data, name, err := read(out, file)
	if err == nil {
		if part.Accuracy = parseFile(data, name, &part); part.Accuracy != nil {
			addAnswers(out, name, &part)
			compareLog(out, log, &part)
			return part, nil
		}
		err = fmt.Errorf("no accuracy in the file: %w", fs.ErrNotExist)
	}
	err = fmt.Errorf("read %s: %w", name, err)
	data, name, logErr := read(out, log)
	if logErr != nil {
		return part, fmt.Errorf("%w; read %s: %w", err, name, logErr)
	}
	if part.Accuracy = parseLog(data, name); part.Accuracy == nil {
		return part, fmt.Errorf("%w; %s: no line with an accuracy: %w", err, name, fs.ErrNotExist)
	}
	part.Simulated = part.Simulated || bytes.Contains(data, []byte("profllm sim:"))
	part.Warnings = append(part.Warnings, result.Warning{
		Kind: result.Recovered, File: name, Key: "accuracy", Text: "read from console text",
	})
	return part, nil
}

// keysOf are the keys of a file of Python's json, whose NaN and Infinity count as null; false if it
// is no object.
func keysOf(data []byte, name string, part *result.Part) (keys map[string]json.RawMessage, ok bool) {
	for _, m := range pythonNumber.FindAllSubmatch(data, -1) {
		key := strings.Trim(string(m[2]), `"`)
		if !slices.Contains(kept, key) {
			continue // such as the speed of an evaluation that took no time
		}
		part.Warnings = append(part.Warnings,
			result.Warning{Kind: result.NotFinite, File: name, Key: key, Text: fmt.Sprintf("is %s", m[4])})
	}
	if err := json.Unmarshal(pythonNumber.ReplaceAll(data, []byte("${1}null$5")), &keys); err != nil {
		var syntax *json.SyntaxError
		if !errors.As(err, &syntax) {
			part.Warnings = append(part.Warnings, result.Warning{Kind: result.BadValue, File: name, Text: err.Error()})
			return nil, false
		}
		before := data[:min(syntax.Offset, int64(len(data)))]
		part.Warnings = append(part.Warnings, result.Warning{
			Kind: result.Truncated, File: name, Text: err.Error(),
			Line: 1 + bytes.Count(before, []byte("\n")),
			Col:  len(before) - bytes.LastIndexByte(before, '\n'),
		})
		return nil, false
	}
	return keys, true
}

// parseFile returns nil if the text holds no usable accuracy. Each key is
// decoded by itself, so that a bad one costs only itself. Older releases lack
// the token keys.
func parseFile(data []byte, name string, part *result.Part) *result.Accuracy {
	warn := func(kind result.WarningKind, key, text string) {
		part.Warnings = append(part.Warnings, result.Warning{Kind: kind, File: name, Key: key, Text: text})
	}
	keys, ok := keysOf(data, name, part)
	if !ok {
		return nil
	}
	decode := func(key string, to any) {
		raw, ok := keys[key]
		if !ok {
			return
		}
		if err := json.Unmarshal(raw, to); err != nil {
			warn(result.NoNumber, key, fmt.Sprintf("not a number: %.40s", raw))
			reflect.ValueOf(to).Elem().SetZero()
		}
	}
	for _, key := range pyjson.Twice(data) {
		warn(result.Contradicts, key.Str, pyjson.TwiceMessage)
	}
	part.Simulated = part.Simulated || result.Labelled(keys["simulated"])
	a := &result.Accuracy{Task: "gsm8k", Source: name}
	var accuracy *float64
	decode("accuracy", &accuracy)
	if accuracy == nil {
		warn(result.BadValue, "accuracy", "no accuracy")
		return nil
	}
	a.Value = *accuracy
	decode("invalid_rate", &a.InvalidRate)
	decode("num_questions", &a.Questions)
	decode("num_shots", &a.Shots)
	decode("latency", &a.Duration)
	decode("total_output_tokens", &a.Tokens)
	var own *eval.Own
	if json.Unmarshal(keys["profllm"], &own) == nil && own != nil {
		answered(a, own, name, part)
	}
	var stamp float64 // s since 1970; not in kept: it is no measured value
	if json.Unmarshal(keys["timestamp"], &stamp) == nil && stamp > 0 && stamp < maxStamp {
		a.Time = new(time.UnixMilli(int64(stamp * 1000)).UTC())
	}
	return a
}

// maxStamp is in the year 2286, s.
const maxStamp = 1e10

// compareLog holds the accuracy of the file against the lines of the console text. One
// that agrees is enough: the text may hold more than the evaluation's own lines.
func compareLog(out fs.FS, log string, part *result.Part) {
	data, name, err := read(out, log)
	if err != nil {
		return
	}
	other := ""
	for line := range strings.Lines(string(data)) {
		m := accuracy.FindStringSubmatch(escapes.ReplaceAllString(line, ""))
		if m == nil {
			continue
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			continue
		}
		_, decimals, _ := strings.Cut(m[1], ".")
		rounding := 0.5001 * math.Pow10(-len(decimals))
		have := part.Accuracy.Value
		if strings.ContainsAny(m[1], "eE") || math.Abs(v-have) <= rounding || math.Abs(v-100*have) <= rounding {
			return
		}
		other = m[1]
	}
	if other != "" {
		part.Warnings = append(part.Warnings, result.Warning{
			Kind: result.Contradicts, File: name, Key: "accuracy",
			Text: fmt.Sprintf("the log says %s, %s %v", other, part.Accuracy.Source, part.Accuracy.Value),
		})
	}
}

// kept are the keys that a record has a place for.
var kept = []string{"accuracy", "invalid_rate", "num_questions", "num_shots", "latency", "total_output_tokens"}

// pythonNumber is Python's bare NaN or Infinity as the value of a key; what stands inside
// a string is never followed by a comma or a brace without a quote in between.
var pythonNumber = lazyregexp.New(`(("[^"\\\\]*")(\s*:\s*))(NaN|-?Infinity)(\s*[,}])`)

var (
	escapes  = lazyregexp.New("\x1b\\[[0-9;?]*[ -/]*[@-~]")
	accuracy = lazyregexp.New(`\b(?:Accuracy|Score)\s*:\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)`)
	invalid  = lazyregexp.New(`Invalid responses\s*:\s*([0-9]*\.?[0-9]+)`)
)

// parseLog takes the first line with an accuracy, as CloudAI does.
func parseLog(data []byte, name string) *result.Accuracy {
	var a *result.Accuracy
	for line := range strings.Lines(string(data)) {
		line = escapes.ReplaceAllString(line, "")
		if a == nil {
			if v, ok := value(accuracy, line); ok {
				a = &result.Accuracy{Task: "gsm8k", Value: v, Source: name, FromLog: true}
			}
			continue
		}
		if v, ok := value(invalid, line); ok && a.InvalidRate == nil {
			a.InvalidRate = &v
		}
	}
	return a
}

func value(re *lazyregexp.Regexp, line string) (float64, bool) {
	m := re.FindStringSubmatch(line)
	if m == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(m[1], 64)
	return v, err == nil && !math.IsInf(v, 0)
}

// read returns a file's text and the name it was found under, with .xz if
// only that exists.
func read(out fs.FS, name string) ([]byte, string, error) {
	return packed.Read(out, name, regular.Result)
}
