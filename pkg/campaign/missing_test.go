package campaign

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/profllm/profllm/pkg/scheduler/slurm"
	"github.com/stretchr/testify/require"
)

func TestMissingFilesAreNamedWithNearOnes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"scenario.toml", "other.toml", "notes.md", ".hidden.toml"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "results"), 0o755))
	for name, want := range map[string]string{
		"scenaro.toml":  "DIR/scenaro.toml: no such file or directory\n\thint: did you mean DIR/scenario.toml?",
		"SCENARIO.TOML": "DIR/SCENARIO.TOML: no such file or directory\n\thint: did you mean DIR/scenario.toml?",
		"result":        "DIR/result: no such file or directory\n\thint: did you mean DIR/results?",
		"site.toml":     "DIR/site.toml: no such file or directory\n\thint: *.toml files in DIR: other.toml, scenario.toml",
		"a.json":        "DIR/a.json: no such file or directory\n\thint: there are no *.json files in DIR",
		"nowhere":       "DIR/nowhere: no such file or directory\n\thint: folders in DIR: results",
		"result/x/plan": "DIR/result/x/plan: no such file or directory\n\thint: the folder DIR/result/x does not exist; the folder DIR/result does not exist; did you mean DIR/results?",
	} {
		_, err := os.Stat(filepath.Join(dir, name))
		got := Explain(fmt.Errorf("scenario: %w", err))
		require.Equal(t, "scenario: "+strings.ReplaceAll(want, "DIR", dir), got, name)
	}
	require.NoError(t, os.Symlink("gone.toml", filepath.Join(dir, "link.toml")))
	require.NoError(t, os.Symlink("gone", filepath.Join(dir, "link")))
	for name, link := range map[string]string{"link.toml": "link.toml", "link/a.toml": "link", "link": "link"} {
		_, err := os.Stat(filepath.Join(dir, name))
		target := strings.Replace(link, "link", "gone", 1)
		require.Equal(t, dir+"/"+name+": no such file or directory\n\thint: "+dir+"/"+link+" is a symbolic link to "+target+
			", which does not exist", Explain(err))
	}
	c := &Client{WorkDir: dir}
	require.EqualError(t, c.CheckFolder("--output-dir", filepath.Join(dir, "link", "x")),
		"--output-dir: link is a symbolic link to gone, which does not exist\n\thint: make that folder, or name another")
	_, err := os.Open(filepath.Join(dir, "x.toml"))
	require.NotContains(t, Explain(fmt.Errorf("%w\n\thint: another", err)), "files in", "a hint of its own is kept")
	require.Equal(t, "other", Explain(fmt.Errorf("other")))
}

// Where Slurm is not found, the reader is told where to look for it, once.
func TestExplainNoSlurm(t *testing.T) {
	const hint = "\n\thint: call profllm on a login node, load Slurm's module, or set SLURM_CONF"
	for name, err := range map[string]*slurm.CommandError{
		"no program":       {Argv: []string{"sinfo"}, Err: &exec.Error{Name: "sinfo", Err: exec.ErrNotFound}},
		"no configuration": {Argv: []string{"sinfo"}, Err: errors.New("exit status 1"), Stderr: "sinfo: fatal: Could not establish a configuration source\n"},
	} {
		require.Equal(t, "ask Slurm: "+err.Error()+hint, Explain(fmt.Errorf("ask Slurm: %w", err)), name)
		require.NotContains(t, Explain(fmt.Errorf("%w\n\thint: another", err)), "SLURM_CONF", name)
	}
	other := &slurm.CommandError{Argv: []string{"sinfo"}, Err: errors.New("exit status 1"),
		Stderr: "sinfo: error: Invalid user id\n"}
	require.NotContains(t, Explain(other), "hint")
}
