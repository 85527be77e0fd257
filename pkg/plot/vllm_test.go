package plot_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/figure"
	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/pareto"
	"github.com/profllm/profllm/pkg/plot"
)

const (
	tree     = "testdata/vllm/tree"
	realTree = "../interchange/testdata/sweep"
)

// expected is what vLLM computes, see testdata/vllm/README.md.
type expected map[string]struct {
	Pareto []struct {
		GPUs     string
		Skipped  int
		Points   map[string][]any
		Frontier []string
	}
	Grids []struct {
		X, Y, Filter, Bins string
		Curve              []string
		Points             [][]any
	}
}

func sweepTable(t *testing.T, path string) *plot.Table {
	t.Helper()
	list, err := interchange.Sweeps(path, func(path string, err error) { t.Errorf("%s: %v", path, err) })
	require.NoError(t, err)
	require.NotEmpty(t, list)
	return plot.NewTable(nil, list)
}

// The points and the frontier are those of vllm bench sweep plot_pareto, and the means and their
// spread those of vllm bench sweep plot, for real and for made-up sweeps.
func TestFiguresAreThoseOfVLLM(t *testing.T) {
	data, err := os.ReadFile("testdata/vllm/expected.json")
	require.NoError(t, err)
	compareWithVLLM(t, data)
}

// The same figures, computed now by the vLLM of the lab.
func TestVLLMStillComputesThem(t *testing.T) {
	home := os.Getenv("VLLM_LAB")
	if home == "" {
		require.NotEqual(t, "1", os.Getenv("PROFLLM_REQUIRE_VLLM"), "VLLM_LAB is not set")
		t.Skip("VLLM_LAB is not set")
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(home, "venv/bin/python"), "../../.ci/vllm/figures.py", tree, realTree)
	data, err := cmd.Output()
	require.NoError(t, err)
	compareWithVLLM(t, data)
}

func compareWithVLLM(t *testing.T, data []byte) {
	t.Helper()
	var want expected
	require.NoError(t, json.Unmarshal(data, &want))
	require.Len(t, want, 2)
	for name, path := range map[string]string{"tree": tree, "real": realTree} {
		for _, w := range want[name].Pareto {
			n, err := plot.Pareto(sweepTable(t, path), plot.ParetoOptions{
				Options: pareto.Options{Users: "max_concurrency", GPUs: w.GPUs},
			})
			require.NoError(t, err)
			all, front := n.Figure.Panels[0][0].Series[0], n.Figure.Panels[0][0].Series[2]
			require.Equal(t, sorted(pointsOf(w.Points)), sorted(all.Points), "%s %q", name, w.GPUs)
			on := map[string][]any{}
			for _, k := range w.Frontier {
				on[k] = w.Points[k]
			}
			require.Equal(t, sorted(pointsOf(on)), sorted(front.Points), "%s %q", name, w.GPUs)
			require.Equal(t, w.Skipped > 0, strings.Contains(strings.Join(n.Figure.Caption, " "),
				fmt.Sprintf("Without a number of users: %d run", w.Skipped)))
		}
		for _, w := range want[name].Grids {
			table := sweepTable(t, path)
			conditions, err := plot.ParseConditions(w.Filter)
			require.NoError(t, err)
			require.NoError(t, table.Filter(conditions))
			bins, err := plot.ParseBins(w.Bins)
			require.NoError(t, err)
			require.NoError(t, table.Bin(bins))
			list, err := plot.Grid(table, plot.GridOptions{VarX: w.X, VarY: w.Y, CurveBy: w.Curve})
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.InDeltaMapValues(t, gridOf(w.Points), drawn(list[0].Figure.Panels[0][0].Series), 1e-6, "%s %v", name, w)
		}
	}
}

func pointsOf(points map[string][]any) (list []figure.Point) {
	for _, p := range points {
		list = append(list, figure.Point{X: p[2].(float64), Y: p[3].(float64)})
	}
	return list
}

// sorted are the places of points.
func sorted(points []figure.Point) (list []string) {
	for _, p := range points {
		list = append(list, fmt.Sprintf("%.9g %.9g", p.X, p.Y))
	}
	slices.Sort(list)
	return list
}

// gridOf are vLLM's means and their spread, by curve and x.
func gridOf(points [][]any) map[string]float64 {
	out := map[string]float64{}
	for _, p := range points {
		n := len(p)
		curve := strings.TrimSuffix(strings.Trim(fmt.Sprint(p[:n-4]), "[]"), ".0")
		out[fmt.Sprintf("%s at %.9g", curve, p[n-4])] = p[n-3].(float64)
		out[fmt.Sprintf("%s at %.9g, sd", curve, p[n-4])] = p[n-2].(float64)
	}
	return out
}

func drawn(series []figure.Series) map[string]float64 {
	out := map[string]float64{}
	for _, s := range series {
		_, curve, _ := strings.Cut(s.Name, "=")
		for _, p := range s.Points {
			if curve == "n/a" { // pandas has no group for what is absent
				continue
			}
			out[fmt.Sprintf("%s at %.9g", curve, p.X)] = p.Y
			out[fmt.Sprintf("%s at %.9g, sd", curve, p.X)] = math.Abs(p.YErr)
		}
	}
	return out
}
