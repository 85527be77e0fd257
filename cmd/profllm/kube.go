package main

import (
	"context"
	"path/filepath"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/dryrun"
)

type kubeCmd struct {
	DryRun kubeDryRunCmd `cmd:"" meant:"plan" name:"dry-run" help:"Print the plan and the manifest of each run; apply nothing."`

	Submit  kubeSubmitCmd  `cmd:"" meant:"run,start,launch,apply" help:"Submit every run of a scenario."`
	Resume  kubeResumeCmd  `cmd:"" help:"Submit the unfinished runs of a scenario."`
	Status  kubeStatusCmd  `cmd:"" meant:"ps,get" help:"Show the states of runs, and what keeps them from starting."`
	Logs    kubeLogsCmd    `cmd:"" meant:"log,tail" help:"Show the logs of a run, from its pods while it is under way."`
	Cancel  kubeCancelCmd  `cmd:"" meant:"kill,stop,delete" help:"Delete what runs have in the cluster."`
	Collect kubeCollectCmd `cmd:"" meant:"judge,fetch" help:"Fetch finished runs, judge them, and delete what they have in the cluster."`
}

// kubeFlags are those by which a scenario is planned for Kubernetes.
type kubeFlags struct {
	siteFlags
	definitionFlags
	Time     string `placeholder:"RFC3339" help:"Time that names the result directory and the run ids; default: now."`
	Continue string `placeholder:"DIR" type:"existingdir" help:"Continue the sweeps of an earlier execution: skip its points; random and tpe learn from its results."`
}

// options are the same for planning.
func (f kubeFlags) options() (campaign.Options, error) {
	return planFlags{makeFlags: makeFlags{siteFlags: f.siteFlags, definitionFlags: f.definitionFlags, Time: f.Time},
		Continue: f.Continue}.options(false)
}

// planKube plans a scenario for Kubernetes.
func (a *app) planKube(ctx context.Context, file string, f kubeFlags) (*campaign.Planned, error) {
	o, err := f.options()
	if err != nil {
		return nil, err
	}
	o.Kube = true
	return a.client().Plan(ctx, file, o)
}

type kubeDryRunCmd struct {
	kubeFlags
	Scenario string `arg:"" meant:"test-scenario" help:"Scenario file, or lock file."`
	Output   string `meant:"format" enum:"text,json,manifest" default:"text" help:"text (points, cost, and a table and the manifest of each run), json (the plans), or manifest (only the manifests, for kubectl apply -f -)."`
	Save     string `placeholder:"DIR" help:"Also write plan.json and manifest.yaml of each run to DIR."`
}

func (c kubeDryRunCmd) Run(ctx context.Context, a *app) error {
	p, err := a.planKube(ctx, c.Scenario, c.kubeFlags)
	if err != nil {
		return err
	}
	if c.Save != "" {
		if err := dryrun.CheckFolder(p, c.Save); err != nil {
			return fail(exitUsage, err)
		}
	}
	if err := a.printPlans(p, c.Output); err != nil || c.Save == "" {
		return err
	}
	return dryrun.Save(p, filepath.Clean(c.Save))
}
