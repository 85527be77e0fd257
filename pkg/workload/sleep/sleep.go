// Package sleep turns a Sleep test into a step that waits on every node: for
// trying out order, limits and hooks.
package sleep

import (
	"strconv"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// Config is [cmd_args] of a Sleep test.
type Config struct {
	DockerImageURL string `toml:"docker_image_url"` // Sleep inside this image; default: on the node.
	Seconds        *int   `toml:"seconds"`          // How long; default 5.
}

const defaultSeconds = 5 // CloudAI's

// Workload is a decoded Sleep test.
type Workload struct {
	image   string
	seconds int
}

// New decodes the test's cmd_args. No image is needed anywhere.
func New(t scenario.Test, _ bool) (plan.Workload, error) {
	var c source.Complaints
	var cfg Config
	c.Add(source.Decode(t.CmdArgs, &cfg))
	w := Workload{image: cfg.DockerImageURL, seconds: defaultSeconds}
	if cfg.Seconds != nil {
		w.seconds = *cfg.Seconds
	}
	if w.seconds < 0 {
		c.Addf(t.CmdArgs.PosOf("seconds"), "cmd_args.seconds is %d, must be 0 or more", w.seconds)
	}
	for _, key := range t.ExtraCmdArgs.Keys() {
		c.Add(source.Errorf(t.ExtraCmdArgs.PosOf(key), "extra_cmd_args.%s: sleep takes no further arguments", key).
			Hintf("remove it"))
	}
	return w, c.Err()
}

// Serve implements plan.Workload.
func (w Workload) Serve(cl plan.Cluster) (plan.Service, error) {
	return plan.Service{Image: w.image, Steps: []plan.Step{{
		Name: "sleep", Nodes: cl.All(), Container: w.image != "", Argv: plan.Texts("sleep", strconv.Itoa(w.seconds)),
		Log: "logs/sleep-%t.log",
	}}}, nil
}
