package interchange_test

import (
	"fmt"
	"log"
	"os"

	"github.com/profllm/profllm/pkg/interchange"
)

// A file of another program becomes a record.
func Example() {
	data, err := os.ReadFile("testdata/report.yaml")
	if err != nil {
		log.Fatal(err)
	}
	format, items, err := interchange.Read("report.yaml", data)
	if err != nil {
		log.Fatal(err)
	}
	record := items[0].Record
	fmt.Println(format, len(items), *record.Results.OutputThroughput)
	// Output:
	// llm-d 1 1260.5
}
