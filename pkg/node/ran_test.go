package node

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/gpu"
)

const snapshotID = "0123456789abcdef0123456789abcdef01234567"

// tree writes files below a folder that stands for a machine, or for its /proc.
func tree(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
}

// processFiles are those that /proc has of a process of a step.
func processFiles(pid int, environ, maps string) map[string]string {
	dir := strconv.Itoa(pid) + "/"
	return map[string]string{
		dir + "stat":    strconv.Itoa(pid) + " (python3) S 1 0 0",
		dir + "environ": strings.ReplaceAll(environ, " ", "\x00"), dir + "cmdline": "x", dir + "maps": maps,
	}
}

const libraries = `7f0000000000-7f0000001000 r-xp 00000000 08:01 123 /usr/lib/x86_64-linux-gnu/libc.so.6
7f0000002000-7f0000003000 r-xp 00000000 08:01 124                        /opt/venv/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so
7f0000004000-7f0000005000 r-xp 00000000 08:01 125                        /opt/venv/lib/python3.12/site-packages/torch/lib/libtorch.so
7f0000006000-7f0000007000 rw-p 00000000 00:00 0                          [heap]
`

// The server in a container is found among its wrappers, with what its image holds;
// secrets stay where they are.
//
// covers: PL-V25
func TestLookAtSteps(t *testing.T) {
	proc := t.TempDir()
	const slurm = "SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURMD_NODENAME=n1 SLURM_JOB_NAME="
	tree(t, proc, processFiles(100, slurm+"serve PATH=/bin VLLM_USE_V1=1", ""))
	tree(t, proc, processFiles(101,
		slurm+"serve VLLM_USE_V1=1 NCCL_DEBUG=INFO VLLM_API_KEY=abc NCCL_NOTE=hf_AbCdEfGhIjKl HF_TOKEN=x USER=u HF_HOME=/hf TOKENIZERS_PARALLELISM=false", libraries))
	tree(t, proc, processFiles(102,
		slurm+"serve VLLM_USE_V1=1 NCCL_DEBUG=INFO CUDA_VISIBLE_DEVICES=3 OMP_NUM_THREADS=1 UCX_TLS=rc RAY_REDIS_PWD=abc VLLM_TOKEN_2=abc", ""))
	tree(t, proc, processFiles(103, slurm+"proxy OMP_NUM_THREADS=2", ""))
	tree(t, proc, processFiles(104, "SLURM_JOB_ID=8 SLURM_STEP_ID=1 SLURM_JOB_NAME=serve VLLM_X=other", libraries))
	tree(t, proc, processFiles(105, strings.Replace(slurm, "n1", "n2", 1)+"serve VLLM_X=other", libraries))
	packages := filepath.Join("101/root/opt/venv/lib/python3.12/site-packages")
	tree(t, proc, map[string]string{
		packages + "/vllm-0.11.0+cu128.dist-info/METADATA": "", packages + "/torch-2.8.0.dist-info/METADATA": "",
		packages + "/flashinfer_python-0.3.1.dist-info/METADATA": "",
		packages + "/requests-2.0.dist-info/METADATA":            "", packages + "/vllm/__init__.py": "",
		"101/root/hf/hub/models--org--m/refs/main": snapshotID, "101/root/hf/hub/models--org--m/snapshots/" + snapshotID + "/tokenizer.json": "{}",
	})
	got := LookAtSteps(proc, "7", "n1", []Served{{Step: "serve", Model: "org/m"}, {Step: "proxy"}, {Step: "none"}})
	require.Equal(t, []Ran{
		{"serve", Variable, "HF_HOME", "/hf"}, {"serve", Variable, "NCCL_DEBUG", "INFO"}, {"serve", Variable, "TOKENIZERS_PARALLELISM", "false"}, {"serve", Variable, "VLLM_USE_V1", "1"},
		{"serve", Package, "flashinfer-python", "0.3.1"}, {"serve", Package, "torch", "2.8.0"}, {"serve", Package, "vllm", "0.11.0+cu128"},
		{"serve", Revision, "org/m", snapshotID},
		{"serve", Tokenizer, "org/m", "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"},
		{"proxy", Variable, "OMP_NUM_THREADS", "2"},
	}, got)
	require.Empty(t, LookAtSteps(t.TempDir(), "7", "n1", []Served{{Step: "serve"}}))

	var b bytes.Buffer
	require.NoError(t, WriteRan(&b, "n1", got))
	var lines Lines
	for line := range bytes.Lines(b.Bytes()) {
		require.Less(t, len(line), 1024, "srun keeps it whole")
		lines.Add(line)
	}
	require.Equal(t, got, lines.Reports["n1"].Ran)
}

// Python's libraries are not mapped yet, or the engine is no Python: the process that
// was given most stands for the step.
func TestLookAtStepsWithoutPackages(t *testing.T) {
	proc := t.TempDir()
	const slurm = "SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_JOB_NAME=serve"
	tree(t, proc, processFiles(11, slurm, ""))
	tree(t, proc, processFiles(12, slurm+" VLLM_A=1 VLLM_B="+strings.Repeat("x", 1000), ""))
	got := LookAtSteps(proc, "7", "n1", []Served{{Step: "serve", Model: "org/m"}})
	require.Len(t, got, 2)
	require.Equal(t, Ran{"serve", Variable, "VLLM_A", "1"}, got[0])
	require.Len(t, got[1].Value, longest+len(" …"))
}

func TestMachine(t *testing.T) {
	root := t.TempDir()
	tree(t, root, map[string]string{
		"proc/sys/kernel/osrelease": "6.8.0-1\n", "etc/os-release": "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\n",
		"proc/meminfo": "MemTotal:       131072000 kB\nMemFree: 1 kB\n", "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 9654\n\nprocessor\t: 1\nmodel name\t: AMD EPYC 9654\n",
		"sys/devices/system/node/node0/x": "", "sys/devices/system/node/node1/x": "", "sys/devices/system/node/online": "0-1",
	})
	want := &Machine{Kernel: "6.8.0-1", OS: "Ubuntu 24.04.1 LTS", CPU: "AMD EPYC 9654", CPUs: 2, NUMA: 2,
		Memory: 131072000 << 10}
	require.Equal(t, want, machine(root))
	require.Equal(t, &Machine{}, machine(t.TempDir()))

	name, n := processors(strings.NewReader("processor : 0\nCPU implementer : 0x41\nCPU part : 0xd4f\nprocessor : 1\nCPU implementer : 0x41\nCPU part : 0xd4f\n"))
	require.Equal(t, "ARM implementer 0x41, part 0xd4f", name)
	require.Equal(t, 2, n)

	report := Report{Host: "n1", Is: want,
		GPUs: []gpu.Device{{Name: "H100", Setup: &gpu.Setup{CUDA: "12.4", PowerLimit: 700}}}}
	var b bytes.Buffer
	require.NoError(t, report.Write(&b))
	var lines Lines
	for line := range bytes.Lines(b.Bytes()) {
		lines.Add(line)
	}
	require.Equal(t, &report, lines.Reports["n1"])
}

func TestTelling(t *testing.T) {
	for name, want := range map[string]bool{
		"VLLM_USE_V1=1": true, "NCCL_IB_HCA=mlx5": true, "OMP_NUM_THREADS=8": true, "HF_HUB_OFFLINE=1": true, "TORCHINDUCTOR_CACHE_DIR=/x": true, "LD_PRELOAD=/x.so": true,
		"VLLM_API_KEY=1234": false, "RAY_AUTH_MODE=x": false, "HF_TOKEN=x": false, "AWS_SECRET_ACCESS_KEY=x": false, "PATH=/bin": false, "SGLANG_PASSWORD=x": false, "RAY_REDIS_PWD=x": false, "VLLM_TOKEN_2=x": false,
		"VLLM_API_KEY_FILE=/x": false, "SGLANG_COOKIE=x": false, "DYN_CREDENTIALS_DIR=/x": false, "VLLM_TOKENIZER_POOL=4": true, "RAY_TLS_SERVER_KEY=x": false, "SGLANG_TOKENS=x,y": false, "VLLM_MAX_TOKENS_PER_EXPERT=65536": true, "NCCL_KEYFRAMES=1": true,
		"NCCL_X=https://u:passw0rd@h": false, "LD_PRELOAD=hf_AbCdEfGhIjKl": false,
	} {
		name, value, _ := strings.Cut(name, "=")
		require.Equal(t, want, telling(name, value), name)
	}
}

func FuzzProcess(f *testing.F) {
	f.Add([]byte(libraries), "vllm-0.11.0.dist-info")
	f.Add([]byte("x /a/../site-packages/b\n/dist-packages/"), "-.dist-info")
	f.Fuzz(func(t *testing.T, maps []byte, folder string) {
		for _, dir := range sitePackages(bytes.NewReader(maps)) {
			require.Equal(t, filepath.Clean(dir), dir)
			require.True(t, filepath.IsAbs(dir))
			require.True(t, slices.Contains([]string{"site-packages", "dist-packages"}, filepath.Base(dir)))
		}
		if name, version, ok := distInfo(folder); ok {
			require.NotEmpty(t, version)
			require.Equal(t, strings.ToLower(name), name)
			require.NotContains(t, name+version, "\n")
		}
		name, n := processors(bytes.NewReader(maps))
		require.LessOrEqual(t, len(name), longest+len(" …"))
		require.GreaterOrEqual(t, n, 0)
	})
}
