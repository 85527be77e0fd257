package node

import (
	"maps"
	"slices"
	"syscall"
	"time"
)

// Sweep ends what a job's steps left on this node: processes that carry the job's
// id and belong to no step any more, because they made themselves daemons and
// Slurm's process tracker does not find them again.
type Sweep struct {
	Proc string // "/proc"
	Job  string // SLURM_JOB_ID; nothing else is ever touched (PL-G14)
	Host string // SLURMD_NODENAME
	Self int    // this process, a task of the same job

	// Grace is from TERM to KILL. Where a job ends by force, Slurm's KillWait is over
	// soon, for this process as well: so it is short.
	Grace time.Duration
	// Limit is for the steps to end; what they leave later is not ended here.
	Limit time.Duration
	// Steps spares what the job's script itself has started: that of a hook is not
	// the last of its job.
	Steps bool
	// Patient leaves daemons alone as long as a step runs: a profiler's write its
	// report.
	Patient bool
	// Changed is told of every process that was ended, as soon as it was; may be nil.
	Changed func(ended []Ended)
}

// Ended is a process that had to be ended.
type Ended struct {
	Process
	Signal string `json:"signal"` // the last one that it got

	at time.Time // of the first
}

// look again this often.
const sweepPoll = 50 * time.Millisecond

// Run waits for the steps to end, and ends what is left. What even KILL does not
// end is in left.
func (s Sweep) Run() (ended []Ended, left []Process) {
	begin, clean := time.Now(), 0
	told := map[int]*Ended{}
	list := func() (ended []Ended) {
		for _, pid := range slices.Sorted(maps.Keys(told)) {
			ended = append(ended, *told[pid])
		}
		return ended
	}
	for clean < 2 { // a process that forks may hide from one look
		tasks, strays := s.find()
		if clean++; tasks > 0 || len(strays) > 0 {
			clean = 0
		}
		changed := false
		for _, p := range strays {
			if tasks == 0 || p.daemon && !s.Patient {
				changed = s.end(p, told) || changed
			}
		}
		if changed && s.Changed != nil {
			s.Changed(list())
		}
		if time.Since(begin) > s.Limit {
			for _, p := range strays {
				left = append(left, p.public())
			}
			break
		}
		time.Sleep(sweepPoll)
	}
	return list(), left
}

// end sends TERM to a process that it sees for the first time, and KILL when the
// grace is over. It reports whether it did.
func (s Sweep) end(p stray, told map[int]*Ended) bool {
	e := told[p.pid]
	switch {
	case e == nil && syscall.Kill(p.pid, syscall.SIGTERM) == nil:
		told[p.pid] = &Ended{Process: p.public(), Signal: "TERM", at: time.Now()}
	case e != nil && e.Signal == "TERM" && time.Since(e.at) > s.Grace && syscall.Kill(p.pid, syscall.SIGKILL) == nil:
		e.Signal = "KILL"
	default:
		return false
	}
	return true
}

// stray is a process of the job that belongs to no step.
type stray struct {
	process
	daemon bool // nobody but us would end it
}

// find counts the tasks of other steps of the job on this node, and lists its
// processes that belong to no step.
func (s Sweep) find() (tasks int, strays []stray) {
	t := readProcesses(s.Proc)
	self, ok := t[s.Self]
	if !ok || self.job != s.Job {
		return 0, nil
	}
	keeper := t.keeper(self)
	for _, p := range t {
		switch {
		case p.job != s.Job || !p.here(s.Host) || s.Steps && p.step == "" || p.client():
		case t.keeper(p) != keeper:
			strays = append(strays, stray{p, t.daemon(p)})
		case p.step != "" && p.step != self.step:
			tasks++
		}
	}
	return tasks, strays
}
