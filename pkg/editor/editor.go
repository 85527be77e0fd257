// Package editor makes JSON Schemas of the definition files, with which editors complete keys and
// values and mark mistakes: the keys that profllm reads, with their types and meanings, and the
// options of vLLM's server and load client from the catalogue.
//
// An editor cannot know the release of a test, so the schema takes what any release takes. profllm
// verify is the judge.
package editor

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// A Key is one of a table of a definition file.
type Key struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"` // in the words of docs/reference/keys.md
	Meaning  string `json:"meaning"`
	Required bool   `json:"required,omitempty"`
}

// keys.json is written with docs/reference/keys.md, from the same types: a list of keys for each,
// by package and name.
//
//go:embed keys.json
var keysJSON []byte

var tables = sync.OnceValue(func() (m map[string][]Key) {
	if err := json.Unmarshal(keysJSON, &m); err != nil {
		panic("editor: " + err.Error()) // the file is part of the program
	}
	return m
})

type schema = jsonschema.Schema

// Files are the kinds of definition files.
var Files = []string{"scenario", "test", "system", "experiment"}

// Schema is that of one kind of definition files.
func Schema(file string) (*schema, error) {
	var s *schema
	switch file {
	case "system":
		s = closed("config.System")
	case "test":
		s = testTable("scenario.definition")
		s.Required = []string{"name", "test_template_name"}
	case "scenario":
		s = closed("scenario.head")
		s.Properties["Tests"] = described(list(testTable("scenario.entry", "scenario.definition")), s.Properties["Tests"])
	case "experiment":
		s = experimentFile()
	default:
		return nil, fmt.Errorf("no schema %q: there are those of %v", file, Files)
	}
	s.Schema = "http://json-schema.org/draft-07/schema#" // the newest that Taplo knows
	s.Title = "profllm: " + file + " file"
	if file != "system" {
		s.Definitions = map[string]*schema{"vllmRole": vllmRole(), "vllmBench": vllmBench()}
	}
	if file == "experiment" {
		s.Definitions["vllmServer"] = vllmServer()
	}
	return s, nil
}

// closed is a table that has no other keys than these types.
func closed(types ...string) *schema {
	s := open(types...)
	s.AdditionalProperties = &schema{Not: &schema{}}
	return s
}

// open is a table that also has keys of others, such as options of a program.
func open(types ...string) *schema {
	s := &schema{Type: "object", Properties: map[string]*schema{}}
	for _, name := range types {
		keys, ok := tables()[name]
		if !ok {
			panic("editor: keys.json lacks " + name)
		}
		for _, k := range keys {
			p := inner(name + "/" + k.Name)
			if p == nil {
				p = ofKind(k.Kind)
			}
			p.Description = k.Meaning
			if s.Properties[k.Name] == nil {
				s.PropertyOrder = append(s.PropertyOrder, k.Name)
			}
			s.Properties[k.Name] = p
			if k.Required && !slices.Contains(s.Required, k.Name) {
				s.Required = append(s.Required, k.Name)
			}
		}
	}
	return s
}

// inner is the value of a key whose own table has a type, nil for others.
func inner(path string) *schema {
	switch path {
	case "config.System/partitions":
		return list(closed("config.Partition"))
	case "config.Partition/groups":
		return list(closed("config.Group"))
	case "config.System/signatures":
		return list(closed("config.Signature"))
	case "config.System/kubernetes":
		return closed("config.Kubernetes")
	case "config.Kubernetes/model_cache":
		return closed("config.ModelCache")
	case "config.Kubernetes/tolerations":
		return list(closed("config.Toleration"))
	case "config.System/preflight", "scenario.entry/preflight":
		return closed("config.Preflight")
	case "config.System/reports", "scenario.head/reports":
		return &schema{Type: "object", AdditionalProperties: open("config.reportKeys")}
	case "scenario.definition/git_repos":
		return list(closed("scenario.GitRepo"))
	case "scenario.definition/proxy_script_repo":
		return closed("scenario.GitRepo")
	case "scenario.definition/files":
		return &schema{Type: "object", AdditionalProperties: &schema{Type: "string"}}
	case "scenario.definition/helpers":
		return &schema{Type: "object", AdditionalProperties: closed("plan.helper")}
	case "scenario.definition/nsys":
		return closed("plan.nsys")
	case "scenario.definition/viztracer":
		return closed("plan.viztracer")
	case "scenario.definition/torch_profiler":
		return open("plan.torchProfiler") // the others are those of vLLM's profiler_config
	case "scenario.entry/dependencies":
		return list(closed("scenario.Dependency"))
	case "scenario.entry/phases":
		phase := closed("scenario.Phase")
		phase.AnyOf = []*schema{{Required: []string{"name"}}, {Required: []string{"suite"}}}
		return list(phase)
	case "scenario.entry/repeat":
		return anyOf(integer(), closed("scenario.Until"))
	case "scenario.entry/api_check":
		return anyOf(boolean(), list(anyOf(&schema{Type: "integer"}, &schema{Type: "string"})))
	case "scenario.entry/telemetry":
		return closed("scenario.Telemetry")
	case "scenario.entry/sweep":
		return closed("scenario.Sweep")
	case "scenario.entry/search":
		return closed("scenario.Search")
	case "scenario.entry/slurm":
		return closed("scenario.Slurm")
	case "scenario.entry/accept":
		return thresholds()
	case "scenario.entry/client":
		return enum("vllm", "sglang", "profllm", "aiperf", "genai-perf")
	}
	return nil
}

// ofKind is a value of a kind of the reference.
func ofKind(kind string) *schema {
	switch kind {
	case "string":
		return &schema{Type: "string"}
	case "integer":
		return integer()
	case "number":
		return number()
	case "boolean":
		return boolean()
	case "duration":
		return &schema{Types: []string{"string", "integer"}}
	case "table":
		return &schema{Type: "object"}
	case "list of string":
		return list(&schema{Type: "string"})
	case "list of table":
		return list(&schema{Type: "object"})
	case "string or list of strings":
		return anyOf(&schema{Type: "string"}, list(&schema{Type: "string"}))
	case `list of names, or "ALL"`:
		return anyOf(enum("ALL"), list(&schema{Type: "string"}))
	}
	return &schema{}
}

// Numbers and booleans may be written as strings.
func integer() *schema {
	return anyOf(&schema{Type: "integer"}, &schema{Type: "string", Pattern: `^\s*[+-]?[0-9_]+\s*$`})
}

func number() *schema {
	return anyOf(&schema{Type: "number"}, &schema{Type: "string", Pattern: `^\s*[+-]?([0-9_]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$|^[+-]?inf$`})
}

func boolean() *schema {
	return anyOf(&schema{Type: "boolean"}, &schema{Enum: []any{0, 1}},
		&schema{Type: "string", Pattern: `^([Tt](rue)?|[Yy](es)?|[Oo]n|1|[Ff](alse)?|[Nn]o?|[Oo]ff|0)$`})
}

func list(of *schema) *schema     { return &schema{Type: "array", Items: of} }
func anyOf(of ...*schema) *schema { return &schema{AnyOf: of} }
func ref(name string) *schema     { return &schema{Ref: "#/definitions/" + name} }

func enum[T any](values ...T) *schema {
	s := &schema{}
	for _, v := range values {
		s.Enum = append(s.Enum, v)
	}
	return s
}

// swept also takes a list of values, which is a dimension of a sweep.
func swept(s *schema) *schema { return anyOf(s, list(s.CloneSchemas())) }
