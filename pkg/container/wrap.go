package container

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
)

// slurmNames are what a step is told by Slurm and by the site, and what profllm
// reads inside a container.
var slurmNames = []string{
	"PROFLLM_NODE_ADDR", "SLURMD_NODENAME", "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NODEID", "SLURM_NTASKS",
	"SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEP_NODELIST",
}

// Names are the variables that must reach the inside of a container: the job's,
// the step's, and Slurm's. A runtime takes their values from its own environment,
// so that no value, and no secret, stands on a command line. They are sorted.
func Names(s plan.Step, c plan.Container) []string {
	names := slices.Concat(slurmNames, c.Env)
	for _, v := range s.Env {
		names = append(names, v.Name)
	}
	for _, x := range s.Secrets {
		names = append(names, x.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
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
		m, err := ParseMount(text)
		if err != nil {
			return nil, err
		}
		mounts[i] = m
	}
	return mounts, nil
}

// OCI is a runtime with docker's command line.
type OCI struct {
	Program string
	Options []string // its own, behind the common ones
	GPUs    []string // for a step with GPUs
	Load    bool     // an archive must be loaded before it can be run
}

// Wrap turns a step into `profllm job contain` around `run` of the runtime: host
// network and IPC, an init that passes signals on, the image's own entrypoint out of
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
	args := slices.Concat([]string{"--rm", "--init", "--network=host", "--ipc=host", "--entrypoint="}, o.Options)
	if UsesGPUs(s) {
		args = append(args, o.GPUs...)
	}
	if c.Dir != "" {
		args = append(args, "--workdir="+c.Dir)
	}
	for _, name := range Names(s, c) {
		args = append(args, "--env="+name)
	}
	for _, m := range mounts {
		args = append(args, "--mount="+m.oci())
	}
	args = append(append(args, c.Args...), image)
	var flags []string
	if load != "" {
		flags = append(flags, "--load="+load)
	}
	return Contain(s, o.Program, flags, c, args), nil
}

// image is what `run` is given, and the archive to load before, "" for none.
func (o OCI) image(image string) (name, load string, err error) {
	r, err := ParseReference(image)
	switch {
	case err != nil:
		return "", "", err
	case r.File == "":
		return r.Plain(), "", nil
	case !strings.HasSuffix(r.File, ".tar"):
		return "", "", fmt.Errorf("image %q: %s runs images of registries and archives that end in .tar (a .sqsh file needs pyxis or enroot, a .sif file apptainer)", image, o.Program)
	case o.Load:
		return r.File, r.File, nil
	case strings.ContainsRune(r.File, ':'):
		return "", "", fmt.Errorf("image %q: %s cannot read an archive with a colon in its path", image, o.Program)
	}
	return "docker-archive:" + r.File, "", nil
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
