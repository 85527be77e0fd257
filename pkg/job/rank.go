package job

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/hostlist"
)

// Rank is a command of which each task of a step runs its own form.
type Rank struct {
	Option    string   // gets the task's rank as its value, behind the command; "" for none
	Each      int      // the value is the rank times Each; 0 counts as 1
	First     bool     // the first task gets the option too
	Others    []string // words that every task but the first gets, behind the command
	Addresses []string // variables that get the node's own address
	// Joined is how many tasks make an engine, of tasks that find each other as those of torchrun do;
	// 0: they do not. The last word is the file for the result: the mark %t in its name is the task's
	// rank, and RANK.worker in those that do not lead an engine.
	Joined  int
	Port    int      // of the first node, where joined tasks meet
	Command []string // the program and its arguments
}

// Resolve returns the command and the environment of this task.
func (j *Job) Resolve(r Rank, environ []string) (argv, env []string, err error) {
	rank, err := strconv.Atoi(j.Env("SLURM_PROCID"))
	if err != nil {
		return nil, nil, fmt.Errorf("SLURM_PROCID: %w", err)
	}
	if len(r.Command) == 0 {
		return nil, nil, errors.New("no command")
	}
	argv = slices.Clone(r.Command)
	if rank > 0 {
		argv = append(argv, r.Others...)
	}
	if r.Option != "" && (rank > 0 || r.First) {
		argv = append(argv, r.Option, strconv.Itoa(rank*max(r.Each, 1)))
	}
	if r.Joined > 0 {
		return j.join(r, rank, argv, environ)
	}
	if len(r.Addresses) == 0 {
		return argv, environ, nil
	}
	own := j.Env("PROFLLM_NODE_ADDR")
	if own == "" {
		hosts, err := hostlist.Expand(j.Env("SLURM_STEP_NODELIST"))
		if err != nil {
			return nil, nil, err
		}
		own = ownAddress(j.Env("SLURMD_NODENAME"), hosts)
	}
	env = withoutVariables(environ, r.Addresses...)
	for _, name := range r.Addresses {
		env = append(env, name+"="+own)
	}
	return argv, env, nil
}

// join tells a task its place among those that meet on the first node.
func (j *Job) join(r Rank, rank int, argv, environ []string) (words, env []string, err error) {
	hosts, err := hostlist.Expand(j.Env("SLURM_STEP_NODELIST"))
	if err != nil {
		return nil, nil, fmt.Errorf("SLURM_STEP_NODELIST: %w", err)
	}
	tasks, err := strconv.Atoi(cmp.Or(j.Env("SLURM_STEP_NUM_TASKS"), j.Env("SLURM_NTASKS")))
	if err != nil || len(hosts) == 0 {
		return nil, nil, fmt.Errorf("SLURM_STEP_NUM_TASKS and SLURM_NTASKS do not say how many tasks run on the %d nodes "+
			"of the step", len(hosts))
	}
	each := max(tasks/len(hosts), 1)
	head := hosts[0]
	if len(hosts) == 1 {
		head = "127.0.0.1"
	} else if j.Env("SLURMD_NODENAME") == head {
		head = ownAddress(head, hosts)
	} else if addrs, err := net.LookupHost(head); err == nil {
		head = reachable(addrs)
	}
	mark := strconv.Itoa(rank)
	if rank%r.Joined > 0 {
		mark += ".worker"
	}
	words = slices.Clone(argv)
	dir, file := path.Split(words[len(words)-1])
	words[len(words)-1] = dir + strings.ReplaceAll(file, "%t", mark)
	set := map[string]string{"RANK": strconv.Itoa(rank), "WORLD_SIZE": strconv.Itoa(tasks),
		"LOCAL_RANK": strconv.Itoa(rank % each), "LOCAL_WORLD_SIZE": strconv.Itoa(each), "MASTER_ADDR": head,
		"MASTER_PORT": strconv.Itoa(r.Port)}
	names := slices.Sorted(maps.Keys(set))
	env = withoutVariables(environ, names...)
	for _, name := range names {
		env = append(env, name+"="+set[name])
	}
	return words, env, nil
}
