package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/node"
)

// TestMain lets the test binary be the command that prints a probe.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "probe-node" {
		if err := Look(context.Background(), os.Args[3], os.Getenv, reader(), "test", time.Now()).
			Write(os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// reader is the profllm-nvml of the cluster's folder of programs, else none.
func reader() gpu.Reader {
	path, err := exec.LookPath(gpu.Program)
	if err != nil {
		path = "/nowhere/" + gpu.Program
	}
	return gpu.Reader{NVML: path}
}

// cluster is a folder of programs that act as a Slurm in good health: sbatch runs
// the job at once, srun its step here.
type cluster struct {
	t   *testing.T
	bin string
	d   *Doctor
	log []string
}

// healthy is what each program does; $bin is their folder.
var healthy = map[string]string{
	"sinfo": `case "$*" in
--version) echo "slurm-wlm 23.11.4";;
*) printf '%s\n' 'gpu*|up|6|idle|gpu:h100:8(S:0-1)' 'gpu*|up|2|mixed-|gpu:h100:8(S:0-1)' 'cpu|up|4|allocated|(null)';;
esac`,
	"scontrol": `case "$*" in
ping) echo "Slurmctld(primary) at ctl1 is UP";;
"show partition"*) echo "PartitionName=gpu AllowGroups=ALL OverSubscribe=EXCLUSIVE State=UP";;
*) printf '%s\n' 'Configuration data as of 2026-11-20T03:00:00' 'AccountingStorageType   = accounting_storage/slurmdbd' 'GresTypes               = gpu' \
  'KillWait                = 30 sec' 'MaxArraySize            = 1001' 'MinJobAge               = 300 sec' 'ProctrackType           = proctrack/cgroup' \
  'PropagateResourceLimits = NONE' 'SelectType              = select/cons_tres' 'SelectTypeParameters    = CR_CORE_MEMORY';;
esac`,
	"squeue":     `case "$*" in *" -j "*) ;; *) echo "1|RUNNING";; esac`,
	"sacct":      `echo 1`,
	"scancel":    `echo "$@" >> "$bin/cancelled"`,
	"srun":       `if [ "$1" = --help ]; then echo "      --container-image=[USER@]..."; else while [[ $1 = --* ]]; do shift; done; exec "$@"; fi`,
	"sbatch":     `for a in "$@"; do echo "$a" >> "$bin/sbatch-args"; case "$a" in --chdir=*) cd "${a#--chdir=}";; esac; done; while [[ $1 = --* ]]; do shift; done; "$@"; echo "site banner"; echo 77`,
	"nvidia-smi": `case $1 in --query-gpu=*) for i in 0 1; do echo "$i, GPU-$i, NVIDIA H100, 580.95.05, 81559, 4"; done;; esac`,
	"enroot":     ``,
	"profllm-nvml": `[ "$*" = list ] || exit 2
echo '{"profllm_nvml":1,"nvml":"13.580.95.05","driver":"580.95.05","gpus":2}'
for i in 0 1; do echo "{\"index\":$i,\"uuid\":\"GPU-$i\",\"name\":\"NVIDIA H100\",\"memory\":85520809984,\"memory_used\":4194304}"; done`,
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, bin: t.TempDir()}
	for name, text := range healthy {
		c.program(name, text)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	gpus := true
	c.d = &Doctor{
		Environ: []string{"PATH=" + c.bin + ":/usr/bin:/bin", "SBATCH_PARTITION=cpu", "TMPDIR=/tmp"},
		System: &config.System{
			DefaultPartition: "gpu", GPUsPerNode: 8, SupportsGPUDirectives: &gpus, Launcher: "pyxis", Account: "lab",
			InstallPath:   t.TempDir(),
			ExtraSrunArgs: config.Words{"--propagate=NONE"}, ExtraSbatchArgs: []string{"--comment='a b'"},
		},
		Dir: filepath.Join(t.TempDir(), "results", "not yet"), Self: []string{self, "probe-node"},
		Node: []string{self, "probe-node"}, Job: true, Now: time.Now,
		Log:    func(format string, args ...any) { c.log = append(c.log, fmt.Sprintf(format, args...)) },
		limits: limits{10 * time.Second, 300 * time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond},
	}
	return c
}

// program replaces what a program does; its environment must be clean.
func (c *cluster) program(name, text string) {
	c.t.Helper()
	head := fmt.Sprintf("#!/bin/bash\nbin=%q\n[ -z \"$SBATCH_PARTITION\" ] || { echo dirty >&2; exit 9; }\n", c.bin)
	// No other test may start a process meanwhile, which would hold the file open for
	// writing: then nobody can start it (ETXTBSY, golang/go issue 22315).
	syscall.ForkLock.RLock()
	err := os.WriteFile(filepath.Join(c.bin, name), []byte(head+text+"\n"), 0o755)
	syscall.ForkLock.RUnlock()
	require.NoError(c.t, err)
}

func (c *cluster) setting(key, value string) {
	c.program("scontrol", fmt.Sprintf(`if [ "$*" = "show config" ]; then printf '%%s\n' 'KillWait = 30 sec' 'MaxArraySize = 1001' 'MinJobAge = 300 sec' 'GresTypes = gpu' \
	 'ProctrackType = proctrack/cgroup' 'SelectType = select/cons_tres' 'AccountingStorageType = accounting_storage/none' '%s = %s'; exit; fi
%s`, key, value, healthy["scontrol"]))
}

func (c *cluster) run() map[string]Check {
	c.t.Helper()
	r := c.d.Run(c.t.Context())
	checks := map[string]Check{}
	for _, x := range r.Checks {
		require.NotContains(c.t, checks, x.Name, "said twice")
		require.NotEmpty(c.t, x.Seen, x.Name)
		if x.Status == Bad || x.Status == Warn {
			require.NotEmpty(c.t, x.Do, "%s: %s, and no mend", x.Name, x.Seen)
		}
		checks[x.Name] = x
	}
	return checks
}

// recorded makes the probe of this machine one that was made before, since a test
// binary is slow to start.
func (c *cluster) recorded() {
	var b strings.Builder
	env := func(name string) string { return map[string]string{"TMPDIR": "/tmp"}[name] }
	require.NoError(c.t, Look(c.t.Context(), c.d.Dir, env, reader(), "test", time.Now()).Write(&b))
	require.NoError(c.t, os.WriteFile(filepath.Join(c.bin, "probe.json"), []byte(b.String()), 0o644))
	c.program("self", `cat "$bin/probe.json"`)
	c.d.Self = []string{filepath.Join(c.bin, "self")}
}

func (c *cluster) read(name string) string {
	data, _ := os.ReadFile(filepath.Join(c.bin, name))
	return string(data)
}

// What depends on the machine that runs the tests may be a warning.
var ofThisMachine = []string{
	"node: /dev/shm", "node: locked memory", "node: ports", "node: temporary folder", "space for results", "space for images",
}

// covers: PL-S28, PL-G5, PL-G11, PL-G12, PL-G15
func TestHealthyCluster(t *testing.T) {
	c := newCluster(t)
	checks := c.run()
	for name, x := range checks {
		if !slices.Contains(ofThisMachine, name) {
			require.Equal(t, OK, x.Status, "%s: %s", name, x.Seen)
		}
	}
	for _, name := range append(ofThisMachine, "a job", "node: profllm runs", "node: output folder", "node: clock",
		"node: GPUs", "accounting", "controller", "containers") {
		require.Contains(t, checks, name)
	}
	require.Equal(t, "8 of 8 nodes usable", checks["partition gpu"].Seen)
	require.Equal(t, "2 x NVIDIA H100, 580.95.05, 79 GiB", checks["node: GPUs"].Seen)
	require.Equal(t, "nvml 13.580.95.05", checks["node: GPU reader"].Seen)
	require.Equal(t, "nvml 13.580.95.05", checks["GPU reader"].Seen)
	require.Equal(t, []string{"job 77 checks a node"}, c.log)
	args := c.read("sbatch-args")
	for _, want := range []string{"--partition=gpu\n", "--account=lab\n", "--gres=gpu:1\n", "--time=2\n",
		"--comment=a b\n", "--propagate=NONE\n"} {
		require.Contains(t, args, want)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(c.d.Dir)), "*"))
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left behind")
	require.Empty(t, c.read("cancelled"))
}

// One thing is wrong at a time.
//
// covers: PL-S16, PL-S17, PL-G7, PL-G8, PL-G16
func TestFindings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*cluster)
		check string
		want  Status
		seen  string
	}{
		"no Slurm":           {func(c *cluster) { c.remove("sbatch", "srun") }, "Slurm programs", Bad, "not on PATH: sbatch srun"},
		"no configuration":   {func(c *cluster) { c.program("sinfo", "echo 'sinfo: fatal: no slurm.conf' >&2; exit 1") }, "Slurm programs", Bad, "fatal: no slurm.conf"},
		"an old Slurm":       {func(c *cluster) { c.program("sinfo", "echo slurm 20.11.9") }, "Slurm programs", Warn, "20.11.9"},
		"no sacct":           {func(c *cluster) { c.remove("sacct") }, "Slurm programs", Warn, "no sacct"},
		"controller down":    {func(c *cluster) { c.program("scontrol", "echo 'Slurmctld(primary) at ctl1 is DOWN'; exit 1") }, "controller", Bad, "primary ctl1 DOWN"},
		"one of two down":    {func(c *cluster) { c.ping("Slurmctld(primary) at ctl1 is DOWN", "Slurmctld(backup) at ctl2 is UP") }, "controller", Warn, "backup ctl2 UP"},
		"squeue fails":       {func(c *cluster) { c.program("squeue", "echo 'Rate limit exceeded' >&2; exit 1") }, "controller", Bad, "Rate limit"},
		"no settings":        {func(c *cluster) { c.program("scontrol", `[ "$1" = show ] && exit 1;`+healthy["scontrol"]) }, "Slurm settings", Bad, "exit status 1"},
		"short MinJobAge":    {func(c *cluster) { c.setting("MinJobAge", "2 sec") }, "MinJobAge", Warn, "2 s"},
		"no arrays":          {func(c *cluster) { c.setting("MaxArraySize", "0") }, "MaxArraySize", Warn, "0"},
		"short KillWait":     {func(c *cluster) { c.setting("KillWait", "5 sec") }, "KillWait", Warn, "5 s"},
		"odd KillWait":       {func(c *cluster) { c.setting("KillWait", "INFINITE") }, "KillWait", NotChecked, "INFINITE"},
		"loses daemons":      {func(c *cluster) { c.setting("ProctrackType", "proctrack/linuxproc") }, "ProctrackType", Warn, "linuxproc"},
		"no GRES":            {func(c *cluster) { c.setting("GresTypes", "(null)") }, "GPUs in Slurm", Bad, "(null)"},
		"fewer GPUs":         {func(c *cluster) { c.d.System.GPUsPerNode = 16 }, "GPUs in Slurm", Bad, "gpu:h100:8"},
		"more GPUs":          {func(c *cluster) { c.d.System.GPUsPerNode = 4 }, "GPUs in Slurm", Warn, "gpu:h100:8"},
		"unknown partition":  {func(c *cluster) { c.d.Partition = "gpus" }, "partition gpus", Bad, "gpu cpu"},
		"partition closed":   {func(c *cluster) { c.sinfo("gpu*|drain|8|idle|gpu:8") }, "partition gpu", Bad, "closed"},
		"another one closed": {func(c *cluster) { c.sinfo("gpu*|up|8|idle|gpu:8", "cpu|inactive|8|idle|(null)") }, "partition cpu", Warn, "closed"},
		"all nodes down":     {func(c *cluster) { c.sinfo("gpu*|up|8|down*|gpu:8") }, "partition gpu", Bad, "0 of 8 nodes usable, 8 down*"},
		"some nodes drained": {func(c *cluster) { c.sinfo("gpu*|up|7|idle~|gpu:8", "gpu*|up|1|drained|gpu:8") }, "partition gpu", Warn, "7 of 8 nodes usable, 1 drained"},
		"no partition":       {func(c *cluster) { c.sinfo("banner of the site") }, "partitions", Bad, "no partition"},
		"shared nodes": {func(c *cluster) {
			c.program("scontrol", `[ "$2" = partition ] && echo OverSubscribe=FORCE:4 && exit;`+healthy["scontrol"])
		}, "sharing of nodes", Warn, "FORCE:4"},
		"accounting off": {func(c *cluster) { c.program("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1") }, "accounting", Warn, "off"},
		"database down": {func(c *cluster) {
			c.program("sacct", "echo 'sacct: error: Problem talking to the database' >&2; exit 1")
		}, "accounting", Warn, "talking to the database"},
		"no pyxis":            {func(c *cluster) { c.program("srun", `[ "$1" = --help ] && exit;`+healthy["srun"]) }, "containers", Bad, "no pyxis; found: enroot"},
		"program elsewhere":   {func(c *cluster) { c.d.System.Launcher = "apptainer"; c.d.Job = false }, "containers", Warn, "no apptainer; found: pyxis, enroot"},
		"no program":          {func(c *cluster) { c.d.System.Launcher = "apptainer" }, "node: containers", Bad, "no apptainer; found: enroot"},
		"not writable":        {func(c *cluster) { c.d.Dir = "/proc/results"; c.recorded() }, "output folder", Bad, "/proc"},
		"no probe":            {func(c *cluster) { c.d.Self = []string{"/bin/echo", "hello"} }, "output folder", Bad, "no probe"},
		"proxy":               {func(c *cluster) { c.d.Environ = append(c.d.Environ, "https_proxy=http://secret@proxy") }, "node: proxy variables", Warn, "https_proxy"},
		"long TMPDIR":         {func(c *cluster) { c.tmpdir(80) }, "node: temporary folder", Bad, "bytes long"},
		"TMPDIR, Ray":         {func(c *cluster) { c.tmpdir(45) }, "node: temporary folder", Warn, "bytes long"},
		"TMPDIR gone":         {func(c *cluster) { c.d.Environ = append(c.d.Environ, "TMPDIR=/nowhere") }, "node: temporary folder", Bad, "/nowhere"},
		"no reader":           {func(c *cluster) { c.remove("profllm-nvml") }, "node: GPU reader", Warn, "nvidia-smi is used, which has no energy counter: no profllm-nvml in /nowhere"},
		"old reader":          {func(c *cluster) { c.program("profllm-nvml", `echo '{"profllm_nvml":7}'`) }, "node: GPU reader", Warn, "it speaks format 7"},
		"reader missing here": {func(c *cluster) {}, "GPU reader", Warn, "no profllm-nvml in /nowhere, and no nvidia-smi"},
		"no GPU anywhere": {func(c *cluster) {
			c.d.System.GPUsPerNode = 0
			c.sinfo("gpu*|up|8|idle|(null)")
		}, "GPU reader", NotChecked, "no GPU is known here; no profllm-nvml in /nowhere, and no nvidia-smi"},
		"no library": {func(c *cluster) {
			c.program("profllm-nvml", `echo '{"profllm_nvml":1,"error":"no library","no_driver":true}'; exit 1`)
			c.remove("nvidia-smi")
		}, "node: GPU reader", OK, "profllm-nvml is installed"},
		"GPU broken": {func(c *cluster) {
			c.program("profllm-nvml", `echo '{"profllm_nvml":1,"error":"nvml: GPU is lost"}'; exit 1`)
			c.program("nvidia-smi", "echo Unable to determine the device handle; exit 15")
		}, "node: GPUs", Bad, "exit status 15: Unable to determine"},
		"no driver":          {func(c *cluster) { c.remove("profllm-nvml"); c.remove("nvidia-smi") }, "node: GPUs", Warn, "Slurm lists gpu:h100:8"},
		"refused":            {func(c *cluster) { c.program("sbatch", "echo 'sbatch: error: Invalid account' >&2; exit 1") }, "a job", Bad, "Invalid account"},
		"no answer":          {func(c *cluster) { c.program("sbatch", "echo hello") }, "a job", Bad, "hello"},
		"not shared":         {func(c *cluster) { c.program("sbatch", "echo 77") }, "node: output folder", Bad, "left nothing"},
		"another folder":     {func(c *cluster) { c.otherFolder() }, "node: output folder", Bad, "different content"},
		"other architecture": {func(c *cluster) { c.foreignBinary() }, "node: profllm runs", Bad, "exit code 126"},
		"never starts":       {func(c *cluster) { c.queue("PENDING|Priority") }, "a job", Warn, "Priority"},
		"never ends":         {func(c *cluster) { c.queue("RUNNING|None") }, "a job", Bad, "job 77 was cancelled in state RUNNING"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newCluster(t)
			x.recorded()
			c.spoil(x)
			got, ok := x.run()[c.check]
			require.True(t, ok)
			require.Equal(t, c.want, got.Status, "%+v", got)
			require.Contains(t, got.Seen, c.seen)
			if strings.HasPrefix(name, "never ") {
				require.Equal(t, "77\n", x.read("cancelled"))
			}
			if name == "proxy" {
				require.NotContains(t, got.Seen, "secret")
			}
		})
	}
}

func (c *cluster) remove(names ...string) {
	for _, n := range names {
		require.NoError(c.t, os.Remove(filepath.Join(c.bin, n)))
	}
	c.d.Environ[0] = "PATH=" + c.bin + ":" + c.tools()
}

// tools is a folder with the few programs that the others need, and nothing that
// this machine happens to have.
func (c *cluster) tools() string {
	dir := c.t.TempDir()
	for _, name := range []string{"bash", "uname", "cat", "env"} {
		require.NoError(c.t, os.Symlink("/bin/"+name, filepath.Join(dir, name)))
	}
	return dir
}

func (c *cluster) ping(lines ...string) {
	c.program("scontrol", `[ "$1" = ping ] && { printf '%s\n' '`+strings.Join(lines,
		"' '")+`'; exit; };`+healthy["scontrol"])
}

func (c *cluster) sinfo(lines ...string) {
	c.program("sinfo", `[ "$1" = -h ] && { printf '%s\n' '`+strings.Join(lines, "' '")+`'; exit; };`+healthy["sinfo"])
}

// queue makes every job stay in a state.
func (c *cluster) queue(line string) {
	c.program("sbatch", "echo 77")
	c.program("squeue", "echo '"+line+"'")
}

// tmpdir gives the node a temporary folder whose path has that many bytes.
func (c *cluster) tmpdir(length int) {
	parent, err := os.MkdirTemp("/tmp", "t")
	require.NoError(c.t, err)
	c.t.Cleanup(func() { os.RemoveAll(parent) })
	dir := filepath.Join(parent, strings.Repeat("x", length-len(parent)-1))
	require.NoError(c.t, os.Mkdir(dir, 0o755))
	c.d.Environ = append(c.d.Environ, "TMPDIR="+dir)
}

// otherFolder makes the node see another folder under the same path.
func (c *cluster) otherFolder() {
	c.program("srun", `if [ "$1" = --help ]; then echo --container-image; exit; fi
while [[ $1 = --* ]]; do shift; done; exec "$1" "$2" --dir `+c.bin)
}

// foreignBinary makes the nodes' profllm a program of another machine.
func (c *cluster) foreignBinary() {
	path := filepath.Join(c.bin, "profllm-arm64")
	header := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 57)...)
	header[16], header[18] = 2, 0xB7 // an executable, of AArch64
	require.NoError(c.t, os.WriteFile(path, header, 0o755))
	c.d.Node = []string{path, "probe-node"}
}

// A program that hangs is a finding.
//
// covers: PL-S16
func TestNothingHangs(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]struct {
		check string
		Status
	}{
		"sinfo": {"Slurm programs", Bad}, "scontrol": {"controller", Bad}, "squeue": {"controller", Bad}, "sacct": {"accounting", Warn},
		"sbatch": {"a job", Bad}, "self": {"output folder", Bad},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.recorded()
			c.d.limits.command = time.Second
			c.program(program, "trap '' TERM; sleep 600 & wait")
			x := c.run()[want.check]
			require.Equal(t, want.Status, x.Status, "%+v", x)
			require.Contains(t, x.Seen, "no answer in 1s")
		})
	}
}

func TestWithoutSystemFile(t *testing.T) {
	c := newCluster(t)
	c.d.System, c.d.Job = nil, false
	checks := c.run()
	require.Equal(t, OK, checks["partition gpu"].Status, "Slurm's default")
	require.Equal(t, NotChecked, checks["a node"].Status)
	require.Empty(t, c.read("sbatch-args"))
}

func TestInterrupted(t *testing.T) {
	c := newCluster(t)
	c.queue("PENDING|Priority")
	c.d.limits.start = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	c.d.Log = func(string, ...any) { cancel() }
	c.d.Run(ctx)
	require.Equal(t, "77\n", c.read("cancelled"), "no job is left behind")
}

func TestClock(t *testing.T) {
	at := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	for shift, want := range map[time.Duration]Status{
		0: OK, 3 * time.Second: OK, -time.Second: OK, -3 * time.Second: Warn, 10 * time.Second: Warn,
		-24 * time.Hour: Warn,
	} {
		var d Doctor
		d.clock(at.Add(shift), at, at.Add(5*time.Second))
		require.Equal(t, want, d.checks[0].Status, "%s: %s", shift, d.checks[0].Seen)
	}
}

func TestProbeLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, tokenFile), []byte("x\n"), 0o644))
	p := Look(t.Context(), dir, func(string) string { return "" }, gpu.Reader{}, "v", time.Now())
	require.Equal(t, "x", p.Folder.Token)
	require.True(t, p.Folder.Writable && p.Folder.Exclusive && p.Folder.HardLinks && p.Folder.Renames,
		p.Folder.Explanation)
	require.Positive(t, p.Folder.Free)
	require.NotEmpty(t, p.Memlock)
	require.Positive(t, p.PortLow)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestRecordedTexts(t *testing.T) {
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		return string(data)
	}
	c := parseConfig(read("config-22.05.txt"))
	require.Equal(t, "proctrack/linuxproc", c["ProctrackType"])
	n, ok := number(c["MinJobAge"])
	require.True(t, ok)
	require.Equal(t, 60, n)
	up, all := parsePing(read("ping-22.05.txt"))
	require.Equal(t, 1, up)
	require.Len(t, all, 1)
	list := parsePartitions(read("sinfo-22.05.txt"))
	require.Len(t, list, 2)
	require.Equal(t, partition{name: "main", initial: true, up: true, nodes: 8, usable: 8, gres: "gpu:4"}, *list[0])
	p, err := parseProbe("prolog of the site\n" + read("probe.json"))
	require.NoError(t, err)
	require.NotEmpty(t, p.Host)
	require.Equal(t, "8388608", node.SoftLimit(read("limits.txt"), "Max locked memory"))
}

func FuzzTexts(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) == 0 {
		f.Fatal("no testdata", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for key, value := range parseConfig(text) {
			if key == "" {
				t.Error("a setting without a name")
			}
			number(value)
		}
		if up, all := parsePing(text); up > len(all) {
			t.Error("more controllers up than there are")
		}
		for _, p := range parsePartitions(text) {
			if p.usable > p.nodes || p.usable < 0 {
				t.Errorf("%d of %d usable", p.usable, p.nodes)
			}
		}
		if p, err := parseProbe(text); err == nil {
			if _, err := json.Marshal(p); err != nil {
				t.Error(err)
			}
		}
		if low, high := parseRange(text); low > high {
			t.Error("an empty range")
		}
		node.SoftLimit(text, "Max locked memory")
		oneLine(text)
	})
}

// Without pyxis, the launchers whose program was found are proposed, with what they need.
func TestLaunchersThatCouldBeUsed(t *testing.T) {
	for _, system := range []*config.System{nil, {Launcher: "pyxis"}} {
		c := newCluster(t)
		c.program("srun", `exit`)
		c.program("docker", ``)
		c.d.System, c.d.Job = system, false
		do := c.run()["containers"].Do
		require.Regexp(t, `set launcher in the system file to "enroot" \(.*\.sqsh.*\), .*"docker" \(a Docker daemon .*\) or "bare" \(`, do)
		require.NotContains(t, do, "apptainer")
	}
	require.Equal(t, `set launcher = "bare" (no container: the engine is installed on the nodes) in the system file`,
		choices(nil))
	require.ElementsMatch(t, config.Launchers, append(slices.Collect(maps.Keys(needs)), "pyxis"))
}
