package campaign

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/pending"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
)

// StuckError is a queued job that is held or can never start, so that waiting is
// pointless.
type StuckError struct{ text string }

func (e *StuckError) Error() string { return e.text }

// stuck is why the job of a run does not start without somebody's doing, nil if it does. A held job
// is such a job: a night asks, which says so at once and waits for nothing.
func (c *Client) stuck(dir string, st run.State) *StuckError {
	if !isHeld(st) && !neverStarts(st) {
		return nil
	}
	return &StuckError{c.tell(dir, st, troubleOf(st, c.relative(dir)))}
}

func isHeld(st run.State) bool      { return st.State == run.Queued && st.Note == run.Held }
func neverStarts(st run.State) bool { return st.State == run.Queued && st.Note == run.NeverStarts }

// allStuck is why none of the open jobs will start, nil if one of them may. A held job may, unlike
// for stuck, unless EndHeld is set: a command that waits goes on until somebody releases the job. A
// job that waits for a stuck job is stuck too.
func (c *Client) allStuck(dirs []string, subs map[string]run.Submission, states map[string]run.State,
	open int) *StuckError {
	stuck, first := map[string]bool{}, "" // job ids; the first run that is stuck by itself
	for _, dir := range dirs {
		if st := states[dir]; neverStarts(st) || c.EndHeld && isHeld(st) {
			stuck[st.JobID], first = true, cmp.Or(first, dir)
		}
	}
	for more := first != ""; more; {
		more = false
		for _, dir := range dirs {
			if st := states[dir]; st.State == run.Queued && !stuck[st.JobID] && waitsForOne(subs[dir].Waits, stuck) {
				stuck[st.JobID], more = true, true
			}
		}
	}
	var hopeless []string
	for _, dir := range dirs {
		if st := states[dir]; !st.Final() && stuck[st.JobID] {
			hopeless = append(hopeless, dir)
		}
	}
	n := len(hopeless)
	if n == 0 || n < open {
		return nil
	}
	st, cancel := states[first], []string{first}
	if n > 1 {
		cancel = foldersOf(hopeless, dirs)
	}
	for i := range cancel {
		cancel[i] = c.relative(cancel[i])
	}
	t := troubleOf(st, strings.Join(cancel, " "))
	if n > 1 {
		t.why += fmt.Sprintf("; %s will not start either", quantity.Count(n-1, "other run"))
	}
	return &StuckError{c.tell(first, st, t)}
}

// foldersOf names some of the followed runs for a command: by the highest folder up to their
// scenario's in which every run is followed, so that the command is about no other run.
func foldersOf(some, followed []string) (folders []string) {
	mixed := map[string]bool{} // folders that hold a run that is not followed
	known := map[string]bool{} // scenarios
	for _, dir := range some {
		dir, root := filepath.Clean(dir), filepath.Clean(rootOf(dir))
		if !known[root] {
			known[root] = true
			notFollowed(root, followed, mixed)
		}
		for up := filepath.Dir(dir); dir != root && up != dir && !mixed[up]; up = filepath.Dir(dir) {
			dir = up
		}
		if !slices.Contains(folders, dir) {
			folders = append(folders, dir)
		}
	}
	return folders
}

// notFollowed adds the folders of a scenario that hold a run that is not followed.
func notFollowed(root string, followed []string, mixed map[string]bool) {
	s, err := run.ReadScenario(root)
	if err != nil { // nobody knows what else there is
		for _, dir := range followed {
			mixed[filepath.Dir(filepath.Clean(dir))] = true
		}
		return
	}
	is := map[string]bool{}
	for _, dir := range followed {
		is[filepath.Clean(dir)] = true
	}
	for _, r := range s.Runs {
		at := filepath.Join(root, r)
		for other := !is[at]; other && at != root && at != filepath.Dir(at); {
			at = filepath.Dir(at)
			mixed[at] = true
		}
	}
}

// waitsForOne reports whether one of some dependencies (afterok:60:61) is a job of the set.
func waitsForOne(waits []string, jobs map[string]bool) bool {
	for _, w := range waits {
		for _, id := range strings.Split(w, ":")[1:] {
			if jobs[id] {
				return true
			}
		}
	}
	return false
}

// warn says what somebody should know of jobs before they are over, each trouble once.
func (c *Client) warn(dirs []string, states map[string]run.State, warned map[string]bool) {
	for _, dir := range dirs {
		st := states[dir]
		t := troubleOf(st, c.relative(dir))
		if t.what == "" || warned[dir+t.what] {
			continue
		}
		warned[dir+t.what] = true
		if st.State == run.Queued && st.Note != run.NeverStarts {
			t.why += "; profllm keeps waiting"
		}
		c.Events.Say(Warning, c.tell(dir, st, t))
	}
}

// tell is a trouble with its job and its run.
func (c *Client) tell(dir string, st run.State, t trouble) string {
	return fmt.Sprintf("job %s of %s %s", st.JobID, c.relative(dir), t)
}

// trouble is what somebody should know of a job before it is over; the zero value is
// nothing.
type trouble struct {
	what string // is held
	why  string // the reason, and what follows
	hint string
}

func (t trouble) String() string {
	return t.what + t.why + prefixed("\n\thint: ", t.hint)
}

// troubleOf is the trouble with a job; dir is what a command is to name.
func troubleOf(st run.State, dir string) trouble {
	missing, look := pending.Missing(st.Reason)
	switch {
	case neverStarts(st) && strings.HasPrefix(st.JobID, run.KubePrefix):
		return trouble{what: "does not start", why: ": " + st.Reason, hint: fmt.Sprintf(
			"profllm kube cancel %s ends it; once the cause is gone, the run starts by itself, and profllm kube status %s shows it",
			dir, dir)}
	case st.Note == run.Unfetched:
		return trouble{what: "has ended, and its results are not fetched", why: " (" + st.Reason + ")"}
	case isHeld(st):
		return trouble{what: "is held", why: fmt.Sprintf(" (%s)", cmp.Or(st.Reason, st.Raw)), hint: fmt.Sprintf(
			"scontrol release %s, or ask whoever holds the job; profllm slurm cancel %s gives it up", st.JobID, dir)}
	case neverStarts(st):
		return trouble{what: "never starts", why: fmt.Sprintf(" (%s) and stays queued", st.Reason), hint: fmt.Sprintf(
			"profllm slurm cancel %s, %s, and submit again; if the cluster is changed instead, the job starts by itself: profllm slurm watch %s waits for it",
			dir, pending.Mend(st.Reason), dir)}
	case st.State == run.Queued && missing != "":
		return trouble{what: "waits for " + missing, why: fmt.Sprintf(" (%s)", st.Reason), hint: look}
	case st.State == run.Running && st.Note == run.Ending && st.At.Sub(st.Since) > run.EndingLimit:
		return trouble{what: "is " + st.Reason}
	case st.Note == run.Lost:
		return trouble{what: "is lost: " + st.Reason}
	}
	return trouble{}
}
