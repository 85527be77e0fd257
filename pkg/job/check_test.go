package job

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

func (j *testJob) log(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(j.path(name)), 0o755))
	require.NoError(t, os.WriteFile(j.path(name), []byte(text), 0o644))
}

const bandwidth = `^# Avg bus bandwidth +: +[0-9]`

// A command that ends with 0 has succeeded only if its log says so, as in
// CloudAI's checks; why it has not is in events.jsonl.
//
// covers: CD-40, CD-43
func TestCheck(t *testing.T) {
	const good = "# nThread 1\n# Avg bus bandwidth    : 135.455 \n#\n"
	for name, c := range map[string]struct {
		logs map[string]string
		log  string
		ok   bool
	}{
		"the first rank says it":      {map[string]string{"logs/nccl-0.log": good, "logs/nccl-1.log": ""}, "logs/nccl-%t.log", true},
		"another rank says it":        {map[string]string{"logs/nccl-0.log": "", "logs/nccl-13.log": good}, "logs/nccl-%t.log", true},
		"one log for all":             {map[string]string{"logs/nccl.log": good}, "logs/nccl.log", true},
		"the last line, unfinished":   {map[string]string{"logs/nccl-0.log": strings.TrimRight(good, "\n#")}, "logs/nccl-%t.log", true},
		"from Windows":                {map[string]string{"logs/nccl-0.log": strings.ReplaceAll(good, "\n", "\r\n")}, "logs/nccl-%t.log", true},
		"no line":                     {map[string]string{"logs/nccl-0.log": "# Avg bus bandwidth    : \n"}, "logs/nccl-%t.log", false},
		"over two lines":              {map[string]string{"logs/nccl-0.log": "# Avg bus\n bandwidth : 1\n"}, "logs/nccl-%t.log", false},
		"empty":                       {map[string]string{"logs/nccl-0.log": ""}, "logs/nccl-%t.log", false},
		"no log":                      {map[string]string{"logs/x.log": ""}, "logs/nccl-%t.log", false},
		"the log of another step":     {map[string]string{"logs/nccl-0.log": "", "logs/nccl-x-0.log": good, "logs/nccl-.log": good, "logs/bench-0.log": good}, "logs/nccl-%t.log", false},
		"a name is no pattern":        {map[string]string{"logs/a.log": good}, "logs/[a].log", false},
		"a name with a pattern in it": {map[string]string{"logs/[a]-0.log": good}, "logs/[a]-%t.log", true},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			for file, text := range c.logs {
				j.log(t, file, text)
			}
			err := j.Check(t.Context(), "nccl", c.log, bandwidth)
			events, readErr := ReadEvents(j.Dir)
			require.NoError(t, readErr)
			if c.ok {
				require.NoError(t, err)
				require.Empty(t, events)
				return
			}
			require.ErrorIs(t, err, ErrNoMatch)
			require.ErrorContains(t, err, "nccl: no line of "+filepath.Base(c.log))
			require.Len(t, events, 1)
			require.Equal(t, CheckFailed, events[0].Event)
			require.Equal(t, "nccl", events[0].Phase)
			require.Contains(t, events[0].Text, bandwidth)
		})
	}
	j := newJob(t)
	require.NoError(t, j.Job.Check(t.Context(), "a", j.absolute(t), "x"), "a load of its own keeps its logs elsewhere")
	require.ErrorContains(t, j.Check(t.Context(), "a", "logs/a-%t.log", "("), "missing closing )")
	require.ErrorIs(t, j.Check(t.Context(), "a", "none/a-%t.log", "x"), os.ErrNotExist)
}

// Another node's log may be seen late: its absence proves nothing at once. What the
// first node alone writes is judged at once, and so is a line that no log has once
// all are there.
//
// covers: PL-G17
func TestCheckWaitsForLogsOfOtherNodes(t *testing.T) {
	step := func(offset, count int) []plan.Load {
		return []plan.Load{{Clients: []plan.Step{{Name: "nccl", Nodes: plan.Slice{Offset: offset, Count: count}}}}}
	}
	const good = "# Avg bus bandwidth    : 1\n"
	for name, c := range map[string]struct {
		loads []plan.Load
		logs  map[string]string
		later string // the log that shows up after two looks
		took  time.Duration
		err   error
	}{
		"the other node's log comes late":     {step(0, 2), map[string]string{"nccl-0": ""}, "nccl-1", 2 * poll, nil},
		"the other node's log never comes":    {step(0, 2), map[string]string{"nccl-0": ""}, "", lateFiles + poll, ErrNoMatch},
		"all are there":                       {step(0, 2), map[string]string{"nccl-0": "", "nccl-1": ""}, "", 0, ErrNoMatch},
		"there is no log but the first one's": {step(0, 1), map[string]string{"nccl-0": ""}, "", 0, ErrNoMatch},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJob(t)
				j.plan.Loads = c.loads
				j.save(t)
				for log, text := range c.logs {
					j.log(t, "logs/"+log+".log", text)
				}
				if c.later != "" {
					time.AfterFunc(2*poll-time.Nanosecond, func() { j.log(t, "logs/"+c.later+".log", good) })
				}
				start := time.Now()
				err := j.Check(t.Context(), "nccl", "logs/nccl-%t.log", bandwidth)
				require.ErrorIs(t, err, c.err)
				require.Equal(t, c.took, time.Since(start))
			})
		})
	}
}

func (j *testJob) absolute(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a-0.log"), []byte("x\n"), 0o644))
	return filepath.Join(dir, "a-%t.log")
}

// A log of 10 MB, in lines and in one line; what a line holds beyond what is kept
// of it is not another line.
func TestCheckOfALongLog(t *testing.T) {
	lines := bytes.Repeat([]byte("  8388608  2097152  float  sum  -1  171.4  48.94  91.76  0  169.3  49.55  92.90  0\n"), 10<<20/84)
	j := newJob(t)
	j.log(t, "logs/nccl-0.log", string(lines)+"# Avg bus bandwidth    : 1\n")
	require.NoError(t, j.Check(t.Context(), "nccl", "logs/nccl-%t.log", bandwidth))
	j.log(t, "logs/nccl-0.log", string(lines))
	require.ErrorIs(t, j.Check(t.Context(), "nccl", "logs/nccl-%t.log", bandwidth), ErrNoMatch)

	one := strings.Repeat("x", 10<<20)
	j.log(t, "logs/nccl-0.log", one+"\n# Avg bus bandwidth    : 1\n")
	require.NoError(t, j.Check(t.Context(), "nccl", "logs/nccl-%t.log", bandwidth))
	j.log(t, "logs/nccl-0.log", strings.Repeat("x", longLine)+"# Avg bus bandwidth    : 1\n")
	require.ErrorIs(t, j.Check(t.Context(), "nccl", "logs/nccl-%t.log", bandwidth), ErrNoMatch,
		"the middle of a line is not its beginning")
}
