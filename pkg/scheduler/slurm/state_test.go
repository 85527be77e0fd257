package slurm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// Every word that squeue and sacct print, with its short form.
//
// covers: PL-S1, PL-S14, CD-25
func TestParseState(t *testing.T) {
	for _, c := range []struct {
		long, short, state, note string
		final                    bool
	}{
		{"PENDING", "PD", run.Queued, "", false},
		{"RUNNING", "R", run.Running, "", false},
		{"SUSPENDED", "S", run.Running, "suspended", false},
		{"COMPLETED", "CD", run.Succeeded, "", true},
		{"CANCELLED", "CA", run.Cancelled, "", true},
		{"FAILED", "F", run.Failed, "", true},
		{"TIMEOUT", "TO", run.Timeout, "", true},
		{"NODE_FAIL", "NF", run.NodeFail, "", true},
		{"PREEMPTED", "PR", run.Preempted, "", true},
		{"BOOT_FAIL", "BF", run.NodeFail, "boot failed", true},
		{"DEADLINE", "DL", run.Timeout, "never started in time", true},
		{"OUT_OF_MEMORY", "OOM", run.OOM, "", true},
		{"COMPLETING", "CG", run.Running, "ending", false},
		{"CONFIGURING", "CF", run.Running, "booting", false},
		{"STAGE_OUT", "SO", run.Running, "ending", false},
		{"RESIZING", "RS", run.Running, "resizing", false},
		{"SIGNALING", "SI", run.Running, "signalled", false},
		{"STOPPED", "ST", run.Running, "stopped", false},
		{"EXPEDITING", "", run.Queued, "expedited", false},
		{"REQUEUED", "RQ", run.Queued, "requeued", false},
		{"REQUEUE_HOLD", "RH", run.Queued, "held", false},
		{"SPECIAL_EXIT", "SE", run.Queued, "held", false},
		{"RESV_DEL_HOLD", "RD", run.Queued, "held", false},
		{"REQUEUE_FED", "RF", run.Queued, "requeued", false},
		{"REVOKED", "RV", run.Cancelled, "runs on a sibling cluster", true},
	} {
		spellings := []string{c.long, strings.ToLower(c.long), " " + c.long + " ", c.long + "+", c.long + " by 1000",
			strings.ToLower(c.long) + " by root"}
		if c.short != "" {
			spellings = append(spellings, c.short, strings.ToLower(c.short))
		}
		for _, word := range spellings {
			state, note := parseState(word)
			require.Equal(t, [2]string{c.state, c.note}, [2]string{state, note}, word)
			require.Equal(t, c.final, run.State{State: state}.Final(), word)
		}
	}
	for word, want := range map[string]string{
		"CANCELLED by 1000": run.Cancelled, "CANCELLED+": run.Cancelled, "CANCELLE+": run.Cancelled, "OUT_OF_ME+": run.OOM, "PREEMPT+": run.Preempted,
		"COMPLETE+": run.Succeeded, "COMPLETI+": run.Running, "RESV_DEL_+": run.Queued,
		"COMPLET+": run.Unknown, "REQUEUE+": run.Unknown, "RE+": run.Unknown, // ambiguous
		"CANCELLED b+": run.Cancelled, "CANCELLED +": run.Cancelled, "CANCELLED x": run.Unknown, "C+": run.Unknown, "+": run.Unknown, "": run.Unknown, "?": run.Unknown, "BUSY": run.Unknown, "COMPLETE": run.Unknown,
		"POWER_UP_NODE": run.Unknown, "CANCELLED++": run.Unknown, "by 1000": run.Unknown,
	} {
		got, _ := parseState(word)
		require.Equal(t, want, got, word)
	}
}

// covers: PL-S1, PL-S3
func TestParseSqueue(t *testing.T) {
	jobs := parseSqueue("Welcome to the cluster\n"+
		"12|RUNNING|None|n[1-2]|s.a.0.R1|profllm:R1\r\n"+
		"12_3|COMPLETING|None|n1|arr|\n"+
		"13_[2-3,5%1]|PENDING|JobArrayTaskLimit||arr|\n"+
		"14+1|PENDING|Resources||het|\n"+
		"15|PENDING|Priority||name|with|bars\n"+
		"notice|of|three\n|RUNNING|||x|\n", noon)
	want := []struct{ id, state, note, reason, nodes, name string }{
		{"12", run.Running, "", "", "n[1-2]", "s.a.0.R1"},
		{"12_3", run.Running, "ending", "", "n1", "arr"},
		{"13_[2-3,5%1]", run.Queued, "", "JobArrayTaskLimit", "", "arr"},
		{"14+1", run.Queued, "", "Resources", "", "het"},
		{"15", run.Queued, "", "Priority", "", "name"},
	}
	require.Len(t, jobs, len(want))
	for i, w := range want {
		j := jobs[i]
		require.Equal(t, w, struct{ id, state, note, reason, nodes, name string }{j.JobID, j.State.State, j.Note,
			j.Reason, j.NodeList, j.Name})
		require.Equal(t, "squeue", j.Source)
	}
}

// The job record decides, whatever its steps did.
//
// covers: PL-S1, PL-S3, PL-S4
func TestParseSacct(t *testing.T) {
	jobs := parseSacct("60|TIMEOUT|0:0|2026-03-04T10:00:00|2026-03-04T10:01:26|86|n[1-2]|s.a.0.R1\n"+
		"60.batch|COMPLETED|0:0|2026-03-04T10:00:00|2026-03-04T10:01:26|86|n1|batch\n"+
		"61|CANCELLED by 1000|0:0|None|2026-03-04T10:00:00|0|None assigned|x\n"+
		"62_[2-3]|CANCELLED by 0|0:0|None|2026-03-04T10:00:00|0|None assigned|arr\n"+
		"63+0|FAILED|0:9|2026-03-04T10:00:00|2026-03-04T10:00:03|3|n1|het|with|bars\n"+
		"sacct: warning\n64|FAILED|1:0\n", noon)
	require.Len(t, jobs, 4, "no step")
	by := byID(jobs)
	require.Equal(t, run.State{JobID: "60", State: run.Timeout, Raw: "TIMEOUT", ExitCode: "0:0",
		Start: "2026-03-04T10:00:00", End: "2026-03-04T10:01:26",
		Elapsed: 86, NodeList: "n[1-2]", Source: "sacct", At: noon, Name: "s.a.0.R1"}, by["60"].State)
	require.Equal(t, "never ran", by["61"].Note)
	require.Equal(t, run.Cancelled, by["62_[2-3]"].State.State)
	require.Equal(t, "het|with|bars", by["63+0"].Name)
	require.Equal(t, "0:9", by["63+0"].ExitCode)
}

// covers: PL-S9, PL-S23
// What ended before its start was recorded has no name yet in Slurm's records (seen
// with 22.05).
//
// covers: PL-S3
func TestNamelessRecord(t *testing.T) {
	acct := parseSacct("915|FAILED|5:0|2026-03-04T11:59:00|2026-03-04T11:59:02|2|node1|allocation\n", noon)
	require.Len(t, acct, 1)
	require.Empty(t, acct[0].Name)
	queue := parseSqueue("915|FAILED|NonZeroExitCode|node1|a.R|profllm:R\n", noon)
	require.Len(t, queue, 1)
	st, ok := merge(&queue[0], &acct[0])
	require.True(t, ok)
	require.Equal(t, [3]string{"sacct", queue[0].Name, "5:0"}, [3]string{st.Source, st.Name, st.ExitCode})
	require.NotEmpty(t, st.Name)
}

func TestMergeAndRefused(t *testing.T) {
	_, ok := merge(nil, nil)
	require.False(t, ok)
	word := func(w, source string) *job {
		s, _ := parseState(w)
		return &job{State: run.State{State: s, Raw: w, Source: source}}
	}
	for _, c := range []struct{ queue, acct, source string }{
		{"PENDING", "", "squeue"}, {"", "FAILED", "sacct"}, {"RUNNING", "FAILED", "squeue"}, {"COMPLETING", "COMPLETED", "squeue"},
		{"FAILED", "FAILED", "sacct"}, {"FAILED", "RUNNING", "squeue"}, {"?", "COMPLETED", "squeue"},
		{"COMPLETED", "NODE_FAIL", "squeue"}, // sacct still has the attempt before
	} {
		var q, a *job
		if c.queue != "" {
			q = word(c.queue, "squeue")
		}
		if c.acct != "" {
			a = word(c.acct, "sacct")
		}
		got, ok := merge(q, a)
		require.True(t, ok)
		require.Equal(t, c.source, got.Source, "%+v", c)
	}
	left := parseSacct("61|FAILED|1:0|2026-03-04T10:00:00|2026-03-04T10:00:00|0|None assigned|tag\n", noon)
	require.True(t, left[0].refused())
	ran := parseSacct("61|FAILED|1:0|2026-03-04T10:00:00|2026-03-04T10:00:00|0|n1|tag\n", noon)
	require.False(t, ran[0].refused(), "it had a node")
}

func FuzzParseState(f *testing.F) {
	for _, s := range states {
		f.Add(s.word)
	}
	f.Add("CANCELLED by 0")
	f.Add("OUT_OF_ME+")
	f.Fuzz(func(t *testing.T, word string) {
		state, _ := parseState(word)
		again, _ := parseState(" " + strings.ToLower(strings.ToUpper(word)) + " ")
		require.Equal(t, state, again)
	})
}

func FuzzParseSqueue(f *testing.F) {
	f.Add("12|RUNNING|None|n[1-2]|s.a.0.R1|profllm:R1\n")
	f.Add("\r\n|||||\n13_[2-3]|PD|x||y")
	f.Fuzz(func(t *testing.T, out string) { requireSane(t, out, parseSqueue(out, noon)) })
}

func FuzzParseSacct(f *testing.F) {
	f.Add("60|TIMEOUT|0:0|2026-03-04T10:00:00|2026-03-04T10:01:26|86|n[1-2]|s.a.0.R1\n")
	f.Add("60|CANCELLED by 1|0:0|None|x|NaN|None assigned|")
	f.Fuzz(func(t *testing.T, out string) { requireSane(t, out, parseSacct(out, noon)) })
}

// requireSane checks what holds for any text: a job has an id that stands at the
// start of a line, and no number that JSON cannot hold.
func requireSane(t *testing.T, out string, jobs []job) {
	if isJSON(out) {
		return // FuzzDialect has those
	}
	require.LessOrEqual(t, len(jobs), strings.Count(out, "\n")+1)
	for _, j := range jobs {
		require.NotEmpty(t, j.JobID)
		require.Contains(t, "\n"+out, "\n"+j.JobID+"|")
		require.NotEmpty(t, j.State.State)
		require.GreaterOrEqual(t, j.Elapsed, 0.0)
		require.Less(t, j.Elapsed, 1e12)
	}
}
