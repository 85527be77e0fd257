package node

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// Process is a process that carries the id of a job.
type Process struct {
	PID     int    `json:"pid"`
	Job     string `json:"job"`
	Command string `json:"command"`
}

// process is what /proc says of one that lives, and is ours to look at.
type process struct {
	pid, parent     int
	name            string // of the program, at most 15 bytes
	job, step, host string // SLURM_JOB_ID, SLURM_STEP_ID, SLURMD_NODENAME of its environment, or as its cgroup has them
	command         string
	rehearsed       bool   // of a job that is no job of Slurm's
	held            string // id of the run, in an allocation that somebody holds
	hidden          bool   // known by its cgroup alone
}

// table is every living process by its id.
type table map[int]process

// readProcesses reads /proc. Of a process of another user nothing is known but
// its parent and its name.
func readProcesses(proc string) table {
	t := table{}
	entries, _ := os.ReadDir(proc)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(proc, e.Name())
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		if err != nil || open < 0 || end < open {
			continue
		}
		f := strings.Fields(string(stat[end+1:]))
		if len(f) < 2 || f[0] == "Z" || f[0] == "X" {
			continue
		}
		p := process{pid: pid, name: string(stat[open+1 : end])}
		p.parent, _ = strconv.Atoi(f[1])
		if env, err := os.ReadFile(filepath.Join(dir, "environ")); err == nil {
			p.job, p.step, p.host = variable(env, "SLURM_JOB_ID"), variable(env, "SLURM_STEP_ID"), variable(env,
				"SLURMD_NODENAME")
			p.held = variable(env, "PROFLLM_HELD_JOB")
			p.rehearsed = variable(env, "PROFLLM_LOCAL_JOB") != ""
			if p.job == "" && p.name != "slurmstepd" {
				text, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
				p.job, p.step = confined(text)
				p.hidden = p.job != ""
			}
		}
		if p.job != "" {
			line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			p.command = strings.TrimSpace(string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
		t[pid] = p
	}
	return t
}

// scope is where Slurm's cgroups name a job and a step:
// /slurm/uid_0/job_60/step_0/task_0, or
// /system.slice/slurmstepd.scope/job_60/step_0/user/task_0.
var scope = lazyregexp.New(`(?m)/(?:slurm(?:_[^/\n]+)?/uid_\d+|[^/\n]*slurmstepd\.scope)/job_(\d+)/step_([a-z]+|\d+)(?:/|$)`)

// confined reads the job and the step of a process that hides them: it was given
// another environment, or wrote its title over the one it had. Nothing is said of
// the step in which Slurm keeps what came in from outside (extern).
func confined(cgroup []byte) (job, step string) {
	m := scope.FindSubmatch(cgroup)
	switch {
	case m == nil || string(m[2]) == "extern":
		return "", ""
	case m[2][0] < '0' || m[2][0] > '9': // batch, interactive: the script, which has no step in its environment
		return string(m[1]), ""
	}
	return string(m[1]), string(m[2])
}

// variable finds a value in a process' environment.
func variable(env []byte, name string) string {
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if rest, ok := bytes.CutPrefix(kv, []byte(name+"=")); ok {
			return string(rest)
		}
	}
	return ""
}

// keeper is the process that looks after p: the parent of its highest ancestor that
// carries the same job. It is slurmstepd for a task of a step, and init for a process
// that has made itself a daemon.
func (t table) keeper(p process) process {
	for range len(t) { // a parent that ends meanwhile could close a ring
		up, ok := t[p.parent]
		if !ok || up.job != p.job {
			return up
		}
		p = up
	}
	return process{}
}

// daemon reports whether a process has no parent but init, or what stands in for
// it: then nobody else will end it.
func (t table) daemon(p process) bool {
	for range len(t) {
		up, ok := t[p.parent]
		if !ok || up.pid == 1 || up.name == "systemd" {
			return true
		}
		if up.job != p.job {
			return false
		}
		p = up
	}
	return true
}

// client reports whether a process is the srun of one of the script's steps. It ends
// with its step, ours included, and outlives the script's subshells in every job that
// ends by force.
func (p process) client() bool { return p.step == "" && p.name == "srun" }

func (p process) public() Process { return Process{p.pid, p.job, shortened(p.command)} }

// here reports whether a process runs on the node of that name; the nodes of a
// test cluster may be one machine.
func (p process) here(host string) bool { return p.host == "" || host == "" || p.host == host }
