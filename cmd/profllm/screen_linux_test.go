package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// onTerminal runs profllm in dir on a terminal of so many columns, and returns what the
// terminal was sent.
func onTerminal(t *testing.T, dir string, cols uint16, env []string, args ...string) string {
	t.Helper()
	master, slave := openTerminal(t)
	defer master.Close()
	require.NoError(t, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: cols, Row: 50}))
	cmd := command(dir, append([]string{"TERM=xterm", "NO_COLOR="}, env...), args...)
	cmd.Stdout, cmd.Stderr = slave, slave
	require.NoError(t, cmd.Start())
	require.NoError(t, slave.Close())
	var seen bytes.Buffer
	_, _ = seen.ReadFrom(master) // until the program ends: EIO
	err := cmd.Wait()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return strings.ReplaceAll(seen.String(), "\r\n", "\n")
}

var colour = regexp.MustCompile("\x1b\\[[0-9;]*m")

// On a terminal of 80 columns, the tables and lines of every verb fit, but for commands
// that are to be copied; states and verdicts are coloured. A terminal that is dumb or
// NO_COLOR has no colours, and a pipe has neither.
func TestOutputFitsTheTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pair.toml"), []byte(reportScenario), 0o644))
	root := rehearsedPair.copyTo(t, dir)
	one := filepath.Join("results", filepath.Base(root), "tp1", "0")
	two := filepath.Join("results", filepath.Base(root), "tp2", "0")
	for _, x := range []struct {
		coloured string // a text that has a colour
		args     []string
	}{
		{"suspect", []string{"collect"}},
		{"succeeded", []string{"slurm", "status"}},
		{"suspect", []string{"report"}},
		{"", []string{"compare", one, two}},
		{"", []string{"trend"}},
		{"", []string{"diff", one, two}},
		{"", []string{"why"}},
		{"ok  ", []string{"verify", "pair.toml"}},
		{"profllm slurm status: unknown flag --bogus", []string{"slurm", "status", "--bogus"}},
	} {
		seen := onTerminal(t, dir, 80, nil, x.args...)
		for line := range strings.SplitSeq(seen, "\n") {
			command := strings.HasPrefix(line, "  profllm ") || strings.HasPrefix(line, "  PROFLLM_SIM_")
			command = command || strings.HasPrefix(line, "  do ") // or says what to do, with a command in it
			if !command && !strings.HasPrefix(line, "\t") {
				require.LessOrEqual(t, text.StringWidthWithoutEscSequences(line), 80, "%v: %q", x.args, line)
			}
		}
		if x.coloured != "" {
			require.Regexp(t, `\x1b\[3[123]m`+regexp.QuoteMeta(x.coloured), seen, "%v", x.args)
		}
		for _, plain := range []string{"NO_COLOR=1", "TERM=dumb"} {
			require.Equal(t, colour.ReplaceAllString(seen, ""), onTerminal(t, dir, 80, []string{plain}, x.args...),
				"%v", x.args)
		}
		piped := profllm(t, dir, nil, x.args...)
		require.NotContains(t, piped.stdout+piped.stderr, "\x1b")
		require.NotContains(t, piped.stdout+piped.stderr, "--wide")
	}
	narrow, wide := onTerminal(t, dir, 60, nil, "collect"), onTerminal(t, dir, 60, nil, "--wide", "collect")
	require.Contains(t, narrow, "; --wide shows all")
	require.Equal(t, profllm(t, dir, nil, "collect").stdout, colour.ReplaceAllString(wide, ""))
}
