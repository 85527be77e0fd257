package dynamo

import (
	"cmp"
	"path"
	"slices"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/shell"
	"github.com/profllm/profllm/pkg/source"
)

// addSetup adds what runs on every node before the service: startup_cmd, whose failure ends the
// job, and node_setup_cmd, whose failure does not. Both are shell text.
func (w *Workload) addSetup(s *plan.Service, cl plan.Cluster) {
	if w.localizes() {
		script := runtimeFile(cl) + *w.cfg.StartupCmd
		step := plan.Step{Name: "startup", Nodes: cl.All(), Argv: cl.Program(plan.Texts("bash", "-c", script)),
			Log: "logs/startup-%t.log"}
		if image := w.cfg.StartupImage; image != nil {
			step.Container, step.Image = true, *image
		}
		s.Setup = append(s.Setup, step)
	}
	if text := w.service.NodeSetup; text != nil && *text != "" {
		s.Setup = append(s.Setup, plan.Step{Name: "node_setup", Nodes: cl.All(), Container: true, Optional: true,
			Argv: cl.Program(plan.Texts("bash", "-c", *text)), Log: "logs/node_setup-%t.log"})
	}
}

// runtimeVariable names the file in which startup_cmd says what each node's servers shall read in
// place of what stands in their files.
const runtimeVariable = "CLOUDAI_RUNTIME_FILE"

// localizes reports whether something may write that file: startup_cmd, or a program that it calls.
func (w *Workload) localizes() bool { return given(w.cfg.StartupCmd) }

// runtimeFile tells startup_cmd which file that is.
func runtimeFile(cl plan.Cluster) string {
	dir := shell.Quote(path.Join(cl.Dir, "runtime"))
	return "mkdir -p " + dir + " && export " + runtimeVariable + "=" + dir +
		`/"${SLURMD_NODENAME:-$(hostname)}".json || exit` + "\n"
}

// localized is a worker's command, which reads the files of its node.
func (w *Workload) localized(cl plan.Cluster, argv []plan.Word) []plan.Word {
	fill := w.filled(cl)
	if !w.localizes() && fill == nil {
		return argv
	}
	return slices.Concat([]plan.Word{plan.Self()}, plan.Texts("job", "localize", "--run", cl.Dir), fill,
		plan.Texts("--"), argv)
}

// exporter is [cmd_args.dynamo.dcgm_exporter].
type exporter struct {
	Enabled bool   `toml:"enabled"`          // Start it.
	Image   string `toml:"docker_image_url"` // Its image; default NVIDIA's of 4.5.2.
	Short   string `toml:"image_url"`        // The same under another name.
	Port    int    `toml:"port"`             // Base of its port; default 9401.
}

const (
	exporterImage = "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.2-4.8.1-distroless"
	exporterPort  = 9401
	exporterName  = "dcgm_exporter"
)

// checkExporter reads the table of the exporter.
func (w *Workload) checkExporter(c *source.Complaints) {
	if t := w.service.Exporter; t != nil {
		t = decode(t, &w.exporter, c)
		switch {
		case w.exporter.Image != "" && w.exporter.Short != "":
			c.Add(source.Errorf(t.PosOf("image_url"), "dcgm_exporter has docker_image_url and image_url, which are one key").
				Hintf("remove one of them"))
		case !w.exporter.Enabled && !t.Has("enabled"):
			w.note(t.Pos, "dcgm_exporter has no effect: write enabled = true in it to start the exporter")
		}
	}
	w.exporter.Image = cmp.Or(w.exporter.Image, w.exporter.Short, exporterImage)
	w.exporter.Port = cmp.Or(w.exporter.Port, exporterPort)
}

// addExporter adds NVIDIA's exporter of GPU metrics on every node, in its own container. The
// workers start once each answers.
func (w *Workload) addExporter(s *plan.Service, cl plan.Cluster) {
	if !w.exporter.Enabled {
		return
	}
	s.Ports = append(s.Ports, plan.Port{Name: exporterName, Base: w.exporter.Port, Step: 1, Count: 1, Role: exporterName})
	s.Roles = append(s.Roles, plan.Role{
		Name: exporterName, Nodes: cl.All(), Helper: true, Timeout: plan.Seconds(controlWait),
		Health: plan.Endpoint{Port: exporterName, Path: "/metrics"},
		Step: plan.Step{Name: exporterName, Nodes: cl.All(), Container: true, Image: w.exporter.Image,
			Argv: cl.Helper(plan.Texts("dcgm-exporter"), exporterName), Log: "logs/" + exporterName + "-%t.log",
			Env: []plan.Var{{Name: "PROFLLM_ROLE", Value: plan.Text(exporterName)},
				{Name: "DCGM_EXPORTER_LISTEN", Value: plan.Concat(":", plan.PortNumber(exporterName))}}},
	})
}
