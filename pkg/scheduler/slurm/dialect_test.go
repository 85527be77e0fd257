package slurm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// reader is the parser of an answer by the name of its file.
func reader(name string) func(string, time.Time) []job {
	for word, parse := range map[string]func(string, time.Time) []job{"squeue": parseSqueue, "sacct": parseSacct,
		"show": parseShow} {
		if strings.Contains(name, word) {
			return parse
		}
	}
	return nil
}

func dialect(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "dialects", name))
	require.NoError(t, err)
	return string(data)
}

// What every version's answer means: id, state, note.
//
// covers: PL-S1, PL-S2, PL-S3, PL-S4, PL-S14, PL-S25
func TestDialects(t *testing.T) {
	type words = map[string][2]string
	files := map[string]words{
		"22.05-squeue.txt": {"12": {run.Running}, "19": {run.Queued, run.Held}, "8": {run.Queued, run.NeverStarts}, "20": {run.Queued}, "21": {run.Running, run.Ending},
			"60_2": {run.Running}, "60_3": {run.Queued}, "60_4": {run.Queued}, "60_[3-4%2]": {run.Queued}, "30+0": {run.Running}, "30+1": {run.Queued}, "30": {run.Running}},
		"22.05-sacct.txt": {"12": {run.Queued, "requeued"}, "13": {run.Timeout}, "14": {run.Failed}, "15": {run.Cancelled, run.NeverRan}, "16": {run.Succeeded}, "17": {run.OOM},
			"60_3": {run.Cancelled, run.NeverRan}, "60_4": {run.Cancelled, run.NeverRan}, "60_[3-4]": {run.Cancelled, run.NeverRan},
			"31+0": {run.Succeeded}, "31+1": {run.Failed}, "31": {run.Failed}},
		"22.05-show.txt": {"12": {run.Running}, "60_[3-4%2]": {run.Queued, run.Held}, "60_3": {run.Queued, run.Held}, "60_4": {run.Queued, run.Held},
			"60_1": {run.NodeFail}, "30+1": {run.Cancelled, run.NeverRan}, "30": {run.Cancelled, run.NeverRan}},
		"25.11-squeue.txt": {"12": {run.Queued, "expedited"}, "13": {run.Queued, run.Held}, "14": {run.Queued, run.Held}, "15": {run.Queued, run.NeverStarts},
			"16": {run.Running, run.Ending}, "17": {run.Queued, run.Held}, "18": {run.Unknown}},
		"21.08-sacct-cut.txt": {"12": {run.Cancelled}, "13": {run.OOM}, "14": {run.Unknown, "ambiguous"}},
		"21.08-squeue.json":   {"12": {run.Running}, "60_[3-4%2]": {run.Queued, run.Held}, "60_3": {run.Queued, run.Held}, "60_4": {run.Queued, run.Held}},
		"22.05-squeue.json":   {"60_0": {run.Timeout}, "30+1": {run.Running, run.Ending}, "30": {run.Running, run.Ending}},
		"22.05-sacct.json":    {"13": {run.Timeout}, "15": {run.Cancelled, run.NeverRan}},
		"23.02-sacct.json":    {"13": {run.Timeout}, "15": {run.Cancelled, run.NeverRan}},
		"23.02-squeue.json":   {"60_3": {run.Running, "suspended"}},
		"23.11-squeue.json":   {"12": {run.Running}, "13": {run.Running, run.Ending}, "14": {run.Queued, run.Held}},
		"23.11-sacct.json":    {"60_3": {run.Failed}, "13": {run.OOM}},
		"24.05-squeue.json":   {"12": {run.Running, "booting"}, "13": {run.Queued, run.NeverStarts}},
		"24.11-sacct.json":    {"13": {run.Queued, "requeued"}, "14": {run.Succeeded}},
		"25.05-squeue.json":   {"12": {run.Running, "stopped"}, "13": {run.Cancelled, "runs on a sibling cluster"}},
		"25.11-squeue.json":   {"12": {run.Queued, "expedited"}, "13": {run.Unknown}, "14": {run.Succeeded}, "15": {run.Unknown}, "16": {run.Unknown}},
	}
	for name, want := range files {
		got := words{}
		for id, j := range byID(reader(name)(dialect(t, name), noon)) {
			got[id] = [2]string{j.State.State, j.Note}
		}
		require.Equal(t, want, got, name)
	}
	all, err := filepath.Glob("testdata/dialects/[0-9]*")
	require.NoError(t, err)
	require.Len(t, all, len(files), "a file that nobody reads")

	show := byID(parseShow(dialect(t, "22.05-show.txt"), noon))
	require.Equal(t, run.State{JobID: "12", Name: "s.a JobState=FAILED.0", State: run.Running, Raw: "RUNNING",
		ExitCode: "0:0", Start: "2026-11-21T01:00:01", End: "2026-11-21T01:10:01",
		NodeList: "n[1-2]", Source: "scontrol", At: noon}, show["12"].State)
	acct := byID(parseSacct(dialect(t, "22.05-sacct.json"), noon))
	require.Equal(t, "0:15", acct["15"].ExitCode)
	require.Equal(t, 86.0, acct["13"].Elapsed)
	require.Equal(t, time.Unix(1795222800, 0).Format("2006-01-02T15:04:05"), acct["13"].Start)
	require.Equal(t, "3:0", byID(parseSacct(dialect(t, "23.11-sacct.json"), noon))["60_3"].ExitCode)
}

// covers: PL-S2
func TestStateWord(t *testing.T) {
	for text, want := range map[string]string{
		`"TIMEOUT"`: "TIMEOUT", `{"current": "TIMEOUT"}`: "TIMEOUT", `{"current": ["TIMEOUT"]}`: "TIMEOUT",
		`["TIMEOUT"]`:                 "TIMEOUT",
		`["COMPLETED", "COMPLETING"]`: "COMPLETING", `["SIGNALING", "RUNNING", "STAGE_OUT"]`: "STAGE_OUT",
		`["failed", "reconfig_fail"]`: "FAILED",
		`["RUNNING", "PENDING"]`:      "?", `["LAUNCH_FAILED"]`: "?", `[]`: "?", `null`: "?", `7`: "?", `{}`: "?",
		`{"current": null}`: "?", `[1]`: "?", `["NEW", "RUNNING"]`: "?",
	} {
		var w stateWord
		require.NoError(t, json.Unmarshal([]byte(text), &w), text)
		require.Equal(t, want, string(w), text)
	}
}

func fuzzDialects(f *testing.F, word string, parse func(string, time.Time) []job) {
	files, err := filepath.Glob("testdata/dialects/*" + word + "*")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, name := range files {
		f.Add(dialect(f, filepath.Base(name)))
	}
	f.Fuzz(func(t *testing.T, out string) {
		for id, j := range byID(parse(out, noon)) {
			require.Equal(t, id, j.JobID)
			require.NotEmpty(t, id)
			require.NotContains(t, id, ".", "a step")
			require.NotEmpty(t, j.State.State)
			require.GreaterOrEqual(t, j.Elapsed, 0.0)
			_, err := json.Marshal(j.State)
			require.NoError(t, err)
		}
	})
}

func FuzzDialectSqueue(f *testing.F) { fuzzDialects(f, "squeue", parseSqueue) }
func FuzzDialectSacct(f *testing.F)  { fuzzDialects(f, "sacct", parseSacct) }
func FuzzDialectShow(f *testing.F)   { fuzzDialects(f, "show", parseShow) }

func FuzzTasks(f *testing.F) {
	for _, id := range []string{"60_[0-3,6-8:2%2]", "60_[4]", "60_[3-2]", "60_[0-999999999]", "60_[", "_[1]",
		"60_[1-2,...]"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		ids := tasks(id)
		require.LessOrEqual(t, len(ids), maxTasks)
		base, _, _ := strings.Cut(id, "_[")
		for _, one := range ids {
			require.True(t, strings.HasPrefix(one, base+"_"), one)
			require.Empty(t, tasks(one), "a task is no list")
		}
	})
}
