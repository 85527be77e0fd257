package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/promtext"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
)

// nightsAt makes nights of the past from the rehearsed one, which say of themselves
// that they are measured and had these throughputs; each with its plan and record only.
func nightsAt(t *testing.T, dir string, simulated bool, throughputs ...float64) {
	t.Helper()
	template := rehearsedDemo.made(t)
	for i, x := range throughputs {
		root := filepath.Join(dir, fmt.Sprintf("demo_2026-01-%02d_03-00-00", i+1))
		for _, test := range []string{"aggregated", "disaggregated"} {
			run := filepath.Join(root, test, "0")
			require.NoError(t, os.MkdirAll(run, 0o755))
			for _, name := range []string{"plan.json", "result.json"} {
				copyFile(t, filepath.Join(template, test, "0", name), filepath.Join(run, name))
			}
			edit(t, filepath.Join(run, "result.json"), func(m map[string]any) {
				m["simulated"] = simulated
				m["run_id"] = fmt.Sprintf("exp_202601%02d_030000_%06x", i+1, crc32.ChecksumIEEE([]byte(run))&0xffffff)
				at := time.Date(2026, 1, i+1, 3, 0, 0, 0, time.UTC)
				m["timestamp"] = at.Format(time.RFC3339)
				measured(m, x, at)
			})
		}
	}
}

// stepped is n throughputs of 1000, by 10 % less from there on, that vary by 1 %.
func stepped(n, at int) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = 1000 + float64(i*7%11-5)
		if i >= at {
			list[i] *= 0.9
		}
	}
	return list
}

// Series of a regression, of quiet nights, of too few, and of none that can be
// believed, in every form.
//
// covers: PL-Q9, PL-Q10, PL-I2, GEN-4
func TestTrend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nightsAt(t, filepath.Join(dir, "slow"), false, stepped(20, 12)...)
	nightsAt(t, filepath.Join(dir, "quiet"), false, stepped(20, 20)...)
	nightsAt(t, filepath.Join(dir, "few"), false, stepped(5, 5)...)
	nightsAt(t, filepath.Join(dir, "simulated"), true, stepped(20, 12)...)
	trend := func(args ...string) outcome { return profllm(t, dir, nil, append([]string{"trend"}, args...)...) }

	o := trend("slow", "--junit", "slow.xml", "--html", "slow.html")
	require.Equal(t, exitInvalid, o.code, o.stderr)
	require.Contains(t, o.stdout, "== Trend: aggregated: regressed")
	require.Regexp(t, `Throughput at 2026-01-13 03:00 by -(9|10)\.\d+ % .*: regressed \(first slow/demo_2026-01-13_03-00-00/aggregated/0, last before it slow/demo_2026-01-12_03-00-00/aggregated/0\)`, o.stdout)
	page, err := os.ReadFile(filepath.Join(dir, "slow.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), "<svg")
	junit, err := os.ReadFile(filepath.Join(dir, "slow.xml"))
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(junit), "<failure type=\"regressed\""))

	require.Equal(t, exitOK, trend("quiet").code)
	o = trend("few")
	require.Equal(t, exitOK, o.code, "nothing is claimed")
	require.Contains(t, o.stdout, "too little data: 5 points, but at least 14 are needed")
	o = trend("simulated", "--metric", "throughput", "--output", "json")
	require.Equal(t, exitInvalid, o.code)
	var r report.Report
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &r))
	require.Equal(t, 40, r.Simulated)
	require.Equal(t, records.Simulated, r.Trends[0].Kind)
	o = trend("quiet", "simulated", "--by", "model")
	require.Equal(t, exitOK, o.code)
	require.Contains(t, o.stdout, "40 runs in series, 40 left out")
	require.Regexp(t, `simulated/demo_2026-01-01_03-00-00/aggregated/0 +simulated`, o.stdout)
	rows, err := csv.NewReader(strings.NewReader(trend("quiet", "--metric", "throughput", "--output", "csv").stdout)).
		ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 41)

	for _, d := range []string{"aggregated", "disaggregated"} {
		edit(t, filepath.Join(dir, "few", "demo_2026-01-01_03-00-00", d, "0", "result.json"),
			func(m map[string]any) { delete(m, "validity") })
	}
	require.Equal(t, exitInvalid, trend("few/demo_2026-01-01_03-00-00").code, "no run that can be believed")
	for _, bad := range [][]string{{"quiet", "--metric", "speed"}, {"quiet", "--by", "modle"}, {"nowhere"}, {},
		{t.TempDir()}} {
		require.Equal(t, exitUsage, trend(bad...).code, bad)
	}
	require.Contains(t, trend("quiet", "--by", "modle").stderr, `did you mean "model"?`)
}

// The forms for other programs, and a comparison's for a CI server.
//
// covers: PL-I2
func TestReportForOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nightsAt(t, filepath.Join(dir, "old"), false, stepped(6, 6)...)
	nightsAt(t, filepath.Join(dir, "new"), false, stepped(6, 0)...)
	o := profllm(t, dir, nil, "report", "old", "--output", "prometheus")
	require.Zero(t, o.code, o.stderr)
	s, err := promtext.Read(strings.NewReader(o.stdout))
	require.NoError(t, err)
	valid, ok := s.Sum("profllm_run_valid")
	require.True(t, ok)
	require.Equal(t, 2.0, valid)

	o = profllm(t, dir, nil, "report", "old", "--output", "otava")
	require.Zero(t, o.code, o.stderr)
	rows, err := csv.NewReader(strings.NewReader(o.stdout)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 13)
	require.Equal(t, []string{"time", "branch"}, rows[0][:2])

	o = profllm(t, dir, nil, "compare", "old", "new", "--junit", "verdict.xml", "--metric", "throughput")
	require.Equal(t, exitInvalid, o.code)
	data, err := os.ReadFile(filepath.Join(dir, "verdict.xml"))
	require.NoError(t, err)
	require.Equal(t, 2, bytes.Count(data, []byte(`<failure type="regressed" message="regressed; 6 v 6, shift -10.`)))
	require.Equal(t, exitUsage, profllm(t, dir, nil, "compare", "old", "new", "--output", "otava").code)
}

// A night's verdict for a CI server; a call that judges none says so there.
//
// covers: PL-I2
func TestNightlyJUnit(t *testing.T) {
	t.Parallel()
	c := newCronJob(t)
	for day := 2; day <= 5; day++ {
		c.night(day, 100, false)
	}
	c.night(1, 80, false)
	o := c.nightly("--junit", "night.xml")
	require.Equal(t, exitInvalid, o.code, o.stderr)
	data, err := os.ReadFile(filepath.Join(c.dir, "night.xml"))
	require.NoError(t, err)
	require.Equal(t, 2, bytes.Count(data, []byte(`<failure type="regressed"`)))
	require.Contains(t, string(data), `tests="8" failures="2" errors="0" skipped="0"`)
	require.Equal(t, exitOK, c.nightly("--junit", "night.xml").code)
	data, err = os.ReadFile(filepath.Join(c.dir, "night.xml"))
	require.NoError(t, err)
	require.Contains(t, string(data), `tests="1" failures="0" errors="0" skipped="1"`)
	require.Contains(t, string(data), "no new night since")
}
