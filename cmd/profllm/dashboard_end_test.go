package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/upload"
)

// A service manager ends the dashboard in the middle of uploads, some times: what was accepted is stored once it
// runs again, each run once.
//
// covers: SM-4, DASH-1
func TestDashboardEndsDuringUploads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ids := writeRecords(t, filepath.Join(dir, "results"), 60)
	var accepted, jobs []string
	for part := range slices.Chunk(ids, 20) {
		p := startDashboard(t, dir, nil, "--store", "runs.db")
		var all sync.WaitGroup
		var mu sync.Mutex
		some := make(chan struct{}, len(part))
		for _, id := range part {
			all.Go(func() {
				data, err := os.ReadFile(filepath.Join(dir, "results", id, "result.json"))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := http.Post(p.url+"/api/upload/raw", "application/json", bytes.NewReader(data))
				if err != nil {
					return // the server has ended
				}
				defer got.Body.Close()
				var st upload.Status
				if got.StatusCode != http.StatusAccepted || json.NewDecoder(got.Body).Decode(&st) != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				accepted, jobs = append(accepted, id), append(jobs, st.Job)
				some <- struct{}{}
			})
		}
		for range 3 {
			<-some
		}
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		all.Wait()
		require.NoError(t, p.cmd.Wait(), p.said.String())
	}
	p := startDashboard(t, dir, nil, "--store", "runs.db")
	for _, job := range jobs {
		var st upload.Status
		await.True(t, func() bool {
			p.ask("GET", "/api/upload/status/"+job, nil, &st)
			return st.State == upload.Done
		}, "the upload is done: %+v", &st)
		require.Equal(t, 1, st.Files[0].Outcome["stored"]+st.Files[0].Outcome["duplicate"])
	}
	var a query.Answer
	p.ask("POST", "/api/filters/apply", query.Query{Rows: &query.Rows{Fields: []string{"run_id"}, Limit: 1000}}, &a)
	require.Subset(t, a.Rows.IDs, accepted)
	require.Subset(t, ids, a.Rows.IDs, "none has another id")
	require.Equal(t, len(a.Rows.IDs), a.Runs)
	p.stop()
}

// With --token-for all, reading needs the token, and the page does not.
//
// covers: API-5, DASH-6
func TestDashboardTokenFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := profllm(t, dir, nil, "dashboard", "serve", "--demo", "--address", "127.0.0.1:0", "--token-for", "all")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "hint: export PROFLLM_DASHBOARD_TOKEN")
	p := startDashboard(t, dir, []string{"PROFLLM_DASHBOARD_TOKEN=secret"}, "--demo", "--token-for", "all")
	for path, want := range map[string][2]int{
		"/": {200, 200}, "/api/health": {200, 200}, "/api/filters/options": {401, 200}, "/metrics": {401, 200},
	} {
		for i, token := range []string{"", "Bearer secret"} {
			r, err := http.NewRequest("GET", p.url+path, nil)
			require.NoError(t, err)
			r.Header.Set("Authorization", token)
			got, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			got.Body.Close()
			require.Equal(t, want[i], got.StatusCode, path)
		}
	}
	p.stop()
}
