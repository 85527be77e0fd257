package editor

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	catalogue "github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// vllmArguments is cmd_args of workload vllm.
func vllmArguments() *schema {
	s := arguments("serving.Config", "workload/vllm.Config")
	s.Properties["prefill"], s.Properties["decode"] = ref("vllmRole"), ref("vllmRole")
	return s
}

// vllmRole is one role of it: profllm's keys, and the options of the server.
func vllmRole() *schema {
	s := arguments("serving.RoleConfig", "workload/vllm.role")
	return withOptions(s, catalogue.Serve)
}

// vllmBench is bench_cmd_args: profllm's keys, and the options of the load client.
func vllmBench() *schema {
	return withOptions(arguments("bench/vllmserve.Config"), catalogue.BenchServe)
}

// withOptions adds the options of a program under their full names.
func withOptions(s *schema, p *catalogue.Program) *schema {
	for _, o := range p.Options() {
		name := strings.ReplaceAll(strings.TrimPrefix(o.Name, "--"), "-", "_")
		if s.Properties[name] == nil {
			s.Properties[name] = option(p, o)
			s.PropertyOrder = append(s.PropertyOrder, name)
		}
	}
	return s
}

// option takes what the option takes in any release, within the limits of the newest: the sources of
// older ones do not have them, though the engine did.
func option(p *catalogue.Program, o catalogue.Option) *schema {
	newest := o.Forms[len(o.Forms)-1]
	var forms []*schema
	for _, f := range o.Forms {
		if f.Type == newest.Type {
			f.Min, f.Above, f.Max, f.Below = newest.Min, newest.Above, newest.Max, newest.Below
		}
		if s := form(f); !slices.ContainsFunc(forms, func(x *schema) bool { return reflect.DeepEqual(x, s) }) {
			forms = append(forms, s)
		}
	}
	if members := o.Members(); members != nil && newest.Type == "json" {
		forms = append(forms[:0], object(members), &schema{Types: []string{"string", "array"}})
	}
	one := forms[0]
	if len(forms) > 1 {
		one = anyOf(forms...)
	}
	s := swept(one)
	s.Description, s.Default = description(p, o), marshalled(newest.Default)
	return s
}

func description(p *catalogue.Program, o catalogue.Option) string {
	parts := []string{o.Summary}
	if since := o.Forms[0].Since; since != p.Oldest().Version {
		parts = append(parts, fmt.Sprintf("Since vLLM %s.", since))
	}
	if o.Removed() != "" {
		parts = append(parts, fmt.Sprintf("Until vLLM %s, which removed it.", o.Removed()))
		if o.Successor != "" {
			parts = append(parts, fmt.Sprintf("Successor: %s.", o.Successor))
		}
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// object is a JSON object of an option, with the members that it has in any release. Members of
// members are left to profllm verify.
func object(members []catalogue.Option) *schema {
	s := &schema{Type: "object", Properties: map[string]*schema{}}
	for _, m := range members {
		if strings.Contains(m.Name, ".") {
			continue
		}
		p := &schema{}
		if f := m.Forms[len(m.Forms)-1]; len(m.Forms) == 1 && (f.Choices != nil || f.Type != "" && f.Type != "json") {
			p = value(f)
		}
		s.Properties[m.Name] = p
		s.PropertyOrder = append(s.PropertyOrder, m.Name)
	}
	return s
}

// form takes one value as TOML writes it, or several where the option takes several.
func form(f catalogue.Form) *schema {
	if f.Values == "0" {
		return anyOf(&schema{Type: "boolean"}, enum(""))
	}
	s := value(f)
	if f.Optional || f.Values == "?" {
		s = anyOf(s, enum("None", ""))
	}
	if f.Values != "" && f.Values != "?" {
		s = swept(s)
	}
	return s
}

func value(f catalogue.Form) *schema {
	switch {
	case f.Choices != nil && !f.Fold && f.Type == "int":
		s := &schema{}
		for _, c := range f.Choices {
			s.Enum = append(s.Enum, json.Number(c), c)
		}
		return s
	case f.Choices != nil && !f.Fold:
		return enum(f.Choices...)
	}
	switch f.Type {
	case "int":
		return limited(integer(), f)
	case "float":
		return limited(number(), f)
	case "human_readable_int", "human_readable_int_or_auto":
		return limited(anyOf(&schema{Type: "integer"}, &schema{Type: "string", Pattern: `^\s*[0-9.]+[kmgtKMGT]?\s*$|^auto$`}), f)
	case "bool":
		return &schema{Types: []string{"boolean", "string"}}
	case "json":
		return &schema{Types: []string{"object", "array", "string"}}
	case "json-or-string":
		return &schema{Types: []string{"object", "string"}}
	}
	return &schema{Types: []string{"string", "number", "object"}} // what is text for vLLM
}

// limited gives a number, which is the first form of s, the limits of the option.
func limited(s *schema, f catalogue.Form) *schema {
	n := s.AnyOf[0]
	n.Minimum, n.ExclusiveMinimum, n.Maximum, n.ExclusiveMaximum = f.Min, f.Above, f.Max, f.Below
	return s
}

func marshalled(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return data
}
