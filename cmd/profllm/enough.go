package main

import (
	"github.com/profllm/profllm/pkg/repeats"
)

type jobEnoughCmd struct {
	runFlag
	Name string `required:"" help:"Name of the load that would be next."`
}

// Run ends well if the load need not run, because those before it in its series are
// enough. Whatever cannot be found out is no reason to leave one out.
func (c jobEnoughCmd) Run(a *app) error {
	col := a.client().Collector()
	d, err := repeats.Decide(col, c.Dir, c.Name, a.now())
	switch {
	case err != nil:
		return jobError("enough", err)
	case !d.Enough:
		return exit(exitNotOver)
	case d.Known:
		return nil
	}
	a.logf("profllm: stopped after %d repeats: %s, %s", d.Over.Done, d.Over.Why, d.Why)
	return jobError("enough", c.job(a).EndRepeats(c.Name, d.Why, d.Over))
}
