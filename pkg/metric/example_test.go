package metric_test

import (
	"fmt"
	"log"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
)

// A number of a record by its name; a number that a check withholds is not given out.
func Example() {
	record := resulttest.Good()
	m, err := metric.Find("p99_ttft_ms")
	if err != nil {
		log.Fatal(err)
	}
	v := m.Of(record)
	fmt.Printf("%s: %.0f %s, %s is better\n", m.Name, *v.Number, m.Unit, m.Better)

	record.Validity = &result.Validity{Withheld: []string{"p99_ttft_ms"}}
	v = m.Of(record)
	fmt.Println(v.Number == nil, v.Withheld)

	_, err = metric.Find("p99_tftt_ms")
	fmt.Println(err)
	// Output:
	// P99 TTFT: 90 ms, lower is better
	// true true
	// metric: unknown metric "p99_tftt_ms"
	// 	hint: did you mean "p99_ttft_ms"?
}
