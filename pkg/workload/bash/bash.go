// Package bash turns a BashCmd test into a step: shell text, run once on every
// node of the test by bash, without a container, each with a log of its own.
//
// CloudAI runs such text on the batch host, in the script itself.
package bash

import (
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// Config is [cmd_args] of a BashCmd test.
type Config struct {
	Cmd string `toml:"cmd,required"` // Shell text, run by bash once on each of the test's num_nodes nodes.
}

// Workload is a decoded BashCmd test.
type Workload struct{ cmd *source.Value }

// New decodes the test's cmd_args. No image is needed anywhere.
func New(t scenario.Test, _ bool) (plan.Workload, error) {
	var c source.Complaints
	var cfg Config
	c.Add(source.Decode(t.CmdArgs, &cfg))
	if t.CmdArgs.Has("cmd") && strings.TrimSpace(cfg.Cmd) == "" {
		c.Addf(t.CmdArgs.PosOf("cmd"), "cmd_args.cmd is empty")
	}
	for _, key := range t.ExtraCmdArgs.Keys() {
		c.Add(source.Errorf(t.ExtraCmdArgs.PosOf(key), "extra_cmd_args.%s has no effect on a BashCmd test", key).
			Hintf("write it in cmd_args.cmd"))
	}
	return Workload{t.CmdArgs.Get("cmd")}, c.Err()
}

// Serve implements plan.Workload.
func (w Workload) Serve(cl plan.Cluster) (plan.Service, error) {
	text, _ := w.cmd.Text()
	s := plan.Service{Steps: []plan.Step{{
		Name: "bash", Nodes: cl.All(), Argv: plan.Texts("bash", "-c", text), Env: cl.Visible(), Log: "logs/bash-%t.log",
	}}}
	if cl.Simulated {
		s.Notes = []string{w.cmd.Pos.String() + ": cmd runs unchanged, also in a simulated run"}
	}
	return s, nil
}
