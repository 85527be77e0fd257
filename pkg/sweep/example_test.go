package sweep_test

import (
	"fmt"
	"log"

	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/sweep"
)

// Two lists make a sweep of four points. The first two are tried, and the result of one is noted.
func Example() {
	test, err := source.Parse("tune.toml", []byte(`
agent_metrics = ["throughput"]
[cmd_args.decode]
tensor_parallel_size = [1, 2]
[bench_cmd_args]
max_concurrency = [1, 4]
`))
	if err != nil {
		log.Fatal(err)
	}
	s, err := sweep.Load(test, func(string) []string { return nil }, nil)
	if err != nil {
		log.Fatal(err)
	}
	points, err := s.Next(nil, 2)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range points {
		fmt.Println(p.Step, p.Label())
	}
	seen, err := s.Observe(points[0], []float64{41.8}, "0/1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(seen.Reward, seen.Verdict)
	one, err := sweep.Apply(test, points[0]) // the test with the values of the point
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(one.Table("bench_cmd_args").Get("max_concurrency").Int())
	// Output:
	// 1 decode.tensor_parallel_size=1 max_concurrency=1
	// 2 decode.tensor_parallel_size=1 max_concurrency=4
	// 41.8 passed
	// 1 true
}
