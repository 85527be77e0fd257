package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// Each file of testdata/stories is a session in a terminal: commands, how they exit,
// and what they print. "exits CODE profllm …" runs a command and compares its exit code.
// A rehearsal in a story is fast: a token takes 2 ms.
func TestStories(t *testing.T) {
	t.Parallel()
	definitions, err := filepath.Abs("../../pkg/planner/testdata/format/conf")
	require.NoError(t, err)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/stories",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars,
				"PATH="+filepath.Dir(binary)+string(filepath.ListSeparator)+os.Getenv("PATH"), "HOME="+env.WorkDir, "TZ=UTC", "LANG=C.UTF-8", "USER=user",
				"CONF="+definitions, // our own definitions in CloudAI's format
				"PROFLLM_SIM_TTFT=20ms", "PROFLLM_SIM_ITL=2ms", "PROFLLM_SIM_STARTUP=300ms")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}

// exits runs a command, whose output "stdout", "stderr" and "cmp" then see, and
// compares its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d instead of %d", code, want)
	}
}
