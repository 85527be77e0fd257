package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/pgtest"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/upload"
)

const examples = "../../examples/dashboard"

// get reads a page of a server.
func get(t *testing.T, address string) (status int, header http.Header, body string) {
	t.Helper()
	got, err := http.Get(address)
	require.NoError(t, err)
	defer got.Body.Close()
	data, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	return got.StatusCode, got.Header, string(data)
}

var tookSaid = regexp.MustCompile(`,?"took_ms":[0-9.e+-]+`)

// answers is what a server says to questions of every kind.
func (p *page) answers() []string {
	p.t.Helper()
	var list []string
	for _, q := range []struct{ path, body string }{
		{"/api/filters/presets", ""},
		{"/api/data/summary", ""},
		{"/api/data/experiments?sort=run_id&limit=1000", ""},
		{"/api/filters/apply", `{"filter": {"field": "gpus", "min": 4}, "facets": ["gpu", "cmd_args.model"], "metrics": ["output_throughput"],
			"rows": {"fields": ["case", "median_ttft_ms"], "sort": [{"field": "median_ttft_ms"}], "limit": 100}}`},
		{"/api/export/csv", `{"sort": [{"field": "run_id"}]}`},
		{"/api/analysis/pareto", `{"x": "median_ttft_ms", "y": "output_throughput"}`},
		{"/api/analysis/trends", `{"metrics": ["output_throughput"]}`},
	} {
		method := "GET"
		if q.body != "" {
			method = "POST"
		}
		r, err := http.NewRequest(method, p.url+q.path, strings.NewReader(q.body))
		require.NoError(p.t, err)
		r.Header.Set("Content-Type", "application/json")
		got, err := http.DefaultClient.Do(r)
		require.NoError(p.t, err)
		data, err := io.ReadAll(got.Body)
		require.NoError(p.t, err)
		got.Body.Close()
		require.Equal(p.t, 200, got.StatusCode, "%s: %s", q.path, data)
		list = append(list, q.path+" "+tookSaid.ReplaceAllString(string(data), ""))
	}
	return list
}

var meanSaid = regexp.MustCompile(`"mean":[0-9.e+-]+`)

// requireSame wants equal answers. The last digits of a mean depend on the order in which runs came.
func requireSame(t *testing.T, want, got []string) {
	t.Helper()
	rounded := func(s string) string {
		return meanSaid.ReplaceAllStringFunc(s, func(s string) string {
			x, err := strconv.ParseFloat(strings.TrimPrefix(s, `"mean":`), 64)
			require.NoError(t, err)
			return fmt.Sprintf("%.12g", x)
		})
	}
	for i := range want {
		a, b := rounded(want[i]), rounded(got[i])
		if a == b {
			continue
		}
		at := 0
		for at < min(len(a), len(b)) && a[at] == b[at] {
			at++
		}
		from := max(0, at-200)
		require.Equal(t, a[from:min(len(a), at+100)], b[from:min(len(b), at+100)], a[:40])
	}
}

// shows waits until a server has a number of runs.
func (p *page) shows(n int) {
	p.t.Helper()
	await.True(p.t, func() bool {
		var a query.Answer
		p.ask("POST", "/api/filters/apply", query.Query{}, &a)
		return a.Runs == n
	}, fmt.Sprintf("the server has %d runs", n))
}

// Database, back ends and the login node that fills the database are programs of their own: what one stores,
// the others show, with equal answers; one that is killed loses nothing that it accepted; a backup is of a
// database in use.
//
// covers: DEP-2, DEP-3, DEP-5, DATA-4
func TestServersOfOneDatabase(t *testing.T) {
	t.Parallel()
	server := pgtest.New(t, os.Environ())
	db, dir := server.Database(t), t.TempDir()
	ids := writeRecords(t, filepath.Join(dir, "results"), 30)
	for i, id := range ids {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, fmt.Sprint("part", i/10)), 0o755))
		require.NoError(t, os.Rename(filepath.Join(dir, "results", id), filepath.Join(dir, fmt.Sprint("part", i/10), id)))
	}
	first := startDashboard(t, dir, nil, "--store", db, "--uploads", "uploads")
	second := startDashboard(t, dir, nil, "--store", db, "--read-only")
	third := startDashboard(t, dir, nil, "--store", db, "--read-only", "--lean")

	o := profllm(t, dir, nil, "store", "fill", "--store", db, "part0") // as a login node does
	require.Zero(t, o.code, o.stderr)
	for _, p := range []*page{first, second, third} {
		p.shows(10)
	}
	for i, id := range ids[10:20] {
		data, err := os.ReadFile(filepath.Join(dir, "part1", id, "result.json"))
		require.NoError(t, err)
		var st upload.Status
		first.ask("POST", "/api/upload/raw", json.RawMessage(data), &st) // accepted
		if i == 4 {
			require.NoError(t, first.cmd.Process.Kill())
			first.cmd.Wait()                                       //nolint:errcheck // it was killed
			require.NotZero(t, second.count(), "the others go on") // what was accepted may still arrive there
			first = startDashboard(t, dir, nil, "--store", db, "--uploads", "uploads")
		}
	}
	var none struct{}
	r, err := http.NewRequest("POST", first.url+"/api/filters/presets", strings.NewReader(`{"name": "mine", "filter": {"field": "gpu", "has": true}}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	got.Body.Close()
	require.Equal(t, 204, got.StatusCode, none)
	for _, p := range []*page{first, second, third} {
		p.shows(20)
	}
	want := first.answers()
	requireSame(t, want, second.answers())
	requireSame(t, want, third.answers())

	o = profllm(t, dir, nil, "store", "backup", "--store", db, "night.zst") // as cron does
	require.Zero(t, o.code, o.stderr)
	o = profllm(t, dir, nil, "store", "fill", "--store", db, "part2")
	require.Zero(t, o.code, o.stderr)
	second.shows(30)
	server.Kill()
	for _, p := range []*page{first, second, third} {
		status, _, _ := get(t, p.url+"/api/ready")
		require.Equal(t, 503, status, "a server without its database is not ready")
	}
	server.Start(t)
	await.True(t, func() bool {
		status, _, _ := get(t, third.url+"/api/ready")
		return status == 200
	}, "it is ready once the database is back")

	o = profllm(t, dir, nil, "store", "restore", "--store", "copy.db", "night.zst")
	require.Zero(t, o.code, o.stderr)
	restored := startDashboard(t, dir, nil, "--store", "copy.db")
	requireSame(t, want, restored.answers())
	first.stop()
	require.Zero(t, first.cmd.ProcessState.ExitCode())
}

// count is how many runs a server has.
func (p *page) count() int {
	p.t.Helper()
	var a query.Answer
	p.ask("POST", "/api/filters/apply", query.Query{}, &a)
	return a.Runs
}

// requirePage wants the page with its files, and an API that reads and writes, from one address.
func requirePage(t *testing.T, address string) {
	t.Helper()
	status, header, text := get(t, address+"/?view=run&run=x")
	require.Equal(t, 200, status)
	require.Contains(t, header.Get("Content-Type"), "text/html")
	assets := regexp.MustCompile(`assets/[\w.-]+\.(?:js|css)`).FindAllString(text, -1)
	require.NotEmpty(t, assets)
	for _, name := range assets {
		status, header, body := get(t, address+"/"+name)
		require.Equal(t, 200, status, name)
		require.NotContains(t, header.Get("Content-Type"), "html", name)
		require.NotEmpty(t, body)
	}
	p := &page{t: t, url: address}
	require.Equal(t, 2000, p.count())
	r, err := http.NewRequest("POST", address+"/api/filters/presets", strings.NewReader(`{"name": "mine"}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", address) // as the browser of a page from there does
	got, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	got.Body.Close()
	require.Equal(t, 204, got.StatusCode)
	status, _, text = get(t, address+"/api/nothing")
	require.Equal(t, 404, status)
	require.Contains(t, text, "openapi.json")
}

// The page works from a server of files that knows nothing of profllm and passes /api/ on.
//
// covers: DASH-15, DEP-3, DEP-5
func TestPageApartFromTheAPI(t *testing.T) {
	t.Parallel()
	back := startDashboard(t, t.TempDir(), nil, "--demo")
	target, err := url.Parse(back.url)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir("../../pkg/dashboard/dist")))
	mux.Handle("/api/", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}})
	front := httptest.NewServer(mux)
	defer front.Close()
	requirePage(t, front.URL)
}

// The same with the example's nginx.
//
// covers: DASH-15
func TestPageBehindNginx(t *testing.T) {
	t.Parallel()
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		t.Skip("nginx is not installed: apt-get install nginx-light")
	}
	back := startDashboard(t, t.TempDir(), nil, "--demo")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	dir := t.TempDir()
	conf, err := os.ReadFile(filepath.Join(examples, "page.conf"))
	require.NoError(t, err)
	dist, err := filepath.Abs("../../pkg/dashboard/dist")
	require.NoError(t, err)
	for from, to := range map[string]string{
		"listen 8080;": "listen " + address + ";", "/usr/share/nginx/html": dist, "http://dashboard:8642": back.url,
	} {
		require.Equal(t, 1, bytes.Count(conf, []byte(from)), from)
		conf = bytes.Replace(conf, []byte(from), []byte(to), 1)
	}
	whole := "daemon off; pid nginx.pid; error_log stderr; events {}\nhttp { access_log off; default_type application/octet-stream;\n" +
		"types { text/html html; text/css css; application/javascript js; image/svg+xml svg; }\n"
	if os.Getuid() == 0 {
		whole = "user root; " + whole
	}
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		whole += name + "_temp_path " + filepath.Join(dir, name) + ";\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(whole+string(conf)+"}\n"), 0o644))
	cmd := exec.Command(nginx, "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"))
	said := &lockedBuffer{}
	cmd.Stderr = said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended
		cmd.Wait()                          //nolint:errcheck
	})
	await.True(t, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, "nginx listens")
	requirePage(t, "http://"+address)
	status, header, _ := get(t, "http://"+address+"/")
	require.Equal(t, 200, status, said.String())
	_, own, _ := get(t, back.url+"/")
	for _, name := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy"} {
		require.Equal(t, own.Get(name), header.Get(name), "as the back end's own page has it")
	}
	require.Equal(t, "no-cache", header.Get("Cache-Control"))
	status, _, _ = get(t, "http://"+address+"/assets/none.js")
	require.Equal(t, 404, status)
}

// Every half has an image, one file deploys both with their database, and the commands in it are ones that
// profllm has.
//
// covers: DASH-15
func TestExamplesOfDeployment(t *testing.T) {
	t.Parallel()
	help := profllm(t, t.TempDir(), nil, "dashboard", "serve", "--help").stdout
	flags := func(words []string) {
		t.Helper()
		for _, w := range words {
			if strings.HasPrefix(w, "--") {
				require.Regexp(t, regexp.QuoteMeta(w)+`\b`, help)
			}
		}
	}
	data, err := os.ReadFile(filepath.Join(examples, "compose.yaml"))
	require.NoError(t, err)
	var compose struct {
		Services map[string]struct {
			Image     string
			Build     struct{ Context, Dockerfile string }
			Command   []string
			DependsOn any      `yaml:"depends_on"`
			Volumes   []string `yaml:"volumes"`
			Restart   string
		}
		Volumes map[string]any
	}
	require.NoError(t, yaml.Unmarshal(data, &compose))
	require.Len(t, compose.Services, 4)
	for name, s := range compose.Services {
		require.NotEmpty(t, s.Image, name)
		require.Equal(t, "unless-stopped", s.Restart, name)
		flags(s.Command)
		for _, v := range s.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			require.Contains(t, compose.Volumes, volume)
		}
		if s.Build.Dockerfile == "" {
			continue
		}
		root := filepath.Join(examples, s.Build.Context)
		text, err := os.ReadFile(filepath.Join(root, s.Build.Dockerfile))
		require.NoError(t, err, name)
		for _, m := range regexp.MustCompile(`(?m)^COPY (\S+)`).FindAllStringSubmatch(string(text), -1) {
			if m[1] != "bin/profllm" { // which make builds
				_, err := os.Stat(filepath.Join(root, m[1]))
				require.NoError(t, err)
			}
		}
		if m := regexp.MustCompile(`(?m)^ENTRYPOINT (.*)$`).FindStringSubmatch(string(text)); m != nil {
			var words []string
			require.NoError(t, json.Unmarshal([]byte(m[1]), &words))
			require.Equal(t, []string{"/profllm", "dashboard", "serve"}, words[:3])
			flags(words)
		}
	}
	for _, name := range []string{"dashboard", "page"} {
		require.NotEmpty(t, compose.Services[name].Build.Dockerfile, name)
	}
	unit, err := os.ReadFile(filepath.Join(examples, "profllm-dashboard.service"))
	require.NoError(t, err)
	start := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(string(unit))
	flags(strings.Fields(start[1]))
	verifyUnit(t, string(unit))
}

// verifyUnit has systemd read the unit.
func verifyUnit(t *testing.T, unit string) {
	t.Helper()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed: the unit is not verified")
		return
	}
	file := filepath.Join(t.TempDir(), "profllm-dashboard.service")
	unit = strings.Replace(unit, "/usr/local/bin/profllm", binary, 1)
	require.NoError(t, os.WriteFile(file, []byte(unit), 0o644))
	out, err := exec.Command(program, "verify", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "profllm-dashboard.service:", "no warning of it")
}
