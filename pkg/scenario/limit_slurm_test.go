package scenario_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/internal/slurmtest"
	"github.com/profllm/profllm/pkg/scenario"
)

// held submits a job that is held and cancelled again, and returns its id.
func held(t *testing.T, options ...string) string {
	t.Helper()
	out, err := exec.Command("sbatch",
		append([]string{"--parsable", "--hold", "--job-name=limits", "--output=/dev/null", "--wrap=true"},
			options...)...).Output()
	require.NoError(t, err)
	id := strings.TrimSpace(string(out))
	t.Cleanup(func() { require.NoError(t, exec.Command("scancel", id).Run()) })
	return id
}

// limits are random spellings; the same seed writes the same ones.
func limits(n int) []string {
	r := rand.New(rand.NewPCG(5, 6))
	var out []string
	for range n {
		switch r.IntN(5) {
		case 0:
			out = append(out, fmt.Sprintf("%d%c", 1+r.IntN(500), "smhdwSMHDW"[r.IntN(10)]))
		case 1:
			out = append(out, fmt.Sprintf("%d-%02d:%02d:%02d", r.IntN(40), r.IntN(24), r.IntN(60), r.IntN(60)))
		case 2:
			out = append(out, fmt.Sprintf("%d:%d:%d", r.IntN(100), r.IntN(100), r.IntN(100)))
		case 3:
			out = append(out, fmt.Sprintf("%02d:%02d", r.IntN(100), r.IntN(60)))
		default:
			out = append(out, fmt.Sprint(r.IntN(100))+[]string{"", "-2", "-02:03", ":", "x", "-", "h30m"}[r.IntN(7)])
		}
	}
	return out
}

// shown finds the limit in what `scontrol show job` prints; scontrol echoes its
// commands as well.
var shown = regexp.MustCompile(`RunTime=\S+ TimeLimit=(\S+)`)

// ask hands all commands to one scontrol and returns the limits that it shows.
func ask(t *testing.T, commands []string) []string {
	t.Helper()
	cmd := exec.Command("scontrol", "--quiet")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var values []string
	for _, m := range shown.FindAllStringSubmatch(string(out), -1) {
		values = append(values, m[1])
	}
	return values
}

// Slurm reads what we print as what we meant, rounded up to its minute.
//
// covers: C.2
func TestSlurmReadsOurLimits(t *testing.T) {
	slurmtest.Lab(t, os.Environ())
	id := held(t)
	var commands []string
	var want []time.Duration
	for _, s := range limits(200) {
		if d, err := scenario.ParseLimit(s); err == nil {
			want = append(want, d)
			commands = append(commands, "update JobId="+id+" TimeLimit="+scenario.FormatLimit(d), "show job "+id)
		}
	}
	require.Greater(t, len(want), 100)
	got := ask(t, commands)
	require.Len(t, got, len(want))
	for i, d := range want {
		minute := (d + time.Minute - 1).Truncate(time.Minute)
		read, err := scenario.ParseLimit(got[i])
		require.NoError(t, err)
		require.Equal(t, minute, read, "%s", scenario.FormatLimit(d))
	}
}

// sbatch takes every limit that we take, and means the same by it where it takes
// the user's own text: all but HH:MM, of which it reads a sixtieth, and a number
// alone, which we refuse.
//
// covers: C.2
func TestSbatchTakesOurLimits(t *testing.T) {
	slurmtest.Lab(t, os.Environ())
	takes := func(limit string) bool {
		out, err := exec.Command("sbatch", "--test-only", "--partition=main", "--time="+limit, "--wrap=true").
			CombinedOutput()
		require.True(t, err == nil || strings.Contains(string(out), "Invalid --time specification"), "%q: %s", limit,
			out)
		return err == nil
	}
	for _, s := range limits(60) {
		if d, err := scenario.ParseLimit(s); err == nil {
			require.True(t, takes(scenario.FormatLimit(d)), s)
		}
	}
	require.True(t, takes("60"), "minutes")
	require.True(t, takes("1-02"))
	require.False(t, takes("30m"))
	require.True(t, takes(scenario.FormatLimit(scenario.MaxLimit)))

	limit := func(id string) string { return ask(t, []string{"show job " + id})[0] }
	require.Equal(t, "00:20:00", limit(held(t, "--time=20:00")), "Slurm's own reading")
	d, err := scenario.ParseLimit("20:00")
	require.NoError(t, err)
	require.Equal(t, "20:00:00", limit(held(t, "--time="+scenario.FormatLimit(d))), "ours")
}
