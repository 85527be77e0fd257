package collect

import (
	"github.com/profllm/profllm/pkg/validity"
)

// addPlanned adds what the plan expects of the load.
func addPlanned(e *evidence, d *draft) {
	if e.plan != nil {
		d.facts.Limits = e.plan.Accept
	}
	if e.load == nil {
		return
	}
	x := e.load.Expect
	d.facts.Planned = validity.Planned{
		NumPrompts: x.NumPrompts, InputTokens: x.InputTokens, OutputTokens: x.OutputTokens,
		IgnoreEOS: x.IgnoreEOS, Accuracy: x.Accuracy, Disaggregated: x.Disaggregated, NoBenchmark: e.load.Client == "",
		Concurrency: x.Concurrency, RequestRate: x.RequestRate * float64(e.plan.Speed()), Warmups: x.Warmups,
		SharedInput: x.SharedInput,
		Model:       e.plan.Config.Model, GPUs: e.plan.GPUs(),
	}
	if l := e.plan.Locked; l != nil {
		d.facts.Planned.Locked = validity.Locked{EngineVersion: l.EngineVersion, ImageDigest: l.ImageDigest,
			ModelRevision: l.ModelRevision}
	}
	if !e.plan.Simulated { // the simulated engine has a version of its own
		d.facts.Planned.EngineVersion = e.plan.Config.Engine
	}
}
