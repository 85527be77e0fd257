package scenario_test

import (
	"fmt"
	"log"

	"github.com/profllm/profllm/pkg/scenario"
)

// A scenario's entry over the test file that it names; every complaint has its place.
func Example() {
	tests := []scenario.File{{Name: "tests/agg.toml", Data: []byte(`
name = "agg"
test_template_name = "vllm"
[cmd_args]
model = "Qwen/Qwen3-8B"
`)}}
	s, err := scenario.Load(scenario.File{Name: "demo.toml", Data: []byte(`
name = "demo"
[[Tests]]
id = "two"
test_name = "agg"
time_limit = "30m"
[Tests.bench_cmd_args]
max_concurrency = 16
`)}, tests, scenario.HookFiles{})
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range s.Tests {
		model, _ := t.Table.Table("cmd_args").Get("model").Text()
		concurrency, _ := t.Table.Table("bench_cmd_args").Get("max_concurrency").Int()
		fmt.Println(t.ID, t.Template, s.Limit(t), model, concurrency)
	}

	_, err = scenario.Load(scenario.File{Name: "demo.toml", Data: []byte(`
name = "demo"
[[Tests]]
id = "two"
test_name = "ag"
time_limt = "30m"
`)}, tests, scenario.HookFiles{})
	fmt.Println(err)
	// Output:
	// two vllm 30m0s Qwen/Qwen3-8B 16
	// demo.toml:5:1: no test file has the name "ag"
	// 	hint: did you mean "agg"? known: agg; test files are read from tests (--tests-dir names another folder)
	// demo.toml:6:1: unknown key "time_limt"
	// 	hint: did you mean "time_limit"?
}
