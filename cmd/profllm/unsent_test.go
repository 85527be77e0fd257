package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/notify"
	"github.com/profllm/profllm/pkg/run"
)

// A command that waits and tells also tells if there is nothing to wait for, and names the
// scenario, or its file if that cannot be read.
//
// covers: PL-D13
func TestUnsentIsTold(t *testing.T) {
	t.Parallel()
	c := newCronJob(t)
	c.fail("sbatch", "sbatch: error: invalid partition specified: nowhere\n")
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o755))
	}
	write("alert.sh", "#!/bin/sh\ncat > event\necho \"$PROFLLM_SCENARIO\" > name\n")
	write("bad.toml", "name = \"bad\"\n[[Tests]]\nid = \"a\"\n")
	site, err := os.ReadFile(filepath.Join(c.dir, "site.toml"))
	require.NoError(t, err)
	write("badsite.toml", string(site)+"\nno_such_key = 1\n")
	for _, tt := range []struct {
		name   string // of the scenario in the event
		code   int
		told   bool
		args   string
		prefix string
	}{
		{"demo", exitNotSubmit, true, "slurm submit demo --system site.toml --simulate --wait", "aggregated"},
		{"demo", exitDefinition, true, "slurm submit demo --system badsite.toml --simulate --watch", "badsite.toml"},
		{"bad.toml", exitDefinition, true, "slurm submit bad.toml --system site.toml --wait", "bad.toml"},
		{"demo", exitNotSubmit, false, "slurm submit demo --system site.toml --simulate --new", ""},
		{"confirm-demo", exitNotSubmit, true,
			"confirm demo#aggregated demo#aggregated --system site.toml --simulate --wait --yes", ""},
		{"bad.toml bad.toml", exitDefinition, true, "confirm bad.toml bad.toml --system site.toml --wait", "bad.toml"},
		{"demo", exitDefinition, true, "nightly demo --system badsite.toml --simulate", "badsite.toml"},
		{"bad.toml", exitDefinition, true, "nightly bad.toml --system site.toml", "bad.toml"},
		{"demo", exitNotSubmit, true, "nightly demo --system site.toml --simulate", ""},
	} {
		t.Run(tt.args, func(t *testing.T) {
			event := filepath.Join(c.dir, "event")
			os.Remove(event)
			args := append(strings.Fields(tt.args), "--settle", "0s", "--notify", "./alert.sh")
			o := profllm(t, c.dir, withSlurm(c.slurm), args...)
			require.Equal(t, tt.code, o.code, o.stderr)
			if !tt.told {
				require.NoFileExists(t, event)
				return
			}
			var e notify.Event
			require.NoError(t, run.ReadJSON(event, &e), o.stderr)
			require.Equal(t, tt.name, e.Scenario)
			require.Equal(t, tt.code, e.Code)
			require.NotEmpty(t, e.Lines)
			require.Contains(t, strings.Join(e.Lines, "\n"), tt.prefix)
			name, err := os.ReadFile(filepath.Join(c.dir, "name"))
			require.NoError(t, err)
			require.Equal(t, tt.name+"\n", string(name))
		})
	}
}
