package run_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/internal/slurmtest"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/slurm"
)

// submitter submits to a fake Slurm and counts its pauses.
type submitter struct {
	run.Submitter
	fake   *slurmtest.Slurm
	dir    string // of the one run
	pauses []time.Duration
}

const jobName = "s.a-0"

func newSubmitter(t *testing.T) *submitter {
	t.Helper()
	s := &submitter{fake: slurmtest.New(t), dir: filepath.Join(create(t, "a/0"), "a/0")}
	s.fake.Use(t, os.Environ())
	s.Submitter = run.Submitter{
		Scheduler: slurm.New(os.Environ(), time.Now), Now: time.Now, Settle: 30 * time.Second, Log: t.Logf,
		Sleep: func(_ context.Context, d time.Duration) error { s.pauses = append(s.pauses, d); return nil },
	}
	return s
}

// intent writes the intent of a command that is gone.
func (s *submitter) intent(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, run.WriteJSON(filepath.Join(s.dir, name),
		run.Intent{RunID: "a-0", JobName: jobName, Time: time.Now(), Attempt: 1, Host: host(t), PID: deadPID(t),
			ProcessStart: "boot/1"}))
}

// recorded is what submit.json says.
func (s *submitter) recorded(t *testing.T) run.Submission {
	t.Helper()
	var sub run.Submission
	require.NoError(t, run.ReadJSON(filepath.Join(s.dir, run.SubmitFile), &sub))
	return sub
}

// spy is a scheduler that looks at the directory when it is asked to submit.
type spy struct {
	run.Scheduler
	submit func(run.Request) (run.Submission, error)
}

func (s spy) Submit(_ context.Context, r run.Request) (run.Submission, error) { return s.submit(r) }

// covers: PL-D2, PL-S21
func TestIntentBeforeSubmission(t *testing.T) {
	s := newSubmitter(t)
	var seen run.Intent
	s.Scheduler = spy{submit: func(r run.Request) (run.Submission, error) {
		require.NoError(t, run.ReadJSON(filepath.Join(s.dir, run.IntentFile), &seen))
		require.NoFileExists(t, filepath.Join(s.dir, run.SubmitFile))
		require.Equal(t, run.Request{Script: filepath.Join(s.dir, "job.sh"), Name: jobName, Comment: "profllm:a-0",
			Dir: s.dir}, r)
		return run.Submission{JobID: "5"}, nil
	}}
	o := s.Submit(t.Context(), s.dir)
	require.NoError(t, o.Err)
	require.Equal(t, jobName, seen.JobName)
	require.Equal(t, 1, seen.Attempt)
	require.Equal(t, os.Getpid(), seen.PID)
	require.Equal(t, "5", s.recorded(t).JobID)
	require.False(t, s.recorded(t).Adopted)
}

// Without a record there is no submission.
func TestNoIntentNoSubmission(t *testing.T) {
	t.Run("disk is full", func(t *testing.T) {
		s := newSubmitter(t)
		s.Scheduler = spy{submit: func(run.Request) (run.Submission, error) {
			t.Error("submitted without a record")
			return run.Submission{}, nil
		}}
		p, err := run.ReadPlan(s.dir)
		require.NoError(t, err)
		p.Job.Comment, p.RunID = huge[:1], huge
		require.NoError(t, run.Fill(s.dir, p, nil))
		withLimitedFiles(t, func() {
			require.ErrorIs(t, s.Submit(t.Context(), s.dir).Err, syscall.EFBIG)
			require.NoFileExists(t, filepath.Join(s.dir, run.IntentFile))
		})
	})
	t.Run("interrupted before", func(t *testing.T) {
		s := newSubmitter(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, s.Submit(ctx, s.dir).Err, context.Canceled)
		require.Empty(t, s.fake.Calls("sbatch"))
		require.NoFileExists(t, filepath.Join(s.dir, run.IntentFile))
	})
	t.Run("no plan", func(t *testing.T) {
		s := newSubmitter(t)
		require.ErrorIs(t, s.Submit(t.Context(), t.TempDir()).Err, fs.ErrNotExist)
	})
	t.Run("the answer cannot be kept", func(t *testing.T) {
		s := newSubmitter(t)
		require.NoError(t, os.Mkdir(filepath.Join(s.dir, "hold"), 0o755))
		s.Scheduler = spy{Scheduler: s.Scheduler, submit: func(r run.Request) (run.Submission, error) {
			// A folder in the place of submit.json.
			return run.Submission{JobID: "60"},
				os.Rename(filepath.Join(s.dir, "hold"), filepath.Join(s.dir, run.SubmitFile))
		}}
		require.Error(t, s.Submit(t.Context(), s.dir).Err)
		require.FileExists(t, filepath.Join(s.dir, run.IntentFile), "the next command adopts")
	})
}

// covers: PL-S20, PL-S22, PL-S23, PL-D2, CD-24
func TestSubmit(t *testing.T) {
	const lost = "Batch job submission failed: Socket timed out on send/recv operation"
	for name, c := range map[string]struct {
		knobs   slurmtest.Knobs
		before  func(t *testing.T, s *submitter)
		job     string // recorded; "" for none
		adopted bool
		jobs    int // that ever reached the controller
		pauses  int
		intents int
		err     string
	}{
		"first":                       {job: "60", jobs: 1, intents: 1},
		"answer lost, adopted":        {knobs: slurmtest.Knobs{LoseAnswer: lost}, job: "60", adopted: true, jobs: 1, intents: 1},
		"answer lost, seen late":      {knobs: slurmtest.Knobs{LoseAnswer: lost, HiddenLooks: 1}, job: "60", adopted: true, jobs: 1, pauses: 1, intents: 1},
		"answer lost, never seen":     {knobs: slurmtest.Knobs{LoseAnswer: lost, HiddenLooks: 9}, jobs: 1, pauses: 1, intents: 1, err: "Socket timed out"},
		"answer lost, nobody answers": {knobs: slurmtest.Knobs{LoseAnswer: lost, Fail: "no contact"}, jobs: 1, intents: 1, err: "no contact"},
		"answer lost, was refused":    {knobs: slurmtest.Knobs{Refuse: lost, Leftover: true}, jobs: 1, pauses: 1, intents: 1, err: "Socket timed out"},
		"no accounting":               {knobs: slurmtest.Knobs{LoseAnswer: lost, NoAccounting: true}, job: "60", adopted: true, jobs: 1, intents: 1},
		"already submitted": {before: func(t *testing.T, s *submitter) {
			require.NoError(t, run.WriteJSON(filepath.Join(s.dir, run.SubmitFile), run.Submission{JobID: "7"}))
		}, job: "7"},
		"interrupted, job there": {before: func(t *testing.T, s *submitter) {
			s.intent(t, run.IntentFile)
			s.fake.Put(slurmtest.Job{ID: "61", Name: jobName, Queue: "RUNNING"})
		}, job: "61", adopted: true, jobs: 1, intents: 1},
		"interrupted, job over": {before: func(t *testing.T, s *submitter) {
			s.intent(t, run.IntentFile)
			s.fake.Put(slurmtest.Job{ID: "61", Name: jobName, Acct: "COMPLETED", NodeList: "n1", Elapsed: 3})
		}, job: "61", adopted: true, jobs: 1, intents: 1},
		"interrupted, none": {before: func(t *testing.T, s *submitter) { s.intent(t, run.IntentFile) },
			job: "60", jobs: 1, pauses: 1, intents: 2},
		"interrupted, a namesake with more": {before: func(t *testing.T, s *submitter) {
			s.intent(t, run.IntentFile)
			s.fake.Put(slurmtest.Job{ID: "61", Name: jobName + "0", Queue: "RUNNING"})
		}, job: "60", jobs: 1, pauses: 1, intents: 2},
		"interrupted, nobody answers": {knobs: slurmtest.Knobs{Fail: "no contact"}, before: func(t *testing.T, s *submitter) { s.intent(t, run.IntentFile) },
			intents: 1, err: "no contact"},
		"interrupted, forgotten, but the job left its claim": {knobs: slurmtest.Knobs{NoAccounting: true}, before: func(t *testing.T, s *submitter) {
			s.intent(t, run.IntentFile)
			require.NoError(t, run.WriteJSON(filepath.Join(s.dir, run.ClaimFile), run.Claim{JobID: "44"}))
		}, job: "44", adopted: true, intents: 1},
		"interrupted twice": {before: func(t *testing.T, s *submitter) {
			s.intent(t, run.IntentFile)
			s.intent(t, "intent-2.json")
		}, job: "60", jobs: 1, pauses: 1, intents: 3},
		"submit.json is cut": {before: func(t *testing.T, s *submitter) {
			s.intent(t, run.IntentFile)
			s.fake.Put(slurmtest.Job{ID: "61", Name: jobName, Queue: "RUNNING"})
			require.NoError(t, os.WriteFile(filepath.Join(s.dir, run.SubmitFile), []byte(`{"job_`), 0o644))
		}, job: "61", adopted: true, jobs: 1, intents: 1},
		"intent is empty": {before: func(t *testing.T, s *submitter) {
			name := filepath.Join(s.dir, run.IntentFile)
			require.NoError(t, os.WriteFile(name, nil, 0o644))
			require.NoError(t, os.Chtimes(name, time.Time{}, time.Now().Add(-2*time.Minute)))
		}, job: "60", jobs: 1, pauses: 1, intents: 2},
		"intent is just being made": {before: func(t *testing.T, s *submitter) {
			require.NoError(t, os.WriteFile(filepath.Join(s.dir, run.IntentFile), nil, 0o644))
		}, intents: 1, err: "another command"},
		"another host submits": {before: func(t *testing.T, s *submitter) {
			require.NoError(t,
				run.WriteJSON(filepath.Join(s.dir, run.IntentFile),
					run.Intent{Host: "elsewhere", PID: 3, Time: time.Now().Add(-time.Minute)}))
		}, intents: 1, err: `another command (process 3 on "elsewhere"`},
		"another host submits, a little ahead": {before: func(t *testing.T, s *submitter) {
			require.NoError(t,
				run.WriteJSON(filepath.Join(s.dir, run.IntentFile),
					run.Intent{Host: "elsewhere", PID: 3, Time: time.Now().Add(4 * time.Minute)}))
		}, intents: 1, err: "another command"},
		"another host's clock was wrong by a year": {before: func(t *testing.T, s *submitter) {
			require.NoError(t,
				run.WriteJSON(filepath.Join(s.dir, run.IntentFile),
					run.Intent{Host: "elsewhere", PID: 3, Time: time.Now().AddDate(1, 0, 0)}))
		}, job: "60", jobs: 1, pauses: 1, intents: 2},
		"a process of the same number on another host": {before: func(t *testing.T, s *submitter) {
			require.NoError(t,
				run.WriteJSON(filepath.Join(s.dir, run.IntentFile),
					run.Intent{Host: "elsewhere", PID: os.Getpid(), Time: time.Now()}))
		}, intents: 1, err: "another command"},
		"an earlier process of the same number": {before: func(t *testing.T, s *submitter) {
			require.NoError(t,
				run.WriteJSON(filepath.Join(s.dir, run.IntentFile),
					run.Intent{Host: host(t), PID: os.Getpid(), ProcessStart: "boot/1", Time: time.Now()}))
		}, job: "60", jobs: 1, pauses: 1, intents: 2},
		"intent is empty, by a clock that is ahead": {before: func(t *testing.T, s *submitter) {
			name := filepath.Join(s.dir, run.IntentFile)
			require.NoError(t, os.WriteFile(name, nil, 0o644))
			require.NoError(t, os.Chtimes(name, time.Time{}, time.Now().Add(time.Hour)))
		}, job: "60", jobs: 1, pauses: 1, intents: 2},
		"another process submits": {before: func(t *testing.T, s *submitter) {
			pid := os.Getppid()
			require.NoError(t, run.WriteJSON(filepath.Join(s.dir, run.IntentFile),
				run.Intent{Host: host(t), PID: pid, ProcessStart: process.Start(pid),
					Time: time.Now().Add(-time.Hour)}))
		}, intents: 1, err: "another command"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubmitter(t)
			s.fake.Set(c.knobs)
			if c.before != nil {
				c.before(t, s)
			}
			o := s.Submit(t.Context(), s.dir)
			require.Equal(t, c.jobs, s.fake.Submissions(jobName))
			require.Len(t, s.pauses, c.pauses)
			intents, err := filepath.Glob(filepath.Join(s.dir, "intent*.json"))
			require.NoError(t, err)
			require.Len(t, intents, c.intents)
			if c.err != "" {
				require.ErrorContains(t, o.Err, c.err)
				require.NoFileExists(t, filepath.Join(s.dir, run.SubmitFile))
				return
			}
			require.NoError(t, o.Err)
			require.Equal(t, c.job, o.Submission.JobID)
			require.Equal(t, c.adopted, o.Submission.Adopted)
			require.Equal(t, c.job, s.recorded(t).JobID)
			if c.pauses > 0 {
				require.Equal(t, 30*time.Second, s.pauses[0])
			}

			calls := len(s.fake.Calls("sbatch"))
			require.NoError(t, s.Submit(t.Context(), s.dir).Err)
			require.Len(t, s.fake.Calls("sbatch"), calls, "the second time nothing happens")
		})
	}
}

// A refusal is kept; the next command tries again, and is as safe as the first.
//
// covers: PL-S23, PL-S24
func TestSubmitRefused(t *testing.T) {
	s := newSubmitter(t)
	s.fake.Set(slurmtest.Knobs{Refuse: "invalid partition specified: nope", Leftover: true})
	o := s.Submit(t.Context(), s.dir)
	require.ErrorAs(t, o.Err, new(*run.RefusedError))
	require.Contains(t, s.recorded(t).Refused, "nope")
	require.Empty(t, s.recorded(t).JobID)
	require.Empty(t, s.pauses, "certain: nothing to look for")

	// The second attempt is accepted, and its answer is lost with its command.
	s.fake.Set(slurmtest.Knobs{})
	killed := errors.New("killed")
	inner := s.Scheduler
	s.Scheduler = spy{submit: func(r run.Request) (run.Submission, error) {
		_, err := inner.Submit(t.Context(), r)
		require.NoError(t, err)
		panic(killed)
	}}
	require.PanicsWithError(t, "killed", func() { s.Submit(t.Context(), s.dir) })

	s.Scheduler = inner
	o = s.Submit(t.Context(), s.dir)
	require.NoError(t, o.Err)
	require.True(t, o.Submission.Adopted)
	require.Equal(t, "61", o.Submission.JobID)
	require.Len(t, s.fake.Calls("sbatch"), 2)
}

// Of two commands that both find no job, one submits.
func TestSubmitAttemptIsTaken(t *testing.T) {
	s := newSubmitter(t)
	s.intent(t, run.IntentFile)
	s.Sleep = func(context.Context, time.Duration) error {
		s.intent(t, "intent-2.json") // the other is first
		return nil
	}
	require.ErrorIs(t, s.Submit(t.Context(), s.dir).Err, fs.ErrExist)
	require.Empty(t, s.fake.Calls("sbatch"))
}

// A command that slept after it had made its intent, on another host, was given up
// by the next: it does not submit when it wakes.
func TestSubmitOvertaken(t *testing.T) {
	s := newSubmitter(t)
	s.intent(t, "intent-2.json") // made while this one is on its way to intent.json
	require.NoError(t, os.Rename(filepath.Join(s.dir, "intent-2.json"), filepath.Join(s.dir, "hold")))
	now := s.Now
	s.Now = func() time.Time {
		os.Rename(filepath.Join(s.dir, "hold"), filepath.Join(s.dir, "intent-2.json"))
		return now()
	}
	o := s.Submit(t.Context(), s.dir)
	require.ErrorIs(t, o.Err, fs.ErrExist)
	require.ErrorContains(t, o.Err, "another command (process")
	require.Empty(t, s.fake.Calls("sbatch"))
}

// Brackets in a path are brackets.
func TestHostilePaths(t *testing.T) {
	output := filepath.Join(t.TempDir(), "a[b]*")
	root := filepath.Join(output, "s_1")
	require.NoError(t, run.Create(root, gone(t),
		[]run.Printed{{Plan: somePlan(root, "a[0]"), Script: []byte("#!/bin/bash\n")}}, nil))
	roots, err := run.Unfinished(output, "s", false)
	require.NoError(t, err)
	require.Equal(t, []string{root}, roots)
	// The job that is over is found in attempts/, and not adopted again.
	s := newSubmitter(t)
	s.dir = filepath.Join(root, "a[0]")
	require.NoError(t, s.Submit(t.Context(), s.dir).Err)
	require.Equal(t, "61", s.Again(t.Context(), s.dir, "60").Submission.JobID)
	require.NoError(t, os.Remove(filepath.Join(s.dir, run.SubmitFile)))
	sub, adopted, err := run.Adopt(t.Context(), s.Scheduler.(run.Finder), s.dir, time.Now())
	require.NoError(t, err)
	require.True(t, adopted)
	require.Equal(t, "61", sub.JobID)
}

func TestSubmitWithoutFinder(t *testing.T) {
	s := newSubmitter(t)
	s.intent(t, run.IntentFile)
	s.Scheduler = spy{submit: func(run.Request) (run.Submission, error) {
		return run.Submission{},
			fmt.Errorf("must not submit")
	}}
	require.ErrorContains(t, s.Submit(t.Context(), s.dir).Err, "cannot find a job by its name")
}

func TestLookIsInterrupted(t *testing.T) {
	s := newSubmitter(t)
	s.intent(t, run.IntentFile)
	s.Sleep = func(context.Context, time.Duration) error { return context.Canceled }
	require.ErrorIs(t, s.Submit(t.Context(), s.dir).Err, context.Canceled)
	require.Empty(t, s.fake.Calls("sbatch"))
}
