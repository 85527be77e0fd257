package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/client"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/validity"
)

// Probe is one measurement.
type Probe struct {
	Name       string                  `json:"name"` // of its folder
	Value      float64                 `json:"value"`
	NumPrompts int                     `json:"num_prompts"`
	Seed       int64                   `json:"seed"`
	Began      time.Time               `json:"began"`
	Seconds    float64                 `json:"seconds,omitempty"`
	Error      string                  `json:"error,omitempty"`   // why there is no result
	Verdict    result.Verdict          `json:"verdict,omitempty"` // of the checks
	Words      []string                `json:"words,omitempty"`
	Metrics    map[string]metric.Value `json:"metrics,omitempty"` // those with limits, and the throughput
	Holds      []string                `json:"holds,omitempty"`   // for each set of limits: yes, no, or why it is no evidence

	record *result.Result
}

func name(i int) string { return fmt.Sprintf("probe-%03d", i+1) }

// measure has the client measure a load.
func (r *runner) measure(ctx context.Context, value float64) error {
	i := len(r.doc.Probes)
	p := Probe{Name: name(i), Value: value, NumPrompts: r.numPrompts(value), Seed: r.Seed + int64(i), Began: r.Now().UTC()}
	dir := filepath.Join(r.Dir, p.Name)
	if err := r.renew(dir); err != nil { // of a probe that was killed
		return err
	}
	if err := r.writeProbe(dir, &p); err != nil {
		return err
	}
	r.Said("%s: %s = %g, %d requests", p.Name, r.Variable, value, p.NumPrompts)
	err := r.Measure(ctx, Ask{Value: value, NumPrompts: p.NumPrompts, Seed: p.Seed, Dir: dir})
	if err != nil && r.Patience > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(r.Patience):
		}
	}
	if ctx.Err() != nil {
		return client.Interrupted(ctx, err)
	}
	p.Seconds = max(r.Now().Sub(p.Began).Seconds(), 1e-3)
	if err != nil {
		p.Error = err.Error()
	}
	r.judge(&p)
	if err := r.writeProbe(dir, &p); err != nil {
		return err
	}
	r.doc.Probes = append(r.doc.Probes, p)
	r.Said("%s: %s", p.Name, r.said(&p))
	return r.save()
}

// renew makes a folder empty, unless it is another's by now.
func (r *runner) renew(dir string) error {
	if err := r.held(); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o777)
}

func (r *runner) writeProbe(dir string, p *Probe) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return r.write(filepath.Join(dir, ProbeFile), append(data, '\n'))
}

// numPrompts is how many requests a probe has: as the percentiles of the limits need, for a
// steady state, and for the time that is asked for.
func (r *runner) numPrompts(value float64) int {
	var accept validity.Limits
	n := max(r.Least, accept.SampleFrom(95))
	for _, set := range r.Limits {
		for _, l := range set {
			n = max(n, needed(accept, l.Metric.Key))
		}
	}
	if r.Variable == Concurrency {
		return max(n, accept.SteadyFrom(int(value)))
	}
	return max(n, int(math.Ceil(r.ProbeSeconds*value)))
}

func needed(accept validity.Limits, key string) int {
	_, stat, ok := result.SplitKey(key)
	var rank float64
	if _, err := fmt.Sscanf(stat, "p%g", &rank); !ok || err != nil {
		return 0
	}
	return accept.SampleFrom(rank)
}

// errNotFinished is of a client that did not run to its end.
var errNotFinished = errors.New("the client left no result")

// finished reads the result of a client that ran to its end. A client prints its numbers before it
// writes them, and one that was interrupted writes those of a part of the load: neither is a result.
func finished(dir string) (result.Part, error) {
	part, err := vllmserve.Parser{}.Parse(regular.DirFS(dir))
	short := func(w result.Warning) bool { return w.Kind == result.CutShort }
	switch m := part.Metrics; {
	case errors.Is(err, fs.ErrNotExist), err == nil && (m == nil || m.FromLog):
		err = errNotFinished
	case err == nil && slices.ContainsFunc(part.Warnings, short):
		err = fmt.Errorf("%w of the whole load", errNotFinished)
	}
	return part, err
}

// judge reads a probe's result, and has it judged anew. One whose client failed has none, whatever is in
// its files.
func (r *runner) judge(p *Probe) {
	p.record, p.Verdict, p.Words, p.Metrics, p.Holds = nil, "", nil, nil, nil
	if p.Error != "" {
		return
	}
	part, err := finished(filepath.Join(r.Dir, p.Name))
	if err != nil {
		p.Error = err.Error()
		return
	}
	rec := &result.Result{Schema: result.SchemaV1}
	rec.Merge(part)
	rec.Simulated = rec.Simulated || part.Simulated || r.Simulated
	rec.Derive()
	planned := validity.Planned{NumPrompts: p.NumPrompts}
	switch r.Variable {
	case Concurrency:
		planned.Concurrency = int(p.Value)
	case Rate:
		planned.RequestRate = p.Value * float64(r.Speed)
	}
	rec.Validity = validity.Judge(rec, validity.Evidence{Planned: planned, Samples: part.Samples})
	r.doc.Simulated = r.doc.Simulated || rec.Simulated
	p.record, p.Verdict, p.Words = rec, rec.Validity.Verdict, rec.Validity.Words
	p.Metrics = map[string]metric.Value{metric.Throughput.Key: metric.Throughput.Of(rec)}
	for set, limits := range r.Limits {
		for _, l := range limits {
			p.Metrics[l.Metric.Key] = l.Metric.Of(rec)
		}
		p.Holds = append(p.Holds, holds(r.evidence(set, p)))
	}
}

// holds says in a word of evidence whether the limits hold.
func holds(e Evidence) string {
	switch {
	case e.Invalid:
		return "no evidence: " + e.Why
	case !e.Holds():
		return "no"
	case e.Low:
		return "too little load: " + e.Why
	}
	return "yes"
}

func (r *runner) said(p *Probe) string {
	if p.record == nil {
		return p.Error
	}
	text := ""
	for set, limits := range r.Limits {
		for _, l := range faster(limits, r.Speed) {
			if v := l.Metric.Of(p.record).Number; v != nil {
				text += fmt.Sprintf("%s %.4g, ", l.Metric.Key, *v)
			}
		}
		text += "holds: " + p.Holds[set]
		if set+1 < len(r.Limits) {
			text += "; "
		}
	}
	return text
}
