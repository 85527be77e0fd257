package render_test

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/templates"
)

var update = flag.Bool("update", false, "rewrite the golden scripts")

// goldens holds SITE/SCENARIO/TEST.sh.
const goldens = "testdata/golden"

// options are those of a user on some cluster on some day.
var options = planner.Options{
	Version: "v0.0.0-golden", Created: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
	Output: "/shared/results", Binary: "/shared/profllm/bin/profllm", WorkDir: "/home/user",
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return data
}

// planned plans a scenario file on a site; the test files stand in testsDir.
func planned(t testing.TB, site, file, testsDir string) []*plan.Plan {
	t.Helper()
	return launched(t, "", site, file, testsDir)
}

// launched does so for a launcher, "" for the one that the file and the site choose. Where a launcher
// needs images to be staged, they will be.
func launched(t testing.TB, launcher, site, file, testsDir string) []*plan.Plan {
	t.Helper()
	sys, err := config.Parse(site, read(t, site))
	require.NoError(t, err)
	sys.CacheDockerImagesLocally = sys.CacheDockerImagesLocally || launcher == "enroot"
	options := options
	options.Launcher = launcher
	var tests []scenario.File
	names, err := filepath.Glob(filepath.Join(testsDir, "*.toml"))
	require.NoError(t, err)
	for _, name := range names {
		tests = append(tests, scenario.File{Name: name, Data: read(t, name)})
	}
	data := read(t, file)
	if launcher == "enroot" { // an image of its own is not staged
		data = exporter.ReplaceAll(data, []byte("$0\n${1}image_url = \"/shared/profllm/dcgm.sqsh\""))
	}
	s, err := scenario.Load(scenario.File{Name: file, Data: data}, tests, scenario.HookFiles{})
	require.NoError(t, err)
	set, err := planner.Plans(s, sys, options)
	require.NoError(t, err, "%s %s", launcher, file)
	return set.Plans
}

// exporter is the table of the exporter of GPU metrics, which has an image of its own.
var exporter = regexp.MustCompile(`( *)\[Tests\.cmd_args\.dynamo\.dcgm_exporter\]`)

// suite is a set of scenarios and the sites that each is rendered for. The definitions
// in CloudAI's format mount repositories into a container, so no bare site fits them.
type suite struct {
	scenarios, tests string
	sites            []string
}

var suites = []suite{
	{"../../scenarios/*.toml", "../../scenarios/tests", []string{"../../conf/slurm-pyxis.toml", "../../conf/slurm-bare.toml"}},
	{format + "test_scenario/shapes*.toml", format + "test", []string{"../../conf/slurm-pyxis.toml", format + "system/foundry.toml"}},
	{format + "test_scenario/crucible.toml", format + "test", []string{"../../conf/slurm-pyxis.toml"}},
	{format + "test_scenario/crucible-hosts.toml", format + "test", []string{format + "system/foundry.toml"}},
	{format + "test_scenario/steps-of-every-kind.toml", format + "test", []string{format + "system/foundry.toml"}},
}

// format holds definitions of our own in CloudAI's format.
const format = "../planner/testdata/format/conf/"

// scriptName is the test, with the first point of each run of a sweep.
func scriptName(p *plan.Plan) string {
	if p.Step == 0 {
		return p.Test
	}
	return fmt.Sprintf("%s.%d", p.Test, p.Step)
}

// script is one rendered job and the golden file that holds it.
type script struct {
	plan   *plan.Plan
	text   []byte
	golden string
}

func scripts(t testing.TB) []script {
	t.Helper()
	var list []script
	for _, s := range suites {
		files, err := filepath.Glob(s.scenarios)
		require.NoError(t, err)
		require.NotEmpty(t, files, s.scenarios)
		for _, file := range files {
			for _, site := range s.sites {
				for _, p := range planned(t, site, file, s.tests) {
					text, err := render.Script(p, templates.FS)
					require.NoError(t, err, "%s %s %s", site, file, p.Test)
					base := strings.TrimSuffix(filepath.Base(site), ".toml")
					list = append(list, script{p, text, filepath.Join(goldens, base, p.Scenario, scriptName(p)+".sh")})
				}
			}
		}
	}
	return list
}

// Every shipped scenario and the definitions in CloudAI's format, for every site they fit.
//
// covers: PL-D5
func TestGolden(t *testing.T) {
	all := scripts(t)
	seen := map[string]bool{}
	for _, s := range all {
		require.False(t, seen[s.golden], "two scripts for %s", s.golden)
		seen[s.golden] = true
	}
	if *update {
		require.NoError(t, os.RemoveAll(goldens))
		for _, s := range all {
			require.NoError(t, os.MkdirAll(filepath.Dir(s.golden), 0o755))
			require.NoError(t, os.WriteFile(s.golden, s.text, 0o644))
		}
	}
	for _, s := range all {
		want, err := os.ReadFile(s.golden)
		require.NoError(t, err, "write it with: go test ./pkg/render -update")
		require.Equal(t, string(want), string(s.text), "%s; if that is right: go test ./pkg/render -update", s.golden)
	}
	require.NoError(t, filepath.WalkDir(goldens, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !seen[name] {
			t.Errorf("%s belongs to no scenario", name)
		}
		return err
	}))
}

func TestBashParsesScripts(t *testing.T) {
	for _, s := range scripts(t) {
		cmd := exec.Command("bash", "-n")
		cmd.Stdin = bytes.NewReader(s.text)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", s.golden, out)
		require.Empty(t, string(out), s.golden)
	}
}

// The scripts of neighbouring jobs use no port of the same purpose twice, and
// none in Ray's range, whichever slots they get.
//
// covers: CD-14, PL-G11
func TestPortsOfNeighbours(t *testing.T) {
	for _, s := range scripts(t) {
		const id = 123456
		for a := id; a < id+plan.Slots; a++ {
			slot, next := plan.FirstSlot(a), plan.FirstSlot(a+1)
			require.NoError(t, s.plan.UsableSlot(slot), s.golden)
			for _, p := range s.plan.Ports {
				lo, hi := p.At(slot), p.At(slot)+p.Count
				require.True(t, p.At(next) >= hi || p.At(next)+p.Count <= lo, "%s: %s of jobs %d and %d", s.golden,
					p.Name, a, a+1)
				if s.plan.Workload != "AIDynamo" { // it has no Ray, and more workers than there is room for elsewhere
					require.False(t, lo < 20000 && hi > 10002, "%s: %s is %d", s.golden, p.Name, lo)
				}
			}
		}
	}
}

func BenchmarkScript(b *testing.B) {
	plans := planned(b, "../../conf/slurm-pyxis.toml", "../../scenarios/topologies.toml", "../../scenarios/tests")
	for b.Loop() {
		for _, p := range plans {
			if _, err := render.Script(p, templates.FS); err != nil {
				b.Fatal(err)
			}
		}
	}
}
