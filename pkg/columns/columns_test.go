package columns

import (
	"fmt"
	"testing"

	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/query/querytest"
)

// covers: API-6, DASH-2, DASH-8
func TestAnswersAsNaive(t *testing.T) {
	for _, most := range []int{query.MaxDistinct, 20, 0} { // different values in a dictionary
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			querytest.Run(t, func(_ *testing.T, runs []query.Run) query.Engine {
				table := New()
				table.most = most
				table.PutAll(runs)
				return table
			})
		})
	}
}
