package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// source is who states are from.
const source = "kubectl"

// mostNamed is how many runs a selector names; of more, all runs of the namespace are listed.
const mostNamed = 50

// States implements run.Scheduler with one kubectl get for each namespace. What keeps a run from
// starting is asked for afterwards, only where the objects do not say it.
func (k *Kube) States(ctx context.Context, ids []string) (map[string]run.State, error) {
	out := make(map[string]run.State, len(ids))
	groups := map[Place][]string{}
	for _, id := range ids {
		of, err := k.ofJob(id)
		if err != nil {
			out[id] = run.State{JobID: id, State: run.Unknown, Source: source, At: k.now(), Reason: inLine(err)}
			continue
		}
		groups[of.at] = append(groups[of.at], id)
	}
	for at, some := range groups {
		k.statesIn(ctx, at, some, out)
	}
	return out, nil
}

// statesIn adds the states of jobs in one namespace.
func (k *Kube) statesIn(ctx context.Context, at Place, ids []string, out map[string]run.State) {
	kinds := []string{resources[kindPod], resources[kindDeployment]}
	var runs []string
	for _, id := range ids {
		of, _ := k.ofJob(id)
		runs = append(runs, of.runID)
		if of.plan.Kubernetes.Graph != "" && !slices.Contains(kinds, resources[kindGraph]) {
			kinds = append(kinds, resources[kindGraph])
		}
	}
	byRun, err := k.ofRuns(ctx, at, append(kinds, resources[kindJob]), runs)
	for _, id := range ids {
		of, _ := k.ofJob(id)
		if err != nil {
			out[id] = run.State{JobID: id, State: run.Unknown, Source: source, At: k.now(),
				Reason: inLine(k.plain(err, at))}
			continue
		}
		out[id] = k.state(ctx, of, id, byRun[of.runID])
	}
}

// ofRuns lists objects of several runs, by run.
func (k *Kube) ofRuns(ctx context.Context, at Place, kinds, runs []string) (map[string]objects, error) {
	selector := plan.RunLabel
	if slices.Sort(runs); len(runs) <= mostNamed {
		selector += " in (" + strings.Join(slices.Compact(runs), ",") + ")"
	}
	all, err := k.get(ctx, at, kinds, selector)
	byRun := map[string]objects{}
	for _, o := range all {
		byRun[o.runID()] = append(byRun[o.runID()], o)
	}
	return byRun, err
}

// oneLine is a text without line breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// inLine is an error with its hint as one line.
func inLine(err error) string { return oneLine(strings.ReplaceAll(err.Error(), "\n\thint: ", "; ")) }

// state is the state of one job, by the objects of its run.
func (k *Kube) state(ctx context.Context, of known, id string, have objects) run.State {
	st := run.State{JobID: id, Source: source, At: k.now()}
	_, name, _, err := parseID(id)
	if err != nil {
		st.State, st.Reason = run.Unknown, err.Error()
		return st
	}
	job := jobOf(have, id)
	k.mu.Lock()
	cancelled := k.cancelled[id]
	k.mu.Unlock()
	if cancelled || job == nil || job.Metadata.Deleted != nil {
		have, job = of.remains(have, id), nil
	}
	switch {
	case job == nil && len(have) > 0:
		st.State, st.Note, st.Raw = run.Running, run.Ending, "Deleting"
		st.Reason = "being deleted: " + lingers(have)
		return st
	case cancelled:
		st.State, st.Note, st.Raw = run.Cancelled, "deleted", "Deleted"
		return st
	case job == nil:
		st.State, st.Note = run.Unknown, run.Forgotten
		st.Reason = fmt.Sprintf("%s has no Job %s any more: somebody deleted it, or its ttlSecondsAfterFinished is over", of.at, name)
		return st
	}
	st.Start, st.NodeList = stamp(job.Status.StartTime), strings.Join(nodesOf(have), ",")
	if over(job) {
		return ended(st, job, clientPods(have, job))
	}
	k.going(ctx, of, &st, job, have)
	return st
}

// remains are the objects that still have to go. Of a manifest that cannot be read, all do.
func (of known) remains(have objects, id string) objects {
	w, err := of.owner(id)
	if err != nil {
		return have
	}
	return w.remains(have)
}

// stamp is a time as records have it.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02T15:04:05")
}

// nodesOf are the nodes that the pods of a run are on, each once.
func nodesOf(have objects) (nodes []string) {
	for _, p := range ofKind(have, kindPod) {
		if n := p.Spec.NodeName; n != "" && !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// clientPods are the pods of the Job.
func clientPods(have objects, job *object) []*object {
	return slices.DeleteFunc(ofKind(have, kindPod), func(p *object) bool { return !ownedBy(p, job) })
}

func ownedBy(o, owner *object) bool {
	for _, ref := range o.Metadata.Owners {
		if ref.UID == owner.Metadata.UID {
			return true
		}
	}
	return false
}

// ended is the state of a Job that has ended: Complete, or Failed for a reason.
func ended(st run.State, job *object, pods []*object) run.State {
	code, why, end := endOf(pods)
	failed := job.condition("Failed")
	st.End = stamp(job.Status.EndTime)
	if failed.Status != "True" {
		st.State, st.Raw, st.ExitCode = run.Succeeded, "Complete", "0:0"
		return lasted(st, job.Status.StartTime, job.Status.EndTime)
	}
	st.State, st.Raw, st.Reason = run.Failed, cmp.Or(failed.Reason, "Failed"), oneLine(failed.Message)
	if st.End = stamp(failed.Changed); code != 0 {
		st.ExitCode = fmt.Sprintf("%d:0", code)
	}
	switch {
	case failed.Reason == "DeadlineExceeded":
		st.State = run.Timeout
		st.Reason = fmt.Sprintf("the Job reached its time limit of %s", time.Duration(job.Spec.Deadline)*time.Second)
	case why == "OOMKilled":
		st.State, st.Reason = run.OOM, "a container of the Job ran out of memory (OOMKilled)"
	case why == "Evicted", why == "Preempting":
		st.Reason = "a pod of the Job was evicted"
	case why != "":
		st.Reason = fmt.Sprintf("a container of the Job ended with exit code %d (%s)", code, why)
	}
	if end.IsZero() {
		end = failed.Changed
	}
	return lasted(st, job.Status.StartTime, end)
}

// endOf says how the containers of the Job ended: the first that failed, else the last.
func endOf(pods []*object) (code int, why string, end time.Time) {
	for _, p := range pods {
		if why == "" {
			why = p.Status.Reason
		}
		for _, c := range slices.Concat(p.Status.Init, p.Status.Containers) {
			t := c.State.Terminated
			if t == nil {
				continue
			}
			if t.Finished.After(end) {
				end = t.Finished
			}
			if code == 0 && (t.ExitCode != 0 || t.Reason == "OOMKilled") {
				code, why = t.ExitCode, t.Reason
			}
		}
	}
	return code, why, end
}

func lasted(st run.State, begin, end time.Time) run.State {
	if !begin.IsZero() && end.After(begin) {
		st.Elapsed = end.Sub(begin).Seconds()
	}
	return st
}

// going is the state of a Job that has not ended: it runs once its service is ready.
func (k *Kube) going(ctx context.Context, of known, st *run.State, job *object, have objects) {
	st.Raw = "Active"
	serving, waits := ready(have, job)
	client := slices.ContainsFunc(clientPods(have, job), func(p *object) bool { return p.Status.Phase == "Running" })
	if serving && client {
		st.State = run.Running
		if n := restarts(have, job); n != "" {
			st.Reason = n
		}
		return
	}
	st.State = run.Queued
	t := k.trouble(ctx, of, job, have)
	switch {
	case t.why == "" && !serving:
		st.Reason = waits
	case t.why == "":
		st.Reason = "the service is ready; the Job's pod is starting"
	case t.never:
		st.Note, st.Reason = run.NeverStarts, t.why
	default:
		st.Reason = t.why
	}
}

// ready reports whether all of a service is ready, by what was last asked of it, and if not, what
// it waits for.
func ready(have objects, job *object) (yes bool, waits string) {
	n := 0
	for i := range have {
		o := &have[i]
		ok, why := true, ""
		switch {
		case o.Kind == kindGraph:
			ok, why = graphReady(o)
		case o.Kind == kindDeployment && len(ofKind(have, kindGraph)) == 0:
			ok, why = deploymentReady(o)
		default:
			continue
		}
		n++
		if !ok {
			waits = cmp.Or(waits, why)
		}
	}
	switch {
	case waits != "":
		return false, waits
	case n == 0:
		return false, "the service is not there yet"
	}
	return true, ""
}

// graphReady: the condition and the state of an older generation stay for a moment after a change.
func graphReady(g *object) (bool, string) {
	c := g.condition("Ready")
	seen := max(g.Status.Observed, c.Observed)
	switch {
	case g.Status.State == "":
		return false, "Dynamo's operator has not looked at the service yet"
	case seen != g.Metadata.Generation:
		return false, "Dynamo's operator has not seen the last change yet"
	case g.Status.State == "successful" && c.Status == "True":
		return true, ""
	}
	return false, oneLine(fmt.Sprintf("the service is %s: %s", g.Status.State, cmp.Or(c.Message, c.Reason)))
}

func deploymentReady(d *object) (bool, string) {
	want := 1
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	if d.Status.Observed == d.Metadata.Generation && d.Status.Ready >= want {
		return true, ""
	}
	return false, fmt.Sprintf("%s: %d of %d pods are ready", d.Metadata.Name, d.Status.Ready, want)
}

// restarts says which containers of the service were restarted, "" for none.
func restarts(have objects, job *object) string {
	var list []string
	for _, p := range ofKind(have, kindPod) {
		for _, c := range p.Status.Containers {
			if c.Restarts > 0 && !ownedBy(p, job) {
				list = append(list, fmt.Sprintf("%s of %s restarted %d times", c.Name, p.Metadata.Name, c.Restarts))
			}
		}
	}
	return strings.Join(list, "; ")
}
