package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/source"
)

// covers: C.2
func TestLimits(t *testing.T) {
	for in, want := range map[string]string{
		"10m": "00:10:00", "90s": "00:01:30", "2d": "2-00:00:00", "1w": "7-00:00:00", "90M": "01:30:00", " 1H ": "01:00:00",
		"20:00": "20:00:00", "1-02:03:04": "1-02:03:04", "0:60:00": "01:00:00", "36:00": "1-12:00:00", "0-00:00:90": "00:01:30",
		"3650d": "3650-00:00:00",
	} {
		d, err := ParseLimit(in)
		require.NoError(t, err, in)
		require.Equal(t, want, FormatLimit(d), in)
	}
	require.Equal(t, "00:00:02", FormatLimit(1001*time.Millisecond))
}

// Each refusal says what to write instead.
//
// covers: C.2
func TestLimitsRefused(t *testing.T) {
	const forms = "\n\thint: write \"30m\", \"HH:MM:SS\" or \"D-HH:MM:SS\"; \"20:00\" means 20 hours"
	for value, want := range map[string]string{
		`"60"`: `time_limit "60" is not understood` +
			"\n\thint: add a unit: \"60m\" is minutes (as in Slurm), \"60h\" is hours",
		`60`: `time_limit must be a string such as "30m" or "01:30:00", not the integer 60` +
			"\n\thint: for 60 minutes (as in Slurm), write time_limit = \"60m\"",
		`true`: `time_limit must be a string such as "30m" or "01:30:00", not the boolean true`,
		`"1-02"`: `time_limit "1-02" is not understood` +
			"\n\thint: write minutes and seconds as well: \"1-02:00:00\"",
		`"1-02:03"`: `time_limit "1-02:03" is not understood` +
			"\n\thint: write the seconds as well: \"1-02:03:00\"",
		`"0m"`: `time_limit "0m" is zero, which means no limit to Slurm` +
			"\n\thint: remove time_limit to use the partition's default",
		`"00:00:00"`: `time_limit "00:00:00" is zero, which means no limit to Slurm` +
			"\n\thint: remove time_limit to use the partition's default",
		`"99999999w"`: `time_limit "99999999w" is above ten years` +
			"\n\thint: \"20:00\" means 20 hours, \"20m\" 20 minutes",
		`"9999-00:00:00"`: `time_limit "9999-00:00:00" is above ten years` +
			"\n\thint: \"20:00\" means 20 hours, \"20m\" 20 minutes",
		`""`:               `time_limit "" is not understood` + forms,
		`"-1m"`:            `time_limit "-1m" is not understood` + forms,
		`"1.5h"`:           `time_limit "1.5h" is not understood` + forms,
		`"1h30m"`:          `time_limit "1h30m" is not understood` + forms,
		`"UNLIMITED"`:      `time_limit "UNLIMITED" is not understood` + forms,
		`"10m\n#SBATCH x"`: `time_limit "10m\n#SBATCH x" is not understood` + forms,
	} {
		table, err := source.Parse("s.toml", []byte("time_limit = "+value))
		require.NoError(t, err)
		var into struct {
			Limit Limit `toml:"time_limit"`
		}
		require.EqualError(t, source.Decode(table, &into), "s.toml:1:1: "+want, value)
	}
}

// The same text in a batch script would be a sixtieth, so the reader is told.
func TestHoursAndMinutesAreNoted(t *testing.T) {
	s, err := Load(File{Name: "s.toml",
		Data: []byte("name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\ntime_limit = \"20:00\"\n" +
			"[[Tests]]\nid = \"b\"\ntest_template_name = \"vllm\"\ntime_limit = \"00:20:00\"\n")}, nil, HookFiles{})
	require.NoError(t, err)
	require.Equal(t, []string{`s.toml:5:1: time_limit "20:00" means hours and minutes (20:00:00), as in CloudAI; Slurm would read minutes and seconds`}, s.Warnings)
	require.Equal(t, 20*time.Hour, s.Tests[0].Duration())
	require.Equal(t, 20*time.Minute, s.Tests[1].Duration())
}

func FuzzLimit(f *testing.F) {
	for _, s := range []string{"10m", "1-02:03:04", "20:00", "0:60:00", "99999-99999:99999:99999", "999999999w"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseLimit(s)
		if err != nil {
			return
		}
		require.Greater(t, d, time.Duration(0))
		require.LessOrEqual(t, d, MaxLimit)
		again, err := ParseLimit(FormatLimit(d))
		require.NoError(t, err)
		require.Equal(t, d, again)
	})
}
