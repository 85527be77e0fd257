// Package pareto knows what a configuration costs its users in speed: tokens per second and
// user against tokens per second and GPU, and which runs no other run beats in both. The
// definitions are those of vllm bench sweep plot_pareto (vLLM 0.32.0).
//
//	p, ok, err := pareto.Of(run, pareto.Options{Users: "max_concurrency"})
//	best := pareto.Frontier(points)
package pareto

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Run gives a number of a run by its name. present is false if the run has no such key; v is nil
// if the key has no number there, which is null in JSON. What is no number is an error.
type Run func(key string) (v *float64, present bool, err error)

// Options name the keys of a run that count its users and its GPUs.
type Options struct {
	Users string // vLLM's default is max_concurrency
	GPUs  string // "": the product of the parallel sizes
}

// Throughput is the key of what is shared among users and GPUs, in tokens/s.
const Throughput = "output_throughput"

// Point is where a run stands.
type Point struct {
	Users, GPUs     float64
	PerUser, PerGPU float64 // tokens/s
}

// Of returns where a run stands; ok is false for a run without a user count.
func Of(r Run, o Options) (p Point, ok bool, err error) {
	total, err := number(r, Throughput)
	if err != nil {
		return p, false, err
	}
	if total == nil {
		return p, false, fmt.Errorf("a run has no %s", Throughput)
	}
	users, err := Users(r, o.Users)
	if err != nil || users == nil {
		return p, false, err
	}
	p.Users = *users
	if p.GPUs, err = GPUs(r, o.GPUs); err != nil {
		return p, false, err
	}
	p.PerUser, p.PerGPU = *total/p.Users, *total/p.GPUs
	return p, true, nil
}

// Users is the named number of users, or else the request rate. Where that is null or 0, it is
// the highest number of requests that ran at once, nil if that is not known either. As in vLLM, a
// named key that is null keeps the request rate from being looked at.
func Users(r Run, named string) (*float64, error) {
	for _, keys := range [][]string{{named, "request_rate"}, {"max_concurrent_requests"}} {
		v, err := number(r, keys...)
		if err != nil || v != nil && *v != 0 {
			return v, err
		}
	}
	return nil, nil
}

// GPUs is the named number of GPUs, or else the product of the sizes of tensor, pipeline and data
// parallelism; a size that is absent or 0 counts as 1.
func GPUs(r Run, named string) (float64, error) {
	if v, err := number(r, named); err != nil || v != nil && *v != 0 {
		return value(v), err
	}
	n := 1.0
	for _, keys := range [][]string{
		{"tensor_parallel_size", "tp"}, {"pipeline_parallel_size", "pp"}, {"data_parallel_size", "dp"},
	} {
		v, err := number(r, keys...)
		if err != nil {
			return 0, err
		}
		if v != nil && *v != 0 {
			n *= *v
		}
	}
	return n, nil
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// number is the number of the first key that a run has, with dashes or underscores.
func number(r Run, keys ...string) (*float64, error) {
	for _, key := range keys {
		if key == "" {
			continue
		}
		for _, k := range []string{key, strings.ReplaceAll(key, "_", "-"), strings.ReplaceAll(key, "-", "_")} {
			if v, present, err := r(k); present || err != nil {
				return v, err
			}
		}
	}
	return nil, nil
}

// epsilon is how far below the best a point may lie and still count as its equal.
const epsilon = 1e-9

// Frontier returns the places of the points that no point to their right lies above, ascending by
// PerUser. Points that are not numbers are on no frontier.
func Frontier(points []Point) []int {
	order := make([]int, 0, len(points))
	for i, p := range points {
		if !math.IsNaN(p.PerUser) && !math.IsNaN(p.PerGPU) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		p, q := points[a], points[b]
		return cmp.Or(cmp.Compare(q.PerUser, p.PerUser), cmp.Compare(q.PerGPU, p.PerGPU))
	})
	best := math.Inf(-1)
	var on []int
	for _, i := range order {
		if points[i].PerGPU >= best-epsilon {
			on, best = append(on, i), max(best, points[i].PerGPU)
		}
	}
	slices.Reverse(on)
	return on
}
