package config

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/source"
)

// sample is a system file of our own with every key that CloudAI knows.
const sample = "../planner/testdata/format/conf/system/foundry.toml"

func TestParseSample(t *testing.T) {
	data, err := os.ReadFile(sample)
	require.NoError(t, err)
	s, err := Parse("foundry.toml", data)
	require.NoError(t, err)
	require.Equal(t, "foundry", s.Name)
	require.Equal(t, "anvil", s.DefaultPartition)
	require.Equal(t, []Partition{{Name: "anvil", Groups: []Group{
		{Name: "left", Nodes: []string{"iron[08-11]", "iron20,iron[22,24]"}}, {Name: "right", Nodes: []string{"steel-[1-3]-ib"}},
	}}, {Name: "bellows"}}, s.Partitions)
	require.Equal(t, 6, s.GPUsPerNode)
	require.True(t, s.GPUDirectives())
	require.Equal(t, Words{"--kill-on-bad-exit=1", "--label"}, s.ExtraSrunArgs)
	require.Equal(t, []string{
		"foundry.toml:24:1: monitor_interval has no effect: only CloudAI's polling uses it",
		"foundry.toml:25:1: status_retry_pause_seconds has no effect: only CloudAI's polling uses it",
		"foundry.toml:26:1: extra_transient_status_errors has no effect: only CloudAI's polling uses it",
		"foundry.toml:46:2: data_repository has no effect: only CloudAI's NeMo report uses it",
	}, s.Warnings)
	top, err := source.Parse(sample, data)
	require.NoError(t, err)
	for _, key := range source.Fields(System{}) {
		ours := []string{
			"qos", "gpu_hour_usd", "reservation", "constraint", "supports_gpu_directives", "export", "compile_cache", "container_args", "container_rdma", "container_security", "network", "socket_interface", "launcher", "binary", "prologue", "preflight", "signatures",
		}
		require.True(t, top.Has(key) || slices.Contains(ours, key) || slices.Contains(kubeKeys, key), "key %s does not stand in %s", key, sample)
	}
}

// covers: CD-45, PL-D3, LIB-7
func TestParseReportsEveryMistake(t *testing.T) {
	_, err := Parse("site.toml",
		[]byte("name='n'\nscheduler='slurm'\noutput_path='o'\ndefault_partition='mian'\ngpus_per_nod=4\nlauncher='pixis'\ncompile_cache='tmp/$USER'\ncontainer_security='privilege'\nnetwork='eva'\nsocket_interface='^docker,lo'\ngpu_hour_usd=-1\n[[partitions]]\nname='main'\n"))
	require.EqualError(t, err, `site.toml:1:1: install_path is required
site.toml:4:1: default_partition "mian" is not among the partitions
	hint: did you mean "main"? known: main
site.toml:5:1: unknown key "gpus_per_nod"
	hint: did you mean "gpus_per_node"?
site.toml:6:1: unknown launcher "pixis"
	hint: did you mean "pyxis"? known: apptainer, bare, docker, enroot, podman, pyxis
site.toml:7:1: compile_cache "tmp/$USER" must be an absolute path of letters, digits and . _ - below /
	hint: write compile_cache = "/tmp/profllm-cache"
site.toml:8:1: unknown container_security "privilege"
	hint: did you mean "privileged"? known: privileged, unconfined
site.toml:9:1: unknown network "eva"
	hint: did you mean "efa"? known: efa, none
site.toml:10:1: socket_interface "^docker,lo" is not the name of one interface
	hint: write socket_interface = "auto"; lists and exclusions are NCCL's alone: set NCCL_SOCKET_IFNAME in global_env_vars
site.toml:11:1: gpu_hour_usd is -1, must be 0 to 1000000`)
}

// A system file of another scheduler is not made one of Slurm by its key alone.
func TestParseOtherScheduler(t *testing.T) {
	const other = "\n\thint: profllm submits to Slurm or Kubernetes (scheduler = \"kubernetes\"), or runs on one machine " +
		"(scheduler = \"standalone\"): name such a system file; profllm rehearse SCENARIO tries a scenario without a cluster"
	const typo = "\n\thint: write scheduler = \"slurm\""
	for value, want := range map[string]string{
		`"kubernets"`: "\n\thint: write scheduler = \"kubernetes\"", `"runai"`: other, `"standalon"`: "\n\thint: write scheduler = \"standalone\"", `"lsf"`: other,
		`"Slurm"`: typo, `"slrum"`: typo, `""`: typo, `3`: typo,
	} {
		_, err := Parse("k.toml", []byte("scheduler = "+value+"\n"))
		require.EqualError(t, err, "k.toml:1:1: scheduler "+value+" is not supported"+want)
	}
}

// covers: CD-1, CD-45
func TestPartitionsAndGroups(t *testing.T) {
	const head = "name='n'\nscheduler='slurm'\noutput_path='o'\ninstall_path='i'\ndefault_partition='main'\n"
	s, err := Parse("site.toml",
		[]byte(head+"[[partitions]]\nname='main'\n[[partitions.groups]]\nname='g'\nnodes=['r[1-2]n[01-02]-ib','x']\n[[partitions.groups]]\nname='h'\n[[partitions]]\nname='other'\n"))
	require.NoError(t, err)
	require.Equal(t, []Partition{{Name: "main",
		Groups: []Group{{Name: "g", Nodes: []string{"r[1-2]n[01-02]-ib", "x"}}, {Name: "h"}}}, {Name: "other"}},
		s.Partitions)

	_, err = Parse("site.toml", []byte(head+`[[partitions]]
name = "main"
nodes = ["node[1-8]"]
grops = 1
[[partitions.groups]]
name = "g:1"
nodes = ["a[1-2", "b",
  "c[3-1]"]
node = "x"
[[partitions.groups]]
nodes = "node1"
[[partitions]]
name = "p"
groups = [{ name = "x" }, { name = "x" }, 7]
[[partitions]]
name = "p"
`))
	require.EqualError(t, err, `site.toml:8:1: nodes are not allowed directly in a partition
	hint: put them into a group: below [[partitions.groups]], write name = "all" and nodes = ["node[01-16]"]
site.toml:9:1: unknown key "grops"
	hint: did you mean "groups"? known: groups, name
site.toml:11:1: group name "g:1" cannot be used in PARTITION:GROUP:COUNT
site.toml:12:10: group "g:1": host list "a[1-2": "[1-2" has no closing bracket
site.toml:13:3: group "g:1": host list "c[3-1]": range "3-1" runs backwards
site.toml:14:1: unknown key "node"
	hint: did you mean "nodes"? known: name, nodes
site.toml:15:14: name is required
site.toml:16:1: nodes must be a list, not the string "node1"
	hint: write nodes = ["node1"]
site.toml:19:27: partition "p" has two groups named "x"
site.toml:19:43: a group must be a table, not the integer 7
	hint: write [[partitions.groups]]
site.toml:20:3: two partitions are named "p"`)
	_, err = Parse("site.toml", []byte(head+"partitions = ['main']\n"))
	require.ErrorContains(t, err, `site.toml:6:15: a partition must be a table, not the string "main"`)
}

// covers: SRV-9
func TestFromSlurm(t *testing.T) {
	s, err := FromSlurm("small|gpu:2|2|node[1-2]\nmain*|gpu:4(S:0)|8|node[1-8]\n",
		"ClusterName             = lab\nGresTypes               = gpu\n")
	require.NoError(t, err)
	require.Equal(t, "main", s.DefaultPartition)
	require.Equal(t, 4, s.GPUsPerNode)
	again, err := Parse("init.toml", []byte(s.TOML()))
	require.NoError(t, err, s.TOML())
	require.Equal(t, s.Partitions, again.Partitions)
	require.True(t, again.GPUDirectives())
	require.Contains(t, s.TOML(), "# launcher = \"pyxis\"   # or enroot,")
	for launcher, comment := range map[string]string{"podman": "check that the nodes have podman",
		Bare: "found neither"} {
		s.Launcher = launcher
		again, err := Parse("init.toml", []byte(s.TOML()))
		require.NoError(t, err, s.TOML())
		require.Equal(t, launcher, again.Launcher)
		require.Contains(t, s.TOML(), comment)
	}
	_, err = FromSlurm("", "")
	require.Error(t, err)
}

func TestSplitWords(t *testing.T) {
	for in, want := range map[string][]string{
		`--a  --b=c`:       {"--a", "--b=c"},
		`--x 'a b' "c\"d"`: {"--x", "a b", `c"d`},
		`a\ b`:             {"a b"},
		`'$(touch x)'`:     {"$(touch x)"},
		``:                 nil,
		`''`:               {""},
	} {
		got, err := SplitWords(in)
		require.NoError(t, err)
		require.Equal(t, want, got, in)
	}
	_, err := SplitWords(`'open`)
	require.Error(t, err)
}

func FuzzFromSlurm(f *testing.F) {
	f.Add("main*|gpu:4|8|n[1-2]", "ClusterName = x")
	f.Fuzz(func(t *testing.T, sinfo, scontrol string) { _, _ = FromSlurm(sinfo, scontrol) })
}

func FuzzParse(f *testing.F) {
	data, err := os.ReadFile(sample)
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte("partitions = [7, {name='p', nodes=['x'], groups=[{name='g', nodes=['a[1-2']}, {name='g'}]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("site.toml", data)
		require.True(t, s != nil || err != nil)
	})
}

// A launcher is a program, or srun starts it, or there is no container.
func TestProgramsAreLaunchers(t *testing.T) {
	require.ElementsMatch(t, Launchers, append([]string{"pyxis", Bare}, Programs...))
}

// A path of the system file that no shell expands, or that no script takes, is refused where it stands.
func TestPathsOfTheSystem(t *testing.T) {
	const rest = "\nname='c'\nscheduler='slurm'\ndefault_partition='p'\n"
	for text, want := range map[string]string{
		"output_path='~/r'\ninstall_path='i'":                    `sys.toml:1:1: output_path is "~/r", but ~ is not expanded`,
		"output_path='$HOME/r'\ninstall_path='i'":                "variables are not expanded",
		"output_path='a b'\ninstall_path='i'":                    "which no #SBATCH line takes",
		"output_path='r'\ninstall_path='~ada/i'":                 "sys.toml:2:1: install_path is",
		"output_path='r'\ninstall_path='i'\nhf_home_path='${X}'": "sys.toml:3:1: hf_home_path is",
	} {
		_, err := Parse("sys.toml", []byte(text+rest))
		require.ErrorContains(t, err, want)
	}
}
