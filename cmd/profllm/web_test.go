package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/synthetic"
)

// web runs the tests of a file of web/tests in a browser. .ci/test-web prepares it.
func web(t *testing.T, name string, env ...string) {
	t.Helper()
	needWeb(t)
	cmd := exec.Command("node", "--test", filepath.Join("tests", name+".test.mjs"))
	cmd.Dir = "../../web"
	cmd.Env = append(append(os.Environ(), "PROFLLM="+binary), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}

// needWeb skips a test where .ci/test-web has not prepared it.
func needWeb(t *testing.T) {
	t.Helper()
	if os.Getenv("PROFLLM_TEST_WEB") == "" {
		t.Skip("the page is tested by .ci/test-web (make test-web)")
	}
}

// Facets with counts, ranges, search, groups, presets; the address and the back button; a slow
// answer never replaces a newer one; errors say what to do.
//
// covers: DASH-2, DASH-10, DASH-14, UI-1, UI-2, UI-3, UI-4, UI-5, UI-6, API-6, API-7, API-8, SM-5
func TestWebFilters(t *testing.T) { web(t, "filters") }

// Table, CSV, scatter with the frontier, trend, impact, scaling, capacity, comparison, one run.
//
// covers: DASH-3, DASH-4, DASH-5, DASH-11, DASH-13, UI-7, UI-8, UI-10, UI-11, UI-16, UC-3, UC-6, UC-9, HW-2, SM-7
func TestWebViews(t *testing.T) { web(t, "views") }

// An empty store; files that are chosen and dropped, good, bad and twice; tokens; read-only.
//
// covers: DASH-1, DASH-12, UI-12, UI-13, UI-14, UI-15
func TestWebUpload(t *testing.T) { web(t, "upload") }

// The page of a report of 2,000 runs, as a file: filters, sorts, opens runs without a request, and is the plain
// report without scripts and in print.
//
// covers: CD-34
func TestWebInline(t *testing.T) {
	needWeb(t)
	dir := t.TempDir()
	g := synthetic.New(1, 2000, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	for i := range g.Len() {
		record, err := json.Marshal(g.Record(i))
		require.NoError(t, err)
		run := filepath.Join(dir, "runs", fmt.Sprint(i))
		require.NoError(t, os.MkdirAll(run, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(run, "result.json"), record, 0o644))
	}
	page := func(name string, paths ...string) string {
		file := filepath.Join(dir, name)
		began := time.Now()
		args := append([]string{"report", "--output", "csv", "--html", file}, paths...)
		out, err := exec.Command(binary, args...).CombinedOutput()
		require.NoError(t, err, "%.1000s", out)
		info, err := os.Stat(file)
		require.NoError(t, err)
		t.Logf("%s has %d bytes, read and written in %v", name, info.Size(), time.Since(began).Round(time.Millisecond))
		return file
	}
	var few []string
	for i := range 8 {
		few = append(few, filepath.Join(dir, "runs", fmt.Sprint(i)))
	}
	web(t, "inline", "PROFLLM_PAGE="+page("page.html", filepath.Join(dir, "runs")),
		"PROFLLM_SMALL_PAGE="+page("small.html", few...))
}

// Measured, simulated, accelerated and profiled runs together are told apart in every view, chart and export of
// the page, and in a report's page.
func TestWebLabels(t *testing.T) {
	needWeb(t)
	dir := t.TempDir()
	g := synthetic.New(3, 400, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	kinds := []string{"measured", "simulated", "simulated 61x", "profiled"}
	for i := range g.Len() {
		r := g.Record(i)
		kind := kinds[i%len(kinds)]
		r.Simulated = strings.HasPrefix(kind, "simulated")
		switch kind {
		case "simulated 61x":
			r.SimulatedSpeed = 61
		case "profiled":
			r.Profiling = &result.Profiling{Enabled: true}
		}
		require.Equal(t, kind, records.KindOf(r).Word())
		run := filepath.Join(dir, "runs", fmt.Sprint(i))
		require.NoError(t, os.MkdirAll(run, 0o755))
		record, err := json.Marshal(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(run, "result.json"), record, 0o644))
	}
	store, page := filepath.Join(dir, "runs.db"), filepath.Join(dir, "page.html")
	for _, args := range [][]string{{"store", "fill", "--store", store, filepath.Join(dir, "runs")},
		{"report", "--output", "csv", "--html", page, filepath.Join(dir, "runs")}} {
		out, err := exec.Command(binary, args...).CombinedOutput()
		require.NoError(t, err, "%.1000s", out)
	}
	web(t, "labels", "PROFLLM_STORE="+store, "PROFLLM_PAGE="+page)
}

// A rehearsed run with its files: charts of engines, GPUs and nodes over time in both themes, traces, files.
//
// covers: UI-9, UC-7, API-14
func TestWebRun(t *testing.T) { web(t, "run") }

// axe finds nothing in any view and theme; the keyboard alone; 390 pixels.
//
// covers: SM-5
func TestWebAccess(t *testing.T) { web(t, "access") }
