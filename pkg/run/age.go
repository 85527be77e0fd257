package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/profllm/profllm/pkg/process"
)

// Limits of states that should not last.
const (
	// EndingLimit is how long a job may hold its nodes after its end: Slurm's
	// KillWait (30 s), UnkillableStepTimeout (60 s), by default, and a minute.
	EndingLimit = 150 * time.Second
	// AskAfter is how long a job is unknown before profllm asks the controller itself
	// about the job, and the pause before profllm asks again.
	AskAfter = 10 * time.Minute
	// LostAfter is how long profllm waits for a job that Slurm no longer knows.
	LostAfter = 24 * time.Hour
	// KeptAfter is how long after its end a job is still queried. By then, accounting has
	// caught up, and Slurm has forgotten the jobs that it could queue again, unless the
	// site sets a longer MinJobAge (300 s by default); see Outdated.
	KeptAfter = time.Hour
	// refresh bounds the age of a state on disk that did not change.
	refresh = 10 * time.Minute
)

// Follows completes a state with what was known before: since when the state lasts, and
// what its duration means. A missing answer between two equal answers does not reset the
// time.
func (st State) Follows(old State) State {
	silent := st.State == Unknown && st.Note == ""
	same := old.JobID == st.JobID && old.State == st.State
	if same && silent {
		st.Note = old.Note
	}
	st.Since = st.At
	if same && old.Note == st.Note && !old.Since.IsZero() {
		st.Since = old.Since.Add(st.clockJump(old))
	}
	if st.Since.After(st.At) { // by the clock of another host, or a boot before
		st.Since = st.At
	}
	if st.State != Unknown && st.Note != Ending {
		st.Up = ""
	}
	switch lasts := st.At.Sub(st.Since); {
	case st.State == Running && st.Note == Ending && lasts > EndingLimit:
		st.Reason = fmt.Sprintf("still ending after %s: a process or an epilog hangs on one of its nodes, which stay allocated", EndingLimit)
	case st.State == Unknown && st.Note == Forgotten && !silent && lasts >= LostAfter:
		st.Reason = fmt.Sprintf("the scheduler has not known the job since %s", st.Since.Format(time.RFC3339))
		st.State, st.Note, st.Since = Failed, Lost, st.At
	}
	return st
}

// Uptime is the time since boot of this machine, as BOOT/NANOSECONDS. Nobody can set that
// clock. Uptime is "" on systems without it.
func Uptime() string {
	var now unix.Timespec
	boot := process.Boot()
	if boot == "" || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return ""
	}
	return boot + "/" + strconv.FormatInt(now.Nano(), 10)
}

// clockJump is by how much the clock was set between two looks from the same machine.
// Without that a job would be lost because a clock was wrong.
func (st State) clockJump(old State) time.Duration {
	boot, now, ok := strings.Cut(st.Up, "/")
	oldBoot, then, _ := strings.Cut(old.Up, "/")
	to, toErr := strconv.ParseInt(now, 10, 64)
	from, fromErr := strconv.ParseInt(then, 10, 64)
	if !ok || boot != oldBoot || toErr != nil || fromErr != nil {
		return 0
	}
	if d := st.At.Sub(old.At) - time.Duration(to-from); d.Abs() > time.Minute {
		return d
	}
	return 0 // as clocks are kept right
}

// NeedsController reports whether to ask the controller itself; old is the state at the last
// look. It is asked about a job that has been unknown for long, and for the exit code of a
// failed job: squeue prints no exit code, and accounting may be late or missing.
func (st State) NeedsController(old State) bool {
	if st.State == Failed && st.Source == "squeue" && st.Note == "" && st.ExitCode == "" {
		return true
	}
	return st.State == Unknown && st.At.Sub(st.Since)/AskAfter > max(0, old.At.Sub(st.Since))/AskAfter
}

// Kept reports whether a state is final and old enough that no scheduler need be asked.
func (st State) Kept(now time.Time) bool {
	from, ok := st.KeptFrom()
	return ok && !now.Before(from)
}

// KeptFrom is the time from which a final state is kept. A rehearsal's state is kept at
// once, as is that of a Job of Kubernetes, which never begins again, unless it is lost: the answer may
// have been of another cluster. Before ids had a prefix, the source told a rehearsal apart.
func (st State) KeptFrom() (from time.Time, ok bool) {
	if st.Source == "local" || strings.HasPrefix(st.JobID, LocalPrefix) ||
		strings.HasPrefix(st.JobID, KubePrefix) && st.Note != Lost {
		return time.Time{}, st.Final()
	}
	return st.At.Add(KeptAfter), st.Final()
}

// Outdated reports whether the job of a run has begun after its end was seen: Slurm has
// queued the job again, on request or because its node had failed.
func (st State) Outdated(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, ClaimFile))
	return err == nil && info.ModTime().After(st.At)
}

// News reports whether a state says more than the older one on disk: something else, or
// that the same state still holds after a while.
func (st State) News(old State) bool {
	if st.State == Unknown || st.At.Sub(old.At) >= refresh && !st.Final() {
		return st != old
	}
	st.At, st.Up = old.At, old.Up
	return st != old
}
