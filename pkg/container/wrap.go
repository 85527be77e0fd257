package container

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
)

// Names are the variables of the job that must reach the inside of every container, sorted. A runtime
// takes their values from its own environment. `profllm job contain` adds those of Slurm.
func Names(c plan.Container) []string {
	all := slices.Clone(c.Env)
	slices.Sort(all)
	return slices.Compact(all)
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

// Mounts reads the mounts of c, and those of a step alone: profllm itself, read-only and at its own
// path, for a step that runs it.
func Mounts(s plan.Step, c plan.Container) (own, all []Mount, err error) {
	for _, text := range c.Mounts {
		m, err := parseMount(text)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, m)
	}
	if slices.ContainsFunc(s.Argv, func(word plan.Word) bool { return len(word) == 1 && word[0].Self }) {
		m, err := parseMount(c.Binary + ":" + c.Binary + ":ro")
		if err != nil {
			return nil, nil, err
		}
		own = append(own, m)
	}
	return own, all, nil
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
		return s, err
	}
	own, mounts, err := Mounts(s, c)
	if err != nil {
		return s, err
	}
	var args []string
	if UsesGPUs(s) {
		args = append(slices.Clone(o.GPUs), security[c.Security]...)
	}
	for _, m := range own {
		args = append(args, "--mount="+m.oci())
	}
	args = append(args, "--rm", "--init", "--network=host", "--ipc=host")
	if !namesHost(c.Args) {
		args = append(args, "--uts=host")
	}
	args = append(append(args, "--entrypoint="), o.Options...)
	if c.Dir != "" {
		args = append(args, "--workdir="+c.Dir)
	}
	for _, name := range Names(c) {
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
	f := Flags{All: flags}
	if c.RDMA && UsesGPUs(s) {
		f.Own = append(f.Own, "--rdma")
	}
	return Contain(s, o.Program, f, c, args), nil
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

// Flags are options of `profllm job contain`.
type Flags struct {
	All []string // that every step of the image has
	Own []string // that the step alone has
}

// Contain puts a step behind `profllm job contain`, which names the container after the job, passes
// signals on and removes what is left (see job.Contain). It also sets the step's variables, as env
// does, and hands them in together with the step's secrets, of which only the names stand here. What
// steps have alike stands together, so that a script can say it once.
func Contain(s plan.Step, runtime string, flags Flags, c plan.Container, args []string) plan.Step {
	argv := append([]plan.Word{plan.Self()}, plan.Texts("job", "contain", "--runtime="+runtime)...)
	if c.MountHome {
		argv = append(argv, plan.Text("--mount-home"))
	}
	for _, x := range s.Secrets {
		argv = append(argv, plan.Text("--env="+x.Name))
	}
	argv = append(argv, plan.Texts(flags.All...)...)
	argv = append(argv, plan.Text("--step="+s.Name))
	argv = append(argv, plan.Texts(flags.Own...)...)
	for _, v := range s.Env {
		word := plan.Concat(v.Name+"=", v.Value)
		if text, ok := word.Literal(); ok {
			word = plan.Text(text)
		}
		argv = append(argv, word)
	}
	argv = append(argv, plan.Text("--"))
	argv = append(argv, plan.Texts(args...)...)
	s.Argv, s.Env = append(argv, s.Argv...), nil
	return s
}
