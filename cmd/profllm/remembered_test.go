package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/collect/index"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// remembered are finished runs that were collected until all of them are in the index,
// with records that need not be read: what has just changed is not.
func remembered(t *testing.T, prepare func(root string)) finished {
	t.Helper()
	f := finishedRuns(t, 100)
	prepare(f.root)
	await.True(t, func() bool {
		profllm(t, f.root, nil, "collect", ".")
		settled := 0
		for _, e := range indexed(t, f.root) {
			settled += count(e.At-e.Written > int64(2*time.Second))
		}
		return settled == len(f.kinds)
	}, "all records are old enough to be known")
	return f
}

// indexed are the entries of an index by their runs. There is none where all runs are too new
// to be remembered.
func indexed(t *testing.T, root string) map[string]index.Entry {
	t.Helper()
	entries := map[string]index.Entry{}
	data, err := os.ReadFile(filepath.Join(root, index.File))
	if errors.Is(err, fs.ErrNotExist) {
		return entries
	}
	require.NoError(t, err)
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var e index.Entry
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		if e.Shape = 0; i > 0 { // their numbers are given anew
			entries[e.Run] = e
		}
	}
	return entries
}

// afresh collects a copy of runs that has no index.
func afresh(t *testing.T, root string, args ...string) (o outcome, records map[string]string) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), filepath.Base(root))
	out, err := exec.Command("cp", "-a", root, copied).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.RemoveAll(filepath.Join(copied, index.File)))
	o = profllm(t, copied, nil, append([]string{"collect", "."}, args...)...)
	o.stdout, o.stderr = strings.ReplaceAll(o.stdout, copied, root), strings.ReplaceAll(o.stderr, copied, root)
	return o, recordsBelow(t, copied)
}

// recordsBelow are the records of runs, by their places.
func recordsBelow(t *testing.T, root string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "*", "*", run.ResultFile))
	require.NoError(t, err)
	records := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		records[strings.TrimPrefix(file, root)] = string(data)
	}
	return records
}

// Whatever is done to runs, a collection that has an index comes to the records and
// prints the table of one that reads everything; and it reads no run that is as it was.
func TestCollectAgainIsRight(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a rehearsal")
	}
	var linked [2]string // results that a run's is a link to
	f := remembered(t, func(root string) {
		for i := range linked {
			linked[i] = filepath.Join(t.TempDir(), "bench.json")
			require.NoError(t, os.Rename(filepath.Join(root, "plain", fmt.Sprint(20+i), benchFile), linked[i]))
		}
		require.NoError(t, os.Symlink(linked[0], filepath.Join(root, "plain/20", benchFile)))
		require.NoError(t, os.Symlink(linked[1], filepath.Join(root, "plain/21", benchFile)))
	})
	before := indexed(t, f.root)
	changes := map[string]func(dir string) error{
		"plain/1": hiddenEdit(benchFile, half),
		"plain/2": hiddenEdit(benchFile, replace(`"completed": 200`, `"completed": 100`, `"completed":200`, `"completed":100`)),
		"plain/3": func(dir string) error { return os.Remove(filepath.Join(dir, "raw/metrics-serve-bench.prom")) },
		"plain/4": hiddenEdit(run.PlanFile, replace(`"num_prompts": 200`, `"num_prompts": 300`)),
		"plain/5": hiddenEdit(run.ResultFile, replace(`"valid": true`, `"valid": TRUE`)),
		"plain/6": func(dir string) error { return os.Truncate(filepath.Join(dir, run.ResultFile), 0) },
		"plain/7": func(dir string) error { return os.Remove(filepath.Join(dir, run.ResultFile)) },
		"plain/8": hiddenEdit(run.SentinelFile, half),
		"plain/9": func(dir string) error { return os.Rename(filepath.Join(dir, "raw"), filepath.Join(dir, "raw-")) },
		"plain/10": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "raw/sglang-bench.jsonl"), []byte("{}\n"), 0o644)
		},
		"plain/11": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, run.ImportFile), []byte("{}\n"), 0o644)
		},
		"plain/12": func(dir string) error { // of another run, and its inode's times are older
			file := filepath.Join(dir, benchFile)
			return joined(os.Remove(file), os.Link(filepath.Join(filepath.Dir(dir), "13", benchFile), file))
		},
		"plain/13": func(string) error { return nil },                                   // gets a second name
		"plain/14": hiddenEdit(run.SubmitFile, replace(`"attempt": 1`, `"attempt": 2`)), // submitted again
		"plain/15": func(dir string) error { // queued again, and begun
			now := time.Now()
			return os.Chtimes(filepath.Join(dir, run.ClaimFile), now, now)
		},
		"plain/20": func(dir string) error {
			file := filepath.Join(dir, benchFile)
			return joined(os.Remove(file), os.Symlink(linked[1], file))
		},
		"plain/21": func(string) error { return os.WriteFile(linked[1], []byte("{"), 0o644) },
		"failed/0": hiddenEdit("logs/serve-0.log", replace("CUDA out of memory", "CUDA error: an illegal memory access was encountered")),
		"failed/1": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "logs/other-0.log"), []byte(outOfMemory), 0o644)
		},
		"partial/0": hiddenEdit(run.StateFile, replace(`"state": "succeeded"`, `"state": "cancelled"`)),
		"packed/0":  hiddenEdit(benchFile+".xz", half),
	}
	for name, change := range changes {
		require.NoError(t, change(filepath.Join(f.root, name)), name)
	}

	want, records := afresh(t, f.root)
	require.Equal(t, want, profllm(t, f.root, nil, "collect", "."))
	require.Equal(t, records, recordsBelow(t, f.root))
	after := indexed(t, f.root)
	for name, entry := range before {
		if changes[name] == nil {
			require.Equal(t, entry, after[name], "%s is as it was", name)
		} else {
			require.NotEqual(t, entry, after[name], "%s was changed", name)
		}
	}
	for _, options := range [][]string{{"--output", "json"}, {"--offline"}} {
		want, _ := afresh(t, f.root, options...)
		require.Equal(t, want, profllm(t, f.root, nil, append([]string{"collect", "."}, options...)...), "%v", options)
	}
}

// hiddenEdit is a change of a file that keeps its time.
func hiddenEdit(file string, change func([]byte) []byte) func(dir string) error {
	return func(dir string) error {
		path := filepath.Join(dir, file)
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed := change(data)
		if bytes.Equal(data, changed) {
			return fmt.Errorf("%s was not changed", path)
		}
		return joined(os.WriteFile(path, changed, 0o644), os.Chtimes(path, st.ModTime(), st.ModTime()))
	}
}

func half(data []byte) []byte { return data[:len(data)/2] }

func replace(pairs ...string) func([]byte) []byte {
	return func(data []byte) []byte { return []byte(strings.NewReplacer(pairs...).Replace(string(data))) }
}

func joined(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// An index that cannot be written changes nothing.
func TestCollectWithoutRoomForAnIndex(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a rehearsal")
	}
	f := remembered(t, func(string) {})
	file := filepath.Join(f.root, index.File)
	st, err := os.Stat(file)
	require.NoError(t, err)
	require.Greater(t, st.Size(), int64(64<<10), "more than there is room for")
	require.NoError(t, os.Remove(file))
	want, records := afresh(t, f.root)
	// KiB; a record has some 20
	cmd := exec.Command("bash", "-c", `ulimit -f 64; exec "$@"`, "-", binary, "collect", ".")
	cmd.Dir = f.root
	out, err := cmd.Output()
	require.Error(t, err, "some runs failed")
	require.Equal(t, want.code, cmd.ProcessState.ExitCode())
	require.Equal(t, want.stdout, string(out))
	require.Equal(t, records, recordsBelow(t, f.root))
	left, err := filepath.Glob(filepath.Join(f.root, ".*"))
	require.NoError(t, err)
	require.Empty(t, left)
	for name, data := range records {
		require.NoError(t, result.Validate([]byte(data)), name)
	}
}
