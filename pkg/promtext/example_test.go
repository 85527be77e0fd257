package promtext_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/profllm/profllm/pkg/promtext"
)

// The tokens that an engine made between two readings of its /metrics.
func Example() {
	read := func(page string) *promtext.Snapshot {
		s, err := promtext.Read(strings.NewReader(page))
		if err != nil {
			log.Fatal(err)
		}
		return s
	}
	before := read("vllm:generation_tokens_total{engine=\"0\"} 100\nvllm:generation_tokens_total{engine=\"1\"} 50\n")
	after := read("vllm:generation_tokens_total{engine=\"0\"} 400\nvllm:generation_tokens_total{engine=\"1\"} 250\n")
	d := promtext.Sub(before, after)
	tokens, ok := d.Sum("vllm:generation_tokens_total")
	fmt.Println(tokens, ok, d.Reset())
	tokens, ok = d.Sum("vllm:generation_tokens_total", promtext.Label{Name: "engine", Value: "1"})
	fmt.Println(tokens, ok)
	// Output:
	// 500 true false
	// 200 true
}
