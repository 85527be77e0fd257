package editor

import (
	"maps"
	"slices"

	"github.com/profllm/profllm/pkg/validity"
)

// The workloads that have arguments of their own: the types of these.
var workloads = map[string][]string{
	"sglang": {"serving.Config", "workload/sglang.Config"}, "Sleep": {"workload/sleep.Config"},
	"BashCmd": {"workload/bash.Config"}, "SlurmContainer": {"workload/container.Config"}, "NcclTest": {"workload/nccl.Config"},
	"UCCTest": {"workload/command.UCCConfig"}, "Fio": {"workload/command.FioConfig"},
}

// testTable is a test: what cmd_args and bench_cmd_args have depends on its workload and its client.
func testTable(types ...string) *schema {
	s := closed(types...)
	s.Properties["semantic_eval_cmd_args"] = described(arguments("bench/gsm8k.Config"), s.Properties["semantic_eval_cmd_args"])
	return under(s, append(byWorkload(), byClient("test_template_name", "bench_cmd_args")...))
}

// under adds conditions, which say where a mistake is. Editors do not complete keys from them, but
// from each form of an anyOf; the first of these takes everything.
func under(s *schema, conditions []*schema) *schema {
	offers := anyOf(&schema{})
	for _, condition := range conditions {
		offers.AnyOf = append(offers.AnyOf, condition.Then.CloneSchemas())
	}
	s.AllOf = append(conditions, offers)
	return s
}

// byWorkload are the forms of cmd_args.
func byWorkload() (conditions []*schema) {
	conditions = append(conditions, when(is("test_template_name", "vllm"), "cmd_args", vllmArguments()))
	for _, name := range slices.Sorted(maps.Keys(workloads)) {
		conditions = append(conditions, when(is("test_template_name", name), "cmd_args", arguments(workloads[name]...)))
	}
	return conditions
}

// byClient are the forms of a client's arguments. Whose they are of a test that builds on a test
// file, nobody knows here.
func byClient(engineKey, key string) []*schema {
	byDefault := func(engine string) *schema {
		s := is(engineKey, engine)
		s.Not = &schema{Required: []string{"client"}}
		return s
	}
	return []*schema{
		when(anyOf(is("client", "vllm", "profllm"), byDefault("vllm")), key, ref("vllmBench")),
		when(anyOf(is("client", "sglang"), byDefault("sglang")), key, arguments("bench/sglang.Config")),
	}
}

// when gives a key its form in the tests that a condition takes.
func when(condition *schema, key string, form *schema) *schema {
	return &schema{If: condition, Then: &schema{Properties: map[string]*schema{key: form}}}
}

// is a test whose key has one of these values.
func is(key string, values ...string) *schema {
	return &schema{Required: []string{key}, Properties: map[string]*schema{key: enum(values...)}}
}

// arguments is a table of arguments: each value may be a list, which is a dimension of a sweep.
func arguments(types ...string) *schema {
	s := open(types...)
	s.Required = nil // a scenario may add what a test file lacks
	for name, p := range s.Properties {
		s.Properties[name] = described(swept(p), p)
		if name == "num_prompts" {
			s.Properties[name] = described(swept(anyOf(integer(), &schema{Type: "string", Pattern: "^[0-9]+x$"})), p)
		}
		if name == "max_concurrency" {
			s.Properties[name] = described(swept(anyOf(integer(), enum("none"))), p)
		}
	}
	return s
}

// described has the description of another.
func described(s, other *schema) *schema {
	if other != nil {
		s.Description, other.Description = other.Description, ""
	}
	return s
}

// thresholds are those of [Tests.accept].
func thresholds() *schema {
	s := &schema{Type: "object", Properties: map[string]*schema{}, AdditionalProperties: &schema{Not: &schema{}}}
	for _, x := range validity.Thresholds() {
		p := number()
		p.AnyOf[0].Minimum, p.AnyOf[0].Maximum = new(x.Min), new(x.Max)
		p.Description, p.Default = x.Means, marshalled(x.Default)
		s.Properties[x.Key] = p
		s.PropertyOrder = append(s.PropertyOrder, x.Key)
	}
	return s
}
