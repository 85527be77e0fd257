package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/run"
)

// Log is the end of the log of one container of a run that is under way.
type Log struct {
	Step  string // the role, or run.JobStep
	Rank  int
	Lines []string
}

// Live reads the last lines of the logs of a run's pods, as they are named once they are fetched.
func (k *Kube) Live(ctx context.Context, id string, lines int) ([]Log, error) {
	of, err := k.ofJob(id)
	if err != nil {
		return nil, err
	}
	have, err := k.get(ctx, of.at, []string{resources[kindPod], resources[kindJob]}, byLabel(of.runID))
	if err != nil {
		return nil, k.plain(err, of.at)
	}
	logs := []Log{}
	for _, c := range containersOf(have, of) {
		args := []string{"logs", c.pod.Metadata.Name, "--container=" + c.name, fmt.Sprintf("--tail=%d", lines),
			"--limit-bytes=1048576"}
		out, err := k.kubectl(ctx, of.at, nil, args...)
		if err != nil {
			if e := asError(err); e.refused() { // not started yet
				continue
			}
			return logs, k.plain(err, of.at)
		}
		l := Log{Step: c.step, Rank: c.rank}
		var v veil
		for line := range strings.Lines(string(out)) {
			if line = strings.TrimRight(line, "\r\n"); !v.hides(line) {
				l.Lines = append(l.Lines, line)
			}
		}
		logs = append(logs, l)
	}
	return logs, nil
}

// ran is a container of a run's pods, with the name of its log.
type ran struct {
	pod      *object
	name     string
	step     string
	rank     int
	client   bool
	restarts int
	waits    bool // it never ran
}

// containersOf are the containers of all pods of a run: those of the service by role, those of the
// Job as run.JobStep.
func containersOf(have objects, of known) (list []ran) {
	ranks := map[string]int{}
	jobs := ofKind(have, kindJob)
	for _, p := range ofKind(have, kindPod) {
		client := slices.ContainsFunc(jobs, func(j *object) bool { return ownedBy(p, j) })
		step := run.JobStep
		if !client {
			step = roleOf(p, of.plan)
		}
		rank := ranks[step]
		ranks[step]++
		for i, c := range slices.Concat(p.Status.Containers, p.Status.Init) {
			one := ran{p, c.Name, step, rank, client, c.Restarts, c.State.Waiting != nil && c.Restarts == 0}
			if i > 0 {
				one.step += "_" + c.Name
			}
			list = append(list, one)
		}
	}
	return list
}
