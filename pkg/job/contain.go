package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Contain is one task of a step in a container.
type Contain struct {
	Runtime   string        // docker, podman, apptainer or enroot
	Step      string        // name of the step
	Run       string        // docker, podman: id of the run, which labels the container; "" for none
	Args      []string      // options, image and command, as the runtime takes them
	Set       []string      // NAME=VALUE: variables that are set for the runtime and reach the inside
	Names     []string      // names of further variables that reach the inside
	Dir       string        // docker, podman: the run directory, in which the image's digest is kept; "" for nowhere
	Load      string        // docker, podman: an archive that holds the image; Args hold it in the image's place
	Login     string        // docker, podman: an image to log in for if it cannot be pulled without; "" for none
	RDMA      bool          // docker, podman: pass the devices of RDMA that this node has
	Root      string        // below which devices are looked for, "" for /
	WorkDir   string        // enroot: where the command starts, "" for the image's own
	Self      string        // enroot: this program, static; "" leaves TERM to whatever enroot starts
	MountHome bool          // the user's home is visible inside
	Grace     time.Duration // from TERM to the end by force; 0 means less than Stop gives
}

// RunContain runs the container's client and returns the command's exit code. It passes
// TERM on, and kills what is still running after Grace while this process can still do so:
// a daemon's container does not end with the step. However the step ends, nothing of the
// container is left. The container's name contains the job's id.
func (j *Job) RunContain(ctx context.Context, c Contain, environ []string) (int, error) {
	j, environ = j.set(&c, environ)
	b := box{Job: j, Contain: c, environ: environ}
	b.name = boxName(cmp.Or(j.Env("SLURM_JOB_ID"), fmt.Sprintf("pid%d", os.Getpid())), j.Env("SLURM_STEP_ID"), c.Step,
		cmp.Or(j.Env("SLURM_PROCID"), "0"))
	if path, err := exec.LookPath(c.Runtime); err != nil {
		return 127, fmt.Errorf("%s is not on this node's PATH: %w\n\thint: install it, or choose another launcher",
			c.Runtime, err)
	} else {
		b.program = path
	}
	defer b.clean()
	if c.Runtime != "docker" {
		raiseLimits()
	}
	args, err := b.command(ctx)
	if err != nil {
		return 125, err
	}
	if c.Dir != "" && (c.Runtime == "docker" || c.Runtime == "podman") && cmp.Or(j.Env("SLURM_PROCID"), "0") == "0" {
		defer b.recordImage(ctx)()
	}
	code, err := b.run(ctx, args)
	if code == ownFailure && err == nil && b.login(ctx) {
		return b.run(ctx, args)
	}
	return code, err
}

// Variables splits the arguments of `profllm job contain` at the first --, before which only
// variables may stand.
func Variables(words []string) (set, args []string, ok bool) {
	i := slices.Index(words, "--")
	if i < 0 {
		return nil, words, true
	}
	for _, word := range words[:i] {
		if name, _, ok := strings.Cut(word, "="); !ok || name == "" || strings.HasPrefix(word, "-") {
			return nil, nil, false
		}
	}
	return words[:i], words[i+1:], true
}

// StepNames are variables that every container is given: what a step is told by Slurm and by the site,
// and what profllm reads inside a container.
var StepNames = []string{
	"PROFLLM_NODE_ADDR", "SLURMD_NODENAME", "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NODEID", "SLURM_NTASKS",
	"SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEP_NODELIST",
}

// set is the job and the environment with the variables of a container, which also pass into it.
func (j *Job) set(c *Contain, environ []string) (*Job, []string) {
	if len(c.Set) == 0 {
		return j, environ
	}
	values := map[string]string{}
	var names []string
	for _, kv := range c.Set {
		name, value, _ := strings.Cut(kv, "=")
		values[name], names = value, append(names, name)
	}
	inside, outer := *j, j.Env
	inside.Env = func(name string) string {
		if value, ok := values[name]; ok {
			return value
		}
		return outer(name)
	}
	c.Names = slices.Concat(names, c.Names)
	return &inside, slices.Concat(withoutVariables(environ, names...), c.Set)
}

// ownFailure is the exit code of docker and podman if they could not start the container.
const ownFailure = 125

// boxName is what no other container on the node is called: job, step, the step's
// role and rank, in the letters that every runtime takes.
func boxName(job, step, role, rank string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' ||
			strings.ContainsRune("_.-", r)) {
			return r
		}
		return '-'
	}, strings.Join([]string{"profllm", job, cmp.Or(step, "0"), role, rank}, "-"))
}

// box is a container while it runs.
type box struct {
	*Job
	Contain
	name, program, scratch string
	front                  []string // what the runtime is started behind
	environ                []string
}

// Runtimes are the programs that RunContain runs containers with.
var Runtimes = []string{"docker", "podman", "apptainer", "enroot"}

func (b *box) command(ctx context.Context) ([]string, error) {
	switch b.Runtime {
	case "docker", "podman":
		return b.oci(ctx)
	case "apptainer":
		return b.apptainer()
	case "enroot":
		return b.enroot()
	}
	return nil, fmt.Errorf("unknown runtime %q", b.Runtime)
}

func (b *box) oci(ctx context.Context) ([]string, error) {
	rest := slices.Clone(b.Args)
	if b.Load != "" {
		image, err := b.archived(ctx)
		if err != nil {
			return nil, err
		}
		i := slices.Index(rest, b.Load)
		if i < 0 {
			return nil, fmt.Errorf("the arguments do not contain the image %q", b.Load)
		}
		rest[i] = image
	}
	args := []string{"run", "--name=" + b.name, "--label=profllm.job=" + cmp.Or(b.Env("SLURM_JOB_ID"), "none")}
	if b.Run != "" {
		args = append(args, "--label=profllm.run="+b.Run)
	}
	if home := b.Env("HOME"); b.MountHome && home != "" {
		args = append(args, "--volume="+home+":"+home, "--env=HOME")
	}
	return slices.Concat(args, b.devices(), b.envOptions(), rest), nil
}

// envOptions name variables for the inside. Others are among the arguments.
func (b *box) envOptions() (options []string) {
	for _, name := range b.Names {
		options = append(options, "--env="+name)
	}
	return options
}

// apptainer adds a scratch folder on this node for /tmp and for a home that is
// empty, and the network's devices, which contained mode leaves out. Variables go
// inside by its own prefix, so that no value stands on a command line.
func (b *box) apptainer() ([]string, error) {
	if err := b.makeScratch(); err != nil {
		return nil, err
	}
	home := filepath.Join(b.scratch, "home") + ":/root"
	if own := b.Env("HOME"); b.MountHome && own != "" {
		home = own
	} else if err := b.mountPoints(); err != nil {
		return nil, err
	}
	args := []string{"exec", "--workdir=" + b.scratch, "--home=" + home}
	for _, device := range []string{"/dev/infiniband", "/dev/gdrdrv"} {
		if _, err := os.Stat(device); err == nil {
			args = append(args, "--bind="+device)
		}
	}
	for _, name := range b.Names {
		for _, kv := range b.environ {
			if strings.HasPrefix(kv, name+"=") {
				b.environ = append(b.environ, "APPTAINERENV_"+kv)
				break
			}
		}
	}
	return append(args, b.Args...), nil
}

// mountPoints makes the places below /root that mounts need, in the empty home.
func (b *box) mountPoints() error {
	home := filepath.Join(b.scratch, "home")
	for _, arg := range b.Args {
		bind, ok := strings.CutPrefix(arg, "--bind=")
		f := strings.Split(bind, ":")
		if !ok || len(f) < 2 || !strings.HasPrefix(f[1], "/root/") {
			continue
		}
		point := filepath.Join(home, filepath.Clean("/"+strings.TrimPrefix(f[1], "/root/")))
		if st, err := os.Stat(f[0]); err == nil && !st.IsDir() {
			if err := errors.Join(os.MkdirAll(filepath.Dir(point), 0o755),
				os.WriteFile(point, nil, 0o644)); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(point, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (b *box) makeScratch() (err error) {
	if b.scratch, err = os.MkdirTemp(cmp.Or(b.Env("TMPDIR"), "/tmp"), b.name+"-"); err == nil {
		err = os.Mkdir(filepath.Join(b.scratch, "home"), 0o755)
	}
	return err
}

// process is a call of the runtime. It is told to end by TERM, never by KILL, which
// a client could not pass on.
func (b *box) process(ctx context.Context, args ...string) *exec.Cmd {
	argv := slices.Concat(b.front, []string{b.program}, args)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = b.environ, b.Stdout, b.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd
}

func (b *box) run(ctx context.Context, args []string) (int, error) {
	if b.restarted() {
		b.remove() // a node that failed may have kept the container of the attempt before
	}
	cmd := b.process(ctx, args...)
	if err := cmd.Start(); err != nil {
		return 126, err
	}
	done := make(chan struct{})
	go func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		select {
		case <-done:
		case <-time.After(cmp.Or(b.Grace, b.patience())):
			b.logf("container %s outlived TERM; killing it", b.name)
			b.remove()
			cmd.Process.Kill()
		}
	}()
	err := cmd.Wait()
	close(done)
	switch status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); {
	case ok && status.Signaled():
		return 128 + int(status.Signal()), nil
	case ok && status.Exited():
		return status.ExitStatus(), nil
	}
	return 125, err
}

// remove ends a container of docker or podman by force, by its name. Podman's rm
// alone would send TERM and wait ten seconds. After --rm the container is gone
// already, which is an error of both calls and no news.
func (b *box) remove() {
	if b.Runtime != "docker" && b.Runtime != "podman" {
		return
	}
	for _, args := range [][]string{{"kill", b.name}, {"rm", "--force", "--volumes", b.name}} {
		ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
		cmd := b.process(ctx, args...)
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = nil, nil, time.Second
		_ = cmd.Run()
		cancel()
	}
}

func (b *box) clean() {
	b.remove()
	if b.scratch == "" {
		return
	}
	// What a container made may not be writable by its owner.
	_ = filepath.WalkDir(b.scratch, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(b.scratch); err != nil {
		b.logf("%v", err)
	}
}
