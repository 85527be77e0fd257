package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/programtest"
)

// boxImage is what the image of the tests of launchers holds. Its vllm says what it
// sees: its variables as they are, and the answers to a few questions.
const boxImage = `#!/bin/sh
out=/cloudai_run_results/seen-$PROFLLM_ROLE
cat /proc/self/environ >"$out.env"
{
  echo "id=$(id -u)"
  echo "work=$(pwd)"
  mkdir -p "$HOME/.cache/engine" && echo home=writable
  [ -e "$HOME/of-the-user" ] && echo home=mounted
  echo "file=$(cat /data/file)" "spaced=$(cat '/in a/file' /in/file 2>/dev/null)"
  touch /data/new 2>/dev/null && echo data=writable
  [ -e "$HF_HUB_CACHE/models--org--m/refs/main" ] && echo model=found
} >"$out.txt" 2>&1
`

// imageVars are the variables of the image: one of each level above it, and those that
// engines look at.
const imageVars = `PATH=/bin
V_IMAGE=image
V_SITE=image
V_TEST=image
V_SHELL=image
V_SECRET=image
V_LINES=image
V_QUOTES=image
V_EMPTY=image
CUDA_VISIBLE_DEVICES=image
HF_HOME=/image/hf
HF_HUB_CACHE=/image/hf/hub
PYTHONPATH=/image/python
NVIDIA_VISIBLE_DEVICES=void
`

// values are what a test may set: each reaches the inside byte for byte.
var envValues = map[string]string{
	"V_EMPTY":  "",
	"V_SPACES": "  a  b ",
	"V_QUOTES": `"double" 'single'`,
	"V_WHOLE":  `"in quotes"`,
	"V_DOLLAR": "$HOME ${HOME} `id` $(id)",
	"V_SLASH":  `a\nb\\c\0012`,
	"V_COMMA":  "a,b=c;d|e",
	"V_LINES":  "one\nV_INJECTED=1\n three\n",
	"V_LARGE":  strings.Repeat("0123456789", 10_000),
}

// launcherCase is a launcher, and how its steps are run here.
type launcherCase struct {
	name   string
	image  string   // what docker_image_url says
	env    []string // what the runtime's client needs
	args   string   // container_args
	real   bool     // not a stand-in
	spaces bool     // a mounted path may have them
}

// seen is what a step saw.
type seen struct {
	env  map[string]string
	says string
}

type launcherLab struct {
	dir, bin, rootfs string
}

// newLauncherLab builds the programs and the image, in a folder that everybody may use.
func newLauncherLab(t *testing.T) *launcherLab {
	t.Helper()
	if testing.Short() {
		t.Skip("builds two programs, left out with -short")
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		const why = "busybox is not installed: nothing can run in the stand-ins' containers (apt-get install busybox-static)"
		require.NotEqual(t, "1", os.Getenv("PROFLLM_REQUIRE_BUSYBOX"), why)
		t.Skip(why)
	}
	dir, err := os.MkdirTemp("/tmp", "launchers-") // not below /dev, which the containers have
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	l := &launcherLab{dir, filepath.Join(dir, "bin"), filepath.Join(dir, "rootfs")}
	for _, d := range []string{l.bin, l.rootfs + "/bin", l.rootfs + "/etc", l.rootfs + "/root", l.rootfs + "/tmp",
		l.rootfs + "/proc", l.rootfs + "/dev"} {
		require.NoError(t, os.MkdirAll(d, 0o755))
	}
	_, err = programtest.Build(l.bin, os.Getenv)
	require.NoError(t, err)
	build := exec.Command("go", "build", "-o", filepath.Join(l.bin, "srun"), "../standin")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, name := range []string{"enroot", "apptainer"} {
		require.NoError(t, os.Symlink("srun", filepath.Join(l.bin, name)))
	}
	write := func(name, text string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
	}
	write("bin/sbatch", "#!/bin/sh\necho 17\n", 0o755)
	data, err := os.ReadFile(busybox)
	require.NoError(t, err)
	write("rootfs/bin/busybox", string(data), 0o755)
	for _, name := range strings.Fields("sh cat id pwd mkdir touch env ln cd test printf echo") {
		require.NoError(t, os.Symlink("busybox", filepath.Join(l.rootfs, "bin", name)))
	}
	write("rootfs/bin/vllm", boxImage, 0o755)
	write("rootfs/etc/environment", imageVars, 0o644)
	write("rootfs/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nsomebody:x:12345:12345::/home/somebody:/bin/sh\n", 0o644)
	return l
}

// run submits a test and runs its script, with what only Slurm and real servers could
// answer left out: the service is taken for ready at once.
func (l *launcherLab) run(t *testing.T, c launcherCase, uid int, mountHome bool) map[string]seen {
	t.Helper()
	work, err := os.MkdirTemp(l.dir, "work-")
	require.NoError(t, err)
	write := func(name, text string, mode os.FileMode) {
		file := filepath.Join(work, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), mode))
	}
	// A fresh site: neither install_path nor the folder of results is there.
	write("site.toml", fmt.Sprintf(`name = "site"
scheduler = "slurm"
install_path = %q
output_path = %q
hf_home_path = %q
default_partition = "main"
gpus_per_node = 2
launcher = %q
container_mount_home = %v
container_args = %q
export = ["V_SHELL"]
[[partitions]]
name = "main"
[global_env_vars]
V_SITE = "site"
V_TEST = "site"
`, work+"/install", work+"/results", work+"/hf", c.name, mountHome, c.args), 0o644)
	env := ""
	for name, value := range envValues {
		env += fmt.Sprintf("%s = %q\n", name, value)
	}
	spaced := "/in a"
	if !c.spaces {
		spaced = "/in"
	}
	write("scenario.toml", fmt.Sprintf(`name = "see"
[[Tests]]
id = "t"
test_template_name = "vllm"
extra_container_mounts = [%q, %q]
[Tests.cmd_args]
docker_image_url = %q
model = "org/m"
[Tests.cmd_args.decode]
gpu_ids = "1"
[Tests.bench_cmd_args]
num_prompts = 2
[Tests.extra_env_vars]
V_TEST = "test"
V_SECRET = { env = "THE_SECRET" }
%s`, work+"/data:/data:ro", work+map[bool]string{true: "/a b", false: "/ab"}[c.spaces]+":"+spaced, c.image, env), 0o644)
	write("data/file", "mounted", 0o644)
	write("a b/file", "yes", 0o644)
	write("ab/file", "yes", 0o644)
	write("home/of-the-user", "", 0o644)
	write("hf/hub/models--org--m/refs/main", strings.Repeat("a", 40), 0o644)
	require.NoError(t, filepath.WalkDir(work,
		func(path string, _ os.DirEntry, _ error) error { return os.Chown(path, uid, uid) }))

	// What a job is given of the shell that submits (run.Export), and the rest of it.
	given := append([]string{
		"PATH=" + l.bin + ":" + os.Getenv("PATH"), "HOME=" + work + "/home", "USER=somebody", "LANG=C.UTF-8",
		"V_SHELL=shell", "HF_HOME=/shell/hf", "PYTHONPATH=/shell/python", "CONDA_PREFIX=/shell/conda",
	}, c.env...)
	command := func(dir string, environ []string, name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, slices.Concat(given, environ)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		return cmd
	}
	submit := command(work, []string{"V_SHELL_ONLY=shell", "THE_SECRET=s3cret\nof two lines"},
		filepath.Join(l.bin, "profllm"), "slurm", "submit", "scenario.toml", "--system", "site.toml")
	out, err := submit.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "created "+work+"/install,")
	runs, err := filepath.Glob(work + "/results/*/t/0/job.sh")
	require.NoError(t, err)
	require.Len(t, runs, 1, "%s", out)
	run := filepath.Dir(runs[0])

	script, err := os.ReadFile(runs[0])
	require.NoError(t, err)
	// Programs of this machine have no GPUs to give.
	text := strings.NewReplacer("PROFLLM="+l.bin+"/profllm\n", "PROFLLM="+run+"/profllm\n", " --gpus=all ", " ",
		" --device=nvidia.com/gpu=all ", " ").Replace(string(script))
	require.NotEqual(t, string(script), text)
	require.NoError(t, os.WriteFile(runs[0], []byte(text), 0o755))
	stub := "#!/bin/sh\ncase \"$1 $2\" in\n'job env') printf 'SERVE_ADDR=127.0.0.1\\nSERVE_PORT=1\\n' >job.env ;;\n" +
		"'job exec' | 'job contain') exec " + l.bin + "/profllm \"$@\" ;;\nesac\n"
	require.NoError(t, os.WriteFile(run+"/profllm", []byte(stub), 0o755))
	require.NoError(t, os.Chown(run+"/profllm", uid, uid))
	job := command(run, []string{"SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=n1", "SLURMD_NODENAME=n1", "TMPDIR=" + work},
		"bash", runs[0])
	var said bytes.Buffer
	job.Stdout, job.Stderr = &said, &said
	err = job.Run()
	all := map[string]seen{}
	for _, role := range []string{"serve", "client"} {
		env, readErr := os.ReadFile(run + "/seen-" + role + ".env")
		logs, _ := filepath.Glob(run + "/logs/*")
		for _, log := range logs {
			data, _ := os.ReadFile(log)
			fmt.Fprintf(&said, "%s: %s\n", log, data)
		}
		require.NoError(t, readErr, "%v: %s", err, &said)
		says, readErr := os.ReadFile(run + "/seen-" + role + ".txt")
		require.NoError(t, readErr)
		s := seen{map[string]string{}, string(says)}
		for kv := range strings.SplitSeq(string(env), "\x00") {
			name, value, _ := strings.Cut(kv, "=")
			s.env[name] = value
		}
		all[role] = s
	}
	all["paths"] = seen{env: map[string]string{"work": work, "run": run}}
	return all
}

// requireSeen holds what the steps of a run saw against what the documentation says.
func requireSeen(t *testing.T, c launcherCase, all map[string]seen, uid int, mountHome bool) {
	t.Helper()
	work := all["paths"].env["work"]
	for _, role := range []string{"serve", "client"} {
		s := all[role]
		for name, want := range map[string]string{
			"V_IMAGE": "image", "V_SITE": "site", "V_TEST": "test", "V_SHELL": "shell", "V_SECRET": "s3cret\nof two lines",
			"HF_HOME": work + "/hf", "HF_HUB_CACHE": work + "/hf/hub", "PYTHONPATH": "/image/python", "PROFLLM_ROLE": role,
		} {
			require.Equal(t, want, s.env[name], "%s of %s", name, role)
		}
		for _, name := range []string{"V_SHELL_ONLY", "V_INJECTED", "CONDA_PREFIX"} {
			require.NotContains(t, s.env, name, role)
		}
		for name, want := range envValues {
			got, ok := s.env[name]
			require.True(t, ok, "%s is not set for %s", name, role)
			require.Equal(t, want, got, "%s of %s", name, role)
		}
		require.Contains(t, s.says, "home=writable\n", "engines write below their home")
		require.Equal(t, mountHome, strings.Contains(s.says, "home=mounted\n"), "%s: %s", role, s.says)
		require.Contains(t, s.says, "file=mounted spaced=yes\n", role)
		require.NotContains(t, s.says, "data=writable", role)
		require.Contains(t, s.says, "model=found\n", "engines find what is staged: %s", s.says)
		if !c.real {
			require.Contains(t, s.says, fmt.Sprintf("id=%d\n", uid), "the stand-ins map nobody")
		}
	}
	require.Equal(t, "1", all["serve"].env["CUDA_VISIBLE_DEVICES"], "the role's, not the image's")
}

// What a step sees in its container, for each launcher: who wins where image, site,
// test, role and shell set a variable, every kind of value, mounts, home, user, and
// where models are looked for.
//
// covers: PL-G1, PL-G2, PL-G6
func TestLaunchers(t *testing.T) {
	t.Parallel()
	l := newLauncherLab(t)
	users := []int{12345}
	if os.Getuid() == 0 {
		users = append(users, 0)
	} else {
		users = []int{os.Getuid()}
	}
	sqsh := filepath.Join(l.dir, "image.sqsh") // for the stand-ins a folder
	require.NoError(t, os.Symlink("rootfs", sqsh))
	for _, c := range []launcherCase{
		{name: "pyxis", image: sqsh},
		{name: "enroot", image: sqsh, spaces: true},
		{name: "apptainer", image: sqsh, spaces: true},
	} {
		for _, uid := range users {
			for _, home := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, user %d, home %v", c.name, uid, home), func(t *testing.T) {
					requireSeen(t, c, l.run(t, c, uid, home), uid, home)
				})
			}
		}
	}
}

// The same in the real runtimes that Debian has.
func TestContainersSee(t *testing.T) {
	t.Parallel()
	needRuntime(t)
	l := newLauncherLab(t)
	tarball := filepath.Join(l.dir, "rootfs.tar")
	out, err := exec.Command("tar", "-C", l.rootfs, "-cf", tarball, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, rt := range runtimes {
		t.Run(rt.name, func(t *testing.T) {
			c := launcherCase{name: rt.name, image: "localhost/profllm/see:1", env: rt.start(t),
				args: strings.Join(rt.args, " "), real: true, spaces: true}
			r := &realRuntime{program: rt.name, environ: append(os.Environ(), c.env...)}
			args := []string{"import"}
			for line := range strings.Lines(imageVars) {
				args = append(args, "--change=ENV "+strings.TrimSpace(line))
			}
			r.call(t, append(args, tarball, c.image)...)
			for _, home := range []bool{false, true} {
				t.Run(fmt.Sprintf("home %v", home),
					func(t *testing.T) { requireSeen(t, c, l.run(t, c, 0, home), 0, home) })
			}
			r.call(t, "rmi", "--force", c.image)
		})
	}
}
