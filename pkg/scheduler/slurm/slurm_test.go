package slurm

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/internal/slurmtest"
	"github.com/profllm/profllm/pkg/run"
)

func TestMain(m *testing.M) {
	if code, ok := slurmtest.Main(os.Args, os.Environ(), os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// fake starts a fake Slurm and our side of it.
func fake(t *testing.T) (*slurmtest.Slurm, *Slurm) {
	t.Helper()
	f := slurmtest.New(t)
	f.Use(t, os.Environ())
	return f, New(os.Environ(), func() time.Time { return noon })
}

// hurry makes programs that hang end soon; the others keep their time.
func (s *Slurm) hurry(programs ...string) {
	s.limit = func(program string) time.Duration {
		if slices.Contains(programs, program) {
			return 100 * time.Millisecond
		}
		return limit(program)
	}
}

var request = run.Request{Script: "/r/job.sh", Name: "s.a.0.RUN", Comment: "profllm:RUN", Dir: "/r"}

// covers: PL-S20, PL-S21, PL-D1
func TestSubmit(t *testing.T) {
	for name, k := range map[string]slurmtest.Knobs{
		"plain":              {},
		"federation":         {Cluster: "c1"},
		"banner":             {Banner: "Your project has 12 hours left\n7\n"},
		"banner and cluster": {Banner: "job 99 is not yours\n", Cluster: "big one"[:3]},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := fake(t)
			f.Set(k)
			sub, err := s.Submit(t.Context(), request)
			require.NoError(t, err)
			require.Equal(t, "60", sub.JobID)
			require.Equal(t, [][]string{{"--parsable", "--job-name=s.a.0.RUN", "--comment=profllm:RUN", "--chdir=/r",
				"/r/job.sh"}}, f.Calls("sbatch"))
			require.Equal(t, "profllm:RUN", f.Jobs()[0].Comment)
		})
	}
	t.Run("no id in the answer", func(t *testing.T) {
		f, s := fake(t)
		f.Set(slurmtest.Knobs{Banner: "60 bottles "})
		sub, err := s.Submit(t.Context(), request)
		require.ErrorContains(t, err, `sbatch answered "60 bottles 60", which contains no job id`)
		require.NotErrorAs(t, err, new(*run.RefusedError), "a job may exist")
		require.Empty(t, sub.JobID)
	})
}

// What decides whether a submission may be made again without a look.
//
// covers: PL-S22, PL-S24, CD-24
func TestRefusedOrPerhapsAccepted(t *testing.T) {
	for _, text := range []string{
		"invalid partition specified: nope",
		"Batch job submission failed: Invalid account or account/partition combination specified",
		"Batch job submission failed: Invalid qos specification",
		"Invalid generic resource (gres) specification",
		"Batch job submission failed: Requested node configuration is not available",
		"Batch job submission failed: Node count specification invalid",
		"Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
		"Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)",
		"Batch job submission failed: User's group not permitted to use this partition",
		"Batch job submission failed: Requested reservation is invalid",
		"Batch job submission failed: Access/permission denied",
		"Batch job submission failed: Unable to contact slurm controller (connect failure)",
		"Batch job submission failed: Rate limit exceeded, please retry momentarily",
	} {
		t.Run(text, func(t *testing.T) {
			f, s := fake(t)
			f.Set(slurmtest.Knobs{Refuse: text})
			_, err := s.Submit(t.Context(), request)
			var refused *run.RefusedError
			require.ErrorAs(t, err, &refused)
			require.Contains(t, refused.Reason, text)
		})
	}
	for _, text := range []string{
		"Batch job submission failed: Socket timed out on send/recv operation",
		"Batch job submission failed: Zero Bytes were transmitted or received",
		"Batch job submission failed: Unable to contact slurm controller (receive failure)",
		"Batch job submission failed: Insane message length",
		"Batch job submission failed: Unspecified error",
		"something nobody has seen",
		"lua: database connect failure\nsbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
	} {
		t.Run(text, func(t *testing.T) {
			f, s := fake(t)
			f.Set(slurmtest.Knobs{LoseAnswer: text})
			_, err := s.Submit(t.Context(), request)
			require.Error(t, err)
			require.NotErrorAs(t, err, new(*run.RefusedError))
			require.ErrorContains(t, err, "sbatch --parsable --job-name=s.a.0.RUN", "the command to try by hand")
		})
	}
	t.Run("hangs", func(t *testing.T) {
		f, s := fake(t)
		s.hurry("sbatch")
		f.Set(slurmtest.Knobs{Gate: "accepted"})
		_, err := s.Submit(t.Context(), request)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorAs(t, err, new(*run.RefusedError))
	})
	require.Equal(t, submitLimit, limit("sbatch"))
	require.Equal(t, commandLimit, limit("squeue"))
	t.Run("killed after an excuse", func(t *testing.T) {
		err := &CommandError{Stderr: "connect failure", Err: context.DeadlineExceeded}
		require.Empty(t, err.refusal())
	})
	t.Run("not installed", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := New(nil, time.Now).Submit(t.Context(), request)
		require.ErrorAs(t, err, new(*run.RefusedError))
	})
}

// An interrupt does not end an sbatch under way: its answer would be lost.
func TestSubmitOutlivesInterrupt(t *testing.T) {
	f, s := fake(t)
	f.Set(slurmtest.Knobs{Gate: "accepted"})
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan run.Submission)
	go func() {
		sub, _ := s.Submit(ctx, request)
		done <- sub
	}()
	await.True(t, func() bool { return f.Reached("accepted") > 0 }, "sbatch has accepted the job")
	interrupt()
	f.Open()
	require.Equal(t, "60", (<-done).JobID)
}

// covers: PL-S28, PL-S30
func TestEnvironment(t *testing.T) {
	f, _ := fake(t)
	names := filepath.Join(t.TempDir(), "names")
	bin := t.TempDir()
	script := "#!/bin/bash\nenv | cut -d= -f1 >'" + names + "'\necho 1\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "sbatch"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	s := New(append(f.Env(os.Environ()), "SBATCH_PARTITION=debug", "SBATCH_TIMELIMIT=1", "SLURM_NTASKS=7",
		"SLURM_JOB_ID=1", "SLURM_TIME_FORMAT=%s",
		"SLURMD_NODENAME=n1", "SQUEUE_FORMAT=%i", "SACCT_FORMAT=x", "SCANCEL_CTLD=1", "SINFO_ALL=1", "SLURM_CONF=/etc/slurm.conf", "SLURMY=kept"), time.Now)
	asks := request
	asks.Export.Names = []string{"SLURMY"}
	sub, err := s.Submit(t.Context(), asks)
	require.NoError(t, err)
	require.Equal(t, []string{"SACCT_FORMAT", "SBATCH_PARTITION", "SBATCH_TIMELIMIT", "SCANCEL_CTLD", "SINFO_ALL",
		"SLURMD_NODENAME",
		"SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_TIME_FORMAT", "SQUEUE_FORMAT"}, sub.Cleared)
	data, err := os.ReadFile(names)
	require.NoError(t, err)
	seen := strings.Fields(string(data))
	require.Contains(t, seen, "SLURM_CONF")
	require.Contains(t, seen, "SLURMY")
	for _, name := range sub.Cleared {
		require.NotContains(t, seen, name)
	}
}

// The job gets no more of the submitting shell than it needs, by sbatch's own
// environment: its arguments say nothing of it.
//
// covers: PL-S29, PL-S33
func TestExport(t *testing.T) {
	for name, c := range map[string]struct {
		export    []string
		has, lack []string
	}{
		"usual":       {nil, []string{"PATH=/bin", "HOME=/h", "LANG=C", "PROFLLM_X=1"}, []string{"HF_TOKEN", "COMMAS", "NCCL_DEBUG"}},
		"named":       {[]string{"COMMAS", "NOT_SET"}, []string{"PATH=/bin", "COMMAS=a,b=c,\nd"}, []string{"HF_TOKEN", "NOT_SET"}},
		"all of them": {[]string{"ALL"}, []string{"HF_TOKEN=canary", "COMMAS=a,b=c,\nd", "NCCL_DEBUG=INFO"}, nil},
	} {
		dir := t.TempDir()
		script := "#!/bin/bash\nprintf '%s\\0' \"$@\" >'" + dir + "/argv'\ncat /proc/$$/environ >'" + dir +
			"/environ'\necho 1\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "sbatch"), []byte(script), 0o755))
		t.Setenv("PATH", dir+":/usr/bin:/bin")
		s := New([]string{"PATH=/bin", "HOME=/h", "LANG=C", "PROFLLM_X=1", "HF_TOKEN=canary", "COMMAS=a,b=c,\nd",
			"NCCL_DEBUG=INFO"}, time.Now)
		asks := request
		asks.Export.Names = c.export
		for what, submit := range map[string]func() error{
			"sbatch":      func() error { _, err := s.Submit(t.Context(), asks); return err },
			"--test-only": func() error { _, err := s.TestOnly(t.Context(), "/r/job.sh"); return err },
		} {
			require.NoError(t, submit(), name)
			data, err := os.ReadFile(dir + "/environ")
			require.NoError(t, err)
			seen := strings.Split(string(data), "\x00")
			if what == "sbatch" {
				require.Subset(t, seen, c.has, name)
			} else {
				require.NotContains(t, string(data), "canary", "a question is nobody's job")
			}
			for _, lack := range c.lack {
				require.NotContains(t, "\x00"+string(data), "\x00"+lack+"=", "%s, %s", name, what)
			}
			argv, err := os.ReadFile(dir + "/argv")
			require.NoError(t, err)
			require.NotContains(t, string(argv), "--export")
		}
	}
}

// covers: PL-S8, PL-S9, PL-S12, PL-S15, PL-S17
func TestStates(t *testing.T) {
	f, s := fake(t)
	for _, j := range []slurmtest.Job{
		{ID: "1", Queue: "RUNNING", Acct: "NODE_FAIL", NodeList: "n1"},                // requeued: the older record is no end
		{ID: "2", Queue: "COMPLETED", Acct: "COMPLETED", ExitCode: "0:0", Elapsed: 9}, // the richer of two ends
		{ID: "3", Acct: "TIMEOUT", ExitCode: "0:0"},                                   // squeue has forgotten it
		{ID: "4", Acct: "REQUEUED"},                                                   // neither queued nor over
		{ID: "5", Acct: "RUNNING"},
		{ID: "6", Queue: "FAILED"}, // accounting is late
		{ID: "7", Queue: "PENDING", Acct: "REQUEUED", Reason: "BeginTime"},
		{ID: "8", Queue: "COMPLETED", Acct: "RUNNING"}, // late as well
	} {
		f.Put(j)
	}
	states, err := s.States(t.Context(), []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"})
	require.NoError(t, err)
	require.Len(t, f.Calls("squeue"), 1, "one query for all jobs")
	require.Len(t, f.Calls("sacct"), 1)
	want := map[string][2]string{
		"1": {run.Running, "squeue"}, "2": {run.Succeeded, "sacct"}, "3": {run.Timeout, "sacct"}, "4": {run.Unknown, "sacct"},
		"5": {run.Unknown, "sacct"}, "6": {run.Failed, "squeue"}, "7": {run.Queued, "squeue"}, "8": {run.Succeeded, "squeue"}, "9": {run.Unknown, "squeue"},
	}
	for id, w := range want {
		require.Equal(t, w, [2]string{states[id].State, states[id].Source}, "job %s: %+v", id, states[id])
		require.Equal(t, id, states[id].JobID)
		require.Equal(t, noon, states[id].At)
	}
	require.Equal(t, 9.0, states["2"].Elapsed)
	require.Equal(t, "BeginTime", states["7"].Reason)
	require.Contains(t, states["4"].Reason, "sacct says REQUEUED")

	_, err = s.States(t.Context(), []string{"1", "7"})
	require.NoError(t, err)
	require.Len(t, f.Calls("sacct"), 1, "sacct is not asked about jobs that go on")
	_, err = s.States(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, f.Calls("squeue"), 2, "nothing to ask, nothing asked")
}

// Silence is never an end.
//
// covers: PL-S6, PL-S10, PL-S16, PL-S17, CD-26
func TestStatesWithoutAnswer(t *testing.T) {
	running := slurmtest.Job{ID: "1", Queue: "RUNNING", Acct: "RUNNING"}
	for name, c := range map[string]struct {
		knobs  slurmtest.Knobs
		job    slurmtest.Job
		state  string
		reason string
	}{
		"squeue hangs, sacct knows": {slurmtest.Knobs{Hang: []string{"squeue"}}, running, run.Running, ""},
		"both hang":                 {slurmtest.Knobs{Hang: []string{"squeue", "sacct"}}, running, run.Unknown, "no answer in 100ms"},
		"controller away":           {slurmtest.Knobs{Fail: "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"}, running, run.Unknown, "connect failure"},
		"no accounting, runs":       {slurmtest.Knobs{NoAccounting: true}, running, run.Running, ""},
		"no accounting, forgotten":  {slurmtest.Knobs{NoAccounting: true}, slurmtest.Job{ID: "1"}, run.Unknown, "accounting storage is disabled"},
		"nobody knows it":           {slurmtest.Knobs{}, slurmtest.Job{ID: "77"}, run.Unknown, "neither squeue nor sacct knows the job"},
		"sacct hangs, squeue ended": {slurmtest.Knobs{Hang: []string{"sacct"}}, slurmtest.Job{ID: "1", Queue: "TIMEOUT"}, run.Timeout, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := fake(t)
			s.hurry(c.knobs.Hang...)
			f.Set(c.knobs)
			f.Put(c.job)
			states, err := s.States(t.Context(), []string{"1"})
			require.NoError(t, err)
			require.Equal(t, c.state, states["1"].State)
			require.Contains(t, states["1"].Reason, c.reason)
		})
	}
}

// Only an answer makes a job forgotten, and only an answer of squeue ends one
// that Slurm may have queued again.
//
// covers: PL-S9, PL-S10, PL-S12, PL-S17
func TestForgottenOrSilent(t *testing.T) {
	for name, c := range map[string]struct {
		knobs       slurmtest.Knobs
		job         slurmtest.Job
		state, note string
	}{
		"answered":               {slurmtest.Knobs{}, slurmtest.Job{}, run.Unknown, run.Forgotten},
		"answered, no records":   {slurmtest.Knobs{NoAccounting: true}, slurmtest.Job{}, run.Unknown, run.Forgotten},
		"a closed attempt":       {slurmtest.Knobs{}, slurmtest.Job{Acct: "REQUEUED"}, run.Unknown, run.Forgotten},
		"silent":                 {slurmtest.Knobs{Fail: "no contact"}, slurmtest.Job{}, run.Unknown, ""},
		"records silent":         {slurmtest.Knobs{Hang: []string{"sacct"}}, slurmtest.Job{}, run.Unknown, ""},
		"queue silent, over":     {slurmtest.Knobs{Hang: []string{"squeue"}}, slurmtest.Job{Acct: "COMPLETED"}, run.Succeeded, ""},
		"queue silent, requeued": {slurmtest.Knobs{Hang: []string{"squeue"}}, slurmtest.Job{Acct: "NODE_FAIL"}, run.Unknown, ""},
		"node failed":            {slurmtest.Knobs{}, slurmtest.Job{Acct: "NODE_FAIL"}, run.NodeFail, ""},
		"held":                   {slurmtest.Knobs{}, slurmtest.Job{Queue: "PENDING", Reason: "JobHeldAdmin"}, run.Queued, run.Held},
		"never starts":           {slurmtest.Knobs{}, slurmtest.Job{Queue: "PENDING", Reason: "PartitionNodeLimit"}, run.Queued, run.NeverStarts},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := fake(t)
			s.hurry(c.knobs.Hang...)
			f.Set(c.knobs)
			c.job.ID = "1"
			f.Put(c.job)
			states, err := s.States(t.Context(), []string{"1", "2"})
			require.NoError(t, err)
			require.Equal(t, [2]string{c.state, c.note}, [2]string{states["1"].State, states["1"].Note})
		})
	}
}

// covers: PL-S10
func TestShow(t *testing.T) {
	f, s := fake(t)
	f.Set(slurmtest.Knobs{Scontrol: dialect(t, "22.05-show.txt")})
	states, err := s.Show(t.Context(), []string{"60_1", "60_3", "77"})
	require.NoError(t, err)
	require.Len(t, states, 2)
	require.Equal(t, run.NodeFail, states["60_1"].State)
	require.Equal(t, run.Queued, states["60_3"].State)
	_, err = s.Show(t.Context(), []string{"12"})
	require.NoError(t, err)
	_, err = s.Show(t.Context(), []string{"12", "13"})
	require.NoError(t, err)
	require.Equal(t, [][]string{{"--all", "show", "job"}, {"--all", "show", "job", "12"}, {"--all", "show", "job"}},
		f.Calls("scontrol"))
	f.Set(slurmtest.Knobs{Hang: []string{"scontrol"}})
	s.hurry("scontrol")
	_, err = s.Show(t.Context(), []string{"12"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A list that no command line holds is asked about in parts.
//
// covers: PL-S7, PL-S15
func TestLongList(t *testing.T) {
	f, s := fake(t)
	var ids []string
	for i := range 15000 {
		ids = append(ids, strconv.Itoa(10000000+i))
	}
	f.Put(slurmtest.Job{ID: ids[0], Queue: "RUNNING", Acct: "RUNNING"})
	f.Put(slurmtest.Job{ID: ids[14999], Acct: "TIMEOUT"})
	states, err := s.States(t.Context(), ids)
	require.NoError(t, err)
	require.Len(t, states, len(ids))
	require.Equal(t, run.Running, states[ids[0]].State)
	require.Equal(t, run.Timeout, states[ids[14999]].State)
	require.Len(t, f.Calls("squeue"), 2)
	require.Len(t, f.Calls("sacct"), 2)
	asked := 0
	for _, call := range f.Calls("sacct") {
		require.NotContains(t, call, "-S", "which leaves out held jobs")
		asked += strings.Count(call[len(call)-1], ",") + 1
	}
	require.Equal(t, len(ids)-1, asked)
}

// covers: PL-S17, PL-S22, PL-S23
func TestFindJob(t *testing.T) {
	tagged := func(j slurmtest.Job) slurmtest.Job { j.ID, j.Name = "61", "tag"; return j }
	for name, c := range map[string]struct {
		knobs slurmtest.Knobs
		job   slurmtest.Job
		age   time.Duration
		found bool
		err   string
	}{
		"queued":                  {job: slurmtest.Job{Queue: "PENDING", Acct: "PENDING"}, found: true},
		"queued, no accounting":   {knobs: slurmtest.Knobs{NoAccounting: true}, job: slurmtest.Job{Queue: "PENDING"}, found: true},
		"ended long ago":          {job: slurmtest.Job{Acct: "COMPLETED", NodeList: "n1", Elapsed: 5}, age: time.Hour, found: true},
		"failed on its node":      {job: slurmtest.Job{Acct: "FAILED", NodeList: "n1"}, found: true},
		"cancelled in the queue":  {job: slurmtest.Job{Acct: "CANCELLED by 0", NodeList: "None assigned"}, found: true},
		"a refused request":       {job: slurmtest.Job{Acct: "FAILED", Reason: "BadConstraints", NodeList: "None assigned"}},
		"none":                    {},
		"none, no accounting":     {knobs: slurmtest.Knobs{NoAccounting: true}, age: time.Minute},
		"none, and nobody knows":  {knobs: slurmtest.Knobs{NoAccounting: true}, age: time.Hour, err: "without accounting, a job that ended"},
		"a clock was set back":    {job: slurmtest.Job{Acct: "COMPLETED", NodeList: "n1", Elapsed: 5}, age: -48 * time.Hour, found: true},
		"back, and nobody knows":  {knobs: slurmtest.Knobs{NoAccounting: true}, age: -time.Hour, err: "without accounting, a job that ended"},
		"queue silent":            {knobs: slurmtest.Knobs{Hang: []string{"squeue"}}, err: "no answer in"},
		"queue silent, in sacct":  {knobs: slurmtest.Knobs{Hang: []string{"squeue"}}, job: slurmtest.Job{Acct: "PENDING"}, found: true},
		"accounting silent":       {knobs: slurmtest.Knobs{Hang: []string{"sacct"}}, err: "no answer in"},
		"accounting silent, runs": {knobs: slurmtest.Knobs{Hang: []string{"sacct"}}, job: slurmtest.Job{Queue: "RUNNING"}, found: true},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := fake(t)
			s.hurry(c.knobs.Hang...)
			f.Set(c.knobs)
			f.Put(slurmtest.Job{ID: "60", Name: "tag2", Queue: "RUNNING", Acct: "RUNNING"})
			f.Put(tagged(c.job))
			id, found, err := s.FindJob(t.Context(), "tag", noon.Add(-c.age))
			for _, call := range f.Calls("sacct") {
				from, err := time.ParseInLocation("2006-01-02T15:04:05", call[slices.Index(call, "-S")+1], time.Local)
				require.NoError(t, err)
				require.False(t, from.After(noon), "sacct refuses a time to come")
			}
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.found, found)
			if found {
				require.Equal(t, "61", id)
			}
		})
	}
}

// covers: PL-S40
func TestCancel(t *testing.T) {
	f, s := fake(t)
	sub, err := s.Submit(t.Context(), request)
	require.NoError(t, err)
	require.NoError(t, s.Cancel(t.Context(), sub.JobID))
	states, err := s.States(t.Context(), []string{sub.JobID})
	require.NoError(t, err)
	require.Equal(t, run.Cancelled, states[sub.JobID].State)
	require.NoError(t, s.Cancel(t.Context(), "999"), "Slurm says nothing; the state tells")
	require.Equal(t, [][]string{{"60"}, {"999"}}, f.Calls("scancel"), "by id, never by name")
}

// covers: PL-S27
func TestAskOnly(t *testing.T) {
	f, s := fake(t)
	f.Set(slurmtest.Knobs{Sinfo: "main*|gpu:4|8|n[1-8]\n", Scontrol: "ClusterName = lab\n"})
	sinfo, scontrol, err := s.Describe(t.Context())
	require.NoError(t, err)
	require.Contains(t, sinfo, "gpu:4")
	require.Contains(t, scontrol, "lab")
	_, err = s.TestOnly(t.Context(), "/r/job.sh")
	require.NoError(t, err)
	require.Empty(t, f.Jobs())
	f.Set(slurmtest.Knobs{Hang: []string{"sinfo"}})
	s.hurry("sinfo")
	_, _, err = s.Describe(t.Context())
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
