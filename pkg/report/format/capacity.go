package format

import (
	"strconv"

	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
)

// capacityBlock shows what the engines' logs say about their room and their start: a row for each
// instance of a role, once for all loads of its job. ok is false if no log said anything.
func capacityBlock(r *report.Report) (b block, ok bool) {
	t := table{header: []string{
		"case", "role", "engines", "KV cache (tokens)", "KV cache (GiB/GPU)", "max. concurrency", "of tokens",
		"weights (GiB)", "graphs (GiB)", "loading (s)", "engine init (s)", "ready (s)",
	}, drop: []int{2, 8, 4, 10, 9}}
	seen := map[string]bool{}
	for i := range r.Runs {
		e := &r.Runs[i]
		if !e.Usable || seen[e.Run.ServerStart()] {
			continue
		}
		seen[e.Run.ServerStart()] = true
		for _, c := range e.Run.Result.Capacity {
			name := c.Role
			if c.Replica > 0 {
				name += "-" + strconv.Itoa(c.Replica)
			}
			t.row(e.Group, cell{text: e.Label}, cell{text: name}, count(c.Engines), whole(c.KVCacheTokens),
				number(c.KVCacheGiB, 1), number(c.Concurrency, 2), whole(c.RequestTokens), number(c.WeightsGiB, 2),
				number(c.GraphsGiB, 2), number(c.Took(result.PhaseModelLoading), 1),
				number(c.Took(result.PhaseEngine), 1), number(c.Reached(result.PhaseReady), 1))
			t.leads(e.Dir)
		}
	}
	return block{heading: "Capacity, as the engines' logs say", tables: []table{t}}, len(t.rows) > 0
}

func whole(n *int64) cell {
	if n == nil {
		return number(nil, 0)
	}
	return number(new(float64(*n)), 0)
}
