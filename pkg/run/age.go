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
	// AskAfter is how long a job is unknown before the controller itself is asked
	// about it, and the pause until it is asked again.
	AskAfter = 10 * time.Minute
	// LostAfter ends the wait for a job that nobody knows any more.
	LostAfter = 24 * time.Hour
	// KeptAfter is when an end is not asked about any more: by then accounting has
	// caught up, and Slurm has forgotten what it could queue again, unless the site
	// makes it remember (MinJobAge, 300 s by default). There see Outdated.
	KeptAfter = time.Hour
	// refresh bounds the age of a state on disk that did not change.
	refresh = 10 * time.Minute
)

// Follows completes a state by what was known before: since when it lasts, and
// what that means. Silence between two answers does not end what they say.
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
		st.Reason = fmt.Sprintf("ending for more than %s: a process or an epilog hangs on one of its nodes, which stay taken", EndingLimit)
	case st.State == Unknown && st.Note == Forgotten && !silent && lasts >= LostAfter:
		st.Reason = fmt.Sprintf("nobody has known the job since %s", st.Since.Format(time.RFC3339))
		st.State, st.Note, st.Since = Failed, Lost, st.At
	}
	return st
}

// Uptime is how long this machine runs, as BOOT/NANOSECONDS: nobody sets that
// clock. It is "" where there is none.
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

// Ask reports whether it is time to ask the controller itself, old being the state at
// the last look: about a job that is unknown for long, and for the exit code of one that
// failed. squeue prints none, and the accounting may be late, or not there.
func (st State) Ask(old State) bool {
	if st.State == Failed && st.Source == "squeue" && st.Note == "" && st.ExitCode == "" {
		return true
	}
	return st.State == Unknown && st.At.Sub(st.Since)/AskAfter > max(0, old.At.Sub(st.Since))/AskAfter
}

// Kept reports whether a state is an end that stays, so that nobody need be asked.
func (st State) Kept(now time.Time) bool {
	from, ok := st.KeptFrom()
	return ok && !now.Before(from)
}

// KeptFrom is from when on an end stays. That of a rehearsal does at once; before its
// ids had a prefix, its source told it.
func (st State) KeptFrom() (from time.Time, ok bool) {
	if st.Source == "local" || strings.HasPrefix(st.JobID, LocalPrefix) {
		return time.Time{}, st.Final()
	}
	return st.At.Add(KeptAfter), st.Final()
}

// Outdated reports whether the job of a run has begun since its end was seen: it
// was queued again, by hand or because its node had failed.
func (st State) Outdated(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, ClaimFile))
	return err == nil && info.ModTime().After(st.At)
}

// News reports whether a state says more than the older one on disk: something
// else, or that it still holds after a while.
func (st State) News(old State) bool {
	if st.State == Unknown || st.At.Sub(old.At) >= refresh && !st.Final() {
		return st != old
	}
	st.At, st.Up = old.At, old.Up
	return st != old
}
