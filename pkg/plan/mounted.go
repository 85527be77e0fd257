package plan

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// outputsMounted refuses the files of profilers that servers would write in their containers, and
// that would be lost with them, see lost.
func (p *Plan) outputsMounted(in Input) error {
	var c source.Complaints
	for i := range p.Roles {
		r := &p.Roles[i]
		if !r.Step.Container {
			continue
		}
		c.Add(p.reportMounted(in, r))
		for _, dir := range p.traceDirs(&r.Step) {
			if path.IsAbs(dir) && p.OnHost(dir) == "" {
				c.Add(p.lost(in, source.Errorf(in.Test.Pos, "%s writes its traces to %s in its container, where this folder is not mounted: "+
					"they would be lost", r.Name, dir).
					Hintf("add %q to extra_container_mounts, or use [torch_profiler], which keeps traces in the run directory",
						dir+":"+dir)))
			}
		}
	}
	for _, s := range p.profilable() {
		if r := s.reporter(); r.Report != "" && s.Container {
			c.Add(p.reportMounted(in, &r))
		}
	}
	return c.Err()
}

// reportMounted refuses a report that would be lost, or lie where nobody looks for it.
func (p *Plan) reportMounted(in Input, r *Role) error {
	if !path.IsAbs(r.Report) || p.OnHost(r.Report) == path.Clean(r.Report) {
		return nil
	}
	pos := in.Test.Pos
	for _, table := range []*source.Table{in.Test.Nsys, in.Test.Viz} {
		if enabled(table) {
			pos = table.PosOf("output")
		}
	}
	dir := path.Dir(r.Report)
	return p.lost(in, source.Errorf(pos, "output: %s writes %s in its container, where %s is not mounted at its own path: "+
		"the file would be lost", r.Name, r.ReportPattern(), dir).
		Hintf("add %q to extra_container_mounts, or write a name without a folder: then the file lies in the run directory",
			dir+":"+dir))
}

// lost refuses what would be lost, and only notes it where options that a plan does not read may
// mount the folder.
func (p *Plan) lost(in Input, e *source.Error) error {
	if len(in.System.ContainerArgs) == 0 && len(p.Job.SrunArgs) == 0 && !in.System.ContainerMountHome {
		return e
	}
	p.Notes = append(p.Notes, fmt.Sprintf("%s: %s, unless container_args, extra_srun_args or container_mount_home mount it",
		e.Pos, e.Msg))
	return nil
}

// profilerOption is vLLM's option for its own profiler, and profilerDir the key of its folder.
const (
	profilerOption = "--profiler-config"
	profilerDir    = "torch_profiler_dir"
)

// traceDirVars name the folder of traces to vLLM until 0.12 and to SGLang.
var traceDirVars = []string{"VLLM_TORCH_PROFILER_DIR", "SGLANG_TORCH_PROFILER_DIR"}

// traceDirs are the folders to which the profiler of an engine is told to write.
func (p *Plan) traceDirs(s *Step) (dirs []string) {
	for _, v := range slices.Concat(p.Env, s.Env) {
		if text, ok := v.Value.Literal(); ok && slices.Contains(traceDirVars, v.Name) {
			dirs = append(dirs, text)
		}
	}
	for i, w := range s.Argv {
		text, _ := w.Literal()
		option, value, joined := strings.Cut(text, "=")
		if !joined && i+1 < len(s.Argv) {
			value, _ = s.Argv[i+1].Literal()
		}
		switch option {
		case profilerOption:
			var config map[string]any
			if json.Unmarshal([]byte(value), &config) == nil {
				dir, _ := config[profilerDir].(string)
				dirs = append(dirs, dir)
			}
		case profilerOption + "." + profilerDir:
			dirs = append(dirs, value)
		}
	}
	return dirs
}
