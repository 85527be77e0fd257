package kube

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// lookLimit bounds the fetching of logs before a run is cancelled.
const lookLimit = 30 * time.Second

// Cancel implements run.Scheduler: it has the run's own objects deleted, and waits for nothing. A
// later look at the states says when all is gone. The logs go with the pods, so they are fetched
// before, as far as that succeeds. The end of the run is written once the cluster has accepted the
// deletion. A Job that has ended by itself is fetched, and judged, as it ended.
func (k *Kube) Cancel(ctx context.Context, id string) error {
	of, err := k.ofJob(id)
	if err != nil {
		return err
	}
	w, err := of.owner(id)
	if err != nil {
		return err
	}
	ctx, release, err := k.lock(ctx, of.dir)
	if err != nil {
		return err
	}
	defer func() { _ = release() }() // else the lease ends with this process
	f, err := k.newFetch(of, id, run.State{JobID: id, State: run.Cancelled})
	if err != nil {
		return err
	}
	defer os.RemoveAll(f.temp)
	ended, err := f.lastLook(ctx)
	if err != nil {
		return err
	}
	if err := k.delete(ctx, of.at, w); err != nil {
		return k.plain(err, of.at)
	}
	if ended || of.fetched(id) {
		return nil
	}
	k.mu.Lock()
	k.cancelled[id] = true
	k.mu.Unlock()
	if f.job() == nil { // it was gone before, or the cluster did not say
		return nil
	}
	return f.record(ctx)
}

// lastLook fetches what a run has before it is deleted: all of it if the Job has ended, else its logs
// and objects as far as they can be had.
func (f *fetch) lastLook(ctx context.Context) (ended bool, err error) {
	if f.of.fetched(f.id) {
		return true, nil
	}
	look, done := context.WithTimeout(ctx, lookLimit)
	defer done()
	if err := f.objects(look); err != nil {
		f.done.Unread = append(f.done.Unread, inLine(f.plain(err, f.of.at)))
		return false, nil
	}
	job := f.job()
	if job == nil {
		return false, nil
	}
	if ended := over(job) && job.Metadata.Deleted == nil; ended {
		f.st = f.Kube.state(ctx, f.of, f.id, f.have)
		if err = f.logs(ctx); err == nil {
			err = f.write(ctx)
		}
		if err == nil && f.Judge != nil {
			return true, f.Judge(f.of.dir, f.st)
		}
		if err != nil {
			return true, fmt.Errorf("the run has ended, and its results are not fetched: %w\n\thint: profllm kube collect fetches them; kubectl --namespace=%s delete job %s gives them up",
				err, f.of.at.Namespace, job.Metadata.Name)
		}
		return true, nil
	}
	for _, step := range []func() error{func() error { return f.logs(look) }, f.results, f.judge, f.publish} {
		if err := step(); err != nil {
			f.done.Unread = append(f.done.Unread, inLine(err))
		}
	}
	return false, nil
}

// manifest reads the run's manifest.
func (of known) manifest() (*manifest, error) {
	return readManifest(filepath.Join(of.dir, run.ManifestFile), of.plan)
}

// CleanFile says that nothing is left of a run in its cluster.
const CleanFile = run.KubeDir + "/clean.json"

// cleaned is CleanFile.
type cleaned struct {
	Schema string    `json:"schema"` // profllm.clean/1
	RunID  string    `json:"run_id"`
	JobID  string    `json:"job_id,omitempty"`
	Time   time.Time `json:"time"`
	// What has the run's label and the name of one of its objects, and is not its own.
	Left []string `json:"left,omitempty"`
}

// IsClean reports whether nothing is left in its cluster of the attempt of a run that had a job. Of
// attempts without a job on record, nobody knows.
func IsClean(dir, runID, id string) bool {
	var done cleaned
	return id != "" && run.ReadJSON(filepath.Join(dir, CleanFile), &done) == nil && done.RunID == runID &&
		done.JobID == id
}

// Clean deletes a run's own objects, and returns once they are gone. id is that of its Job, "" if
// none is on record. For a run of which it is known that nothing is left, it asks nobody. left are
// objects with the run's label and names that are somebody else's, and stay.
func (k *Kube) Clean(ctx context.Context, dir string, p *plan.Plan, id string) (left []string, err error) {
	if IsClean(dir, p.RunID, id) {
		return nil, nil
	}
	if err := k.Know(dir, p); err != nil {
		return nil, err
	}
	ctx, release, err := k.lock(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = release() }() // else the lease ends with this process
	if IsClean(dir, p.RunID, id) {
		return nil, nil
	}
	k.mu.Lock()
	of := k.byName[p.Job.Name]
	k.mu.Unlock()
	w, err := of.owner(id)
	if err != nil {
		return nil, err
	}
	strange, err := k.remove(ctx, of.at, w)
	if err != nil {
		return nil, err
	}
	for i := range strange {
		left = append(left, strange[i].String())
	}
	return left, run.WriteJSON(filepath.Join(dir, CleanFile),
		cleaned{"profllm.clean/1", p.RunID, id, k.now().UTC(), left})
}

// remove deletes a run's own objects, and waits until they are gone, at most goneLimit. strange are
// those of somebody else with its label and names.
func (k *Kube) remove(ctx context.Context, at Place, w owner) (strange objects, err error) {
	if err := k.delete(ctx, at, w); err != nil {
		return nil, k.plain(err, at)
	}
	for end := k.now().Add(goneLimit); ; {
		have, err := k.get(ctx, at, withDeployments(withPods(w.m.kinds())), byLabel(w.m.job.runID()))
		if err != nil {
			return nil, k.plain(err, at)
		}
		left := w.remains(have)
		if len(left) == 0 {
			return w.strange(have), nil
		}
		if k.now().After(end) {
			return nil, fmt.Errorf("after %s there is still %s", goneLimit, lingers(left))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(k.pause):
		}
	}
}

// has reports whether a manifest has an object of the kind and name.
func (m *manifest) has(o *object) bool {
	return slices.ContainsFunc(m.all(), func(d document) bool {
		return d.Kind == o.Kind && d.Metadata.Name == o.Metadata.Name
	})
}

// withDeployments are the kinds with that of the Deployments that an operator makes.
func withDeployments(kinds []string) []string {
	if slices.Contains(kinds, resources[kindDeployment]) {
		return kinds
	}
	return append([]string{resources[kindDeployment]}, kinds...)
}

func withPods(kinds []string) []string { return append([]string{resources[kindPod]}, kinds...) }

// lingers says what is being deleted and is not gone, and what that waits for.
func lingers(left []object) string {
	var parts []string
	for i := range left {
		o := &left[i]
		text := o.String()
		if f := o.Metadata.Finalizers; len(f) > 0 && o.Metadata.Deleted != nil {
			text += fmt.Sprintf(", which waits for its finalizer %s", strings.Join(f, ", "))
			if o.Kind == kindGraph {
				text += fmt.Sprintf(": Dynamo's operator removes that, and does not run (by hand: kubectl --namespace=%s patch %s %s --type=merge --patch '{\"metadata\":{\"finalizers\":null}}')",
					o.Metadata.Namespace, resources[o.Kind], o.Metadata.Name)
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
