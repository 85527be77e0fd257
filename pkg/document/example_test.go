package document_test

import (
	"encoding/json"
	"fmt"

	"github.com/profllm/profllm/pkg/document"
)

// A program decodes what profllm slurm submit --output json printed.
func Example() {
	printed := `{
  "schema": "profllm.output.submit/1",
  "exit_code": 0,
  "errors": [],
  "root": "/results/demo_2026",
  "jobs": [{"job_id": "60", "dir": "/results/demo_2026/a/0", "runs": ["/results/demo_2026/a/0"]}]
}`
	var jobs document.Jobs
	if err := json.Unmarshal([]byte(printed), &jobs); err != nil {
		fmt.Println(err)
	}
	for _, j := range jobs.Jobs {
		fmt.Println(j.JobID, j.Dir)
	}
	// Output: 60 /results/demo_2026/a/0
}
