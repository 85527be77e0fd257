package dashboard_test

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/dashboard"
	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/synthetic"
)

// exports are the runs that CSV and JSON have of a filter, by their ids: the values as CSV writes them.
func (a *api) exports(f string) (fromCSV, fromJSON map[string]map[string]string) {
	a.t.Helper()
	fromCSV, fromJSON = map[string]map[string]string{}, map[string]map[string]string{}
	status, body := a.ask(http.MethodPost, "/api/export/csv", `{"filter": `+f+`}`)
	require.Equal(a.t, 200, status, "%s", body)
	rows, err := csv.NewReader(strings.NewReader(string(body))).ReadAll()
	require.NoError(a.t, err)
	for _, row := range rows[1:] {
		one := map[string]string{}
		for i, v := range row {
			if v != "" {
				one[rows[0][i]] = strings.TrimPrefix(v, "'") // which keeps a spreadsheet from computing it
			}
		}
		fromCSV[row[0]] = one
	}
	status, body = a.ask(http.MethodPost, "/api/export/json", `{"filter": `+f+`}`)
	require.Equal(a.t, 200, status, "%s", body)
	var list []map[string]field.Value
	require.NoError(a.t, json.Unmarshal(body, &list))
	for _, run := range list {
		one := map[string]string{}
		for name, v := range run {
			one[name] = shown(a.t, name, v)
		}
		fromJSON[one["run_id"]] = one
	}
	require.Len(a.t, fromJSON, len(list), "no run twice")
	require.Len(a.t, rows, len(list)+1)
	return fromCSV, fromJSON
}

func shown(t *testing.T, name string, v field.Value) string {
	t.Helper()
	f, err := field.Find(name)
	if err == nil && f.Kind == field.Time && v.IsNumber() {
		return time.UnixMilli(int64(v.Number)).UTC().Format(time.RFC3339Nano)
	}
	return v.String()
}

// Every value that any record has is in both exports of the runs that meet a filter, with all its digits, and
// no other is.
//
// covers: DATA-1, SM-6
func TestExportsAreWhole(t *testing.T) {
	runs, err := records.Load("../result/testdata/releases")
	require.NoError(t, err)
	made := synthetic.New(3, 60, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	for i := range 60 {
		runs = append(runs, made.Run(i))
	}
	a := &api{t: t, runs: runs}
	a.Server = httptest.NewServer(dashboard.New(live(t, runs), dashboard.Options{}).Handler())
	t.Cleanup(a.Close)
	for _, text := range []string{
		"null", `{"field": "verdict", "in": ["valid"]}`, `{"and": [{"field": "gpus", "min": 4}, {"not": {"text": "llama"}}]}`,
		`{"field": "gpu", "in": ["none has it"]}`,
	} {
		f, err := filter.Parse([]byte(text))
		require.NoError(t, err)
		want := map[string]map[string]string{}
		names := map[string]bool{}
		for i := range runs {
			cells := field.Of(&runs[i])
			if !f.Matches(cells) {
				continue
			}
			one := map[string]string{}
			for _, c := range cells {
				one[c.Field.Name], names[c.Field.Name] = shown(t, c.Field.Name, c.Value), true
			}
			want[one["run_id"]] = one
		}
		fromCSV, fromJSON := a.exports(text)
		require.Equal(t, want, fromCSV, text)
		require.Equal(t, want, fromJSON, text)
		if text == "null" {
			require.Greater(t, len(names), 150)
		}
	}
	status, body := a.ask(http.MethodPost, "/api/export/json", `{"fields": ["gpuu"]}`)
	require.Equal(t, 422, status, "%s", body)
}

// slow is a client during whose reading something else happens, once it has read more than the head.
type slow struct {
	*httptest.ResponseRecorder
	meanwhile func()
}

func (s *slow) Write(p []byte) (int, error) {
	if s.meanwhile != nil && s.Body.Len() > 100_000 {
		do := s.meanwhile
		s.meanwhile = nil
		do()
	}
	return s.ResponseRecorder.Write(p)
}

// An export of several parts is of one moment: if a run is stored between two of them, it breaks off.
//
// covers: DATA-1
func TestExportsAreOfOneMoment(t *testing.T) {
	made := synthetic.New(3, 300, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	body := `{"fields": ["gpu"` + strings.Repeat(`, "gpu"`, 4999) + `]}` // so that 200 runs are a part
	for name, how := range map[string]func(*dashboard.Live) *dashboard.Live{
		"columns": func(l *dashboard.Live) *dashboard.Live { return l },
		"lean":    func(l *dashboard.Live) *dashboard.Live { return dashboard.InDatabase(l.Store) },
	} {
		t.Run(name, func(t *testing.T) {
			var runs []records.Run
			for i := range 299 {
				runs = append(runs, made.Run(i))
			}
			l := how(live(t, runs))
			h := dashboard.New(l, dashboard.Options{}).Handler()
			ask := func(meanwhile func()) *slow {
				w := &slow{httptest.NewRecorder(), meanwhile}
				r := httptest.NewRequest("POST", "http://localhost/api/export/csv", strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				h.ServeHTTP(w, r)
				return w
			}
			got := ask(nil)
			require.Equal(t, 200, got.Code)
			require.Equal(t, 300, strings.Count(got.Body.String(), "\n"))
			require.PanicsWithError(t, http.ErrAbortHandler.Error(), func() {
				ask(func() {
					_, err := l.Put(t.Context(), []records.Run{made.Run(299)})
					require.NoError(t, err)
				})
			})
		})
	}
}
