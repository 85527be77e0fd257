// Command standin plays srun with the pyxis plugin, enroot and apptainer for tests, as
// far as they decide what a step sees in its container: variables, mounts, home, user
// and working directory. It was written after runs of pyxis 0.24 and enroot 4.1.2,
// whose faults it has, and after the manual of apptainer exec 1.4.
//
// An image is a folder with a root file system, whose variables stand in
// etc/environment as enroot keeps them.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/regular"
)

func main() {
	var c *container
	var err error
	switch program := filepath.Base(os.Args[0]); program {
	case "srun":
		c, err = srun(os.Args[1:])
	case "enroot":
		c, err = enroot(os.Args[1:])
	case "apptainer":
		c, err = apptainer(os.Args[1:])
	case "inside":
		err = enter()
	default:
		err = fmt.Errorf("no part is called %q", program)
	}
	if err == nil && c != nil {
		err = c.run()
	}
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		os.Exit(ended.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// container is what one task runs in.
type container struct {
	image    string
	mounts   []mount
	environ  []string
	home     string // a folder of the host to be mounted at HOME, "" for none
	writable bool
	script   string // run by sh in place of the command, which it is given
	dir      string // "" for HOME
	command  []string
	logs     string // for both outputs, "" for ours
}

type mount struct {
	source, target string
	readOnly       bool
}

// options are arguments --NAME=VALUE or --NAME, up to the first that is none.
func options(args []string, flags ...string) (map[string][]string, []string, error) {
	set := map[string][]string{}
	for i := 0; i < len(args); i++ {
		name, value, found := strings.Cut(args[i], "=")
		if !strings.HasPrefix(name, "-") {
			return set, args[i:], nil
		}
		if !found && slices.Contains(flags, name) {
			if i++; i == len(args) {
				return nil, nil, fmt.Errorf("%s needs a value", name)
			}
			value = args[i]
		}
		set[name] = append(set[name], value)
	}
	return set, nil, nil
}

// srun runs a command, in a container if it is told so.
func srun(args []string) (*container, error) {
	o, command, err := options(args)
	if err != nil {
		return nil, err
	}
	job := environment(os.Environ())
	job["SLURM_JOB_NAME"], job["SLURM_PROCID"], job["SLURM_STEP_ID"] = last(o, "--job-name"), "0", "0"
	logs := strings.ReplaceAll(last(o, "--output"), "%t", "0")
	if len(o["--container-image"]) == 0 {
		return &container{command: command, environ: list(job), logs: logs}, nil
	}
	c := &container{image: last(o, "--container-image"), command: command, logs: logs,
		writable: len(o["--container-writable"]) > 0}
	for _, text := range strings.Split(last(o, "--container-mounts"), ",") {
		f := strings.SplitN(text, ":", 3)
		if len(f) < 2 {
			return nil, fmt.Errorf("srun: error: pyxis: mount %q", text)
		}
		if _, err := os.Stat(f[0]); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("slurmstepd: error: pyxis: --container-mounts: source path does not exist: %s", f[0])
		}
		// pyxis has the paths echoed by bash, in double quotes.
		out, err := exec.Command("bash", "-c", fmt.Sprintf("echo \"%s\"; echo \"%s\"", f[0], f[1])).Output()
		echoed := strings.Split(string(out), "\n")
		if err != nil || len(echoed) != 3 {
			return nil, fmt.Errorf("slurmstepd: error: pyxis: container start failed with error code: 1: %s", out)
		}
		c.mounts = append(c.mounts,
			mount{echoed[0], echoed[1], len(f) == 3 && slices.Contains(strings.Split(f[2], "+"), "ro")})
	}
	asked := strings.Split(last(o, "--container-env"), ",")
	text := image(c.image, job)
	for _, name := range asked {
		if job[name] != "" {
			text += name + "=" + job[name] + "\n"
		}
	}
	for _, name := range []string{"LANG", "LANGUAGE", "LC_ALL"} {
		if !slices.Contains(asked, name) {
			delete(job, name)
		}
	}
	hosts := job["HOME"]
	login(job)
	for name, value := range lines(text) {
		if _, ok := job[name]; !ok || !slices.Contains(asked, name) {
			job[name] = value
		}
	}
	if len(o["--container-mount-home"]) > 0 {
		c.home = hosts
	}
	c.environ = list(job)
	return c, nil
}

var assignment = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*(=|$)`)

// enroot plays `enroot start`: nothing of the environment goes in but what is named.
func enroot(args []string) (*container, error) {
	if len(args) == 0 || args[0] != "start" {
		return nil, fmt.Errorf("[ERROR] Invalid command: %q", args)
	}
	o, rest, err := options(args[1:], "--rc", "--env", "--mount", "--conf")
	if err != nil || len(rest) == 0 {
		return nil, fmt.Errorf("[ERROR] Invalid argument (%v)", err)
	}
	c := &container{image: rest[0], command: rest[1:], writable: len(o["--rw"]) > 0}
	job := environment(os.Environ())
	text := image(c.image, job)
	for _, env := range o["--env"] {
		for line := range strings.SplitSeq(env, "\n") {
			if !assignment.MatchString(line) {
				return nil, fmt.Errorf("[ERROR] Invalid argument: %s", line)
			}
		}
		if name, _, set := strings.Cut(env, "="); !set {
			env = name + "=" + job[name]
		}
		text += env + "\n"
	}
	for _, m := range o["--mount"] {
		if strings.ContainsAny(m, " \t\n") {
			return nil, fmt.Errorf("[ERROR] Invalid argument: %s", m)
		}
		f := strings.Split(m, ":")
		if len(f) < 4 || f[2] != "none" {
			return nil, fmt.Errorf("enroot-mount: failed to mount: %s: No such device", m)
		}
		c.mounts = append(c.mounts, mount{f[0], f[1], slices.Contains(strings.Split(f[3], ","), "ro")})
	}
	if rc := last(o, "--rc"); rc != "" {
		data, err := regular.ReadFile(rc)
		if err != nil {
			return nil, err
		}
		c.script = string(data)
	}
	inside := lines(text)
	hosts := job["HOME"]
	if len(o["--root"]) > 0 {
		inside["HOME"], inside["USER"], inside["LOGNAME"] = "/root", "root", "root"
	} else {
		login(inside)
	}
	if job["ENROOT_MOUNT_HOME"] == "y" {
		c.home = hosts
	}
	c.environ = list(inside)
	return c, nil
}

// apptainer plays `apptainer exec --contain --cleanenv`: variables come by its prefix.
func apptainer(args []string) (*container, error) {
	if len(args) == 0 || args[0] != "exec" {
		return nil, fmt.Errorf("FATAL: unknown command %q", args)
	}
	o, rest, err := options(args[1:])
	if err != nil || len(rest) == 0 {
		return nil, fmt.Errorf("FATAL: image needed (%v)", err)
	}
	c := &container{image: rest[0], command: rest[1:], writable: len(o["--writable-tmpfs"]) > 0, dir: last(o, "--pwd")}
	job := environment(os.Environ())
	inside := lines(image(c.image, nil))
	for name, value := range job {
		if inner, ok := strings.CutPrefix(name, "APPTAINERENV_"); ok {
			inside[inner] = value
		}
	}
	source, target, found := strings.Cut(last(o, "--home"), ":")
	if !found {
		target = source
	}
	inside["HOME"], c.home = target, source
	for _, text := range o["--bind"] {
		f := strings.Split(text, ":")
		if len(f) == 1 {
			continue // a device or folder of the host, at its own path
		}
		if _, err := os.Stat(f[0]); err != nil {
			return nil, fmt.Errorf("FATAL:   container creation failed: mount %s->%s error: %v", f[0], f[1], err)
		}
		c.mounts = append(c.mounts, mount{f[0], f[1], len(f) == 3 && f[2] == "ro"})
	}
	c.environ = list(inside)
	return c, nil
}

func last(o map[string][]string, name string) string {
	if values := o[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

func environment(environ []string) map[string]string {
	set := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		set[name] = value
	}
	return set
}

func list(set map[string]string) []string {
	var environ []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		environ = append(environ, name+"="+set[name])
	}
	return environ
}

var reference = lazyregexp.New(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// image is the text of an image's variables, with those of the job put into it.
func image(dir string, job map[string]string) string {
	data, _ := regular.ReadFile(filepath.Join(dir, "etc/environment"))
	return reference.ReplaceAllStringFunc(string(data), func(s string) string { return job[s[2:len(s)-1]] })
}

// lines reads variables as enroot does: one in a line, quotes around a value removed.
func lines(text string) map[string]string {
	set := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(strings.TrimLeft(strings.TrimSuffix(line, "\n"), " \t"), "=")
		if !found || !assignment.MatchString(name) || strings.HasPrefix(name, "ENROOT_") {
			continue
		}
		if t := strings.TrimRight(value, " \t"); len(t) > 1 && strings.ContainsAny(t[:1], `"'`) &&
			strings.ContainsAny(t[len(t)-1:], `"'`) {
			value = t[1 : len(t)-1]
		}
		set[name] = value
	}
	return set
}

// login sets what the password file says of this user.
func login(set map[string]string) {
	if u, err := user.Current(); err == nil {
		set["HOME"], set["USER"], set["LOGNAME"] = u.HomeDir, u.Username, u.Username
	}
}

// run starts the command in new namespaces, in a copy of the image.
func (c *container) run() error {
	var cmd *exec.Cmd
	if c.image == "" {
		if len(c.command) == 0 {
			return errors.New("no command")
		}
		cmd = exec.Command(c.command[0], c.command[1:]...)
		cmd.Env = c.environ
	} else {
		root, err := os.MkdirTemp("", "standin-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(root)
		if out, err := exec.Command("cp", "-a", c.image+"/.", root).CombinedOutput(); err != nil {
			return fmt.Errorf("[ERROR] Invalid image format: %s (%s)", c.image, out)
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		cmd = exec.Command(self, append([]string{root}, c.command...)...)
		cmd.Args[0] = "inside"
		cmd.Env = []string{}
		// its ids stay what they are
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
			AmbientCaps: []uintptr{capSysAdmin, capSysChroot},
		}
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		cmd.ExtraFiles = []*os.File{r}
		go func() { // read by enter
			defer w.Close()
			fmt.Fprint(w, c.encode())
		}()
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if c.logs != "" {
		f, err := os.OpenFile(c.logs, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		cmd.Stdout, cmd.Stderr = f, f
	}
	return cmd.Run()
}

// Capabilities that a user has in the namespace that is his own.
const (
	capSysChroot = 18
	capSysAdmin  = 21
)

// encode writes what the process inside needs, each field behind its letter and before
// a NUL.
func (c *container) encode() string {
	var b strings.Builder
	put := func(kind byte, text string) { fmt.Fprintf(&b, "%c%s\x00", kind, text) }
	for _, m := range c.mounts {
		kind := byte('m')
		if m.readOnly {
			kind = 'r'
		}
		put(kind, m.source+"\n"+m.target)
	}
	for _, kv := range c.environ {
		put('e', kv)
	}
	for kind, text := range map[byte]string{'h': c.home, 's': c.script, 'd': c.dir} {
		if text != "" {
			put(kind, text)
		}
	}
	if c.writable {
		put('w', "")
	}
	return b.String()
}

// enter runs in the new namespaces: it mounts, changes the root and becomes the command.
func enter() error {
	root := os.Args[1]
	c := &container{command: os.Args[2:]}
	home := c.read(os.NewFile(3, "container"))
	if err := c.mount(root, home); err != nil {
		return err
	}
	if err := errors.Join(syscall.Chroot(root),
		os.Chdir(filepath.Join("/", c.dir, map[bool]string{true: home}[c.dir == ""]))); err != nil {
		return err
	}
	command := c.command
	if c.script != "" {
		command = append([]string{"/bin/sh", "-c", c.script, "sh"}, command...)
	}
	os.Clearenv()
	for _, kv := range c.environ {
		name, value, _ := strings.Cut(kv, "=")
		os.Setenv(name, value)
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return fmt.Errorf("slurmstepd: error: execve(): %s: No such file or directory", command[0])
	}
	return syscall.Exec(program, command, os.Environ())
}

// read reads the container from a file, and returns the home in it.
func (c *container) read(file io.Reader) (home string) {
	in := bufio.NewScanner(file)
	in.Buffer(nil, 8<<20)
	in.Split(func(data []byte, end bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, 0); i >= 0 {
			return i + 1, data[:i], nil
		}
		return 0, nil, nil
	})
	home = "/"
	for in.Scan() {
		kind, text := in.Text()[0], in.Text()[1:]
		switch kind {
		case 'm', 'r':
			source, target, _ := strings.Cut(text, "\n")
			c.mounts = append(c.mounts, mount{source, target, kind == 'r'})
		case 'e':
			c.environ = append(c.environ, text)
			if dir, ok := strings.CutPrefix(text, "HOME="); ok {
				home = dir
			}
		case 'h':
			c.home = text
		case 's':
			c.script = text
		case 'd':
			c.dir = text
		case 'w':
			c.writable = true
		}
	}
	if c.home != "" {
		c.mounts = append([]mount{{c.home, home, false}}, c.mounts...)
	}
	return home
}

// mount makes root the root file system of the container, with its mounts.
func (c *container) mount(root, home string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := syscall.Mount(root, root, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("bind the root: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(root, home), 0o755); err != nil {
		return err
	}
	c.mounts = append(c.mounts, mount{"/dev", "/dev", false}, mount{"/proc", "/proc", false})
	for _, m := range c.mounts {
		if err := m.bind(root); err != nil {
			return fmt.Errorf("enroot-mount: failed to mount: %s at %s: %w", m.source, m.target, err)
		}
	}
	if !c.writable {
		if err := syscall.Mount("", root, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("read-only root: %w", err)
		}
	}
	return nil
}

func (m mount) bind(root string) error {
	st, err := os.Stat(m.source)
	if err != nil {
		return err
	}
	target := filepath.Join(root, m.target)
	if st.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(target), 0o755); err == nil {
		var f *os.File
		if f, err = os.OpenFile(target, os.O_CREATE, 0o644); err == nil {
			f.Close()
		}
	}
	if err != nil {
		return err
	}
	if err := syscall.Mount(m.source, target, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil || !m.readOnly {
		return err
	}
	// A user namespace may not take away the flags that a mount has from outside.
	var st2 syscall.Statfs_t
	if err := syscall.Statfs(target, &st2); err != nil {
		return err
	}
	flags := uintptr(syscall.MS_REMOUNT | syscall.MS_BIND | syscall.MS_RDONLY)
	return syscall.Mount("", target, "",
		flags|uintptr(st2.Flags)&(syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC|syscall.MS_NOATIME|syscall.MS_RELATIME), "")
}
