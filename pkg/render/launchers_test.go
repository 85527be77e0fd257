package render_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/tier"
	"github.com/profllm/profllm/templates"
)

// containing are the launchers that start containers.
var containing = slices.DeleteFunc(slices.Clone(config.Launchers),
	func(name string) bool { return name == config.Bare })

// launchedScripts are those of every shipped scenario and of the definitions in CloudAI's format,
// for one launcher, on the first of the sites that they fit.
func launchedScripts(t testing.TB, launcher string) (list []script) {
	t.Helper()
	for _, s := range suites {
		files, err := filepath.Glob(s.scenarios)
		require.NoError(t, err)
		for _, file := range files {
			for _, p := range launched(t, launcher, s.sites[0], file, s.tests) {
				text, err := render.Script(p, templates.FS)
				require.NoError(t, err, "%s %s %s", launcher, file, p.Test)
				list = append(list, script{p, text, launcher + " " + p.Scenario + " " + scriptName(p)})
			}
		}
	}
	return list
}

// short requires that a person can read each script to its end.
func short(t *testing.T, launcher string, list []script) {
	t.Helper()
	longest, name := 0, ""
	for _, s := range list {
		if n := bytes.Count(s.text, []byte("\n")); n > longest {
			longest, name = n, s.golden
		}
	}
	t.Logf("%s: the longest script has %d lines: %s", launcher, longest, name)
	require.Less(t, longest, 200, name)
}

func TestScriptsStayShort(t *testing.T) {
	short(t, "golden", scripts(t))
	text, err := fs.ReadFile(templates.FS, render.Name)
	require.NoError(t, err)
	require.Less(t, bytes.Count(text, []byte("\n")), 120, "lines of the template")
}

// With every launcher, the scripts are short, shellcheck finds nothing in the longest of them, and
// the words that an array has are those that each step would have without.
func TestScriptsOfLaunchers(t *testing.T) {
	tier.Alone(t)
	for _, launcher := range containing {
		all := launchedScripts(t, launcher)
		short(t, launcher, all)
		for _, s := range all {
			if s.plan.Workload == "AIDynamo" {
				require.Equal(t, calls(t, whole(t, s.plan)), calls(t, string(s.text)), s.golden)
			}
		}
		shellcheck(t, slices.DeleteFunc(all, func(s script) bool { return s.plan.Workload != "AIDynamo" }))
	}
}

// What steps begin with stands once: their secrets and the program that starts their container.
func TestLaunchArray(t *testing.T) {
	for launcher, has := range map[string]int{"docker": 1, "podman": 1, "apptainer": 1, "enroot": 1, "pyxis": 0} {
		for _, p := range launched(t, launcher, "../../conf/slurm-pyxis.toml", format+"test_scenario/crucible.toml",
			format+"test") {
			text, err := render.Script(p, templates.FS)
			require.NoError(t, err)
			require.Equal(t, has, strings.Count(string(text), "\nLAUNCH=("), "%s %s", launcher, p.Test)
			if has > 0 {
				require.Equal(t, 1, strings.Count(string(text), "--file=HF_TOKEN="), "%s %s", launcher, p.Test)
			}
		}
	}
}

// needShellcheck skips a test where shellcheck is not installed, unless it must be.
func needShellcheck(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("shellcheck"); errors.Is(err, exec.ErrNotFound) {
		const why = "shellcheck is not installed: scripts are parsed only (apt-get install shellcheck)"
		if os.Getenv("PROFLLM_REQUIRE_SHELLCHECK") == "1" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
}

// shellcheck requires that it finds nothing in scripts.
func shellcheck(t *testing.T, list []script) {
	t.Helper()
	needShellcheck(t)
	dir := t.TempDir()
	// $ in text that another shell or nobody shall expand
	args := []string{"--shell=bash", "--severity=style", "--exclude=SC2016"}
	for _, s := range list {
		name := filepath.Join(dir, strings.NewReplacer("/", "_", " ", "_").Replace(s.golden))
		require.NoError(t, os.WriteFile(name, s.text, 0o644))
		args = append(args, name)
	}
	out, err := exec.Command("shellcheck", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestShellcheck(t *testing.T) { shellcheck(t, scripts(t)) }
