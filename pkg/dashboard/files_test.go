package dashboard_test

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/dashboard"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// traced is a server of one run whose record names some traces, and the run's folder.
func traced(t *testing.T, roots ...string) (*api, string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	dir := filepath.Join(root, "results", "run")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "profile"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "profile", "good.json.gz"), []byte("a trace"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "secret"), []byte("secret"), 0o600))
	require.NoError(t, os.Symlink(filepath.Join(root, "secret"), filepath.Join(dir, "profile", "link.json.gz")))
	r := &result.Result{RunID: "exp_1", Profiling: &result.Profiling{Enabled: true}}
	for _, path := range []string{
		"profile/good.json.gz", "profile/link.json.gz", "../../secret", filepath.Join(root, "secret"), "profile", "profile/gone",
	} {
		r.Profiling.Traces = append(r.Profiling.Traces, result.Trace{Kind: result.TorchTrace, Path: path})
	}
	for i := range roots {
		roots[i] = filepath.Join(root, roots[i])
	}
	a := &api{t: t}
	a.Server = httptest.NewServer(dashboard.New(live(t, []records.Run{{Dir: dir, Result: r}}),
		dashboard.Options{Roots: roots}).Handler())
	t.Cleanup(a.Close)
	return a, root
}

// covers: API-14, LBEN-4
func TestTraces(t *testing.T) {
	a, root := traced(t, "results")
	status, body := a.ask("GET", "/api/export/traces/exp_1", "")
	require.Equal(t, 200, status, "%s", body)
	var list struct{ Traces []result.Trace }
	require.NoError(t, json.Unmarshal(body, &list))
	require.Len(t, list.Traces, 6)
	get := func(path string) (int, string) {
		status, body := a.ask("GET", "/api/export/traces/exp_1?path="+url.QueryEscape(path), "")
		return status, string(body)
	}
	status, text := get("profile/good.json.gz")
	require.Equal(t, 200, status)
	require.Equal(t, "a trace", text)
	for _, path := range []string{
		"profile/link.json.gz", "../../secret", filepath.Join(root, "secret"), "profile", "profile/gone", // named by the record
		"result.json", "../run/profile/good.json.gz", // not named
	} {
		status, text = get(path)
		require.Equal(t, 404, status, "%s: %s", path, text)
		require.NotContains(t, text, `"secret"`)
	}
}

func TestFilesOfOtherFoldersAreNotRead(t *testing.T) {
	for _, roots := range [][]string{nil, {"elsewhere"}, {"results/run2"}} {
		a, _ := traced(t, roots...)
		status, body := a.ask("GET", "/api/export/traces/exp_1?path=profile/good.json.gz", "")
		require.Equal(t, 404, status, "%s", body)
		status, body = a.ask("GET", "/api/data/experiments/exp_1/series", "")
		require.Equal(t, 404, status, "%s", body)
		require.Contains(t, string(body), "not on this server")
	}
	a, _ := traced(t, "results")
	status, body := a.ask("GET", "/api/data/experiments/exp_1/series", "")
	require.Equal(t, 200, status, "%s", body)
}
