package validity_test

import (
	"fmt"

	"github.com/profllm/profllm/pkg/result/resulttest"
	"github.com/profllm/profllm/pkg/validity"
)

// A record in which three of a thousand requests failed, judged by the defaults and by a limit that its test sets.
func Example() {
	record := resulttest.Good()
	*record.Results.CompletedRequests, *record.Results.FailedRequests = 997, 3
	for _, limits := range []validity.Limits{nil, {"failed_share": 0.01}} {
		v := validity.Judge(record, validity.Evidence{Limits: limits})
		check := v.Check("request-errors")
		fmt.Printf("%s (%s): %s\n", check.Outcome, check.Severity, check.Detail)
	}
	// Output:
	// fail (invalid): 3 of 1000 requests failed (0.30 %, accepted 0.00 %)
	// pass (invalid): 3 of 1000 requests failed (0.30 %, accepted 1.00 %); failed_share = 0.01 is set by the test, looser than the default 0
}
