package job

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// The caches of what engines compile are a folder for each user, image and hardware
// on the node itself; what the job has set already stays.
//
// covers: PL-G18
func TestCompileCache(t *testing.T) {
	root := filepath.Join(t.TempDir(), "cache")
	j := newJob(t)
	j.plan.CompileCache = &plan.CompileCache{Root: root, Key: "sha256_1"}
	j.save(t)
	require.NoError(t, j.Node(t.Context()))
	require.Contains(t, j.stdout.String(), " hardware="+runtime.GOARCH)
	own := fmt.Sprintf("%s/u%d", root, os.Getuid())
	for dir, mode := range map[string]fs.FileMode{root: 0o777 | fs.ModeSticky, own: 0o700} {
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode()&^fs.ModeDir, dir)
	}
	require.NoError(t, j.Node(t.Context()), "again, as the next job does")

	for name, c := range map[string]struct{ lines, hardware string }{
		"alike":       {"node n1 10.0.0.1 hardware=arm64-NVIDIA_GH200\nnode n2 10.0.0.2 7 hardware=arm64-NVIDIA_GH200\n", "arm64-NVIDIA_GH200"},
		"mixed":       {"node n1 10.0.0.1 hardware=amd64-B\nnode n2 10.0.0.2 hardware=amd64-A\n", "amd64-A+amd64-B"},
		"no hardware": {"node n1 10.0.0.1 hardware=$(reboot)\nnode n2 10.0.0.2\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, j.Place(t.Context(), strings.NewReader(c.lines), time.Time{}))
			cmd := exec.Command("bash", "-c", ". ./job.env && env")
			cmd.Dir, cmd.Env = j.Dir, []string{"PATH=" + os.Getenv("PATH"), "TRITON_CACHE_DIR=/mine"}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			dir := filepath.Join(own, "sha256_1", c.hardware)
			require.Contains(t, string(out), "VLLM_CACHE_ROOT="+dir+"/vllm\n")
			require.Contains(t, string(out), "SGLANG_DG_CACHE_DIR="+dir+"/deep_gemm\n")
			require.Contains(t, string(out), "TRITON_CACHE_DIR=/mine\n")
		})
	}
}

// covers: PL-G18
func TestCompileCacheRefusals(t *testing.T) {
	require.ErrorContains(t, makeCache(filepath.Join(t.TempDir(), "a", "b")), "no such file")

	root := t.TempDir()
	require.NoError(t, os.Symlink(t.TempDir(), ownCache(root)))
	require.ErrorContains(t, makeCache(root), "is no folder in which user", "somebody's link elsewhere")

	if os.Getuid() == 0 { // who made the root can rename what is in it
		root = t.TempDir()
		require.NoError(t, os.Chmod(root, 0o777|fs.ModeSticky))
		require.NoError(t, os.Chown(root, 12345, -1))
		require.ErrorContains(t, makeCache(root), "a folder of user 12345")
	}

	require.ErrorContains(t, notShared("/home/x", 0x6969), "compile_cache: /home/x is on NFS")
	require.ErrorContains(t, notShared("/home/x", -0xacb2be), "is on CIFS", "as a signed number of 32 bits: 0xff534d42")
	require.NoError(t, notShared("/tmp/x", 0xef53))
}

func TestHardware(t *testing.T) {
	proc := fstest.MapFS{}
	require.Equal(t, runtime.GOARCH, hardware(proc), "no driver")
	for i, model := range []string{"NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3"} {
		proc[fmt.Sprintf("driver/nvidia/gpus/0000:%02d:00.0/information",
			i)] = &fstest.MapFile{Data: []byte("Model: \t\t " + model + "\nIRQ:   \t\t 1\n")}
	}
	name := hardware(proc)
	require.Equal(t, runtime.GOARCH+"-NVIDIA_A100_SXM4_40GB-NVIDIA_H100_80GB_HBM3", name)
	require.Regexp(t, hardwareName, name)
}
