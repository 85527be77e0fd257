package render_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/cloudaitest"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/templates"
)

func plansOf(t testing.TB, site, file, testsDir string) ([]*plan.Plan, error) {
	t.Helper()
	sys, err := config.Parse(site, read(t, site))
	require.NoError(t, err)
	var tests []scenario.File
	names, err := filepath.Glob(filepath.Join(testsDir, "*.toml"))
	require.NoError(t, err)
	for _, name := range names {
		tests = append(tests, scenario.File{Name: name, Data: read(t, name)})
	}
	s, err := scenario.Load(scenario.File{Name: file, Data: read(t, file)}, tests, scenario.HookFiles{})
	require.NoError(t, err)
	set, err := planner.Plans(s, sys, options)
	if err != nil {
		return nil, err
	}
	return set.Plans, nil
}

func testTmpCorpus(t *testing.T) {
	conf := filepath.Join(cloudaitest.Conf(t, os.Environ()), "experimental/ai_dynamo")
	files, _ := filepath.Glob(conf + "/test_scenario/*.toml")
	for _, f := range files {
		for _, l := range []string{"pyxis", "enroot", "docker", "apptainer"} {
			site := filepath.Join(t.TempDir(), "site.toml")
			data := bytes.ReplaceAll(read(t, "../../conf/slurm-pyxis.toml"), []byte(`launcher = "pyxis"`), []byte(`launcher = "`+l+`"`))
			require.NoError(t, os.WriteFile(site, data, 0o644))
			ps, err := plansOf(t, site, f, filepath.Join(conf, "test"))
			if err != nil {
				fmt.Println(filepath.Base(f), l, "ERR", err)
				continue
			}
			for _, p := range ps {
				text, err := render.Script(p, templates.FS)
				require.NoError(t, err)
				fmt.Println(filepath.Base(f), p.Test, l, bytes.Count(text, []byte("\n")))
				os.WriteFile("/tmp/gaps-"+l+"-"+filepath.Base(f)+"-"+p.Test+".sh", text, 0o644)
				if l == "pyxis" {
					for _, n := range p.Notes {
						fmt.Println("   note", n)
					}
				}
			}
		}
	}
}
