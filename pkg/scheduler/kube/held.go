package kube

import (
	"cmp"
	"context"
	"errors"
)

// defaultGPU is the resource that a GPU is, if a plan names none.
const defaultGPU = "nvidia.com/gpu"

// Held counts the GPUs that the pods of runs have on their nodes now, by the id of their Job, with one
// kubectl get for each namespace.
func (k *Kube) Held(ctx context.Context, ids []string) (map[string]int, error) {
	held, groups := map[string]int{}, map[Place][]string{}
	var errs []error
	for _, id := range ids {
		of, err := k.ofJob(id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		groups[of.at] = append(groups[of.at], id)
	}
	for at, some := range groups {
		var runs []string
		for _, id := range some {
			of, _ := k.ofJob(id)
			runs = append(runs, of.runID)
		}
		byRun, err := k.ofRuns(ctx, at, []string{resources[kindPod]}, runs)
		if err != nil {
			errs = append(errs, k.plain(err, at))
			continue
		}
		for _, id := range some {
			of, _ := k.ofJob(id)
			for _, p := range ofKind(of.remains(byRun[of.runID], id), kindPod) {
				held[id] += gpusOf(p, cmp.Or(of.plan.Kubernetes.Pods.GPUResource, defaultGPU))
			}
		}
	}
	return held, errors.Join(errs...)
}

// gpusOf are the GPUs that a pod has on its node, none if it has no node or has ended.
func gpusOf(p *object, resource string) (n int) {
	if p.Spec.NodeName == "" || p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" {
		return 0
	}
	for _, c := range p.Spec.Containers {
		if v, ok := c.Resources.Limits[resource].value(); ok {
			n += int(v)
		}
	}
	return n
}
