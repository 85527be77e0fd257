package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	json "github.com/go-json-experiment/json/v1"
)

// owner tells what belongs to one attempt of a run from what somebody else gave its label or its
// names: the Job by its uid, and the other objects by their owner, which is that Job.
type owner struct {
	m   *manifest
	uid string // how the Job's uid begins, "" while no Job is on record: any Job of the name
}

// owner is that of a job's run; id is "" if no job is on record.
func (of known) owner(id string) (owner, error) {
	m, err := of.manifest()
	if err != nil || id == "" {
		return owner{m: m}, err
	}
	_, _, uid, err := parseID(id)
	return owner{m, uid}, err
}

// has reports whether an object is one of the run's own: its Job, or what that Job owns.
func (w owner) has(o *object) bool {
	if o.runID() != w.m.job.runID() {
		return false
	}
	if o.Kind == kindJob {
		return w.isJob(o.Metadata.Name, o.Metadata.UID)
	}
	for _, ref := range o.Metadata.Owners {
		if ref.Kind == kindJob && w.isJob(ref.Name, ref.UID) {
			return true
		}
	}
	return false
}

func (w owner) isJob(name, uid string) bool {
	return name == w.m.job.Metadata.Name && strings.HasPrefix(uid, w.uid)
}

// own are the run's own objects of the manifest's kinds.
func (w owner) own(have objects) (list objects) {
	for i := range have {
		if o := &have[i]; o.Kind != kindPod && w.has(o) {
			list = append(list, *o)
		}
	}
	return list
}

// strange are objects with the run's label and the name of one of its objects that are not its own:
// made by somebody else since, or taken from their owner.
func (w owner) strange(have objects) (list objects) {
	for i := range have {
		if o := &have[i]; o.Metadata.Deleted == nil && w.m.has(o) && !w.has(o) {
			list = append(list, *o)
		}
	}
	return list
}

// remains are the objects that have to go with the run: its own, its pods, and what the operator made
// for its graph. What somebody else gave the label does not count: a Deployment of their own and its
// pods, or all of it if they made the graph anew.
func (w owner) remains(have objects) (list objects) {
	strange := w.strange(have)
	anew := len(ofKind(strange, kindGraph)) > 0
	foreign := ofKind(strange, kindDeployment)
	for _, d := range ofKind(have, kindDeployment) {
		if d.Metadata.Deleted == nil && len(d.Metadata.Owners) == 0 && !w.m.has(d) {
			foreign = append(foreign, d)
		}
	}
	for i := range have {
		o := &have[i]
		made := o.Kind == kindPod || o.Kind == kindDeployment && !w.m.has(o) // by a controller
		switch {
		case w.has(o):
		case !made, anew, len(o.Metadata.Owners) == 0 && o.Metadata.Deleted == nil:
			continue
		case slices.ContainsFunc(foreign, func(d *object) bool { return isOf(o, d) }):
			continue
		case slices.ContainsFunc(o.Metadata.Owners, func(ref ownerRef) bool { return ref.Kind == kindJob }):
			continue // pods of another Job
		}
		list = append(list, *o)
	}
	return list
}

// isOf reports whether an object is a Deployment or one of its pods, which a ReplicaSet owns.
func isOf(o, d *object) bool {
	if o.Kind == kindDeployment {
		return o.Metadata.Name == d.Metadata.Name
	}
	return slices.ContainsFunc(o.Metadata.Owners, func(ref ownerRef) bool {
		return ref.Kind == "ReplicaSet" && strings.HasPrefix(ref.Name, d.Metadata.Name+"-")
	})
}

// delete asks for the end of a run's own objects. The API server compares the uid of each, so that an
// object of the same name that was made meanwhile stays.
func (k *Kube) delete(ctx context.Context, at Place, w owner) error {
	if w.m.job.runID() == "" { // else the selector would match objects with an empty label
		return fmt.Errorf("a run without an id has no objects")
	}
	have, err := k.get(ctx, at, w.m.kinds(), byLabel(w.m.job.runID()))
	if err != nil {
		return err
	}
	own := w.own(have)
	slices.Reverse(own) // the Job first, whose end ends the others
	for i := range own {
		if err := k.deleteOne(ctx, at, &own[i]); err != nil {
			return err
		}
	}
	return nil
}

// deleteOne asks for the end of an object with a uid. One that is gone, or whose name is another's by
// now, is no error.
func (k *Kube) deleteOne(ctx context.Context, at Place, o *object) error {
	if o.Metadata.UID == "" {
		return fmt.Errorf("%s has no uid", o)
	}
	plural, _, _ := strings.Cut(resources[o.Kind], ".")
	path := "/apis/" + o.APIVersion
	if !strings.Contains(o.APIVersion, "/") {
		path = "/api/" + o.APIVersion
	}
	path += "/namespaces/" + at.Namespace + "/" + plural + "/" + o.Metadata.Name
	body, err := json.Marshal(map[string]any{"kind": "DeleteOptions", "apiVersion": "v1",
		"propagationPolicy": "Background", "preconditions": map[string]string{"uid": o.Metadata.UID}})
	if err != nil {
		return err
	}
	_, err = k.kubectl(ctx, at, body, "delete", "--raw", path, "--filename=-")
	if err != nil && asError(err).says("NotFound", "Conflict") {
		return nil
	}
	return err
}
