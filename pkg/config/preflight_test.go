package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const preflightSite = `name = "s"
scheduler = "slurm"
install_path = "i"
output_path = "o"
default_partition = "p"

[preflight]
`

func TestPreflight(t *testing.T) {
	s, err := Parse("s.toml", []byte(preflightSite+
		"gpu_memory_gib = 4\nclock_s = 0.5\noff = [\"shm\"]\nfail = [\"clock\", \"limits\"]\n"))
	require.NoError(t, err)
	require.Equal(t, 4.0, *s.Preflight.GPUMemory)
	require.Nil(t, s.Preflight.Shm)

	n := func(x float64) *float64 { return &x }
	test := &Preflight{Clock: n(2), Warn: []string{"clock"}, Fail: []string{"shm"}}
	require.Equal(t, &Preflight{GPUMemory: n(4), Clock: n(2), Off: []string{}, Warn: []string{"clock"},
		Fail: []string{"limits", "shm"}}, test.Over(s.Preflight))
	require.Equal(t, s.Preflight, (*Preflight)(nil).Over(s.Preflight))
	require.Equal(t, test, test.Over(nil))
	require.Equal(t, []string{"clock", "limits"}, s.Preflight.Fail, "the site's own stays")
}

func TestPreflightComplaints(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":   {"gpu_memory_gb = 4", "s.toml:8:1: unknown key \"gpu_memory_gb\"\n\thint: did you mean \"gpu_memory_gib\"?"},
		"unknown check": {"off = [\"gpu-memroy\"]", "s.toml:8:8: preflight has no check \"gpu-memroy\"\n\thint: did you mean \"gpu-memory\"?"},
		"twice":         {"off = [\"shm\"]\nfail = [\"tmp\", \"shm\"]", "s.toml:9:16: check \"shm\" is already in off"},
		"below zero":    {"disk_gib = -1", "s.toml:8:1: preflight.disk_gib is -1, must be 0 or more"},
		"no number":     {"disk_gib = \"much\"", "s.toml:8:1: disk_gib must be a number"},
		"no name":       {"off = [1]", "off[0] must be a string"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("s.toml", []byte(preflightSite+c.text+"\n"))
			require.ErrorContains(t, err, c.want)
		})
	}
}
