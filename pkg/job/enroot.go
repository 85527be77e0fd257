package job

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/shell"
)

// enroot makes the arguments of `enroot start`, with a command script that stands in
// for the image's entrypoint.
//
// enroot keeps variables and mounts in files of lines (runtime.sh of 4.1.2): a value
// with a line break becomes several variables, quotes around a value are removed, and
// white space in a path ends it. Such values are encoded, and such paths mounted
// under plain names; the command script undoes both inside.
//
// Slurm sends TERM to every process of a step, also to squashfuse, which enroot starts
// and which would take the image away from a program that still writes its results. So
// enroot and what it starts ignore TERM, and inside this program becomes the command:
// it gives signals their default meaning again.
func (b *box) enroot() ([]string, error) {
	if err := b.makeScratch(); err != nil {
		return nil, err
	}
	args, script, become := []string{}, "", "exec \"$@\"\n"
	devices := slices.IndexFunc(b.Args, func(arg string) bool { return !strings.HasPrefix(arg, "--env=") })
	b.Args = slices.Insert(slices.Clone(b.Args), max(devices, 0), b.envOptions()...) // behind what a step may set itself
	if b.Self != "" {
		b.front = []string{"/bin/sh", "-c", `trap "" TERM; exec "$@"`, "sh"}
		b.Args = append([]string{"--mount=" + b.Self + ":" + selfInside + ":none:x-create=file,bind,ro"}, b.Args...)
		become = "exec " + selfInside + " job exec --run . -- \"$@\"\n"
	}
	for i, arg := range b.Args {
		if name, ok := strings.CutPrefix(arg, "--env="); ok {
			script += b.encode(name)
		}
		if mount, ok := strings.CutPrefix(arg, "--mount="); ok && strings.ContainsAny(mount, " \t\r\n\\") {
			plain, line, err := b.plainMount(mount, i)
			if err != nil {
				return nil, err
			}
			arg, script = "--mount="+plain, script+line
		}
		args = append(args, arg)
	}
	if b.WorkDir != "" {
		script += "cd " + shell.Quote(b.WorkDir) + " || exit 126\n"
	}
	rc := filepath.Join(b.scratch, "rc")
	if err := os.WriteFile(rc, []byte(script+become), 0o644); err != nil {
		return nil, err
	}
	mount := "n"
	if b.MountHome {
		mount = "y"
	}
	b.environ = append(withoutVariables(b.environ, "ENROOT_MOUNT_HOME"), "ENROOT_MOUNT_HOME="+mount)
	return append([]string{"start", "--rc", rc}, args...), nil
}

// selfInside is where this program is in a container of enroot.
const selfInside = "/.profllm"

// encode makes a variable one that a line can hold, and returns the line of the script
// that gives it back its value; "" if it is one already. The dots around it protect
// quotes and white space from enroot, and line breaks at the end from the shell.
func (b *box) encode(name string) string {
	for i, kv := range b.environ {
		value, ok := strings.CutPrefix(kv, name+"=")
		if !ok {
			continue
		}
		if !strings.ContainsAny(value, "\n\r") && strings.Trim(value, "\"' \t") == value {
			return ""
		}
		environ := append([]string{}, b.environ...) // the caller's list is not changed
		environ[i] = name + "=." + inLine.Replace(value) + "."
		b.environ = environ
		return fmt.Sprintf("%[1]s=$(printf %%b \"$%[1]s\"); %[1]s=${%[1]s#.}; %[1]s=${%[1]s%%.}\n", name)
	}
	return ""
}

// inLine writes what the %b of printf reads: a backslash, 0 and three octal digits.
var inLine = strings.NewReplacer("\\", `\0134`, "\n", `\0012`, "\r", `\0015`)

// plainMount gives a mount, SOURCE:TARGET:REST, paths that a line can hold: a link on
// this node, and a place inside to which the script makes a link.
func (b *box) plainMount(mount string, n int) (plain, line string, err error) {
	f := strings.SplitN(mount, ":", 3)
	if len(f) != 3 {
		return "", "", fmt.Errorf("mount %q must be SOURCE:TARGET:OPTIONS", mount)
	}
	source, target := f[0], f[1]
	if strings.ContainsAny(source, " \t\r\n\\") {
		source = filepath.Join(b.scratch, fmt.Sprint("mount-", n))
		if err := os.Symlink(f[0], source); err != nil {
			return "", "", err
		}
	}
	if strings.ContainsAny(target, " \t\r\n\\") {
		target = fmt.Sprint("/.profllm-mount-", n)
		line = fmt.Sprintf("mkdir -p %s && ln -sn %s %s || exit 126\n", shell.Quote(filepath.Dir(f[1])), target,
			shell.Quote(filepath.Clean(f[1])))
	}
	return strings.Join([]string{source, target, f[2]}, ":"), line, nil
}
