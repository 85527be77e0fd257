package query_test

import (
	"testing"

	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/query/querytest"
	"github.com/profllm/profllm/pkg/tier"
)

// The suite itself: what is right agrees with itself after a question went through JSON.
//
// covers: API-6
func TestNaive(t *testing.T) {
	tier.Alone(t)
	querytest.Run(t, func(_ *testing.T, runs []query.Run) query.Engine { return query.Naive(runs) })
}
