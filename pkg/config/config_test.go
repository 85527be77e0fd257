package config

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseCloudAISample(t *testing.T) {
	data, err := os.ReadFile("testdata/example_slurm_cluster.toml")
	require.NoError(t, err)
	s, err := Parse("example_slurm_cluster.toml", data)
	require.NoError(t, err)
	require.Equal(t, "partition_1", s.DefaultPartition)
	require.Len(t, s.Partitions[0].Groups, 4)
	require.Equal(t, 8, s.GPUsPerNode)
	require.True(t, s.GPUDirectives())
	require.Len(t, s.Warnings, 1, "data_repository has no effect and says so")
}

// covers: CD-45
func TestParseReportsEveryMistake(t *testing.T) {
	_, err := Parse("site.toml", []byte("name='n'\nscheduler='slurm'\noutput_path='o'\ndefault_partition='mian'\ngpus_per_nod=4\nlauncher='pixis'\n[[partitions]]\nname='main'\n"))
	require.EqualError(t, err, `site.toml:1:1: install_path is required
site.toml:4:1: default_partition "mian" is not among the partitions
	hint: did you mean "main"? known: main
site.toml:5:1: unknown key "gpus_per_nod"
	hint: did you mean "gpus_per_node"?
site.toml:6:1: unknown launcher "pixis"
	hint: did you mean "pyxis"? known: bare, pyxis`)
	_, err = Parse("k.toml", []byte("scheduler='kubernetes'\n"))
	require.ErrorContains(t, err, `k.toml:1:1: scheduler "kubernetes" is not supported`)
}

func TestFromSlurm(t *testing.T) {
	s, err := FromSlurm("small|gpu:2|2|node[1-2]\nmain*|gpu:4(S:0)|8|node[1-8]\n", "ClusterName             = lab\nGresTypes               = gpu\n")
	require.NoError(t, err)
	require.Equal(t, "main", s.DefaultPartition)
	require.Equal(t, 4, s.GPUsPerNode)
	again, err := Parse("init.toml", []byte(s.TOML()))
	require.NoError(t, err, s.TOML())
	require.Equal(t, s.Partitions, again.Partitions)
	require.True(t, again.GPUDirectives())
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
