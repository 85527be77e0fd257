package dashboard_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/dashboard"
	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/host"
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

type listed struct {
	Files []struct {
		Name string
		Size int64
	}
	More bool `json:"more_files"`
}

func (a *api) files(id string) (names []string, got listed) {
	a.t.Helper()
	status, body := a.ask("GET", "/api/data/experiments/"+id, "")
	require.Equal(a.t, 200, status, "%s", body)
	require.Contains(a.t, string(body), `"files":[`)
	require.NoError(a.t, json.Unmarshal(body, &got))
	for _, f := range got.Files {
		names = append(names, f.Name)
	}
	return names, got
}

// A run's regular files are listed: no links, no pipes, nothing hidden, nothing outside, and no more than some.
//
// covers: API-10
func TestFilesOfARun(t *testing.T) {
	a, root := traced(t, "results")
	dir := filepath.Join(root, "results", "run")
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".hidden"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "result.json"), []byte("{}"), 0o600))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	require.NoError(t, os.Symlink(root, filepath.Join(dir, "all")))
	names, got := a.files("exp_1")
	require.Equal(t, []string{"profile/good.json.gz", "result.json"}, names)
	require.Equal(t, int64(len("a trace")), got.Files[0].Size)
	require.False(t, got.More)

	require.NoError(t, os.Mkdir(filepath.Join(dir, "many"), 0o700))
	for i := range 600 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "many", fmt.Sprint(i)), nil, 0o600))
	}
	deep := dir + strings.Repeat("/deep", 20)
	require.NoError(t, os.MkdirAll(deep, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(deep, "file"), nil, 0o600))
	names, got = a.files("exp_1")
	require.Len(t, names, 500)
	require.True(t, got.More)

	elsewhere, _ := traced(t, "elsewhere")
	names, got = elsewhere.files("exp_1")
	require.Empty(t, names, "of a folder that the server was not started with")
	require.False(t, got.More)
}

type overTime struct {
	Tracks []struct {
		Name, Unit, Of, Node string
		Times                []float64
		Values               []*float64
	}
	Phases   []struct{ Name string }
	Problems []string
}

// What a job sampled of its engines, GPUs and nodes is answered with its unit, its gaps and the client's phases.
//
// covers: UI-9, UC-7
func TestSeries(t *testing.T) {
	a, root := traced(t, "results")
	dir := filepath.Join(root, "results", "run", "telemetry")
	require.NoError(t, os.Mkdir(dir, 0o700))
	begin := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	engines, gpus := "time_s,role,running,waiting,kv_cache,generated_tokens\n", gpu.Header
	hosts := []byte(host.Header)
	for i := range 20 {
		at := begin.Add(time.Duration(i) * time.Second)
		if i != 7 && i != 8 && i != 9 { // a gap
			engines += fmt.Sprintf("%d,decode,%d,2,0.25,%d\n", at.Unix(), i, 300*i)
		}
		for g := range 2 {
			gpus += fmt.Sprintf("%d,%d,GPU-%d,%d,2048,%d,,1900,2600,60,\n", at.UnixMilli(), g, g, 90+g, 500+i)
		}
		n := func(x int) *uint64 { return new(uint64(x)) }
		hosts = host.Sample{
			Time: at, Busy: n(50 * i), Ticks: n(200 * i), Used: n(3 << 20), In: n(i * 2e6), Out: n(i * 1e6), Read: n(0), Write: n(i * 5e5),
		}.Append(hosts)
	}
	for name, text := range map[string]string{
		"telemetry/engines-bench.csv": engines, "telemetry/gpu-n1.csv": gpus, "telemetry/host-n1.csv": string(hosts),
		"telemetry/gpu-n2.csv": "nonsense\n",
		"events.jsonl":         `{"time":"2026-01-02T03:04:02Z","event":"client-begins","text":"bench"}` + "\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(root, "results", "run", name), []byte(text), 0o600))
	}
	status, body := a.ask("GET", "/api/data/experiments/exp_1/series", "")
	require.Equal(t, 200, status, "%s", body)
	var got overTime
	require.NoError(t, json.Unmarshal(body, &got))
	require.Equal(t, "bench", got.Phases[0].Name)
	require.Len(t, got.Problems, 1)
	require.Contains(t, got.Problems[0], "gpu-n2.csv")
	last := map[string]string{}
	for _, x := range got.Tracks {
		last[x.Name+" of "+x.Of] = fmt.Sprintf("%.4g %s", *x.Values[len(x.Values)-1], x.Unit)
		require.Len(t, x.Times, len(x.Values))
		require.Greater(t, x.Times[0], 1e12, "ms")
	}
	require.Equal(t, map[string]string{
		"requests running of decode": "19 ", "requests waiting of decode": "2 ", "KV cache in use of decode": "25 %",
		"tokens generated of decode": "300 tok/s", "GPU utilization of n1 GPU 0": "90 %", "GPU utilization of n1 GPU 1": "91 %",
		"GPU memory of n1 GPU 0": "2 GiB", "GPU memory of n1 GPU 1": "2 GiB", "GPU power of n1 GPU 0": "519 W",
		"GPU power of n1 GPU 1": "519 W", "CPU utilization of n1": "25 %", "memory in use of n1": "3 GiB",
		"network received of n1": "2 MB/s", "network sent of n1": "1 MB/s", "disk read of n1": "0 MB/s", "disk written of n1": "0.5 MB/s",
	}, last)
	require.Nil(t, got.Tracks[0].Values[7], "where nothing was sampled")
	require.Len(t, got.Tracks[0].Values, 18)
}

// A track of many samples is thinned; its peaks and gaps stay.
func TestLongSeries(t *testing.T) {
	a, root := traced(t, "results")
	dir := filepath.Join(root, "results", "run", "telemetry")
	require.NoError(t, os.Mkdir(dir, 0o700))
	var gpus strings.Builder
	gpus.WriteString(gpu.Header)
	begin := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC).UnixMilli()
	for i := range 50_000 {
		power := 400
		switch i {
		case 12_345:
			power = 999
		case 23_456:
			power = 1
		}
		if i >= 30_000 && i < 30_100 {
			continue
		}
		fmt.Fprintf(&gpus, "%d,0,GPU-0,90,2048,%d,,1900,2600,60,\n", begin+int64(i)*100, power)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gpu-n1.csv"), []byte(gpus.String()), 0o600))
	status, body := a.ask("GET", "/api/data/experiments/exp_1/series", "")
	require.Equal(t, 200, status)
	var got overTime
	require.NoError(t, json.Unmarshal(body, &got))
	for _, x := range got.Tracks {
		require.Less(t, len(x.Values), 4100)
		low, high, gaps := 1e9, 0.0, 0
		for i, v := range x.Values {
			if v == nil {
				gaps++
				continue
			}
			low, high = min(low, *v), max(high, *v)
			require.True(t, i == 0 || x.Times[i] > x.Times[i-1], "in the order of time")
		}
		require.Equal(t, 1, gaps)
		if x.Name == "GPU power" {
			require.Equal(t, []float64{1, 999}, []float64{low, high})
		}
	}
}
