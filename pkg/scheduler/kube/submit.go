package kube

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// goneLimit is how long what an earlier attempt left may take to be gone.
const goneLimit = 90 * time.Second

// Submit implements run.Scheduler. r.Script is the manifest. What was made before with the same run
// id is completed, so that a submission that was cut short, or is made twice, makes nothing twice.
//
// The Job comes first and runs at once: it waits for its service, and its deadline counts. If profllm
// is killed between two objects, the deadline ends what there is. A suspended Job would have none,
// and a service beside it would keep its GPUs.
func (k *Kube) Submit(ctx context.Context, r run.Request) (run.Submission, error) {
	p, err := run.ReadPlan(r.Dir)
	if err != nil {
		return run.Submission{}, err
	}
	if p.Kubernetes == nil {
		return run.Submission{}, fmt.Errorf("%s: the run is not planned for Kubernetes", r.Dir)
	}
	m, err := readManifest(r.Script, p)
	if err != nil {
		return run.Submission{}, refuse(err)
	}
	if len(r.Waits) > 0 {
		return run.Submission{}, refuse(fmt.Errorf("it waits for another run (%s), and Kubernetes orders no Jobs\n\thint: submit it once that run is over",
			strings.Join(r.Waits, ", ")))
	}
	at, err := k.prepare(ctx, r.Dir, p, m)
	if err != nil {
		return run.Submission{}, refuse(err)
	}
	if err := k.Know(r.Dir, p); err != nil {
		return run.Submission{}, err
	}
	job, err := k.create(context.WithoutCancel(ctx), at, p.RunID, m)
	if err != nil {
		return run.Submission{}, err
	}
	id := idOf(job)
	return run.Submission{JobID: id}, k.Know(r.Dir, p, id)
}

// refuse is an error after which certainly nothing was made.
func refuse(err error) error { return &run.RefusedError{Reason: err.Error()} }

// prepare does everything that changes nothing in the cluster.
func (k *Kube) prepare(ctx context.Context, dir string, p *plan.Plan, m *manifest) (Place, error) {
	if err := k.checkClient(ctx); err != nil {
		return Place{}, err
	}
	at, err := k.settle(ctx, dir, p)
	if err != nil {
		return Place{}, err
	}
	if err := k.checkAPI(ctx, at, p.Kubernetes); err != nil {
		return Place{}, err
	}
	if err := k.may(ctx, at, m); err != nil {
		return Place{}, err
	}
	return at, k.try(ctx, at, m)
}

// checkAPI makes sure that the cluster serves what the plan was made for.
func (k *Kube) checkAPI(ctx context.Context, at Place, of *plan.Kubernetes) error {
	if of.Graph == "" {
		return nil
	}
	served, err := k.Served(ctx, at)
	switch {
	case err != nil:
		return err
	case len(served) == 0:
		return fmt.Errorf("the cluster of %s does not know %s: NVIDIA Dynamo's operator is not installed there\n\thint: install the operator, or take a test without Dynamo",
			at, kindGraph)
	case !slices.Contains(served, of.Graph):
		return fmt.Errorf("the cluster of %s serves %s of %s, and the plan has %s\n\thint: declare the version of the operator that is installed there",
			at, kindGraph, strings.Join(served, " and "), of.Graph)
	}
	return nil
}

// Served lists the versions of DynamoGraphDeployment that a cluster serves, none without Dynamo's
// operator.
func (k *Kube) Served(ctx context.Context, at Place) ([]string, error) {
	out, err := k.kubectl(ctx, at, nil, "get", "--raw", "/apis/"+graphGroup)
	if e := asError(err); err != nil && (e.says("NotFound") || strings.Contains(e.Stderr, "could not find the requested resource")) {
		return nil, nil
	}
	if err != nil {
		return nil, k.plain(err, at)
	}
	var group struct {
		Versions []struct {
			Version string `json:"version"`
		} `json:"versions"`
	}
	if err := json.Unmarshal(out, &group); err != nil {
		return nil, fmt.Errorf("/apis/%s: %w", graphGroup, err)
	}
	var served []string
	for _, v := range group.Versions {
		served = append(served, v.Version)
	}
	return served, nil
}

// try has the server check the objects that are not there, with its schemas, policies and quotas, and
// keep none. Objects of an interrupted submission may be there.
func (k *Kube) try(ctx context.Context, at Place, m *manifest) error {
	have, err := k.free(ctx, at, m)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(m.all(), func(d document) bool { return have.find(&d.object) != nil })
	if len(missing) == 0 {
		return nil
	}
	data, err := asList(missing)
	if err != nil {
		return err
	}
	_, err = k.kubectl(ctx, at, data, "create", "--dry-run=server", "--filename=-", "--output=name")
	return k.plain(err, at)
}

// free makes sure that the names of the objects are not those of somebody else's, and returns those of
// the run that are there.
func (k *Kube) free(ctx context.Context, at Place, m *manifest) (objects, error) {
	var names []string
	for _, d := range m.all() {
		names = append(names, resources[d.Kind]+"/"+d.Metadata.Name)
	}
	have, err := k.named(ctx, at, names)
	if err != nil {
		return nil, k.plain(err, at)
	}
	for i := range have {
		if o := &have[i]; !(owner{m: m}).has(o) {
			return nil, fmt.Errorf("namespace %s has a %s already, which is not of this run (%s=%q)\n\thint: submit again, which takes another name", at.Namespace,
				o, plan.RunLabel, o.runID())
		}
	}
	return have, nil
}

// create makes the objects that are not there, the Job first, and returns the Job.
func (k *Kube) create(ctx context.Context, at Place, runID string, m *manifest) (*object, error) {
	have, err := k.clear(ctx, at, runID, m)
	if err != nil {
		return nil, err
	}
	job := have.find(&m.job.object)
	fresh := job == nil
	if fresh {
		if job, err = k.createJob(ctx, at, m); err != nil {
			return nil, err
		}
	}
	err = k.createOthers(ctx, at, m, job, have)
	if e := asError(err); err != nil && fresh && e.refused() {
		// The dry run had passed, and nobody else has seen this Job.
		failed := k.deleteOne(ctx, at, job)
		if failed == nil {
			return nil, refuse(k.plain(err, at))
		}
		return nil, errors.Join(k.plain(err, at), k.plain(failed, at))
	}
	return job, k.plain(err, at)
}

// createJob makes the Job. If another command made it meanwhile, it is that one's.
func (k *Kube) createJob(ctx context.Context, at Place, m *manifest) (*object, error) {
	data, err := json.Marshal(m.job.tree)
	if err != nil {
		return nil, err
	}
	out, err := k.kubectl(ctx, at, data, "create", "--filename=-", "--output=json")
	e := asError(err)
	switch {
	case err == nil:
		o, err := parseObject(out)
		return &o, err
	case e.says("AlreadyExists"):
		return k.theirs(ctx, at, m)
	case e.refused():
		return nil, refuse(k.plain(err, at))
	}
	return nil, k.plain(err, at)
}

// theirs is a Job of the name that was there when it was to be created.
func (k *Kube) theirs(ctx context.Context, at Place, m *manifest) (*object, error) {
	out, err := k.kubectl(ctx, at, nil, "get", resources[kindJob], m.job.Metadata.Name, "--output=json")
	if err != nil {
		return nil, k.plain(err, at)
	}
	o, err := parseObject(out)
	if err == nil && o.runID() != m.job.runID() {
		return nil, refuse(fmt.Errorf("namespace %s has a Job %s already, which is not of this run (%s=%q)", at.Namespace,
			o.Metadata.Name, plan.RunLabel, o.runID()))
	}
	return &o, err
}

// createOthers makes the service, which the Job owns.
func (k *Kube) createOthers(ctx context.Context, at Place, m *manifest, job *object, have objects) error {
	var missing []document
	for _, d := range m.others {
		if have.find(&d.object) == nil {
			d.ownedBy(job)
			missing = append(missing, d)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	data, err := asList(missing)
	if err != nil {
		return err
	}
	_, err = k.kubectl(ctx, at, data, "create", "--filename=-", "--output=name")
	if err == nil || !asError(err).onlyExisting() {
		return err
	}
	// made by another command meanwhile, or by somebody else
	now, failed := k.get(ctx, at, m.kinds(), byLabel(m.job.runID()))
	if failed != nil {
		return errors.Join(err, failed)
	}
	own := owner{m, job.Metadata.UID}.own(now)
	for _, d := range missing {
		if own.find(&d.object) == nil {
			return err
		}
	}
	return nil
}

// onlyExisting reports whether kubectl complained of nothing but objects that exist.
func (e *CommandError) onlyExisting() bool {
	for line := range strings.Lines(e.Stderr) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "Warning:") &&
			!strings.Contains(line, "(AlreadyExists)") {
			return false
		}
	}
	return e.says("AlreadyExists")
}

// objects are those of one run.
type objects []object

// find returns the object of the kind and name, nil if there is none.
func (list objects) find(of *object) *object {
	for i := range list {
		if list[i].Kind == of.Kind && list[i].Metadata.Name == of.Metadata.Name {
			return &list[i]
		}
	}
	return nil
}

// clear removes what an attempt that is over left, and returns what is there of this one.
func (k *Kube) clear(ctx context.Context, at Place, runID string, m *manifest) (objects, error) {
	all, err := k.get(ctx, at, m.kinds(), byLabel(runID))
	if err != nil {
		return nil, k.nothingMade(err, at)
	}
	w := owner{m: m}
	have := w.own(all)
	jobs := ofKind(have, kindJob)
	old := len(have) > 0 && len(jobs) == 0 // of a Job that is gone
	for _, j := range jobs {
		old = old || over(j) || j.Metadata.Deleted != nil
	}
	if !old {
		return have, nil
	}
	if _, err := k.remove(ctx, at, w); err != nil {
		return nil, refuse(err)
	}
	return nil, nil
}

func (k *Kube) nothingMade(err error, at Place) error { return refuse(k.plain(err, at)) }

// over reports whether a Job has ended.
func over(job *object) bool { return job.is("Complete") || job.is("Failed") }

// FindJob implements run.Finder, for the runs that Know was told of. A Job beside which a part of
// the service is missing is a submission that was cut short, and not found: Submit completes it.
func (k *Kube) FindJob(ctx context.Context, name string, _ time.Time, besides ...string) (string, bool, error) {
	k.mu.Lock()
	of, ok := k.byName[name]
	k.mu.Unlock()
	if !ok {
		return "", false, fmt.Errorf("nobody told where the run of job %s lives", name)
	}
	m, err := readManifest(filepath.Join(of.dir, run.ManifestFile), of.plan)
	if err != nil {
		return "", false, err
	}
	have, err := k.get(ctx, of.at, m.kinds(), byLabel(of.runID))
	if err != nil {
		return "", false, k.plain(err, of.at)
	}
	job := objects(have).find(&m.job.object)
	if job == nil || job.Metadata.Deleted != nil || slices.Contains(besides, idOf(job)) {
		return "", false, nil
	}
	for _, d := range m.others {
		if objects(have).find(&d.object) == nil && !over(job) {
			return "", false, nil
		}
	}
	id := idOf(job)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.byID[id] = of
	return id, true, nil
}
