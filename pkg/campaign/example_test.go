package campaign_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/run"
)

// silent hears nothing of what happens meanwhile.
type silent struct{}

func (silent) Say(campaign.Level, string) {}
func (silent) Submitted(run.Outcome)      {}

// client acts for the user of this process.
func client() *campaign.Client {
	wd, err := os.Getwd()
	if err != nil {
		log.Fatal(err)
	}
	return &campaign.Client{
		Environ: os.Environ(), WorkDir: wd, Executable: "/opt/profllm/bin/profllm", Version: "v0",
		Now: time.Now, Uptime: run.Uptime, Events: silent{},
	}
}

// Plan reads a scenario and prints nothing; a Planned has the plan and the script of each run.
func ExampleClient_Plan() {
	p, err := client().Plan(context.Background(), "demo", campaign.Options{Simulate: true, OutputDir: "results"})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range p.Runs {
		fmt.Println(r.Plan.Test, len(r.Plan.Roles), "roles,", len(r.Script) > 0)
	}
	fmt.Println(p.Cost().Jobs, "jobs")
	// Output:
	// aggregated 1 roles, true
	// disaggregated 3 roles, true
	// 2 jobs
}

// What `profllm slurm submit --wait` and `profllm collect` do.
func ExampleClient_Submit() {
	ctx, c := context.Background(), client()
	p, err := c.Plan(ctx, "scenario.toml", campaign.Options{System: "site.toml", Live: true})
	if err != nil {
		log.Fatal(err)
	}
	root, _, err := c.Begin(p, func(campaign.Cost) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	dirs, err := c.Submit(ctx, root, 30*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	states, err := c.Follow(ctx, dirs, c.Jobs(ctx, dirs), nil)
	if err != nil {
		log.Fatal(err)
	}
	col := c.Collector()
	for _, dir := range dirs {
		st := states[dir]
		records, err := col.Write(dir, &st)
		if err != nil {
			log.Fatal(err)
		}
		for _, r := range records {
			fmt.Println(r.Dir, r.Result.Validity.Verdict)
		}
	}
}
