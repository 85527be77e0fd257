package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/config"
)

// needs are what the launchers other than pyxis need on the nodes.
var needs = map[string]string{
	"enroot":    "enroot on the nodes and .sqsh files, which profllm stage imports",
	"apptainer": "Apptainer on the nodes; stage images, else each node converts them",
	"podman": "Podman on the nodes, rootless for your user; for GPUs, CDI: " +
		"nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml on each node",
	"docker": "a Docker daemon on the nodes that your user may use, NVIDIA's container toolkit for GPUs, " +
		"and whole nodes for each job",
	config.Bare: "no container: the engine is installed on the nodes",
}

// runtimes looks for what starts containers, here; nodes may have others.
func (d *Doctor) runtimes(ctx context.Context) {
	var have []string
	help := d.command(ctx, "srun", "--help")
	pyxis := strings.Contains(help.out, "--container-image")
	if pyxis {
		have = append(have, "pyxis")
	}
	for _, name := range containerPrograms {
		if d.lookPath(name) != "" {
			have = append(have, name)
		}
	}
	seen := cmp.Or(strings.Join(have, ", "), "none")
	without := "no pyxis; found: " + seen
	launcher := d.launcher()
	switch {
	case launcher == "pyxis" && !pyxis:
		d.add("containers", Bad, without,
			"the system file says launcher = \"pyxis\", but srun has no --container-image; "+choices(have))
	case launcher == "" && !pyxis:
		d.add("containers", Warn, without, "tests that name an image need a launcher; "+choices(have))
	case hasProgram(launcher) && !slices.Contains(have, launcher):
		d.add("containers", Warn, "no "+launcher+"; found: "+seen, fmt.Sprintf(
			"the system file says launcher = %q: check that the nodes have %s, with profllm doctor --system FILE --job",
			launcher, launcher))
	default:
		d.add("containers", OK, seen, "")
	}
}

// nodeRuntimes judges what starts containers on a node.
func (d *Doctor) nodeRuntimes(programs []string) {
	seen := cmp.Or(strings.Join(programs, ", "), "none")
	switch launcher := d.launcher(); {
	case hasProgram(launcher) && !slices.Contains(programs, launcher):
		d.add("node: containers", Bad, "no "+launcher+"; found: "+seen, fmt.Sprintf(
			"the system file says launcher = %q, which the node does not have; %s", launcher, choices(programs)))
	case len(programs) > 0:
		d.add("node: containers", OK, seen, "")
	}
}

// launcher is that of the system file, "" without one.
func (d *Doctor) launcher() string {
	if d.System == nil {
		return ""
	}
	return d.System.Launcher
}

// hasProgram reports whether a launcher is a program of its name on the nodes.
func hasProgram(launcher string) bool { return slices.Contains(config.Programs, launcher) }

// choices says which launchers could be used where there are some programs, and what each needs.
func choices(programs []string) string {
	var parts []string
	for _, name := range append(slices.Clone(config.Programs), config.Bare) {
		if name == config.Bare || slices.Contains(programs, name) {
			parts = append(parts, fmt.Sprintf("%q (%s)", name, needs[name]))
		}
	}
	last := len(parts) - 1
	if last == 0 {
		return "set launcher = " + parts[0] + " in the system file"
	}
	return "set launcher in the system file to " + strings.Join(parts[:last], ", ") + " or " + parts[last]
}
