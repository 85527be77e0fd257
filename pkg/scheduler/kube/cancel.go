package kube

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// lastLook bounds the fetching of logs before a run is cancelled.
const lastLook = 30 * time.Second

// Cancel implements run.Scheduler: it has everything deleted that carries the run's label, and
// waits for nothing. A later look at the states says when all is gone. The logs go with the pods, so
// they are fetched before, as far as that succeeds.
func (k *Kube) Cancel(ctx context.Context, id string) error {
	of, ok := k.ofJob(id)
	if !ok {
		return fmt.Errorf("nobody told where job %s lives", id)
	}
	kinds, err := of.kinds()
	if err != nil {
		return err
	}
	look, done := context.WithTimeout(ctx, lastLook)
	_, _ = k.Fetch(look, id, run.State{JobID: id, State: run.Cancelled})
	done()
	if err := k.delete(ctx, of.at, of.runID, kinds); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cancelled[id] = true
	return nil
}

// kinds are those that the run's manifest has.
func (of known) kinds() ([]string, error) {
	m, err := readManifest(filepath.Join(of.dir, run.ManifestFile), of.plan)
	if err != nil {
		return nil, err
	}
	return m.kinds(), nil
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
	if run.ReadJSON(filepath.Join(dir, CleanFile), &done) == nil && done.RunID == p.RunID {
		return nil
	}
	if err := k.Know(dir, p); err != nil {
		return err
	}
	k.mu.Lock()
	of := k.byName[p.Job.Name]
	k.mu.Unlock()
	kinds, err := of.kinds()
	if err != nil {
		return err
	}
	if err := k.remove(ctx, of.at, of.runID, kinds); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, run.KubeDir), 0o755); err != nil {
		return err
	}
	return run.WriteJSON(filepath.Join(dir, CleanFile), cleaned{"profllm.clean/1", p.RunID, k.now().UTC()})
}

// remove deletes everything of a run, and waits until it is gone, at most goneLimit.
func (k *Kube) remove(ctx context.Context, at Place, runID string, kinds []string) error {
	if err := k.delete(ctx, at, runID, kinds); err != nil {
		return err
	}
	for end := k.now().Add(goneLimit); ; {
		left, err := k.get(ctx, at, withPods(kinds), byLabel(runID))
		if err != nil || len(left) == 0 {
			return err
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
