package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// Many finished runs of every kind: each gets its record, and a second collection
// replaces none of them.
func TestCollectManyRuns(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a rehearsal")
	}
	f := finishedRuns(t, 200)
	o := profllm(t, f.root, nil, "collect", f.root)
	require.Equal(t, exitJobFailed, o.code)
	require.Contains(t, o.stdout, "failed/0-7: cause cuda-oom (exact): logs/serve-0.log:")
	stamps := map[string]syscall.Stat_t{}
	for dir, kind := range f.kinds {
		r := readResult(t, dir)
		require.True(t, r.Simulated, dir)
		want := result.Completed
		switch kind {
		case "failed":
			want = result.Failed
		case "partial":
			want = result.Partial
		}
		require.Equal(t, want, r.Status, dir)
		require.Equal(t, want == result.Completed, r.Validity.Valid, "%s: %v", dir, r.Validity.Words)
		stamps[dir] = identity(t, filepath.Join(dir, run.ResultFile))
	}
	again := profllm(t, f.root, nil, "collect", f.root)
	require.Equal(t, o, again)
	for dir := range f.kinds {
		require.Equal(t, stamps[dir], identity(t, filepath.Join(dir, run.ResultFile)), dir)
	}

	// The JSON has all of them, in the same order.
	rows := readDocument[document.Collect](t, profllm(t, f.root, nil, "collect", f.root, "--output", "json")).Results
	require.Len(t, rows, 200)
	require.True(t, strings.HasSuffix(rows[0].Dir, "/detailed/0"), rows[0].Dir)
}

// identity is the inode, the time of the last change and that of the last write of
// a file.
func identity(t *testing.T, path string) syscall.Stat_t {
	t.Helper()
	var st syscall.Stat_t
	require.NoError(t, syscall.Stat(path, &st))
	return syscall.Stat_t{Ino: st.Ino, Mtim: st.Mtim, Ctim: st.Ctim, Size: st.Size}
}

// Of many runs one file each is broken: only its own run suffers, which is named with
// the file, and no other record changes.
func TestCollectWithBrokenFiles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a rehearsal")
	}
	f := finishedRuns(t, 200)
	profllm(t, f.root, nil, "collect", f.root)
	before := map[string][]byte{}
	for dir := range f.kinds {
		data, err := os.ReadFile(filepath.Join(dir, run.ResultFile))
		require.NoError(t, err)
		before[dir] = data
	}
	half := func(data []byte) []byte { return data[:len(data)/2] }
	broken := []struct {
		run, file string
		breakIt   func([]byte) []byte
		says      string // on either output, in a line with the run
		together  string // the runs of which the line may tell at once
	}{
		{"plain/1", benchFile, half, "truncated: raw/vllm-bench.json:1: the file ends inside a document", ""},
		{"plain/2", benchFile, func([]byte) []byte { return []byte("\x00\x01 no JSON") }, "bad-value: raw/vllm-bench.json:1: want an object", ""},
		{"plain/3", run.PlanFile, half, "plan.json: decode plan: unexpected end of JSON input", ""},
		{"plain/4", run.EventFile, func(b []byte) []byte { return append([]byte("{\"time\":\n\x00\x00\x00\n"), b...) }, "unreadable: events.jsonl:1: 2 lines are not events", ""},
		{"plain/5", "raw/metrics-serve-bench.prom", half, "unreadable: raw/metrics-serve-bench.prom: ", ""},
		{"plain/6", "raw/metrics-serve-before.prom", func([]byte) []byte { return bytes.Repeat([]byte("<html>\n"), 5000) }, "unreadable: raw/metrics-serve-before.prom: ", ""},
		{"packed/0", benchFile + ".xz", half, "truncated: raw/vllm-bench.json.xz:1", ""},
		{"packed/1", benchFile + ".xz", func([]byte) []byte { return []byte("\xfd7zXZ\x00 and no more") }, "unreadable: raw/vllm-bench.json.xz: ", ""},
		{"plain/7", run.SentinelFile, half, "finish.json: unexpected end of JSON input", ""},
		{"plain/8", run.PlacementFile, func([]byte) []byte { return nil }, "placement.json: unexpected end of JSON input", ""},
		{"failed/1", "logs/serve-0.log", func(b []byte) []byte { return append(make([]byte, 16<<20), b...) }, "cause cuda-oom (exact): logs/serve-0.log", "failed/0-7"},
		{"failed/2", "logs/serve-0.log", func(b []byte) []byte { return append(bytes.Repeat([]byte("x"), 16<<20), b...) }, "cause cuda-oom (exact): logs/serve-0.log", "failed/0-7"},
	}
	hit := map[string]bool{}
	for _, b := range broken {
		path := filepath.Join(f.root, b.run, b.file)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, b.breakIt(data), 0o644))
		hit[filepath.Join(f.root, b.run)] = true
	}
	o := profllm(t, f.root, nil, "collect", f.root)
	require.Equal(t, exitJobFailed, o.code)
	for _, b := range broken {
		named := false
		for line := range strings.Lines(o.stdout + o.stderr) {
			runs := strings.HasPrefix(line, b.run+":") || strings.HasPrefix(line, b.together+":")
			named = named || runs && strings.Contains(line, b.says)
		}
		require.True(t, named, "%s: %s", b.run, b.says)
	}
	for dir := range f.kinds {
		data, err := os.ReadFile(filepath.Join(dir, run.ResultFile))
		require.NoError(t, err)
		if !hit[dir] {
			require.Equal(t, string(before[dir]), string(data), dir)
		}
	}
}
