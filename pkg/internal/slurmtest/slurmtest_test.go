package slurmtest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/internal/slurmtest"
)

func TestMain(m *testing.M) {
	if code, ok := slurmtest.Main(os.Args, os.Environ(), os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// call runs a fake program and returns its exit code and what it printed.
func call(t *testing.T, s *slurmtest.Slurm, argv ...string) (int, string) {
	t.Helper()
	cmd := exec.Command("env", argv...)
	cmd.Env = s.Env(os.Environ())
	out, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), strings.TrimSpace(string(out))
}

// The lines seen on a real Slurm 22.05.8.
//
// covers: PL-S6, PL-S17, PL-S20, PL-S40, PL-S42
func TestReplaysTheLab(t *testing.T) {
	s := slurmtest.New(t)
	squeue := []string{"squeue", "-h", "-a", "-o", "%i|%T"}
	for _, step := range []struct {
		name  string
		knobs slurmtest.Knobs
		argv  []string
		code  int
		want  string
	}{
		{"an id", slurmtest.Knobs{}, []string{"sbatch", "--parsable", "--job-name=a", "x.sh"}, 0, "60"},
		{"with the cluster", slurmtest.Knobs{Cluster: "c1"}, []string{"sbatch", "--parsable", "--job-name=b", "x.sh"}, 0, "61;c1"},
		{"behind a banner", slurmtest.Knobs{Banner: "welcome\n"}, []string{"sbatch", "--job-name=c", "x.sh"}, 0, "welcome\n62"},
		{"refused", slurmtest.Knobs{Refuse: "no"}, []string{"sbatch", "--job-name=d", "x.sh"}, 1, "sbatch: error: no"},
		{"answer lost", slurmtest.Knobs{LoseAnswer: "lost"}, []string{"sbatch", "--job-name=e", "x.sh"}, 1, "sbatch: error: lost"},
		{"queue", slurmtest.Knobs{}, squeue, 0, "60|PENDING\n61|PENDING\n62|PENDING\n63|PENDING"},
		{"cancel", slurmtest.Knobs{}, []string{"scancel", "61"}, 0, ""},
		{"cancel of nothing", slurmtest.Knobs{}, []string{"scancel", "999"}, 0, ""},
		{"an ended job is hidden", slurmtest.Knobs{}, append(squeue, "-j", "61"), 0, ""},
		{"but for -t all", slurmtest.Knobs{}, append(squeue, "-t", "all", "-j", "61"), 0, "61|CANCELLED"},
		{"one unknown id", slurmtest.Knobs{}, append(squeue, "-j", "99"), 1, "slurm_load_jobs error: Invalid job id specified"},
		{"two unknown ids", slurmtest.Knobs{}, append(squeue, "-j", "98,99"), 0, ""},
		{"sacct", slurmtest.Knobs{}, []string{"sacct", "-n", "-P", "-X", "--name=a", "-o", "JobID,State,JobName"}, 0, "60|PENDING|a"},
		{"no accounting", slurmtest.Knobs{NoAccounting: true}, []string{"sacct", "-j", "60"}, 1, "Slurm accounting storage is disabled"},
	} {
		s.Set(step.knobs)
		code, out := call(t, s, step.argv...)
		require.Equal(t, step.code, code, step.name)
		require.Equal(t, step.want, out, step.name)
	}
	require.Equal(t, 1, s.Submissions("e"))
	require.Zero(t, s.Submissions("d"))
	require.Len(t, s.Calls("sbatch"), 5)
}

func TestHiddenJob(t *testing.T) {
	s := slurmtest.New(t)
	s.Set(slurmtest.Knobs{HiddenLooks: 1})
	call(t, s, "sbatch", "--job-name=a", "x.sh")
	for _, want := range []string{"", "60"} {
		_, out := call(t, s, "squeue", "-h", "-o", "%i")
		require.Equal(t, want, out)
		_, out = call(t, s, "sacct", "-n", "-P", "-o", "JobID")
		require.Equal(t, want, out)
	}
}
