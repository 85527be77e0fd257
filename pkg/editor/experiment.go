package editor

import (
	"slices"

	"github.com/profllm/profllm/pkg/experiment"
	catalogue "github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// experimentFile is a file of one experiment: the keys of a test, some under another name.
func experimentFile() *schema {
	s := closed("scenario.entry", "scenario.definition")
	for test, own := range experiment.Renamed() {
		s.Properties[own] = s.Properties[test]
		delete(s.Properties, test)
	}
	delete(s.Properties, "test_name")
	s.Required = nil
	s.Properties["suite"] = &schema{Type: "string", Description: "Name of a group of experiments; default: the file's name."}
	s.Properties["image"] = open("serving.Config").Properties["docker_image_url"]
	s.Properties["evaluation"] = described(arguments("bench/gsm8k.Config"), s.Properties["evaluation"])
	s.PropertyOrder = append([]string{"name", "suite", "engine", "image", "server", "benchmark", "evaluation", "env"},
		slices.DeleteFunc(s.PropertyOrder, func(key string) bool { return key == "name" || s.Properties[key] == nil })...)

	s.Properties["engine"] = &schema{Enum: []any{"vllm", "sglang"}, Description: "The engine; default: vllm."}

	other := is("engine", "sglang")
	return under(s, append(byClient("engine", "benchmark"),
		when(&schema{Not: other}, "server", ref("vllmServer")),
		when(other, "server", servedTable("workload/sglang.Config", "workload/sglang.role")),
		when(&schema{Not: anyOf(&schema{Required: []string{"engine"}}, &schema{Required: []string{"client"}})}, "benchmark", ref("vllmBench"))))
}

// vllmServer is [server] of vLLM.
func vllmServer() *schema {
	s := withOptions(servedTable("workload/vllm.Config", "workload/vllm.role"), catalogue.Serve)
	s.Properties["prefill"], s.Properties["decode"] = ref("vllmRole"), ref("vllmRole")
	return s
}

// servedTable is [server]: keys of the service beside those of one role.
func servedTable(service, role string) *schema {
	s := arguments("serving.Config", service, "serving.RoleConfig", role)
	delete(s.Properties, "docker_image_url")
	s.PropertyOrder = slices.DeleteFunc(s.PropertyOrder, func(key string) bool { return key == "docker_image_url" })
	return s
}
