package container

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
)

// slurmNames are what a step is told by Slurm and by the site, and what profllm
// reads inside a container.
var slurmNames = []string{
	"PROFLLM_NODE_ADDR", "SLURMD_NODENAME", "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NODEID", "SLURM_NTASKS",
	"SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEP_NODELIST",
}

// Names are the variables that must reach the inside of a container: the step's
// own, then those of every step: the job's and Slurm's. A runtime takes their values from its own environment,
// so that no value, and no secret, stands on a command line. Both are sorted. What
// steps have alike stands together, so that a script can say it once.
func Names(s plan.Step, c plan.Container) (own, all []string) {
	all = slices.Concat(slurmNames, c.Env)
	for _, v := range s.Env {
		own = append(own, v.Name)
	}
	for _, x := range s.Secrets {
		own = append(own, x.Name)
	}
	own = slices.DeleteFunc(own, func(name string) bool { return slices.Contains(all, name) })
	slices.Sort(own)
	slices.Sort(all)
	return slices.Compact(own), slices.Compact(all)
}

// UsesGPUs reports whether the step was given GPUs.
func UsesGPUs(s plan.Step) bool {
	for _, v := range s.Env {
		if v.Name == "CUDA_VISIBLE_DEVICES" {
			text, literal := v.Value.Literal()
			return !literal || text != ""
		}
	}
	return false
}

// Mounts reads the mounts of c, with profllm itself added, read-only and at its own
// path, for a step that runs it.
func Mounts(s plan.Step, c plan.Container) ([]Mount, error) {
	list := slices.Clone(c.Mounts)
	for _, word := range s.Argv {
		if len(word) == 1 && word[0].Self {
			list = append(list, c.Binary+":"+c.Binary+":ro")
			break
		}
	}
	mounts := make([]Mount, len(list))
	for i, text := range list {
		m, err := parseMount(text)
		if err != nil {
			return nil, err
		}
		mounts[i] = m
	}
	return mounts, nil
}

// security are the options of container_security, for steps with GPUs.
var security = map[string][]string{
	config.Unconfined: {"--security-opt=seccomp=unconfined"}, config.Privileged: {"--privileged"},
}

// OCI is a runtime with docker's command line.
type OCI struct {
	Program string
	Options []string // its own, behind the common ones
	GPUs    []string // for a step with GPUs
}

// Wrap turns a step into `profllm job contain` around `run` of the runtime: the host's
// network, IPC and name, an init that passes signals on, the image's own entrypoint out of
// the way, and nothing left afterwards. container_args of the site come last, so
// that they win.
func (o OCI) Wrap(s plan.Step, c plan.Container) (plan.Step, error) {
	image, load, err := o.image(c.Image)
	if err != nil {
		return s, fmt.Errorf("step %q: %w", s.Name, err)
	}
	mounts, err := Mounts(s, c)
	if err != nil {
		return s, err
	}
	var args []string
	own, all := Names(s, c)
	for _, name := range own {
		args = append(args, "--env="+name)
	}
	if UsesGPUs(s) {
		args = append(append(args, o.GPUs...), security[c.Security]...)
	}
	args = append(args, "--rm", "--init", "--network=host", "--ipc=host")
	if !namesHost(c.Args) {
		args = append(args, "--uts=host")
	}
	args = append(append(args, "--entrypoint="), o.Options...)
	if c.Dir != "" {
		args = append(args, "--workdir="+c.Dir)
	}
	for _, name := range all {
		args = append(args, "--env="+name)
	}
	for _, m := range mounts {
		args = append(args, "--mount="+m.oci())
	}
	args = append(append(args, c.Args...), image)
	var flags []string
	if load != "" {
		flags = append(flags, "--load="+load)
	} else if _, ok := ecrRegion(image); ok {
		flags = append(flags, "--login="+image)
	}
	if c.RDMA && UsesGPUs(s) {
		flags = append(flags, "--rdma")
	}
	return Contain(s, o.Program, flags, c, args), nil
}

// namesHost reports whether options of a runtime choose the name of the container's host, which
// docker and podman refuse beside the host's own.
func namesHost(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		option, _, _ := strings.Cut(arg, "=")
		return option == "--hostname" || option == "--uts" ||
			strings.HasPrefix(arg, "-h") // the name may follow at once
	})
}

// image is what `run` is given, and the archive that holds it, "" for none: `profllm job
// contain` loads an archive whose image is not in the node's store.
func (o OCI) image(image string) (name, load string, err error) {
	r, err := ParseReference(image)
	switch {
	case err != nil:
		return "", "", err
	case r.File == "":
		return r.Plain(), "", nil
	case !IsArchive(r.File):
		return "", "", fmt.Errorf("image %q: %s runs images of registries and archives that end in .tar, .tar.gz, .tgz or .tar.zst (a .sqsh file needs pyxis or enroot, a .sif file apptainer)", image, o.Program)
	}
	return r.File, r.File, nil
}

// oci writes a mount as docker reads it: one line of CSV.
func (m Mount) oci() string {
	fields := []string{"type=bind", "source=" + m.Source, "target=" + m.Target}
	if m.ReadOnly {
		fields = append(fields, "readonly")
	}
	if m.Propagation != "" {
		fields = append(fields, "bind-propagation="+m.Propagation)
	}
	for i, f := range fields {
		if strings.ContainsAny(f, `,"`) {
			fields[i] = `"` + strings.ReplaceAll(f, `"`, `""`) + `"`
		}
	}
	return strings.Join(fields, ",")
}

// Contain puts a step behind `profllm job contain`, which names the container after
// the job, passes signals on and removes what is left (see job.Contain).
func Contain(s plan.Step, runtime string, flags []string, c plan.Container, args []string) plan.Step {
	argv := append([]plan.Word{plan.Self()}, plan.Texts("job", "contain", "--runtime="+runtime, "--step="+s.Name)...)
	if c.MountHome {
		flags = append(flags, "--mount-home")
	}
	argv = append(argv, plan.Texts(flags...)...)
	argv = append(argv, plan.Text("--"))
	argv = append(argv, plan.Texts(args...)...)
	s.Argv = append(argv, s.Argv...)
	return s
}
