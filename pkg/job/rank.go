package job

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/profllm/profllm/pkg/hostlist"
)

// Rank is a command that needs to know its rank in the step.
type Rank struct {
	Option  string   // gets the task's rank as its value, behind the command
	Address string   // variable that gets the node's own address, "" for none
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
	argv = append(append(argv, r.Command...), r.Option, strconv.Itoa(rank))
	if r.Address == "" {
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
	return argv, append(withoutVariables(environ, r.Address), r.Address+"="+own), nil
}
