package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/client"
	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/search"
)

// capacityDir has the run that shows which rates a server can serve at all.
const capacityDir = "capacity"

// findSpan fills in what a search for a rate was not told, from one run whose requests are sent
// as fast as they can be: no server keeps up with a higher rate than that run's. It is no
// evidence about limits.
func (r *runner) findSpan(ctx context.Context) error {
	g := &r.Goal
	if r.Variable == Concurrency {
		g.Min, g.Step = or(g.Min, 1), or(g.Step, 1)
		g.Max = or(g.Max, mostConcurrency)
		return nil
	}
	if g.Max > 0 && g.Step > 0 && g.Start > 0 {
		g.Min = or(g.Min, lowestRate(*g))
		return nil
	}
	most, err := r.capacity(ctx)
	if err != nil {
		return err
	}
	g.Step = or(g.Step, niceStep(most/100))
	g.Max = or(g.Max, g.Step*math.Ceil(1.5*most/g.Step))
	g.Start = or(g.Start, most/2)
	g.Min = or(g.Min, lowestRate(*g))
	return nil
}

// lowestRate is the default of the lowest rate: a tenth of the first. A probe sends as many requests at any
// rate, so that one at a tenth takes ten times as long, and a search whose limits never hold ends with it.
func lowestRate(g search.Goal) float64 { return max(g.Snap(min(g.Start, g.Max)/10), g.Step) }

func or(v, fallback float64) float64 {
	if v == 0 {
		return fallback
	}
	return v
}

// niceStep is the largest of 1, 2 and 5 times a power of ten that is at most x.
func niceStep(x float64) float64 {
	digits := int(math.Floor(math.Log10(x)))
	for _, n := range []float64{5, 2} {
		if step := n * math.Pow10(digits); step <= x {
			return step
		}
	}
	return math.Pow10(digits)
}

// capacity is the rate at which requests were answered that came as fast as they can. A run that does
// not show it is put aside, so that the next search measures again, unless the folder is another's by now.
func (r *runner) capacity(ctx context.Context) (float64, error) {
	dir := filepath.Join(r.Dir, capacityDir)
	most, err := r.answered(ctx, dir)
	if errors.Is(err, lease.ErrLost) {
		return 0, err
	}
	if err != nil {
		if lost := r.held(); lost != nil {
			return 0, errors.Join(err, lost)
		}
		failed := dir + "-failed"
		err = errors.Join(err, os.RemoveAll(failed), os.Rename(dir, failed))
		log := filepath.Join(failed, vllmserve.DefaultLog)
		if _, none := os.Stat(log); none == nil && ctx.Err() == nil {
			err = fmt.Errorf("%w\n\thint: the client's log is %s", err, log)
		}
		return 0, err
	}
	r.Said("capacity: %.4g requests/s", most)
	return most, nil
}

// answered reads the rate from the run in a folder, which is measured if it has none.
func (r *runner) answered(ctx context.Context, dir string) (float64, error) {
	part, err := finished(dir)
	if errors.Is(err, errNotFinished) {
		if err := r.renew(dir); err != nil { // of a run that was killed
			return 0, err
		}
		ask := Ask{Value: math.Inf(1), NumPrompts: r.numPrompts(0), Seed: r.Seed - 1, Dir: dir}
		r.Said("capacity: %d requests, sent as fast as they can be", ask.NumPrompts)
		if err := client.Interrupted(ctx, r.Measure(ctx, ask)); err != nil {
			return 0, fmt.Errorf("measure the capacity: %w", err)
		}
		part, err = finished(dir)
	}
	if err != nil {
		return 0, fmt.Errorf("measure the capacity: %w", err)
	}
	if part.Metrics.RequestThroughput == nil || *part.Metrics.RequestThroughput <= 0 {
		return 0, errors.New("measure the capacity: no request was answered")
	}
	return *part.Metrics.RequestThroughput / float64(r.Speed), nil
}
