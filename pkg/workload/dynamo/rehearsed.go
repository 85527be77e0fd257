package dynamo

import (
	"path"
	"slices"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/shell"
	"github.com/profllm/profllm/pkg/source"
)

// Rehearsed is the evaluation of a test in a rehearsal: AIPerf, which has a stand-in, without the
// shell text before it, and AIPerf in place of any other program. Nil if the test has none.
func Rehearsed(t scenario.Test) *source.Table {
	table := t.CmdArgs.Table("aiperf_accuracy")
	if t.EvalArgs == nil || table == nil {
		return t.EvalArgs
	}
	var ignored source.Complaints // Prepared complained
	var a accuracy
	decode(table, &a, &ignored)
	entry := "aiperf profile"
	eval := source.NewTable(t.EvalArgs.Pos)
	cli := t.EvalArgs.Get("cli")
	if a.Entrypoint != nil && !isAIPerf(*a.Entrypoint) {
		cli = &source.Value{Pos: cli.Pos, Any: "--accuracy-benchmark simulated --model {model} --url {url} " +
			"--artifact-dir {artifact_dir}"}
	}
	eval.Set("entrypoint", &source.Value{Pos: t.EvalArgs.PosOf("entrypoint"), Any: entry})
	eval.Set("cli", cli)
	return eval
}

// isAIPerf reports whether a command is AIPerf's, at any path.
func isAIPerf(command string) bool {
	list, err := shell.Words(command)
	return err == nil && slices.ContainsFunc(list, func(word string) bool { return path.Base(word) == "aiperf" })
}

// noteRehearsal notes what a rehearsal leaves out: text that was written for the image, and what
// simulated nodes have not.
func (w *Workload) noteRehearsal(cl plan.Cluster) {
	if !cl.Simulated {
		return
	}
	const forImage = "it was written for the image"
	aiperf, genai := spelled(w.cfg.AIPerf, nil), spelled(w.cfg.GenAIPerf, nil)
	tables := []*source.Table{aiperf, genai, spelled(w.cfg.Accuracy, nil)}
	if w.cfg.Phases != nil {
		phases, _ := w.cfg.Phases.Any.([]*source.Value) // Prepared complains
		for _, v := range phases {
			if t, ok := v.Any.(*source.Table); ok {
				tables = append(tables, spelled(t, nil))
			}
		}
	}
	for _, t := range tables {
		for _, key := range []string{"setup_cmd", "between_phase_cmd"} {
			if t.Has(key) {
				w.note(t.PosOf(key), "%s does not run in a rehearsal: %s", key, forImage)
			}
		}
	}
	for _, key := range []string{"before_load", "after_load"} {
		if w.written.Has(key) {
			w.note(w.written.PosOf(key), "%s does not run in a rehearsal: %s", key, forImage)
		}
	}
	if given(w.cfg.StartupCmd) {
		w.note(w.args.PosOf("startup_cmd"), "startup_cmd is parsed and does not run in a rehearsal: %s", forImage)
	}
	if given(w.service.NodeSetup) {
		w.note(w.table.PosOf("node_setup_cmd"), "node_setup_cmd is parsed and does not run in a rehearsal: %s", forImage)
	}
}
