// Package container turns a SlurmContainer test into a step: shell text, run by
// bash inside the test's image.
package container

import (
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// Config is [cmd_args] of a SlurmContainer test.
type Config struct {
	DockerImageURL string `toml:"docker_image_url"` // Image: host#org/name:tag, or a path to a .sqsh file.
	// Shell text, run by bash in the image, ntasks_per_node times on each node; extra_cmd_args
	// follow it.
	Cmd string `toml:"cmd,required"`
}

// Workload is a decoded SlurmContainer test.
type Workload struct {
	cfg   Config
	extra []plan.Word
}

// New decodes the test's cmd_args. needImage is false where steps run without a
// container.
func New(t scenario.Test, needImage bool) (plan.Workload, error) {
	var c source.Complaints
	var w Workload
	c.Add(source.Decode(t.CmdArgs, &w.cfg))
	if t.CmdArgs.Has("cmd") && strings.TrimSpace(w.cfg.Cmd) == "" {
		c.Addf(t.CmdArgs.PosOf("cmd"), "cmd_args.cmd is empty")
	}
	if w.cfg.DockerImageURL == "" && needImage {
		c.Add(source.Errorf(t.CmdArgs.Pos, "cmd_args.docker_image_url is required").
			Hintf("name the image, or set launcher = \"bare\" to run without a container"))
	}
	for _, key := range t.ExtraCmdArgs.Keys() {
		w.extra = append(w.extra, plan.Text(key))
		value, ok := t.ExtraCmdArgs.Get(key).Text()
		if !ok {
			c.Addf(t.ExtraCmdArgs.PosOf(key), "extra_cmd_args.%s must be a string", key)
		}
		if value != "" {
			w.extra = append(w.extra, plan.Text(value))
		}
	}
	return w, c.Err()
}

// Serve implements plan.Workload.
func (w Workload) Serve(cl plan.Cluster) (plan.Service, error) {
	argv := plan.Texts("bash", "-c", w.cfg.Cmd)
	if len(w.extra) > 0 { // bash(1), -c: the word behind the text is $0
		argv = append(plan.Texts("bash", "-c", w.cfg.Cmd+` "$@"`, "bash"), w.extra...)
	}
	return plan.Service{Image: w.cfg.DockerImageURL, Steps: []plan.Step{{
		Name: "container", Nodes: cl.All(), TasksPerNode: cl.TasksPerNode, Container: true, Env: cl.Visible(),
		Argv: cl.Program(argv), Srun: cl.MPIOptions(""), Log: "logs/container-%t.log",
	}}}, nil
}
