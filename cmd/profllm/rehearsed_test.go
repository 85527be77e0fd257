package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A rehearsed scenario is rehearsed once, when a test first asks for it. Tests that need finished runs, and prove
// nothing of how runs come to be, work on copies of it.
type rehearsed struct {
	name     string
	scenario string   // the text of its file; "" for the shipped demonstration
	env      []string // of the rehearsal
	once     sync.Once
	root     string  // of the scenario
	said     outcome // by the rehearsal, with --output json
	err      error
}

var (
	rehearsedDemo = rehearsed{name: "demo"}                           // two runs: aggregated, disaggregated
	rehearsedPair = rehearsed{name: "pair", scenario: reportScenario} // two runs of 8 prompts: tp1, tp2
	rehearsedSeed = rehearsed{name: "seed", scenario: finishedScenario,
		env: []string{"PROFLLM_SIM_TTFT=10ms", "PROFLLM_SIM_ITL=4ms", "PROFLLM_SIM_STARTUP=0s"}}
)

// made is its scenario directory, which is not to be changed.
func (r *rehearsed) made(t testing.TB) (root string) {
	t.Helper()
	r.once.Do(r.make)
	require.NoError(t, r.err)
	return r.root
}

func (r *rehearsed) make() {
	rehearsalSlots.take()
	defer rehearsalSlots.give()
	dir := filepath.Join(filepath.Dir(binary), "rehearsed", r.name)
	if r.err = os.MkdirAll(dir, 0o755); r.err != nil {
		return
	}
	args := []string{"rehearse", "--output-dir", "results", "--output", "json"}
	if r.scenario != "" {
		if r.err = os.WriteFile(filepath.Join(dir, "s.toml"), []byte(r.scenario), 0o644); r.err != nil {
			return
		}
		args = append(args, "s.toml")
	}
	cmd := command(dir, r.env, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		r.err = fmt.Errorf("rehearse %s: %w\n%s", r.name, err, &stderr)
		return
	}
	r.said = outcome{stdout: stdout.String(), stderr: stderr.String()}
	roots, err := filepath.Glob(filepath.Join(dir, "results", "*"))
	if err != nil || len(roots) != 1 {
		r.err = fmt.Errorf("rehearse %s made %q: %w", r.name, roots, err)
		return
	}
	r.root = roots[0]
}

// copyTo copies it below results in dir, with its links and times, and returns the scenario directory.
func (r *rehearsed) copyTo(t testing.TB, dir string) (root string) {
	t.Helper()
	root = filepath.Join(dir, "results", filepath.Base(r.made(t)))
	copyAll(t, r.root, root)
	return root
}

// copyAll copies a folder with its links and times.
func copyAll(t testing.TB, from, to string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	out, err := exec.Command("cp", "-a", from, to).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
