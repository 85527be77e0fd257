package result_test

import (
	"fmt"
	"log"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
)

// A record is written by Encode, and Validate compares the file with the schema.
func Example() {
	record := resulttest.Good()
	record.Schema = result.SchemaV1
	data, err := result.Encode(record)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Validate(data))
	fmt.Println(*record.Results.OutputThroughput, "tok/s")
	fmt.Println(record.Results.Latency[result.TTFT].Percentiles[99], "ms")
	fmt.Println(record.Results.RequestGoodput == nil) // absent, never zero
	// Output:
	// <nil>
	// 500 tok/s
	// 90 ms
	// true
}
