package main

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

var newRelease = flag.String("release", "", "write the runs that this release leaves, under that name")

const releases = "../../pkg/result/testdata/releases"

// Runs as every release left them: this one reads, reports and compares their
// records, and collects them again with the same numbers.
//
// covers: PL-D20
func TestReleasedRuns(t *testing.T) {
	t.Parallel()
	if *newRelease != "" {
		writeRelease(t, filepath.Join(releases, *newRelease))
	}
	versions, err := filepath.Glob(filepath.Join(releases, "*", "*", run.ScenarioFile))
	require.NoError(t, err)
	require.NotEmpty(t, versions)
	for _, file := range versions {
		from := filepath.Dir(file)
		t.Run(filepath.Base(filepath.Dir(from))+"/"+filepath.Base(from), func(t *testing.T) {
			t.Parallel()
			root := filepath.Join(t.TempDir(), filepath.Base(from))
			require.NoError(t, os.CopyFS(root, os.DirFS(from)))
			before := resultsBelow(t, root)
			require.NotEmpty(t, before)

			var r report.Report
			o := profllm(t, root, nil, "report", root, "--output", "json")
			require.Equal(t, exitOK, o.code)
			require.NoError(t, json.Unmarshal([]byte(o.stdout), &r))
			require.Len(t, r.Runs, len(before))
			for _, x := range r.Runs {
				require.NotEmpty(t, x.RunID, "%s: %s", x.Dir, x.Reason)
			}
			o = profllm(t, root, nil, "compare", root, root)
			require.Contains(t, []int{exitOK, exitInvalid}, o.code, o.stderr)
			require.NotContains(t, o.stderr, "schema")

			o = profllm(t, root, nil, "collect", root, "--offline")
			require.Contains(t, []int{exitOK, exitJobFailed, exitInvalid}, o.code)
			require.Empty(t, o.stderr)
			after := resultsBelow(t, root)
			require.Len(t, after, len(before))
			for name, old := range before {
				now := after[name]
				require.Equal(t, old.RunID, now.RunID, name)
				require.Equal(t, old.Status, now.Status, name)
				require.Equal(t, old.Accuracy, now.Accuracy, name)
				require.Equal(t, old.Results.CompletedRequests, now.Results.CompletedRequests, name)
				require.Equal(t, old.Results.OutputThroughput, now.Results.OutputThroughput, name)
				require.Equal(t, old.Results.Latency, now.Results.Latency, name)
			}
		})
	}
}

// resultsBelow are those below a directory, by their place.
func resultsBelow(t *testing.T, root string) map[string]*result.Result {
	t.Helper()
	list := map[string]*result.Result{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == run.ResultFile {
			name, _ := filepath.Rel(root, path)
			list[name] = readResult(t, filepath.Dir(path))
		}
		return err
	}))
	return list
}

// writeRelease rehearses a run of each kind and keeps what it leaves.
func writeRelease(t *testing.T, to string) {
	t.Helper()
	require.NoDirExists(t, to)
	from := t.TempDir()
	for _, r := range []struct{ definition, faults, name string }{
		{"release.toml", "", "release"}, {"faults.toml", "serve:die-on-request=9", "died"}, {"faults.toml", "serve:zero-tokens", "empty"},
	} {
		file, err := filepath.Abs(filepath.Join(releases, r.definition))
		require.NoError(t, err)
		profllm(t, from, []string{"PROFLLM_SIM_FAULTS=" + r.faults}, "rehearse", file, "--output-dir", r.name)
		root, err := filepath.Glob(filepath.Join(from, r.name, "*"))
		require.NoError(t, err)
		require.Len(t, root, 1)
		keepRelease(t, root[0], filepath.Join(to, r.name), binary)
	}
}

var (
	thisHost    = regexp.MustCompile(`"host": "[^"]*"`)
	thisProcess = regexp.MustCompile(`("process_start": ")[^"]*"`)
	localJob    = regexp.MustCompile(`local-.*?-(\d+-[0-9a-f]+)`)
)

// keepRelease copies a scenario directory without what names this machine. Pages of
// counters are packed, as raw/ may hold them.
func keepRelease(t *testing.T, from, to, program string) {
	t.Helper()
	workdir, err := os.Getwd()
	require.NoError(t, err)
	scrub := strings.NewReplacer(from, "/results/"+filepath.Base(to), filepath.Dir(from), "/results",
		filepath.Dir(filepath.Dir(from)), "/home/user",
		filepath.Join(workdir, releases), "/scenarios", program, "/usr/local/bin/profllm")
	require.NoError(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, _ := filepath.Rel(from, path)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		text := thisHost.ReplaceAllString(scrub.Replace(string(data)), `"host": "login1"`)
		data = []byte(localJob.ReplaceAllString(thisProcess.ReplaceAllString(text, `${1}boot/1"`), "local-login1-$1"))
		if filepath.Ext(name) == ".prom" {
			name, data = name+".xz", pack(t, data)
		}
		require.NoError(t, os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o755))
		return os.WriteFile(filepath.Join(to, name), data, 0o644)
	}))
}
