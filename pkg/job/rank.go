package job

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/profllm/profllm/pkg/hostlist"
)

// Rank is a command of which each task of a step runs its own form.
type Rank struct {
	Option    string   // gets the task's rank as its value, behind the command; "" for none
	Each      int      // the value is the rank times Each; 0 counts as 1
	First     bool     // the first task gets the option too
	Others    []string // words that every task but the first gets, behind the command
	Addresses []string // variables that get the node's own address
	Command   []string // the program and its arguments
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
