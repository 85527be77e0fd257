package dynamo

import (
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// noteHandoffs notes loads with more requests at once than the prefill workers of the mocker take.
// Each takes as many as its max_num_seqs (seen in Dynamo 1.6.1: "mocker handoff session limit
// reached"), and answers every other with an error. Its frontend then counts the worker as gone for
// a while and answers 503 to all.
func (w *Workload) noteHandoffs(t scenario.Test) {
	limit := w.prefill.args.Get("max_num_seqs")
	each, ok := intOf(limit)
	if w.service.Backend != "mocker" || w.prefill.nodes == 0 || !ok {
		return
	}
	all := []*source.Table{t.BenchArgs}
	for _, phase := range t.Phases {
		all = append(all, phase.BenchArgs)
	}
	most := 0
	for _, args := range all {
		for _, key := range []string{"concurrency", "max_concurrency"} {
			if args == nil {
				continue
			}
			if n, ok := intOf(args.Get(key)); ok {
				most = max(most, n)
			}
		}
	}
	if room := each * w.prefill.nodes * max(w.prefill.perNode, 1); room < most {
		w.note(limit.Pos, "prefill_worker.args.max_num_seqs is %d: the prefill workers of the mocker take %d requests "+
			"at once and refuse any other, which the frontend answers with 503, but the load has %d; raise max_num_seqs "+
			"or lower the concurrency", each, room, most)
	}
}
