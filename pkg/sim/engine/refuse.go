package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// A refusal is an error answer in vLLM's shape.
type refusal struct {
	status  int
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

func (r *refusal) Error() string { return r.Message }

func (r *refusal) write(w http.ResponseWriter) {
	writeJSON(w, r.status, map[string]*refusal{"error": r})
}

// bad refuses a request whose values make no sense.
func bad(param, format string, args ...any) *refusal {
	r := &refusal{status: 400, Message: fmt.Sprintf(format, args...), Type: "BadRequestError", Code: 400}
	if param != "" {
		r.Param = &param
	}
	return r
}

func badValue(param, value, format string, args ...any) *refusal {
	suffix := " (parameter=" + param
	if value != "" {
		suffix += ", value=" + value
	}
	return bad(param, "%s%s)", fmt.Sprintf(format, args...), suffix)
}

func noModel(asked string, names []string) *refusal {
	r := bad("model", "The model `%s` does not exist. Valid aliases: %s.", asked, strings.Join(names, ", "))
	r.status, r.Code, r.Type = 404, 404, "NotFoundError"
	return r
}

func internal() *refusal {
	return &refusal{status: 500, Message: "Internal server error", Type: "InternalServerError", Code: 500}
}

// invalid refuses a body that is not of the expected form, as pydantic's errors reach the
// client. Each problem is one entry.
func invalid(loc string, problems ...string) *refusal {
	plural := ""
	if len(problems) > 1 {
		plural = "s"
	}
	r := &refusal{
		status:  400,
		Message: fmt.Sprintf("%d validation error%s:\n  %s", len(problems), plural, strings.Join(problems, "\n  ")),
		Type:    "Bad Request",
		Code:    400,
	}
	if loc != "" {
		r.Param = &loc
	}
	return r
}

func problem(kind, loc, msg, input string) string {
	return fmt.Sprintf("{'type': '%s', 'loc': '%s', 'msg': '%s', 'input': '%s'}", kind, loc, msg, input)
}

// maxBody is the largest request body read; a real server has no limit of its own.
const maxBody = 64 << 20

// decode reads a JSON request body into v.
func decode(r *http.Request, v any) *refusal {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return invalid("", "Unsupported Media Type: Only 'application/json' is allowed")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return bad("", "read body: %v", err)
	}
	return decodeBody(body, v)
}

func decodeBody(body []byte, v any) *refusal {
	if len(bytes.TrimSpace(body)) == 0 {
		return invalid("body", problem("missing", "body", "Field required", "None"))
	}
	var fields map[string]json.RawMessage
	err := json.Unmarshal(body, &fields)
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		loc := "body." + strconv.FormatInt(syntax.Offset, 10)
		return invalid(loc, fmt.Sprintf("{'type': 'json_invalid', 'loc': '%s', 'msg': 'JSON decode error', "+
			"'input': '<dict of 0 items>', 'ctx': {'error': '%s'}}", loc, syntax))
	}
	if err != nil || fields == nil {
		return invalid("body", problem("model_attributes_type", "body",
			"Input should be a valid dictionary or object to extract fields from", describe(body)))
	}
	if v, ok := v.(interface{ required() []string }); ok {
		for _, name := range v.required() {
			if _, there := fields[name]; !there {
				return invalid("body."+name, problem("missing", "body."+name, "Field required", describe(body)))
			}
		}
	}
	err = json.Unmarshal(body, v)
	if errors.Is(err, errPrompt) {
		input := describe(fields["prompt"])
		list := problem("list_type", "body.prompt", "Input should be a valid list", input)
		return invalid("body.prompt", list, list,
			problem("string_type", "body.prompt", "Input should be a valid string", input), list)
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return wrongType(wrong, fields)
	}
	if err != nil {
		return invalid("body", problem("value_error", "body", err.Error(), describe(body)))
	}
	return nil
}

// wrongType names the field and what it should have been.
func wrongType(e *json.UnmarshalTypeError, fields map[string]json.RawMessage) *refusal {
	// Fields of an embedded struct are reported as "sampling.n"; the body has no such level.
	path := strings.TrimPrefix(e.Field, "sampling.")
	loc := "body." + path
	name, _, _ := strings.Cut(path, ".")
	input := describe(fields[name])
	what := map[string]string{"int": "integer", "float64": "number", "string": "string",
		"bool": "boolean"}[e.Type.Kind().String()]
	kind := map[string]string{"integer": "int", "number": "float", "boolean": "bool"}[what]
	switch {
	case kind != "" && e.Value == "string":
		return invalid(loc, problem(kind+"_parsing", loc,
			"Input should be a valid "+what+", unable to parse string as "+article(what), input))
	case kind != "":
		return invalid(loc, problem(kind+"_type", loc, "Input should be a valid "+what, input))
	case what == "string":
		return invalid(loc, problem("string_type", loc, "Input should be a valid string", input))
	case e.Type.Kind().String() == "slice":
		return invalid(loc, problem("list_type", loc, "Input should be a valid list", input))
	}
	return invalid(loc, problem("model_attributes_type", loc,
		"Input should be a valid dictionary or object to extract fields from", input))
}

func article(noun string) string {
	if noun == "integer" {
		return "an integer"
	}
	return "a " + noun
}

// describe shows a JSON value as error messages do: texts and numbers as they are, the rest by
// size.
func describe(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return ""
	}
	switch v := v.(type) {
	case nil:
		return "None"
	case string:
		return v
	case map[string]any:
		return fmt.Sprintf("<dict of %d items>", len(v))
	case []any:
		return fmt.Sprintf("<list of %d items>", len(v))
	}
	return string(bytes.TrimSpace(raw))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := encodeJSON(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(text)
}

// encodeJSON leaves <, > and & as they are, as Python does.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// structures are the constraints of which structured_outputs has exactly one
// (vllm/sampling_params.py, 0.32).
var structures = []string{"json", "regex", "choice", "grammar", "json_object", "structural_tag"}

// checkStructure refuses constraints that a real server would refuse.
func checkStructure(outputs map[string]any, f *format) *refusal {
	if outputs != nil {
		var set []string
		for _, name := range structures {
			if outputs[name] != nil {
				set = append(set, name)
			}
		}
		switch {
		case len(set) == 0:
			return bad("", "You must use one kind of structured outputs constraint but none are specified: {}")
		case len(set) > 1:
			return bad("", "You can only use one kind of structured outputs constraint but multiple are specified: %s",
				strings.Join(set, ", "))
		}
	}
	known := []string{"text", "json_object", "json_schema", "structural_tag"}
	if f != nil && !slices.Contains(known, f.Type) {
		return bad("response_format", "response_format.type must be one of %s, got %q", strings.Join(known, ", "), f.Type)
	}
	return nil
}
