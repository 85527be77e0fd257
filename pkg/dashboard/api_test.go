package dashboard_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/dashboard"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/store"
)

// api is a server of the records of a release, with the document that its answers are held
// against.
type api struct {
	*httptest.Server
	t       *testing.T
	runs    []records.Run
	schemas map[string]json.RawMessage
	paths   map[string]map[string]operation
}

// live is a store of runs.
func live(t *testing.T, runs []records.Run) *dashboard.Live {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), store.Options{Create: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	l, err := dashboard.Load(t.Context(), s)
	require.NoError(t, err)
	_, err = l.Put(t.Context(), runs)
	require.NoError(t, err)
	return l
}

type operation struct {
	Responses map[string]struct {
		Content map[string]struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

func newAPI(t *testing.T, o dashboard.Options) *api {
	t.Helper()
	runs, err := records.Load("../result/testdata/releases")
	require.NoError(t, err)
	a := &api{t: t, runs: runs}
	a.Server = httptest.NewServer(dashboard.New(live(t, runs), o).Handler())
	t.Cleanup(a.Close)
	status, body := a.ask(http.MethodGet, "/api/openapi.json", "")
	require.Equal(t, http.StatusOK, status)
	var document struct {
		OpenAPI    string                          `json:"openapi"`
		Paths      map[string]map[string]operation `json:"paths"`
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal(body, &document))
	require.Equal(t, "3.1.0", document.OpenAPI)
	a.paths, a.schemas = document.Paths, document.Components.Schemas
	return a
}

// ask sends a request as a page of the same server does.
func (a *api) ask(method, path, body string, headers ...string) (status int, answer []byte) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), method, a.URL+path, strings.NewReader(body))
	require.NoError(a.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := http.DefaultClient.Do(r)
	require.NoError(a.t, err)
	defer got.Body.Close()
	answer, err = io.ReadAll(got.Body)
	require.NoError(a.t, err)
	return got.StatusCode, answer
}

// as asks, wants success and an answer as the document promises for the path, and reads it.
func as[T any](a *api, method, path, documented, body string) T {
	a.t.Helper()
	status, answer := a.ask(method, path, body)
	require.Equal(a.t, http.StatusOK, status, "%s", answer)
	op, ok := a.paths[documented][strings.ToLower(method)]
	require.True(a.t, ok, "the document has no %s %s", method, documented)
	a.holds(op.Responses["200"].Content["application/json"].Schema, answer)
	var v T
	require.NoError(a.t, json.Unmarshal(answer, &v))
	return v
}

// holds checks JSON against a schema of the document.
func (a *api) holds(schema json.RawMessage, data []byte) {
	a.t.Helper()
	require.NotEmpty(a.t, schema)
	whole, err := json.Marshal(map[string]any{"$defs": a.schemas, "allOf": []json.RawMessage{schema}})
	require.NoError(a.t, err)
	var s jsonschema.Schema
	require.NoError(a.t, json.Unmarshal([]byte(strings.ReplaceAll(string(whole), "#/components/schemas/", "#/$defs/")), &s))
	resolved, err := s.Resolve(nil)
	require.NoError(a.t, err)
	var v any
	require.NoError(a.t, json.Unmarshal(data, &v))
	require.NoError(a.t, resolved.Validate(v), "%s", data)
}

type anything = map[string]any

// covers: API-5, API-6, API-9, API-10, API-11, API-12, API-15, API-16, DASH-6
func TestAnswersAreAsTheDocumentSays(t *testing.T) {
	a := newAPI(t, dashboard.Options{Version: "v1"})
	two := `{"runs": ["` + a.runs[0].Result.RunID + `", "` + a.runs[1].Result.RunID + `"]}`
	for _, c := range []struct{ method, path, documented, body string }{
		{"GET", "/api/health", "", ""},
		{"GET", "/api/ready", "", ""},
		{"GET", "/api/filters/options", "", ""},
		{"POST", "/api/filters/apply", "", `{"facets": ["gpu", "median_ttft_ms"], "metrics": ["median_ttft_ms", "gpus"],
			"filter": {"or": [{"field": "verdict", "in": ["valid"]}, {"not": {"field": "gpu", "has": true}}]},
			"rows": {"fields": ["case", "median_ttft_ms"], "sort": [{"field": "median_ttft_ms"}], "limit": 5}}`},
		{"GET", "/api/filters/presets", "", ""},
		{"GET", "/api/data/experiments?sort=-median_ttft_ms&limit=3&filter=" + `%7B%22field%22%3A%22verdict%22%2C%22has%22%3Atrue%7D`,
			"/api/data/experiments", ""},
		{"GET", "/api/data/experiments/" + a.runs[0].Result.RunID, "/api/data/experiments/{id}", ""},
		{"GET", "/api/data/summary", "", ""},
		{"POST", "/api/data/compare", "", two},
		{"POST", "/api/data/compare", "", `{"a": {"field": "test", "in": ["sweep"]}, "b": {"field": "test", "in": ["ray"]}}`},
		{"POST", "/api/analysis/trends", "", `{"filter": {"field": "median_ttft_ms", "has": true}}`},
		{"POST", "/api/analysis/regression", "", `{"metrics": ["median_ttft_ms"]}`},
		{"POST", "/api/analysis/impact", "", `{"metric": "median_ttft_ms"}`},
		{"POST", "/api/analysis/scaling", "", `{"metric": "output_throughput"}`},
		{"POST", "/api/analysis/capacity", "", `{"limits": ["median_ttft_ms=50"], "target": 10000}`},
		{"POST", "/api/analysis/pareto", "", `{"x": "median_ttft_ms", "y": "output_throughput"}`},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			if c.documented == "" {
				c.documented = c.path
			}
			require.NotEmpty(t, as[anything](a, c.method, c.path, c.documented, c.body))
		})
	}
}

func TestRefusals(t *testing.T) {
	a := newAPI(t, dashboard.Options{Token: "secret-of-the-server"})
	preset := `{"name": "mine", "filter": {"field": "gpu", "has": true}}`
	bearer := []string{"Authorization", "Bearer secret-of-the-server"}
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		says                     string
	}{
		{"a key that filters lack", "POST", "/api/filters/apply", `{"filter": {"fild": 1}}`, nil, 422, "filter.fild"},
		{"a field that runs lack", "POST", "/api/filters/apply", `{"filter": {"field": "gpuu", "has": true}}`, nil, 422,
			"did you mean"},
		{"too many rows", "POST", "/api/filters/apply", `{"rows": {"fields": [], "limit": 10001}}`, nil, 422, "10000"},
		{"a run that is not there", "GET", "/api/data/experiments/exp_none", "", nil, 404, "exp_none"},
		{"one run", "POST", "/api/data/compare", `{"runs": ["a"]}`, nil, 422, "two to ten"},
		{"eleven runs", "POST", "/api/data/compare", `{"runs": ["1","2","3","4","5","6","7","8","9","10","11"]}`, nil, 422, "10"},
		{"a form of another page", "POST", "/api/filters/apply", "x=1",
			[]string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "content type"},
		{"a body of no kind", "POST", "/api/filters/apply", "{}", []string{"Content-Type", ""}, 415, "say Content-Type"},
		{"a name that leads to a write", "DELETE", "/api/filters/presets/..%2F..%2Fupload%2Fraw", "", nil, 401, "Bearer"},
		{"a name behind a name", "GET", "/api/data/experiments/..%2Fx/../../upload/raw", "", nil, 400, "shortest form"},
		{"a write without the token", "POST", "/api/filters/presets", preset, nil, 401, "Bearer"},
		{"a write with another token", "POST", "/api/filters/presets", preset,
			[]string{"Authorization", "Bearer secret-of-the-serve"}, 401, "Bearer"},
		{"a deletion without the token", "DELETE", "/api/filters/presets/mine", "", nil, 401, "Bearer"},
		{"a write for a page of another server", "POST", "/api/filters/presets", preset,
			append([]string{"Origin", "https://elsewhere.example"}, bearer...), 403, "another server"},
		{"a name that is not the server's", "GET", "/api/health", "", []string{"Host", "elsewhere.example"}, 421, "--host"},
		{"a read that leads to a write", "POST", "/api/data/../upload/raw", "{}", nil, 400, "shortest form"},
		{"the same, encoded", "POST", "/api/data/%2e%2e/upload/raw", "{}", nil, 400, "shortest form"},
		{"two slashes", "POST", "//api/upload/raw", "{}", nil, 400, "shortest form"},
		{"a write with a slash behind it", "POST", "/api/upload/raw/", "{}", nil, 401, "Bearer"},
		{"another method", "PUT", "/api/upload/raw", "{}", nil, 401, "Bearer"},
		{"a preset that no address reaches", "POST", "/api/filters/presets", `{"name": ".."}`, bearer, 422, "letter"},
		{"a path that the API lacks", "GET", "/api/nothing", "", nil, 404, "openapi.json"},
		{"too large a body", "POST", "/api/filters/apply", `{"facets": ["` + strings.Repeat("x", 1<<20) + `"]}`, nil, 413, "too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := a.ask(c.method, c.path, c.body, c.headers...)
			require.Equal(t, c.status, status, "%s", body)
			require.Contains(t, string(body), c.says)
		})
	}
	status, body := a.ask("POST", "/api/filters/presets", preset, bearer...)
	require.Equal(t, 204, status, "%s", body)
	status, body = a.ask("GET", "/api/filters/presets", "")
	require.Equal(t, 200, status)
	require.Contains(t, string(body), `"mine"`)
	for _, name := range []string{"a//b", "a/../b", "../x", "x/", "/x", "%2e%2e", "a?b#c", "ä ö"} {
		named, err := json.Marshal(map[string]any{"name": name, "filter": map[string]any{"field": "gpu", "has": true}})
		require.NoError(t, err)
		status, body := a.ask("POST", "/api/filters/presets", string(named), bearer...)
		require.Equal(t, 204, status, "%s: %s", name, body)
		status, body = a.ask("DELETE", "/api/filters/presets/"+url.PathEscape(name), "", bearer...)
		require.Equal(t, 204, status, "%s: %s", name, body)
	}
}

// The filter of a URL counts, and one that is none is refused.
//
// covers: API-9, API-12
func TestFiltersInURLs(t *testing.T) {
	a := newAPI(t, dashboard.Options{})
	for _, path := range []string{"/api/data/experiments", "/api/data/summary"} {
		got := as[struct{ Runs, Matches int }](a, "GET", path+`?filter=%7B%22field%22%3A%22test%22%2C%22in%22%3A%5B%22sweep%22%5D%7D`, path, "")
		require.Positive(t, got.Matches)
		require.Less(t, got.Matches, got.Runs)
		for _, bad := range []string{"xxx", `%7B%22field%22%3A%22nope%22%7D`, strings.Repeat("%5B", 10_000)} {
			status, body := a.ask("GET", path+"?filter="+bad, "")
			require.Equal(t, 422, status, "%s", body)
		}
	}
}

func TestReadOnly(t *testing.T) {
	a := newAPI(t, dashboard.Options{ReadOnly: true})
	status, body := a.ask("POST", "/api/filters/presets", `{"name": "mine"}`)
	require.Equal(t, 403, status, "%s", body)
	status, _ = a.ask("POST", "/api/filters/apply", `{}`)
	require.Equal(t, 200, status)
}

// The list and the summary are of the runs that meet the filter in the address.
//
// covers: API-9, API-12
func TestFilterInTheAddress(t *testing.T) {
	a := newAPI(t, dashboard.Options{})
	sweep := "filter=" + url.QueryEscape(`{"field": "test", "in": ["sweep"]}`)
	var list struct {
		Runs, Matches int
		Experiments   []struct{ Test string }
	}
	a.answer("GET", "/api/data/experiments?fields=test&limit=1&"+sweep, "", &list)
	require.Equal(t, []int{10, 2}, []int{list.Runs, list.Matches})
	a.answer("GET", "/api/data/experiments?fields=test&offset=1&"+sweep, "", &list)
	require.Equal(t, "sweep", list.Experiments[0].Test)
	require.Len(t, list.Experiments, 1)
	var sum struct{ Runs, Matches int }
	a.answer("GET", "/api/data/summary?"+sweep, "", &sum)
	require.Equal(t, []int{10, 2}, []int{sum.Runs, sum.Matches})
	for _, path := range []string{"/api/data/experiments", "/api/data/summary"} {
		status, body := a.ask("GET", path+"?filter="+url.QueryEscape(`{"fild": 1}`), "")
		require.Equal(t, 422, status, "%s", body)
	}
}

// covers: API-13, DASH-4, DB-10
func TestCSV(t *testing.T) {
	a := newAPI(t, dashboard.Options{})
	status, body := a.ask("POST", "/api/export/csv",
		`{"fields": ["timestamp", "case", "median_ttft_ms"], "sort": [{"field": "case"}], "filter": {"field": "test", "in": ["sweep"]}}`)
	require.Equal(t, 200, status, "%s", body)
	require.Equal(t, `run_id,timestamp,case,median_ttft_ms
exp_20261122_165159_850174,2026-11-22T16:52:05.456Z,sweep max_concurrency=2,20.771297
exp_20261122_165159_ed75ea,2026-11-22T16:52:05.456Z,sweep max_concurrency=4,20.815678000000002
`, string(body))
	status, body = a.ask("POST", "/api/export/csv", `{}`)
	require.Equal(t, 200, status)
	require.Len(t, strings.Split(strings.TrimSpace(string(body)), "\n"), 11)
}

func TestMetrics(t *testing.T) {
	a := newAPI(t, dashboard.Options{})
	a.ask("GET", "/api/data/experiments/exp_none", "")
	status, body := a.ask("GET", "/metrics", "")
	require.Equal(t, 200, status)
	require.Contains(t, string(body), "profllm_dashboard_runs 10\n")
	require.Contains(t, string(body),
		`profllm_dashboard_request_seconds_count{route="GET /api/data/experiments/{id}",status="404"} 1`+"\n")
}

// A simulated run, however good, does not push measured ones off the frontier.
func TestTheFrontierIsOfOneKind(t *testing.T) {
	runs, err := records.Load("../result/testdata/releases/2026-11-22/release")
	require.NoError(t, err)
	fit := runs[:0]
	for _, r := range runs {
		if r.Unfit(records.Simulated) == "" && len(fit) < 2 {
			fit = append(fit, r)
		}
	}
	require.Len(t, fit, 2)
	copied := *fit[1].Result
	fit[1].Result = &copied
	copied.Simulated, copied.SimulatedSpeed = false, 0
	a := &api{t: t}
	a.Server = httptest.NewServer(dashboard.New(live(t, fit), dashboard.Options{}).Handler())
	t.Cleanup(a.Close)
	status, body := a.ask("POST", "/api/analysis/pareto", `{"x": "median_ttft_ms", "y": "output_throughput"}`)
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"ids": ["`+copied.RunID+`"], "kind": "measured"}`, string(body))
}

// Two runs have one run_id: answers name each by its id in the store.
func TestAnswersNameIdsOfTheStore(t *testing.T) {
	runs, err := records.Load("../result/testdata/releases/2026-11-22/release")
	require.NoError(t, err)
	fit := slices.DeleteFunc(runs, func(r records.Run) bool { return r.Unfit(records.Simulated) != "" })
	first := fit[0]
	i := slices.IndexFunc(fit, func(r records.Run) bool { return r.Case.Test != first.Case.Test })
	require.Positive(t, i)
	second := fit[i]
	namesake := *second.Result
	namesake.RunID, second.Result = first.Result.RunID, &namesake
	id := first.Result.RunID
	a := &api{t: t}
	a.Server = httptest.NewServer(dashboard.New(live(t, []records.Run{first, second}), dashboard.Options{}).Handler())
	t.Cleanup(a.Close)
	ask := func(method, path, body string, got any) {
		status, answer := a.ask(method, path, body)
		require.Equal(t, 200, status, "%s", answer)
		require.NoError(t, json.Unmarshal(answer, got))
	}
	var compared struct{ IDs map[string]string }
	ask("POST", "/api/data/compare", `{"runs": ["`+id+`", "`+id+`~2"]}`, &compared)
	require.Equal(t, map[string]string{first.Dir: id, second.Dir: id + "~2"}, compared.IDs)
	ask("POST", "/api/data/compare", `{"a": {"field": "test", "in": ["`+first.Case.Test+`"]},
		"b": {"field": "test", "in": ["`+second.Case.Test+`"]}}`, &compared)
	require.Equal(t, map[string]string{first.Dir: id, second.Dir: id + "~2"}, compared.IDs)
	var named struct{ Said []struct{ Lines []string } }
	ask("POST", "/api/data/compare", `{"a": {"field": "test", "in": ["`+first.Case.Test+`"]},
		"b": {"field": "test", "in": ["`+second.Case.Test+`"]}, "names": ["tests of old", "`+strings.Repeat("n", 101)+`"]}`, &named)
	require.Contains(t, named.Said[0].Lines[0], ", "+strings.Repeat("n", 100)+"… against tests of old (")
	only := `{"filter": {"field": "test", "in": ["` + second.Case.Test + `"]}, "metrics": ["output_throughput"]}`
	var trends struct{ Starts [][]struct{ ID string } }
	ask("POST", "/api/analysis/trends", only, &trends)
	require.Equal(t, id+"~2", trends.Starts[0][0].ID)
	var all struct {
		Starts [][]struct{ ID string }
		Report struct {
			LeftOut []struct{ Dir, Why string } `json:"left_out"`
		}
	}
	ask("POST", "/api/analysis/trends", `{"metrics": ["output_throughput"]}`, &all)
	require.Empty(t, all.Report.LeftOut, "the second is no copy")
	require.Len(t, all.Starts, 2)
	var capacity struct{ Plans []struct{ Run string } }
	ask("POST", "/api/analysis/capacity", `{"metric": "output_throughput"}`, &capacity)
	require.Len(t, capacity.Plans, 2)
	require.ElementsMatch(t, []string{id, id + "~2"}, []string{capacity.Plans[0].Run, capacity.Plans[1].Run})
	var list struct {
		Experiments []struct {
			RunID string `json:"run_id"`
		}
	}
	ask("GET", "/api/data/experiments?fields=run_id,test", "", &list)
	require.ElementsMatch(t, []string{id, id + "~2"}, []string{list.Experiments[0].RunID, list.Experiments[1].RunID})
}
