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

// Cancel implements run.Scheduler: it has everything deleted that carries the run's label, and
// waits for nothing. A later look at the states says when all is gone. The logs go with the pods, so
// they are fetched before, as far as that succeeds. The end of the run is written once the cluster
// has accepted the deletion. A Job that has ended by itself is fetched as it ended.
func (k *Kube) Cancel(ctx context.Context, id string) error {
	of, err := k.ofJob(id)
	if err != nil {
		return err
	}
	m, err := of.manifest()
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
	if err := k.delete(ctx, of.at, of.runID, m.kinds()); err != nil {
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

// delete asks for the end of everything that carries a run's label.
func (k *Kube) delete(ctx context.Context, at Place, runID string, kinds []string) error {
	if runID == "" { // else the selector would match objects with an empty label
		return fmt.Errorf("a run without an id has no objects")
	}
	_, err := k.kubectl(ctx, at, nil, "delete", strings.Join(kinds, ","), "--selector="+byLabel(runID),
		"--ignore-not-found", "--wait=false")
	return err
}

// CleanFile says that nothing is left of a run in its cluster.
const CleanFile = run.KubeDir + "/clean.json"

// cleaned is CleanFile.
type cleaned struct {
	Schema string    `json:"schema"` // profllm.clean/1
	RunID  string    `json:"run_id"`
	Time   time.Time `json:"time"`
}

// Clean deletes everything that carries the run's label, and returns once it is gone. For a run of
// which that is known, it asks nobody.
func (k *Kube) Clean(ctx context.Context, dir string, p *plan.Plan) error {
	var done cleaned
	isDone := func() bool { return run.ReadJSON(filepath.Join(dir, CleanFile), &done) == nil && done.RunID == p.RunID }
	if isDone() {
		return nil
	}
	if err := k.Know(dir, p); err != nil {
		return err
	}
	ctx, release, err := k.lock(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { _ = release() }() // else the lease ends with this process
	if isDone() {
		return nil
	}
	k.mu.Lock()
	of := k.byName[p.Job.Name]
	k.mu.Unlock()
	m, err := of.manifest()
	if err != nil {
		return err
	}
	if err := k.remove(ctx, of.at, of.runID, m); err != nil {
		return err
	}
	return run.WriteJSON(filepath.Join(dir, CleanFile), cleaned{"profllm.clean/1", p.RunID, k.now().UTC()})
}

// remove deletes everything of a run, and waits until it is gone, at most goneLimit.
func (k *Kube) remove(ctx context.Context, at Place, runID string, m *manifest) error {
	if err := k.delete(ctx, at, runID, m.kinds()); err != nil {
		return k.plain(err, at)
	}
	for end := k.now().Add(goneLimit); ; {
		left, err := k.get(ctx, at, withDeployments(withPods(m.kinds())), byLabel(runID))
		if err != nil {
			return k.plain(err, at)
		}
		if left = m.remains(left); len(left) == 0 {
			return nil
		}
		if k.now().After(end) {
			return fmt.Errorf("after %s there is still %s", goneLimit, lingers(left))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(k.pause):
		}
	}
}

// remains are the objects with a run's label that go with the run. What somebody else gave the label,
// a Deployment of their own and its pods, does not count.
func (m *manifest) remains(have objects) (list objects) {
	var foreign []string
	for _, d := range ofKind(have, kindDeployment) {
		if d.Metadata.Deleted == nil && len(d.Metadata.Owners) == 0 && !m.has(d) {
			foreign = append(foreign, d.Metadata.Name)
		}
	}
	for i := range have {
		o := &have[i]
		switch {
		case o.Metadata.Deleted != nil:
		case o.Kind == kindDeployment && slices.Contains(foreign, o.Metadata.Name),
			o.Kind == kindPod && len(o.Metadata.Owners) == 0:
			continue
		case o.Kind == kindPod && slices.ContainsFunc(foreign, func(name string) bool {
			owner := o.Metadata.Owners[0]
			return owner.Kind == "ReplicaSet" && strings.HasPrefix(owner.Name, name+"-")
		}):
			continue
		}
		list = append(list, *o)
	}
	return list
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
