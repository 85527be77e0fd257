package dashboard_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/dashboard"
	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report/reporttest"
	"github.com/profllm/profllm/pkg/result"
)

// fleet is a server of runs of a small and a large model, six of each. The large one has a tenth of the
// throughput, is busier and takes four GPUs for an hour each, the small one a GPU for half an hour.
func fleet(t *testing.T, tokenizer string) *api {
	t.Helper()
	var runs []records.Run
	for i := range 12 {
		name, throughput, gpus, seconds, use, memory := "org/small-1B", 10_000.0, 1, 1800.0, 40.0, 12.0
		if i%2 == 1 {
			name, throughput, gpus, seconds, use, memory = "org/large-70B", 1000, 4, 3600, 90, 70
		}
		noise := 1 + 0.001*float64(i)
		r := reporttest.Record(reporttest.Numbers{Throughput: throughput * noise, TTFT: 20 * noise})
		r.RunID, r.Timestamp = fmt.Sprintf("exp_20260102_0304%02d_00000%x", i, i), time.Date(2026, 1, 2, i, 0, 0, 1, time.UTC)
		r.Duration, r.Results.GPUs = &seconds, &gpus
		if r.System == nil {
			r.System = &result.System{}
		}
		r.System.AvgGPUUtilization, r.System.PeakGPUMemoryGB = &use, &memory
		r.Results.GPUPower = new(300 * float64(gpus))
		settings := map[string]string{"cmd_args.model": name, "cmd_args.tensor_parallel_size": fmt.Sprint(gpus)}
		if tokenizer != "" {
			settings["bench_cmd_args.tokenizer"] = tokenizer
		}
		r.Config.Settings = settings
		runs = append(runs, records.Run{Dir: "/runs/" + r.RunID, Case: records.Case{Scenario: "models", Test: "size"}, Result: r, Settings: settings})
	}
	a := &api{t: t, runs: runs}
	a.Server = httptest.NewServer(dashboard.New(live(t, runs), dashboard.Options{}).Handler())
	t.Cleanup(a.Close)
	return a
}

func (a *api) answer(method, path, body string, into any) {
	a.t.Helper()
	status, got := a.ask(method, path, body)
	require.Equal(a.t, 200, status, "%s", got)
	require.NoError(a.t, json.Unmarshal(got, into))
}

type comparedModels struct {
	Report struct {
		Judgements []struct {
			Verdict string
			Metrics []struct {
				Key     string
				Percent *float64 `json:"shift_percent"`
			}
			Differs       []struct{ Field, First, Second string }
			NotComparable []struct{ Field string } `json:"not_comparable"`
		}
		Comparisons []struct {
			Sections []struct {
				Rows []struct {
					Key    string
					Values []any
				}
			}
		}
	}
}

// Models are counted, their numbers stand beside each other, are judged against each other, and are series of
// their own.
//
// covers: UC-1
func TestModelsAreCompared(t *testing.T) {
	a := fleet(t, "org/family")
	means := map[string]float64{}
	for _, name := range []string{"small", "large"} {
		var got query.Answer
		a.answer("POST", "/api/filters/apply", `{"filter": {"field": "model", "contains": "`+name+`"}, "facets": ["model"], "metrics": ["output_throughput"]}`, &got)
		require.Equal(t, 6, got.Matches)
		require.Len(t, got.Facets[0].Values, 2, "the other model can still be chosen")
		means[name] = *got.Metrics[0].Mean
	}
	require.InDelta(t, 10, means["small"]/means["large"], 0.2)

	sets := `{"a": {"field": "model", "contains": "small"}, "b": {"field": "model", "contains": "large"}}`
	var compared comparedModels
	a.answer("POST", "/api/data/compare", sets, &compared)
	require.Len(t, compared.Report.Judgements, 1)
	j := compared.Report.Judgements[0]
	require.Empty(t, j.NotComparable)
	shifts := map[string]float64{}
	for _, m := range j.Metrics {
		shifts[m.Key] = *m.Percent
	}
	require.InDelta(t, -90, shifts["output_throughput"], 1)
	require.Contains(t, fmt.Sprint(j.Differs), "large-70B")

	// Tokens of two tokenizers are not of one size: the numbers of runs stand beside each other, without a verdict.
	other := fleet(t, "")
	var apart, beside comparedModels
	other.answer("POST", "/api/data/compare", sets, &apart)
	require.Equal(t, "tokenizer", apart.Report.Judgements[0].NotComparable[0].Field)
	other.answer("POST", "/api/data/compare", `{"runs": ["`+a.runs[0].Result.RunID+`", "`+a.runs[1].Result.RunID+`", "`+a.runs[3].Result.RunID+`"]}`, &beside)
	require.NotEmpty(t, beside.Report.Comparisons)
	rows := map[string][]any{}
	for _, s := range beside.Report.Comparisons[0].Sections {
		for _, r := range s.Rows {
			rows[r.Key] = r.Values
		}
	}
	require.Len(t, rows["output_throughput"], 3)
	require.InDelta(t, 1000, rows["output_throughput"][1], 10)

	var trends struct {
		Report struct {
			Trends []struct {
				By   []records.Setting
				Runs int
			}
		}
	}
	a.answer("POST", "/api/analysis/trends", `{"by": ["model"], "metrics": ["output_throughput"]}`, &trends)
	require.Len(t, trends.Report.Trends, 2)
	for _, x := range trends.Report.Trends {
		require.Equal(t, 6, x.Runs)
		require.Equal(t, "model", x.By[0].Key)
	}
}

// Runs are chosen by what their GPUs did, points of a plot have it, and the GPU-hours of any choice are summed.
//
// covers: UC-7
func TestHardwareUse(t *testing.T) {
	a := fleet(t, "")
	var got query.Answer
	a.answer("POST", "/api/filters/apply", `{"filter": {"and": [{"field": "avg_gpu_utilization", "min": 80}, {"field": "system.peak_gpu_memory_gb", "above": 60}]},
		"facets": ["gpu_power_w"], "metrics": ["gpu_hours", "avg_gpu_utilization"],
		"rows": {"fields": ["avg_gpu_utilization", "output_throughput_per_gpu", "gpu_hours"], "limit": 100}}`, &got)
	require.Equal(t, 6, got.Matches)
	require.Equal(t, 4.0, *got.Metrics[0].Mean, "4 GPUs for an hour")
	require.Equal(t, 90.0, *got.Metrics[1].Mean)
	require.Equal(t, 90.0, got.Rows.Columns[0][0].Number)
	require.Equal(t, "gpu_power_w", got.Facets[0].Field)
	require.Equal(t, []query.Count{{Value: field.OfNumber(1200), Runs: 6}}, got.Facets[0].Values)
	hours := func(filter string) float64 {
		var s struct {
			GPUHours float64 `json:"gpu_hours"`
		}
		a.answer("GET", "/api/data/summary?filter="+filter, "", &s)
		return s.GPUHours
	}
	require.InDelta(t, 6*4+6*0.5, hours(""), 1e-9)
	require.InDelta(t, 3, hours("%7B%22field%22%3A%22model%22%2C%22contains%22%3A%22small%22%7D"), 1e-9)
	require.Zero(t, hours("%7B%22field%22%3A%22model%22%2C%22contains%22%3A%22none%22%7D"))
}

// Every operation has a model of what it takes and of what it answers. A request that does not follow its model is
// refused with the place of the mistake.
//
// covers: DASH-7
func TestModelsOfRequestsAndAnswers(t *testing.T) {
	a := newAPI(t, dashboard.Options{})
	status, body := a.ask("GET", "/api/openapi.json", "")
	require.Equal(t, 200, status)
	type content map[string]struct {
		Schema struct {
			Ref  string `json:"$ref"`
			Type any
		}
	}
	var document struct {
		Paths map[string]map[string]struct {
			RequestBody struct{ Content content }
			Responses   map[string]struct{ Content content }
		}
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage
				Additional any `json:"additionalProperties"`
			}
		}
	}
	require.NoError(t, json.Unmarshal(body, &document))
	operations := 0
	for path, methods := range document.Paths {
		for method, op := range methods {
			operations++
			good := 0
			for code, r := range op.Responses {
				good += len(code[:1]) * strings.Count(code[:1], "2")
				if model, ok := r.Content["application/json"]; ok && code == "200" && !strings.HasPrefix(path, "/api/export/") {
					require.True(t, model.Schema.Ref != "" || model.Schema.Type != nil, "%s %s", method, path)
				}
			}
			require.Positive(t, good, "%s %s has an answer", method, path)
			model, ok := op.RequestBody.Content["application/json"]
			if !ok || path == "/api/upload/raw" { // a record of any schema version, which the upload judges
				continue
			}
			require.NotEmpty(t, model.Schema.Ref, "%s %s", method, path)
			name := model.Schema.Ref[strings.LastIndex(model.Schema.Ref, "/")+1:]
			require.NotEmpty(t, document.Components.Schemas[name].Properties, name)
			status, answer := a.ask(strings.ToUpper(method), path, `{"no_such_key": 1}`)
			require.Equal(t, 422, status, "%s: %s", path, answer)
			require.Contains(t, string(answer), "no_such_key", path)
			status, _ = a.ask(strings.ToUpper(method), path, `[`)
			require.Equal(t, 400, status, path)
		}
	}
	require.Greater(t, operations, 20)
}
