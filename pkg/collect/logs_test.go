package collect_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

const serverBanner = "(APIServer pid=7) INFO 11-21 10:00:00 [utils.py:1] vLLM API server version 0.32.0\n"

func found(t *testing.T, path string) (roles map[string]string, logs []failure.Log, notes []string) {
	t.Helper()
	logs, notes, err := collect.FindLogs(path, strings.NewReader(serverBanner))
	require.NoError(t, err)
	roles = map[string]string{}
	for _, l := range logs {
		roles[l.File] = l.Role
	}
	return roles, logs, notes
}

// covers: PL-F8, PL-F11
func TestFindLogs(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.log": serverBanner + "x\n", "sub/bench.out": "hello\n", "notes.json": "{}", ".hidden": serverBanner, "noext": "srun: error: node1: task 0: Killed\n",
		"core": "\x7fELF\x00\x00", "empty.log": "", ".git/config.log": "x",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	pack(t, dir, "old.log.xz", strings.Repeat(serverBanner, 100))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe.log"), 0o600))
	require.NoError(t, os.Symlink("/dev/zero", filepath.Join(dir, "zero.log")))
	roles, _, notes := found(t, dir)
	require.Equal(t, map[string]string{"a.log": "server", "sub/bench.out": "client", "noext": "job",
		"old.log.xz": "server", "empty.log": ""}, roles)
	require.Empty(t, notes)

	_, _, err := collect.FindLogs(filepath.Join(dir, "core"), nil)
	require.ErrorContains(t, err, "no text")
}

// covers: PL-F8
func TestFindLogsOfPipes(t *testing.T) {
	roles, _, _ := found(t, "-")
	require.Equal(t, map[string]string{"stdin": "server"}, roles)

	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	go func() { _ = os.WriteFile(path, []byte(serverBanner+"OSError: [Errno 98] Address already in use\n"), 0) }()
	roles, logs, _ := found(t, path)
	require.Equal(t, map[string]string{path: "server"}, roles)
	table, err := failure.Builtin()
	require.NoError(t, err)
	f, err := table.ExplainLogs(logs, time.UTC)
	require.NoError(t, err)
	require.Equal(t, "port-in-use", f.Cause)

	_, _, err = collect.FindLogs("/dev/null", nil)
	require.ErrorContains(t, err, "neither a file, a folder nor a pipe")
	_, _, err = collect.FindLogs(filepath.Join(t.TempDir(), "nowhere"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// What the plan says of a role's command names the option that the role refuses.
//
// covers: PL-F7
func TestOptionOfThePlan(t *testing.T) {
	dir := recorded(t)
	lost(t, dir, 1)
	p, err := run.ReadPlan(dir)
	require.NoError(t, err)
	r := p.Role("decode")
	r.Step.Argv = append(r.Step.Argv, plan.Texts("--attention-backend", "lotus")...)
	data, err := p.Encode()
	require.NoError(t, err)
	write(t, dir, run.PlanFile, string(data))
	write(t, dir, "logs/decode-0.log",
		"Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: 'lotus' is nothing that we have\n")
	f := only(t, collector(t), dir, nil).Failure
	require.Equal(t, []string{"flag-bad-value", "configuration", "--attention-backend"},
		[]string{f.Cause, f.Kind, f.About})
}
