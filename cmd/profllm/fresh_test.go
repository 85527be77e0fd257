package main

import (
	"fmt"
	"os"
	"os/exec"
	account "os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// freshSite is a folder on the Slurm lab that holds nothing but the program.
type freshSite struct {
	dir, binary string
	environ     []string
	as          *syscall.Credential
	node        string // the one that has the runtime, "" for all
}

func newFreshSite(t *testing.T, name string, environ []string) *freshSite {
	t.Helper()
	lab(t)
	u, err := account.Lookup(name)
	require.NoError(t, err)
	uid, err := strconv.Atoi(u.Uid)
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "fresh-") // not below a folder of the user who tests
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &freshSite{dir: dir, binary: filepath.Join(dir, "bin/profllm")}
	if os.Getuid() == 0 {
		s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	require.NoError(t, os.MkdirAll(dir+"/bin", 0o755))
	require.NoError(t, os.MkdirAll(dir+"/home", 0o755))
	// By another process: a program that this one has open for writing is inherited by what
	// other tests start at that moment, and cannot be run.
	out, err := exec.Command("cp", binary, s.binary).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, os.Chmod(s.binary, 0o755))
	for _, path := range []string{dir, dir + "/home"} {
		require.NoError(t, os.Chown(path, uid, uid))
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	s.environ = append([]string{
		"PATH=" + dir + "/bin:" + os.Getenv("PATH"), "HOME=" + dir + "/home", "USER=" + name, "SLURM_CONF=" + os.Getenv("SLURM_CONF"),
		"PROFLLM_SIM_TTFT=20ms", "PROFLLM_SIM_ITL=2ms", "PROFLLM_SIM_STARTUP=300ms",
	}, environ...)
	return s
}

func (s *freshSite) profllm(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(s.binary, args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = s.dir, s.environ, &syscall.SysProcAttr{Credential: s.as}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "profllm %s: %s", strings.Join(args, " "), out)
	t.Logf("profllm %s\n%s", strings.Join(args, " "), out)
	return string(out)
}

// launcherLine is the line of the launcher that init writes: the default, or what the site has.
var launcherLine = regexp.MustCompile(`(?m)^(# )?launcher = .*$`)

// walk goes the way of the README from init to a record, on a site where nobody has made
// a folder or fetched a model.
func (s *freshSite) walk(t *testing.T, launcher, image, containerArgs string) {
	t.Helper()
	s.profllm(t, "init", "site.toml")
	site, err := os.ReadFile(s.dir + "/site.toml")
	require.NoError(t, err)
	var export []string // the pace of the simulated engine, and what the runtime's client needs
	for _, kv := range s.environ[4:] {
		export = append(export, strconv.Quote(kv[:strings.IndexByte(kv, '=')]))
	}
	text := launcherLine.ReplaceAllLiteralString(string(site),
		fmt.Sprintf("container_args = %q\nexport = [%s]\nlauncher = %q", containerArgs, strings.Join(export, ", "),
			launcher))
	require.NotEqual(t, string(site), text)
	require.NoError(t, os.WriteFile(s.dir+"/site.toml", []byte(text), 0o644))
	tests := []string{"id = \"agg\"\nnum_nodes = 1", "[Tests.cmd_args.decode]\ngpu_ids = \"0\""}
	if s.node != "" {
		tests[0] = fmt.Sprintf("id = \"agg\"\nnodes = [%q]", s.node)
	} else {
		tests = append(tests, "id = \"disagg\"\nnum_nodes = 2", "[Tests.cmd_args.prefill]\n[Tests.cmd_args.decode]")
	}
	scenario := "name = \"fresh\"\n"
	for i := 0; i < len(tests); i += 2 {
		scenario += fmt.Sprintf(`[[Tests]]
%s
test_template_name = "vllm"
time_limit = "10m"
[Tests.cmd_args]
docker_image_url = %q
model = "Qwen/Qwen3-0.6B"
%s
[Tests.bench_cmd_args]
num_prompts = 80
max_concurrency = 8
random_input_len = 32
random_output_len = 16
`, tests[i], image, tests[i+1])
	}
	require.NoError(t, os.WriteFile(s.dir+"/scenario.toml", []byte(scenario), 0o644))
	s.profllm(t, "verify", "scenario.toml", "--system", "site.toml")
	s.profllm(t, "slurm", "dry-run", "scenario.toml", "--system", "site.toml")
	require.NoDirExists(t, s.dir+"/install", "a dry run makes nothing")
	s.profllm(t, "slurm", "submit", "scenario.toml", "--system", "site.toml", "--wait")
	s.profllm(t, "collect", "results")
	results := resultsByTest(t, s.dir)
	require.Len(t, results, len(tests)/2)
	for name, r := range results {
		require.Equal(t, result.VerdictValid, r.Validity.Verdict, "%s: %+v", name, r.Validity)
		require.Equal(t, launcher, r.Provenance.Launcher)
	}
}

// An ordinary user with the engine on the nodes.
func TestSlurmFreshSite(t *testing.T) {
	t.Parallel()
	s := newFreshSite(t, "nobody", nil)
	require.NoError(t, os.Symlink("profllm", s.dir+"/bin/vllm"))
	s.walk(t, "bare", "", "")
}

// The real runtimes that Debian has, with the simulated engine in the image. What
// hands them GPUs is played: it hands over none.
func TestContainersFreshSite(t *testing.T) {
	needRuntime(t)
	hook := t.TempDir()
	require.NoError(t, os.WriteFile(hook+"/nvidia-container-runtime-hook", []byte("#!/bin/sh\n"), 0o755))
	t.Setenv("PATH", hook+":"+os.Getenv("PATH"))
	const cdi = "/var/run/cdi/profllm-test.yaml"
	require.NoError(t, os.MkdirAll(filepath.Dir(cdi), 0o755))
	require.NoError(t, os.WriteFile(cdi,
		[]byte("cdiVersion: \"0.5.0\"\nkind: nvidia.com/gpu\ndevices:\n- name: all\n  containerEdits:\n    env: [\"PLAYED=gpu\"]\n"), 0o644))
	t.Cleanup(func() { os.Remove(cdi) })
	rootfs := imageTar(t, binary, "vllm")
	for _, rt := range runtimes {
		t.Run(rt.name, func(t *testing.T) {
			lab(t)
			node, start := "", rt.start
			if rt.name == "docker" { // its daemon is one node's
				node = "node1"
				start = func(t *testing.T) []string { return startDockerBehind(t, "nsenter", "--net=/run/netns/"+node) }
			}
			environ := start(t)
			r := &realRuntime{program: rt.name, environ: append(os.Environ(), environ...)}
			r.call(t, "import", "--change=ENV PATH=/bin", rootfs, "localhost/profllm/engine:1")
			s := newFreshSite(t, "root", environ)
			s.node = node
			s.walk(t, rt.name, "localhost/profllm/engine:1", strings.Join(rt.args, " "))
			require.DirExists(t, s.dir+"/install/huggingface")
			r.nothingLeft(t)
			r.call(t, "rmi", "--force", "localhost/profllm/engine:1")
		})
	}
}
