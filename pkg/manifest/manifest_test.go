package manifest_test

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/manifest"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/scenario"
)

var update = flag.Bool("update", false, "rewrite the golden manifests")

// planned are the plans of a scenario on a cluster, as dry-run makes them.
func planned(system, text []byte) ([]*plan.Plan, error) {
	sys, err := config.Parse("cluster.toml", system)
	if err != nil {
		return nil, err
	}
	s, err := scenario.Load(scenario.File{Name: "scenario.toml", Data: text}, nil, scenario.HookFiles{})
	if err != nil {
		return nil, err
	}
	set, err := planner.Plans(s, sys, planner.Options{Version: "v1.0.0", Created: time.Date(2026, 11, 26, 20, 0, 0, 0, time.UTC),
		Output: "/runs", Binary: "/bin/profllm", WorkDir: "/site"})
	if err != nil {
		return nil, err
	}
	return set.Plans, nil
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return data
}

// one is the plan of a scenario with one run.
func one(t *testing.T, system, name string) *plan.Plan {
	t.Helper()
	plans, err := planned(read(t, system), read(t, name+".toml"))
	require.NoError(t, err)
	require.Len(t, plans, 1)
	require.NoError(t, plans[0].Sound())
	return plans[0]
}

// goldens are the manifests that are kept: a scenario, and the cluster it is planned for.
var goldens = map[string]struct{ system, scenario string }{
	"aggregated":             {"cluster.toml", "aggregated"},
	"disaggregated":          {"cluster.toml", "disaggregated"},
	"disaggregated-v1alpha1": {"old.toml", "disaggregated"},
	"mocker":                 {"small.toml", "mocker"},
	"mocker-v1alpha1":        {"old.toml", "mocker"},
	"vllm":                   {"cluster.toml", "vllm"},
}

// covers: P-18, P-22, U-03, U-41, U-42
func TestGolden(t *testing.T) {
	for name, g := range goldens {
		t.Run(name, func(t *testing.T) {
			p := one(t, g.system, g.scenario)
			got, err := manifest.Render(p)
			require.NoError(t, err)
			file := filepath.Join("testdata", name+".golden.yaml")
			if *update {
				require.NoError(t, os.WriteFile(file, got, 0o644))
			}
			require.Equal(t, string(read(t, filepath.Base(file))), string(got))

			again, err := manifest.Render(one(t, g.system, g.scenario))
			require.NoError(t, err)
			require.Equal(t, string(got), string(again), "the same input gives the same bytes")
			data, err := p.Encode()
			require.NoError(t, err)
			stored, err := plan.Decode(data)
			require.NoError(t, err)
			again, err = manifest.Render(stored)
			require.NoError(t, err)
			require.Equal(t, string(got), string(again), "plan.json has everything")
		})
	}
}

// documents are the objects of a manifest, read as any program reads them.
func documents(t *testing.T, data []byte) (list []map[string]any) {
	t.Helper()
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var m map[string]any
		err := d.Decode(&m)
		if err == io.EOF {
			return list
		}
		require.NoError(t, err)
		list = append(list, m)
	}
}

// at is a value below a path of keys and indices.
func at(v any, path ...any) any {
	for _, p := range path {
		switch k := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[k]
		case int:
			l, _ := v.([]any)
			if k >= len(l) {
				return nil
			}
			v = l[k]
		}
	}
	return v
}

// Everything that a run creates is found by its label, in an explicit namespace; a failed client is not
// started again; the token is in no manifest.
//
// covers: P-18, P-27
func TestEveryObject(t *testing.T) {
	for name := range goldens {
		data := read(t, name+".golden.yaml")
		list := documents(t, data)
		require.GreaterOrEqual(t, len(list), 2, name)
		for _, o := range list {
			require.Equal(t, "exp_20261126_200000", strings.Join(strings.Split(at(o, "metadata", "labels", plan.RunLabel).(string), "_")[:3], "_"))
			require.NotEmpty(t, at(o, "metadata", "namespace"), name)
		}
		job := list[len(list)-1]
		require.Equal(t, "Job", job["kind"])
		require.Equal(t, 0, at(job, "spec", "backoffLimit"))
		require.Equal(t, "Never", at(job, "spec", "template", "spec", "restartPolicy"))
		require.Equal(t, list[0]["metadata"].(map[string]any)["name"].(string)+"-client", at(job, "metadata", "name"))
		require.NotContains(t, string(data), "HF_TOKEN")
	}
}

// One value is the same on every path to a pod: a kubelet would expand $(NAME), and profllm knows where the
// frontend is.
func TestWordsOfPods(t *testing.T) {
	list := documents(t, read(t, "disaggregated.golden.yaml"))
	env := at(list[0], "spec", "env").([]any)
	require.Contains(t, env, map[string]any{"name": "PRICE", "value": "$$(date) costs $$$5"})
	frontend := at(list[0], "spec", "components", 2, "podTemplate", "spec", "containers", 0, "env").([]any)
	require.Contains(t, frontend, map[string]any{"name": "FRONTEND", "value": at(list[0], "metadata", "name").(string) + "-frontend:8000"})
}
