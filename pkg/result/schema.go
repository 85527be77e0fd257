package result

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	json "github.com/go-json-experiment/json/v1"
	"github.com/google/jsonschema-go/jsonschema"
)

// Schema returns the JSON Schema of result.json, generated from Result.
func Schema() (*jsonschema.Schema, error) {
	rate := &jsonschema.Schema{Description: "a number, or inf", Types: []string{"number", "string"}, Pattern: "^inf$"}
	metrics, err := jsonschema.For[plainMetrics](&jsonschema.ForOptions{
		TypeSchemas: map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[Rate](): rate},
	})
	if err != nil {
		return nil, fmt.Errorf("schema of the results: %w", err)
	}
	families := make([]string, 0, len(Families()))
	for _, f := range Families() {
		families = append(families, string(f))
	}
	names := strings.Join(families, "|")
	metrics.PatternProperties = map[string]*jsonschema.Schema{
		`^(mean|median|std|min|max|p[0-9]+(\.[0-9]+)?)_(` + names + `)_ms$`: {Type: "number", Description: "ms"},
		`^n_(` + names + `)$`: {Type: "integer", Description: "size of the sample behind this family's statistics"},
	}
	s, err := jsonschema.For[Result](&jsonschema.ForOptions{
		TypeSchemas: map[reflect.Type]*jsonschema.Schema{
			reflect.TypeFor[Rate]():        rate,
			reflect.TypeFor[Metrics]():     metrics,
			reflect.TypeFor[Status]():      enum(Completed, Partial, Failed, Cancelled, Ended, Unknown),
			reflect.TypeFor[Confidence]():  enum(Exact, FromState, FromSymptom, NoCause),
			reflect.TypeFor[Outcome]():     enum(Pass, Fail, NotPossible),
			reflect.TypeFor[Severity]():    enum(Invalid, Suspect, Withheld, Note),
			reflect.TypeFor[Verdict]():     enum(VerdictValid, VerdictSuspect, VerdictInvalid),
			reflect.TypeFor[WarningKind](): {Type: "string"},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("schema of a result: %w", err)
	}
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "profllm result"
	s.Properties["schema"].Const = constant(SchemaV1)
	s.Properties["run_id"].MinLength = new(1)
	s.Properties["timestamp"].Pattern = `^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$`
	return s, nil
}

func constant(v any) *any { return &v }

func enum[T ~string](values ...T) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}

// resolved builds the schema once: it never changes.
var resolved = sync.OnceValues(func() (*jsonschema.Resolved, error) {
	s, err := Schema()
	if err != nil {
		return nil, err
	}
	return s.Resolve(nil)
})

// Validate reports the first way in which data breaks the schema.
func Validate(data []byte) error {
	rs, err := resolved()
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("validate result: %w", err)
	}
	if err := rs.Validate(v); err != nil {
		return fmt.Errorf("validate result: %w", err)
	}
	return nil
}

// asBefore is how encoding/json writes, which records have always been written by: a
// program that replaces one that says the same would change it for nothing.
var asBefore = jsonv2.JoinOptions(json.DefaultOptionsV1(), jsontext.EscapeForHTML(false), jsontext.WithIndent("  "))

// Encode returns the record as indented JSON with a final newline. It sets the
// schema's name, writes the time in UTC, and changes nothing of r.
func Encode(r *Result) ([]byte, error) {
	out := *r
	out.Schema = SchemaV1
	out.Timestamp = r.Timestamp.UTC()
	if out.Config.Server == nil {
		out.Config.Server = map[string]any{}
	}
	data, err := jsonv2.Marshal(&out, asBefore)
	if err != nil {
		return nil, fmt.Errorf("marshal result %s: %w", r.RunID, err)
	}
	return append(data, '\n'), nil
}

// A SchemaError is a record of a version this program does not read.
type SchemaError struct {
	Got string // "" if the file names none
}

func (e *SchemaError) Error() string {
	if e.Got == "" {
		return fmt.Sprintf("no schema named: want %q", SchemaV1)
	}
	return fmt.Sprintf("unknown schema %q: this version reads %q", e.Got, SchemaV1)
}

// Decode reads a record of any version ever written; the one place where old
// versions are converted. An unknown version gives a *SchemaError. Unknown
// keys of a known version are ignored, so that a newer minor form is readable.
func Decode(data []byte) (*Result, error) {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, undecodable(data, err)
	}
	switch head.Schema {
	case SchemaV1:
	default:
		return nil, fmt.Errorf("decode result: %w", &SchemaError{Got: head.Schema})
	}
	r := &Result{}
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(r); err != nil {
		return nil, undecodable(data, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("decode result: text after the record")
	}
	return r, nil
}

// undecodable says where in data its first mistake is, if that is known.
func undecodable(data []byte, err error) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("decode result: the file is empty")
	}
	var syntax *json.SyntaxError
	var field *json.UnmarshalTypeError
	at := int64(0)
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &field):
		at = field.Offset
	}
	if at == 0 {
		return fmt.Errorf("decode result: %w", err)
	}
	before := data[:min(at-1, int64(len(data)))] // the offset is behind the byte
	return fmt.Errorf("decode result: line %d, column %d: %w", 1+bytes.Count(before, []byte("\n")),
		len(before)-bytes.LastIndexByte(before, '\n'), err)
}
