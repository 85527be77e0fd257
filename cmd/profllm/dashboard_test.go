package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/synthetic"
	"github.com/profllm/profllm/pkg/tier"
	"github.com/profllm/profllm/pkg/upload"
)

// page is a dashboard, or another server, that runs.
type page struct {
	t    *testing.T
	url  string
	cmd  *exec.Cmd
	said *lockedBuffer
}

var addressSaid = regexp.MustCompile(`(?:http://|address=)([^/\s]+)`)

// startDashboard starts a dashboard and waits until it serves.
func startDashboard(t *testing.T, dir string, env []string, args ...string) *page {
	t.Helper()
	return startListening(t, command(dir, env, append([]string{"dashboard", "serve", "--address", "127.0.0.1:0"}, args...)...))
}

// startListening starts a server and waits until it says where it serves.
func startListening(t *testing.T, cmd *exec.Cmd) *page {
	t.Helper()
	p := &page{t: t, cmd: cmd, said: &lockedBuffer{}}
	p.cmd.Stderr = p.said
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
	await.True(t, func() bool {
		said := addressSaid.FindStringSubmatch(p.said.String())
		if said != nil {
			p.url = "http://" + said[1]
		}
		return said != nil
	}, "the server says where it serves")
	return p
}

// stop ends the dashboard as a service manager does, which takes another exit code than 0 for a failure.
func (p *page) stop() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(p.t, p.cmd.Wait(), p.said.String())
}

// ask sends a request and reads the answer, which must be a success.
func (p *page) ask(method, path string, body, answer any) {
	p.t.Helper()
	var sent []byte
	if body != nil {
		var err error
		sent, err = json.Marshal(body)
		require.NoError(p.t, err)
	}
	r, err := http.NewRequest(method, p.url+path, bytes.NewReader(sent))
	require.NoError(p.t, err)
	r.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer got.Body.Close()
	data, err := io.ReadAll(got.Body)
	require.NoError(p.t, err)
	require.Less(p.t, got.StatusCode, 300, "%s %s: %s", path, sent, data)
	require.NoError(p.t, json.Unmarshal(data, answer), "%s", data)
}

// writeRecords writes made-up records, each into a folder with its id.
func writeRecords(t *testing.T, dir string, n int) (ids []string) {
	t.Helper()
	made := synthetic.New(7, n, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	for i := range n {
		r := made.Record(i)
		data, err := result.Encode(r)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, r.RunID), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, r.RunID, "result.json"), data, 0o644))
		ids = append(ids, r.RunID)
	}
	return ids
}

// randomFilter is a filter that some runs may meet.
func randomFilter(r *rand.Rand, fields []fieldSeen, depth int) map[string]any {
	if depth < 3 && r.IntN(3) == 0 {
		switch r.IntN(3) {
		case 0:
			return map[string]any{"not": randomFilter(r, fields, depth+1)}
		case 1:
			return map[string]any{"and": []any{randomFilter(r, fields, depth+1), randomFilter(r, fields, depth+1)}}
		}
		return map[string]any{"or": []any{randomFilter(r, fields, depth+1), randomFilter(r, fields, depth+1)}}
	}
	f := fields[r.IntN(len(fields))]
	c := map[string]any{"field": f.Name}
	switch {
	case r.IntN(8) == 0:
		c["has"] = r.IntN(2) == 0
	case f.Min != nil && f.Max != nil && r.IntN(2) == 0:
		c[[]string{"min", "above", "max", "below"}[r.IntN(4)]] = *f.Min + r.Float64()*(*f.Max-*f.Min)
	case len(f.Values) > 0:
		c["in"] = []any{f.Values[r.IntN(len(f.Values))].Value, f.Values[r.IntN(len(f.Values))].Value}
	default:
		return map[string]any{"text": []string{"h100", "qwen", "0.1", "nightly"}[r.IntN(4)]}
	}
	return c
}

type fieldSeen struct {
	Name     string
	Min, Max *float64
	Values   []query.Count
}

// The page, through its API, and the command line must never disagree: which runs meet a filter, their
// numbers, comparisons and series.
//
// covers: UI-5, UI-7, DASH-2, DASH-3, SM-7, DB-9
func TestPageAndCommandLineAgree(t *testing.T) {
	t.Parallel()
	for _, lean := range []bool{false, true} {
		t.Run(map[bool]string{false: "columns", true: "database"}[lean], func(t *testing.T) { pageAndCommandLine(t, lean) })
	}
}

func pageAndCommandLine(t *testing.T, lean bool) {
	t.Parallel()
	filters, pairs := 50, 10
	switch {
	case testing.Short() || lean:
		filters, pairs = 8, 3
	case tier.Whole():
		filters, pairs = 200, 40
	}
	dir := t.TempDir()
	ids := writeRecords(t, filepath.Join(dir, "results"), 90)
	require.Zero(t, profllm(t, dir, nil, "store", "fill", "results", "--store", "runs.db").code)
	args := []string{"--store", "runs.db"}
	if lean {
		args = append(args, "--lean")
	}
	p := startDashboard(t, dir, nil, args...)
	var options struct{ Fields []fieldSeen }
	p.ask("GET", "/api/filters/options", nil, &options)
	r := rand.New(rand.NewPCG(1, 2))
	met := 0
	for range filters {
		f := randomFilter(r, options.Fields, 0)
		met += p.agreeOnFilter(dir, f)
	}
	require.Greater(t, met, filters, "the filters choose runs")
	for range pairs {
		p.agreeOnPair(dir, ids[r.IntN(len(ids))], ids[r.IntN(len(ids))])
	}
	p.agreeOnTrends(dir)
	p.stop()
}

// agreeOnFilter compares what report and the API say of a filter, and gives the number of runs that
// meet it.
func (p *page) agreeOnFilter(dir string, f map[string]any) int {
	t := p.t
	t.Helper()
	text, err := json.Marshal(f)
	require.NoError(t, err)
	names := []string{"median_ttft_ms", "output_throughput", "p99_tpot_ms"}
	var a query.Answer
	p.ask("POST", "/api/filters/apply", map[string]any{"filter": f, "metrics": names,
		"rows": map[string]any{"fields": names, "limit": 1000, "sort": []any{map[string]any{"field": "run_id"}}}}, &a)
	o := profllm(t, dir, nil, "report", "results", "--output", "json", "--filter", string(text))
	if a.Matches == 0 {
		require.Equal(t, exitUsage, o.code, "%s", text)
		require.Contains(t, o.stderr, "meets the filter")
		return 0
	}
	require.Zero(t, o.code, "%s: %s", text, o.stderr)
	var rep report.Report
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &rep))
	slices.SortFunc(rep.Runs, func(x, y report.Entry) int { return strings.Compare(x.RunID, y.RunID) })
	require.Len(t, rep.Runs, a.Matches, "%s", text)
	require.Len(t, a.Rows.IDs, a.Matches)
	for i, e := range rep.Runs {
		require.Equal(t, e.RunID, a.Rows.IDs[i], "%s", text)
		for at, name := range names {
			v, shown := a.Rows.Columns[at][i], e.Metrics[name]
			require.Equal(t, shown.Number != nil, v.IsNumber(), "%s of %s", name, e.RunID)
			if v.IsNumber() {
				require.Equal(t, *shown.Number, v.Number, "%s of %s", name, e.RunID)
			}
		}
	}
	p.agreeOnStats(rep.Runs, a.Metrics, string(text))
	return a.Matches
}

func (p *page) agreeOnStats(runs []report.Entry, stats []query.Stats, text string) {
	p.t.Helper()
	for _, s := range stats {
		var list []float64
		for _, e := range runs {
			if v := e.Metrics[s.Field].Number; v != nil {
				list = append(list, *v)
			}
		}
		require.Equal(p.t, len(list), s.Runs, "%s %s", s.Field, text)
		if len(list) == 0 {
			continue
		}
		sum := 0.0
		for _, x := range list {
			sum += x
		}
		require.Equal(p.t, slices.Min(list), *s.Min, s.Field)
		require.Equal(p.t, slices.Max(list), *s.Max, s.Field)
		require.InEpsilon(p.t, sum/float64(len(list)), *s.Mean, 1e-12, s.Field)
	}
}

// agreeOnPair compares what compare, diff and the API say of two runs.
func (p *page) agreeOnPair(dir, one, two string) {
	t := p.t
	t.Helper()
	var a struct {
		Said   []format.Paragraph
		Report report.Report
		Diff   report.Delta
	}
	p.ask("POST", "/api/data/compare", map[string]any{"runs": []string{one, two}}, &a)
	o := profllm(t, dir, nil, "compare", filepath.Join("results", one), filepath.Join("results", two), "--output", "json")
	var rep report.Report
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &rep), o.stdout+o.stderr)
	require.Equal(t, len(rep.Judgements), len(a.Report.Judgements))
	for i, j := range rep.Judgements {
		b := a.Report.Judgements[i]
		require.Equal(t, j.Verdict, b.Verdict)
		require.Equal(t, j.Metrics, b.Metrics, "%s and %s", one, two)
		require.Equal(t, j.NotComparable, b.NotComparable)
	}
	o = profllm(t, dir, nil, "diff", filepath.Join("results", one), filepath.Join("results", two), "--output", "json")
	var d report.Delta
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &d), o.stdout+o.stderr)
	require.Equal(t, d.Groups, a.Diff.Groups)
}

func (p *page) agreeOnTrends(dir string) {
	t := p.t
	t.Helper()
	f := `{"field": "max_concurrency", "max": 64}`
	var a struct{ Report report.Report }
	p.ask("POST", "/api/analysis/trends", map[string]any{"filter": json.RawMessage(f), "metrics": []string{"output_throughput"}}, &a)
	o := profllm(t, dir, nil, "trend", "results", "--metric", "output_throughput", "--filter", f, "--output", "json")
	var rep report.Report
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &rep), o.stdout+o.stderr)
	require.NotEmpty(t, rep.Trends)
	require.Equal(t, len(rep.Trends), len(a.Report.Trends))
	for i, x := range rep.Trends {
		require.Equal(t, x.Verdict, a.Report.Trends[i].Verdict)
		require.Equal(t, x.Test, a.Report.Trends[i].Test)
		for j, m := range x.Metrics {
			require.Equal(t, m.Level, a.Report.Trends[i].Metrics[j].Level)
			require.Equal(t, m.Cuts, a.Report.Trends[i].Metrics[j].Cuts)
		}
	}
}

// covers: DASH-1, UI-13, UI-15, SM-3
func TestUploadedRunsAreShown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ids := writeRecords(t, filepath.Join(dir, "results"), 3)
	p := startDashboard(t, dir, nil, "--store", "runs.db")
	upload1 := func(id string) upload.File {
		data, err := os.ReadFile(filepath.Join(dir, "results", id, "result.json"))
		require.NoError(t, err)
		var st upload.Status
		p.ask("POST", "/api/upload/raw", json.RawMessage(data), &st)
		await.True(t, func() bool {
			p.ask("GET", "/api/upload/status/"+st.Job, nil, &st)
			return st.State == upload.Done
		}, "the upload is done")
		require.Len(t, st.Files, 1)
		return st.Files[0]
	}
	for _, id := range ids {
		require.Equal(t, map[string]int{"stored": 1}, upload1(id).Outcome)
	}
	require.Equal(t, map[string]int{"duplicate": 1}, upload1(ids[0]).Outcome)
	var a query.Answer
	p.ask("POST", "/api/filters/apply", query.Query{}, &a)
	require.Equal(t, 3, a.Runs)
	second := profllm(t, dir, nil, "dashboard", "serve", "--address", "127.0.0.1:0", "--store", "runs.db")
	require.Equal(t, exitUsage, second.code, second.stderr)
	require.Regexp(t, `runs.db.uploads: process \d+ on .*\n\thint: stop that program, or name another folder`, second.stderr)
	p.stop()
	p = startDashboard(t, dir, nil, "--store", "runs.db")
	p.ask("POST", "/api/filters/apply", query.Query{}, &a)
	require.Equal(t, 3, a.Runs, "they are there after a restart")
}

func TestDashboardRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--address", "0.0.0.0:0"}, "PROFLLM_DASHBOARD_TOKEN"},
		{[]string{"--demo", "--store", "runs.db"}, "--demo"},
		{[]string{"nothing"}, "nothing"},
		{nil, "there is no folder results"},
		{[]string{"--address", "256.0.0.1:x"}, "256.0.0.1"},
	} {
		o := profllm(t, dir, nil, append([]string{"dashboard", "serve"}, c.args...)...)
		require.Equal(t, exitUsage, o.code, fmt.Sprint(c.args, o.stderr))
		require.Contains(t, o.stderr, c.says)
		require.NotContains(t, o.stderr, "goroutine", "a panic has the same exit code")
	}
}
