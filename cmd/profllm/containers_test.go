package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/container"
	"github.com/profllm/profllm/pkg/plan"

	"github.com/profllm/profllm/pkg/launcher/docker"
	"github.com/profllm/profllm/pkg/launcher/podman"
)

// runtimes are the container runtimes that Debian packages: they are really run.
// Apptainer, enroot and pyxis are checked by their arguments and by stand-ins only.
var runtimes = []struct {
	name  string
	new   func() plan.Launcher
	start func(t *testing.T) []string // environment that its client needs
	args  []string                    // what a machine without CAP_SYS_RESOURCE and with the first cgroups needs
}{
	{"podman", podman.New, startPodman, []string{"--cgroups=enabled"}},
	{"docker", docker.New, startDocker, []string{"--ulimit=memlock=8192:8192"}},
}

// needRuntime skips where a runtime is not asked for; asked for, it must be there.
func needRuntime(t *testing.T, names ...string) {
	t.Helper()
	if os.Getenv("PROFLLM_REQUIRE_CONTAINERS") != "1" {
		t.Skip("real container runtimes are run only with PROFLLM_REQUIRE_CONTAINERS=1 (.ci/test-containers)")
	}
	for _, name := range names {
		_, err := exec.LookPath(name)
		require.NoError(t, err)
	}
	require.Zero(t, os.Getuid(), "the runtimes are set up for root here")
}

// startPodman gives podman a store of its own.
func startPodman(t *testing.T) []string {
	needRuntime(t, "podman", "runc", "catatonit")
	dir := t.TempDir()
	storage, conf := filepath.Join(dir, "storage.conf"), filepath.Join(dir, "containers.conf")
	require.NoError(t, os.WriteFile(storage,
		[]byte(fmt.Sprintf("[storage]\ndriver = \"vfs\"\ngraphroot = %q\nrunroot = %q\n", dir+"/graph", dir+"/run")),
		0o644))
	require.NoError(t, os.WriteFile(conf,
		[]byte("[engine]\ncgroup_manager = \"cgroupfs\"\nruntime = \"runc\"\nevents_logger = \"file\"\n"+
			"[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n"), 0o644))
	return []string{"CONTAINERS_STORAGE_CONF=" + storage, "CONTAINERS_CONF=" + conf}
}

// startDocker runs a daemon of its own until the test ends.
func startDocker(t *testing.T) []string { return startDockerBehind(t) }

// startDockerBehind runs it behind a command, such as nsenter: the network that its
// containers take for the host's is the daemon's.
func startDockerBehind(t *testing.T, front ...string) []string {
	needRuntime(t, "docker", "dockerd", "containerd", "docker-init")
	dir, err := os.MkdirTemp("", "dockerd-") // a socket's path must be short
	require.NoError(t, err)
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	socket := filepath.Join(dir, "sock")
	argv := append(front, "dockerd", "--data-root", dir+"/data", "--exec-root", dir+"/exec", "--pidfile", dir+"/pid",
		"--host", "unix://"+socket,
		"--storage-driver=vfs", "--iptables=false", "--ip6tables=false", "--bridge=none")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait()
		_ = syscall.Unmount(dir+"/exec/netns/default", 0) // host networking leaves it
		require.NoError(t, os.RemoveAll(dir))
	})
	await.File(t, socket)
	return []string{"DOCKER_HOST=unix://" + socket}
}

// imageTar is the file system of an image that holds one static program under a name.
func imageTar(t *testing.T, binary, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image.tar")
	f, err := os.Create(file)
	require.NoError(t, err)
	w := tar.NewWriter(f)
	for _, d := range []string{"tmp/", "root/", "bin/"} {
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: 0o1777}))
	}
	program, err := os.Open(binary)
	require.NoError(t, err)
	st, err := program.Stat()
	require.NoError(t, err)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "bin/" + name, Mode: 0o755, Size: st.Size()}))
	_, err = io.Copy(w, program)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
	return file
}

// boxSource is the command in the image: it says what it sees, and either ends,
// waits for TERM, or ignores it.
const boxSource = `package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	wd, _ := os.Getwd()
	fmt.Println("pid", os.Getpid(), "in", wd)
	fmt.Printf("args %q\n", os.Args[2:])
	for _, kv := range os.Environ() {
		fmt.Println("env", kv)
	}
	for _, file := range os.Args[2:] {
		data, err := os.ReadFile(file)
		fmt.Printf("read %s: %q %v\n", file, data, err)
	}
	fmt.Println("write read-only:", os.WriteFile("/input/new", nil, 0o644) == nil)
	switch os.Args[1] {
	case "exit":
		os.Exit(7)
	case "term":
		c := make(chan os.Signal, 8)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Println("waiting")
		fmt.Println("got", <-c, os.WriteFile("flushed", []byte("yes"), 0o644))
	case "ignore":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("waiting")
		time.Sleep(time.Hour)
	}
}
`

// odd are arguments that a shell would change: each reaches the command in its container as it is.
var odd = []string{"it's", `{"profiler": "torch", "dir": "a b"}`, "$HOME $(id)", "", `a\b`, "--x=1;2"}

// covers: PL-G14, PL-G15, CTR-12
func TestContainers(t *testing.T) {
	needRuntime(t)
	work := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(work, "main.go"), []byte(boxSource), 0o644))
	box := filepath.Join(work, "box")
	build := exec.Command("go", "build", "-o", box, filepath.Join(work, "main.go"))
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	rootfs := imageTar(t, box, "box")
	for _, rt := range runtimes {
		t.Run(rt.name, func(t *testing.T) {
			r := &realRuntime{program: rt.name, profllm: binary, environ: append(os.Environ(), rt.start(t)...)}
			r.call(t, "import", rootfs, "localhost/profllm/box:1")
			r.launcher, r.args = rt.new(), rt.args
			t.Run("from the store", func(t *testing.T) { r.steps(t, "localhost#profllm/box:1") })
			t.Run("in a Slurm step", func(t *testing.T) { r.slurmStep(t, "localhost/profllm/box:1") })
			archive := filepath.Join(t.TempDir(), "box.tar")
			r.call(t, "save", "-o", archive, "localhost/profllm/box:1")
			_, _, err := container.CheckFile(archive)
			require.NoError(t, err)
			r.call(t, "rmi", "localhost/profllm/box:1")
			t.Run("from an archive", func(t *testing.T) { r.archives(t, archive, rootfs) })
		})
	}
}

type realRuntime struct {
	program, profllm string
	environ, args    []string
	launcher         plan.Launcher
}

func (r *realRuntime) call(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(r.program, args...)
	cmd.Env = r.environ
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s: %s", r.program, strings.Join(args, " "), out)
	return string(out)
}

// step wraps a step as a plan does and returns the command that a task would run.
func (r *realRuntime) step(t *testing.T, image, how string) (*exec.Cmd, string) {
	t.Helper()
	run, input := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(input, "file"), []byte("mounted"), 0o644))
	s := plan.Step{Name: "serve", Container: true,
		Argv: plan.Texts(append([]string{"/bin/box", how, "/input/file", "/etc/hostname", r.profllm}, odd...)...), Env: []plan.Var{
			{Name: "PROFLLM_ROLE", Value: plan.Text("serve $(x) 'y'")}, {Name: "VLLM_HOST_IP", Value: plan.Text("10.0.0.1")},
		}}
	s, err := r.launcher.Wrap(s, plan.Container{
		Image: image, Mounts: []string{run + ":" + run, input + ":/input:ro"}, Binary: r.profllm, Dir: run,
		Env: []string{"HF_TOKEN", "NOT_SET"}, Args: r.args,
	})
	require.NoError(t, err)
	argv := []string{r.profllm}
	for _, w := range s.Argv[1:] {
		text, ok := w.Literal()
		require.True(t, ok)
		argv = append(argv, text)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(append([]string(nil), r.environ...), "HF_TOKEN=hf_secret", "LEAK=host", "PYTHONPATH=/host",
		"SLURM_JOB_ID=4711", "SLURM_STEP_ID=3", "SLURM_PROCID=2")
	for _, v := range s.Env {
		text, _ := v.Value.Literal()
		cmd.Env = append(cmd.Env, v.Name+"="+text)
	}
	require.NotContains(t, strings.Join(argv, " "), "hf_secret", "a secret's value is on no command line")
	return cmd, run
}

func (r *realRuntime) steps(t *testing.T, image string) {
	r.exits(t, image)
	t.Run("TERM reaches the command", func(t *testing.T) {
		cmd, run := r.step(t, image, "term")
		out, code := r.interrupt(t, cmd)
		require.Contains(t, out, "got terminated <nil>")
		require.Zero(t, code, out)
		flushed, err := os.ReadFile(filepath.Join(run, "flushed"))
		require.NoError(t, err, "it could write where it started: the run directory")
		require.Equal(t, "yes", string(flushed))
		r.nothingLeft(t)
	})
	t.Run("what ignores TERM is killed before Slurm would", func(t *testing.T) {
		cmd, _ := r.step(t, image, "ignore")
		out, code := r.interrupt(t, cmd)
		require.NotZero(t, code)
		require.Contains(t, out, "container profllm-4711-3-serve-2 outlived TERM")
		r.nothingLeft(t)
	})
}

// slurmStep is a step of a real job: scancel's TERM goes to all of its processes.
func (r *realRuntime) slurmStep(t *testing.T, image string) {
	if exec.Command("sinfo", "-h").Run() != nil {
		if os.Getenv("PROFLLM_REQUIRE_SLURM") == "1" {
			t.Fatal("no Slurm answers")
		}
		t.Skip("no Slurm answers")
	}
	cmd, run := r.step(t, image, "term")
	name := "containers-" + r.program + fmt.Sprint(os.Getpid())
	srun := exec.Command("srun",
		append([]string{"--nodes=1", "--ntasks=1", "--time=2", "--export=ALL", "--mpi=none", "--job-name=" + name},
			cmd.Args...)...)
	for _, kv := range cmd.Env {
		if !strings.HasPrefix(kv, "SLURM_") || strings.HasPrefix(kv, "SLURM_CONF=") {
			srun.Env = append(srun.Env, kv)
		}
	}
	var out lockedBuffer
	srun.Stdout, srun.Stderr = &out, &out
	require.NoError(t, srun.Start())
	await.True(t, func() bool { return strings.Contains(out.String(), "waiting") }, "the container's program waits")
	id, err := exec.Command("squeue", "-h", "-n", name, "-o", "%i").Output()
	require.NoError(t, err)
	step := strings.TrimSpace(string(id)) + ".0"
	require.Equal(t, "profllm-"+strings.ReplaceAll(step, ".", "-")+"-serve-0\n",
		r.call(t, "ps", "--format", "{{.Names}}"))
	require.NoError(t, exec.Command("scancel", "--signal=TERM", step).Run())
	_ = srun.Wait()
	require.Contains(t, out.String(), "got terminated <nil>")
	require.FileExists(t, filepath.Join(run, "flushed"))
	r.nothingLeft(t)
}

func (r *realRuntime) exits(t *testing.T, image string) string {
	t.Helper()
	cmd, run := r.step(t, image, "exit")
	data, err := cmd.CombinedOutput()
	out := string(data)
	require.Error(t, err, out)
	require.Equal(t, 7, cmd.ProcessState.ExitCode(), "the command's own exit code: %s", out)
	require.Contains(t, out, "in "+run)
	for _, kv := range []string{"HF_TOKEN=hf_secret", "PROFLLM_ROLE=serve $(x) 'y'", "VLLM_HOST_IP=10.0.0.1",
		"SLURM_JOB_ID=4711", "SLURM_PROCID=2"} {
		require.Contains(t, out, "env "+kv+"\n")
	}
	for _, name := range []string{"LEAK", "PYTHONPATH", "NOT_SET"} {
		require.NotContains(t, out, "env "+name+"=")
	}
	require.Contains(t, out, `read /input/file: "mounted" <nil>`)
	require.Contains(t, out, fmt.Sprintf("args %q\n", append([]string{"/input/file", "/etc/hostname", r.profllm}, odd...)))
	require.Contains(t, out, "write read-only: false")
	require.Contains(t, out, "read "+r.profllm+": \"\" open", "a step that does not run profllm does not see it")
	r.nothingLeft(t)
	return out
}

// archives runs an image from its archive, which the node loads once, and again after it was
// rebuilt with the same tag.
func (r *realRuntime) archives(t *testing.T, archive, rootfs string) {
	const tag = "localhost/profllm/box:1"
	zip := func() string {
		out, err := exec.Command("gzip", "-kf", archive).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return archive + ".gz"
	}
	require.Contains(t, r.exits(t, archive), "loading image "+tag)
	require.Contains(t, r.exits(t, archive), "is in this node's store: sha256:")
	require.Contains(t, r.exits(t, zip()), "is in this node's store: sha256:")

	r.call(t, "import", "--change=ENV REBUILT=1", rootfs, tag)
	require.NoError(t, os.Remove(archive))
	r.call(t, "save", "-o", archive, tag)
	r.call(t, "rmi", tag)
	out := r.exits(t, zip())
	require.Contains(t, out, "loading image "+tag)
	require.Contains(t, out, "env REBUILT=1\n")
	r.call(t, "rmi", "--force", tag)
}

// interrupt starts a command, sends TERM once it waits, and returns what it said.
func (r *realRuntime) interrupt(t *testing.T, cmd *exec.Cmd) (string, int) {
	t.Helper()
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	await.True(t, func() bool { return strings.Contains(out.String(), "waiting") },
		"the command waits; it has said: %s", &out)
	// Docker passes output on before it says that the container runs.
	await.True(t, func() bool { return r.call(t, "ps", "--format", "{{.Names}}") == "profllm-4711-3-serve-2\n" },
		"the name carries the job")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	return out.String(), cmd.ProcessState.ExitCode()
}

// lockedBuffer is written by a command while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (r *realRuntime) nothingLeft(t *testing.T) {
	t.Helper()
	require.Empty(t, strings.TrimSpace(r.call(t, "ps", "--all", "--quiet")), "no container is left")
	left, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range left {
		data, _ := os.ReadFile(file)
		require.False(t, bytes.HasPrefix(data, []byte("/bin/box\x00")), "%s is still running", file)
	}
}
