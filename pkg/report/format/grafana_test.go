package format_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/result"
)

var (
	selector = regexp.MustCompile(`(profllm_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"`)
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
	legend   = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// dashboard is what a test looks at.
type dashboard struct {
	UID           string `json:"uid"`
	SchemaVersion int    `json:"schemaVersion"`
	Templating    struct {
		List []struct{ Name, Definition string }
	}
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr, LegendFormat string }
	}
}

// exported are the labels of each metric in an export of runs that have every number the
// dashboard shows.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	inTemp(t)
	nightsOf(t, "one", []float64{1000, 1010}, func(_ int, r *result.Result) {
		r.Accuracy = &result.Accuracy{Task: "gsm8k", Value: 0.9, Questions: new(1319), Source: "x"}
		r.Results.JoulesPerOutputToken = new(0.5)
	})
	rep := report.Build(load(t, "one"), report.Options{})
	var out bytes.Buffer
	require.NoError(t, format.Prometheus(&out, rep))
	labels := map[string][]string{}
	for _, line := range regexp.MustCompile(`(?m)^(profllm_\w+)\{(.*)\} `).FindAllStringSubmatch(out.String(), -1) {
		for _, m := range matcher.FindAllStringSubmatch(line[2], -1) {
			labels[line[1]] = append(labels[line[1]], m[1])
		}
	}
	return labels
}

// Every query of the dashboard asks for a metric and labels that the export writes.
func TestDashboardAsksForWhatIsExported(t *testing.T) {
	file := "../../../examples/grafana/profllm.json"
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(data, &d))
	require.GreaterOrEqual(t, d.SchemaVersion, 39)
	require.NotEmpty(t, d.UID)
	have := exported(t)
	check := func(expr string) (labels []string) {
		found := selector.FindAllStringSubmatch(expr, -1)
		require.NotEmpty(t, found, expr)
		for _, s := range found {
			require.Contains(t, have, s[1], expr)
			labels = have[s[1]]
			for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
				require.Contains(t, labels, m[1], expr)
			}
		}
		for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
			require.Contains(t, labels, g[1], expr)
		}
		return labels
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, x := range p.Targets {
			labels := check(x.Expr)
			for _, l := range legend.FindAllStringSubmatch(x.LegendFormat, -1) {
				require.Contains(t, labels, l[1], x.LegendFormat)
			}
		}
	}
	variables := []string{}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		if v.Definition == "" {
			continue
		}
		check(v.Definition)
	}
	for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllSubmatch(data, -1) {
		name := string(m[1])
		require.True(t, name == "__all" || slices.Contains(variables, name), name)
	}
}
