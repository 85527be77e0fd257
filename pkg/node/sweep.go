package node

import (
	"maps"
	"slices"
	"syscall"
	"time"
)

// Sweep ends the processes that a job's steps left on this node: processes that carry the
// job's id and belong to no step any more, because they made themselves daemons and
// Slurm's process tracker does not find them.
type Sweep struct {
	Proc string // "/proc"
	Job  string // SLURM_JOB_ID; nothing else is ever touched
	// Held is the run's own id in an allocation that somebody holds: then processes that carry
	// another are not touched either. "" otherwise.
	Held string
	Host string // SLURMD_NODENAME
	Self int    // this process, a task of the same job

	// Grace is the time from TERM to KILL. It is short, because Slurm's KillWait soon ends
	// this process too if the job ends by force.
	Grace time.Duration
	// Settle is the time that a process without a step gets to end by itself before it is sent
	// TERM: a helper, such as Python's resource tracker, ends a moment after the process that it served,
	// and is no leftover.
	Settle time.Duration
	// Limit is the time that the steps have to end; what they leave later is not ended
	// here.
	Limit time.Duration
	// Tasks is when tasks of steps that ran at the beginning get KILL: a controller that
	// died right after it had started a step does not know the step and never ends it. 0:
	// never.
	Tasks time.Duration
	// Steps spares the processes that the job's script itself has started: a hook's script
	// is not the last of its job.
	Steps bool
	// Patient leaves daemons alone as long as a step runs, because a profiler's daemons
	// write its report.
	Patient bool
	// Changed is called for every process that was ended, at once; may be nil.
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

// Run waits for the steps to end, and ends what is left. Processes that even KILL does not
// end are returned in left.
func (s Sweep) Run() (ended []Ended, left []Process) {
	begin, clean := time.Now(), 0
	var first map[step]bool
	own := map[string]bool{}
	told, since := map[int]*Ended{}, map[int]time.Time{}
	list := func() (ended []Ended) {
		for _, pid := range slices.Sorted(maps.Keys(told)) {
			ended = append(ended, *told[pid])
		}
		return ended
	}
	for {
		tasks, strays := s.find(own)
		if clean++; len(tasks)+len(strays) > 0 {
			clean = 0
		}
		if first == nil {
			first = steps(tasks)
		}
		changed := false
		for _, p := range tasks {
			if s.Tasks > 0 && time.Since(begin) > s.Tasks && first[p.of] {
				changed = s.kill(p, told) || changed
			}
		}
		for _, p := range strays {
			if len(tasks) > 0 && (!p.daemon || s.Patient) {
				continue
			}
			if _, seen := since[p.pid]; !seen {
				since[p.pid] = time.Now()
			}
			if time.Since(since[p.pid]) >= s.Settle {
				changed = s.end(p, told) || changed
			}
		}
		if changed && s.Changed != nil {
			s.Changed(list())
		}
		if clean == 2 { // a process that forks may hide from one look
			return list(), nil
		}
		if time.Since(begin) > s.Limit {
			for _, p := range strays {
				left = append(left, p.public())
			}
			return list(), left
		}
		time.Sleep(sweepPoll)
	}
}

// end sends TERM to a process that it sees for the first time, and KILL when the
// grace is over. It reports whether it did.
func (s Sweep) end(p stray, told map[int]*Ended) bool {
	e := told[p.pid]
	switch {
	case e == nil && syscall.Kill(p.pid, syscall.SIGTERM) == nil:
		told[p.pid] = &Ended{Process: p.public(), Signal: "TERM", at: time.Now()}
	case e != nil && e.Signal == "TERM" && time.Since(e.at) > s.Grace:
		return s.kill(p, told)
	default:
		return false
	}
	return true
}

// kill sends KILL, once.
func (s Sweep) kill(p stray, told map[int]*Ended) bool {
	e := told[p.pid]
	if e != nil && e.Signal == "KILL" || syscall.Kill(p.pid, syscall.SIGKILL) != nil {
		return false
	}
	told[p.pid] = &Ended{Process: p.public(), Signal: "KILL"}
	return true
}

// stray is a process of the job beside this one's step.
type stray struct {
	process
	of     step
	daemon bool // nobody but us would end it
}

// step is one on this node. Its number alone may be another's later.
type step struct {
	keeper int
	number string
}

func steps(tasks []stray) map[step]bool {
	set := map[step]bool{}
	for _, p := range tasks {
		set[p.of] = true
	}
	return set
}

// find lists the tasks of other steps of the job on this node, and its processes that
// belong to no step. In an allocation that somebody holds, a process that hides its environment is
// the run's if it is in a step where another process of the run was seen: own are those steps.
func (s Sweep) find(own map[string]bool) (tasks, strays []stray) {
	t := readProcesses(s.Proc)
	self, ok := t[s.Self]
	if !ok || self.job != s.Job || self.held != s.Held {
		return nil, nil
	}
	for _, p := range t {
		if p.job == s.Job && p.held == s.Held && p.step != "" && !p.hidden {
			own[p.step] = true
		}
	}
	around := t.keeper(self)
	for _, p := range t {
		keeper := t.keeper(p)
		if p.hidden && own[p.step] {
			p.held = s.Held
		}
		switch {
		case p.job != s.Job || p.held != s.Held || !p.here(s.Host) || s.Steps && p.step == "" || p.client():
		case keeper.name != around.name:
			strays = append(strays, stray{process: p, daemon: t.daemon(p)})
		case p.step != "" && p.step != self.step:
			tasks = append(tasks, stray{process: p, of: step{keeper.pid, p.step}})
		}
	}
	return tasks, strays
}
