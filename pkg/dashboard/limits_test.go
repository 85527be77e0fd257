package dashboard_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/dashboard"
)

// A question whose answer would fill the server's memory is refused, and what a page asks is not.
//
// covers: API-6, DASH-4
func TestQuestionsThatAreTooLarge(t *testing.T) {
	a := newAPI(t, dashboard.Options{})
	names := func(n int) string { return `["` + strings.Join(slices.Repeat([]string{"case"}, n), `","`) + `"]` }
	for _, c := range []struct{ path, body, says string }{
		{"/api/filters/apply", `{"facets": ` + names(257) + `}`, "257 facets"},
		{"/api/filters/apply", `{"metrics": ` + names(257) + `}`, "257 metrics"},
		{"/api/filters/apply", `{"rows": {"fields": ` + names(101) + `, "limit": 10000}}`, "10000 rows of 101 fields"},
		{"/api/filters/apply", `{"rows": {"fields": ` + names(5001) + `, "limit": 1}}`, "5001 fields"},
		{"/api/filters/apply", `{"rows": {"fields": [], "limit": 1, "sort": [` + strings.Repeat(`{"field": "case"},`, 99) + `{"field": "gpu"}]}}`, "100 fields"},
		{"/api/export/csv", `{"fields": ` + names(5001) + `}`, "5001 fields"},
		{"/api/export/json", `{"fields": ` + names(5001) + `}`, "5001 fields"},
		{"/api/analysis/trends", `{"metrics": ` + names(257) + `}`, "257 metrics"},
		{"/api/data/compare", `{"runs": ["a", "b"], "metrics": ` + names(257) + `}`, "257 metrics"},
	} {
		status, answer := a.ask("POST", c.path, c.body)
		require.Equal(t, 422, status, "%s %.200s", c.path, answer)
		var p problemOf
		require.NoError(t, json.Unmarshal(answer, &p))
		require.Contains(t, p.Detail, c.says)
	}
	status, answer := a.ask("GET", "/api/data/experiments?limit=1000&fields="+strings.Repeat("case,", 1000)+"gpu", "")
	require.Equal(t, 422, status, "%.200s", answer)
	for _, body := range []string{
		`{"facets": ` + names(256) + `, "metrics": ` + names(256) + `}`,
		`{"rows": {"fields": ` + names(100) + `, "limit": 10000}}`,
		`{"rows": {"fields": ` + names(5000) + `, "limit": 200}}`,
	} {
		status, answer := a.ask("POST", "/api/filters/apply", body)
		require.Equal(t, 200, status, "%.200s", answer)
	}
}
