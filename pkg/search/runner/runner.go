// Package runner runs a search for the highest load on a server: it has a client measure each load
// that package search asks for, has the result judged, and keeps everything in one folder, from which
// a search that was killed goes on.
package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/search"
)

// The files of a search.
const (
	File      = run.SearchFile // in its folder
	ProbeFile = "probe.json"   // in the folder of each probe, beside the client's result
)

// Schema is the version of search.json.
const Schema = run.SearchSchema

// The loads that are searched for.
const (
	Rate        = "request_rate"
	Concurrency = "max_concurrency"
)

// Ask is one measurement that a client is asked for.
type Ask struct {
	Value      float64 // of the load
	NumPrompts int
	Seed       int64  // other prompts than before, which no prefix cache holds
	Dir        string // of the result file, vllmserve.DefaultFile
}

// Options say what is searched for, and where its files are.
type Options struct {
	Dir      string
	Variable string // Rate or Concurrency
	Goal     search.Goal
	Limits   [][]metric.Limit // one search for each set, on the same probes
	Command  []string         // of the client, by which a search is known again
	Load     string           // what else the client sends, in any form that differs where loads do
	// Least requests of a probe, if the percentiles need no more.
	Least        int
	ProbeSeconds float64 // least time of a probe with a rate
	Seed         int64
	Time         time.Duration // after which no probe begins; 0: no limit
	Speed        int           // simulated time passes so many times faster; 0: 1
	Simulated    bool          // whether the servers are
	// Rivals is a folder with a folder for each of several configurations, in which their searches lie
	// as this one's does in its own; "": there are none. The search ends once it surely does not reach
	// the best of those with the same contest.
	Rivals  string
	Contest Contest

	Measure func(ctx context.Context, ask Ask) error
	// Patience is how long a failed measurement waits for the search to be ended: of a job that is cancelled,
	// the servers may learn first.
	Patience time.Duration
	Now      func() time.Time
	Renew    time.Duration                    // of the folder's lease; 0: a minute
	Said     func(format string, args ...any) // as a probe begins, and of its result
}

// Document is search.json.
type Document struct {
	Schema     string           `json:"schema"`
	Question   Question         `json:"question"`
	Probes     []Probe          `json:"probes"`  // in their order
	Answers    []*result.Search `json:"answers"` // one for each set of limits, in their order
	Contest    *Contest         `json:"contest,omitempty"`
	Simulated  bool             `json:"simulated,omitempty"`
	Unfinished bool             `json:"unfinished,omitempty"` // an answer is that of the probes so far: interrupted
}

// Question is what a search was asked; only the same question goes on with its probes. Min, Max and
// Resolution are 0 before they are known.
type Question struct {
	Variable   string     `json:"variable"`
	Min        float64    `json:"min"`
	Max        float64    `json:"max"`
	Resolution float64    `json:"resolution"`
	Limits     [][]string `json:"limits"`
	Command    []string   `json:"command"`
	Load       string     `json:"load,omitempty"` // digest
	Speed      int        `json:"speed"`
	Simulated  bool       `json:"simulated,omitempty"`
}

// same reports whether two questions are one, as far as their spans are known.
func (q Question) same(other Question) bool {
	for _, pair := range [][2]*float64{{&q.Min, &other.Min}, {&q.Max, &other.Max}, {&q.Resolution, &other.Resolution}} {
		if *pair[0] == 0 || *pair[1] == 0 {
			*pair[0], *pair[1] = 0, 0
		}
	}
	return reflect.DeepEqual(q, other)
}

// runner is a search at work.
type runner struct {
	Options
	doc    Document
	before Question  // of the folder
	done   []bool    // of each set of limits: its answer is final
	edges  []float64 // of each set of limits: the likeliest, also where the answer has an open end
	begun  time.Time
	held   func() error // that the folder is still this search's

	place      *contender // nil: there are no rivals
	best       []rival    // of each set of limits
	complaints []string   // that were said
}

// Run searches until every set of limits has its answer. What the goal's span lacks is found out
// first. What was measured before in the folder counts. With an error it returns what is known.
// What was asked wrongly is a [Refusal].
func Run(ctx context.Context, o Options) (doc *Document, err error) {
	r := runner{Options: o, begun: o.Now(), done: make([]bool, len(o.Limits)), best: make([]rival, len(o.Limits)),
		edges: make([]float64, len(o.Limits))}
	r.Speed = max(r.Speed, 1)
	r.doc = Document{Schema: Schema, Question: r.question(), Simulated: o.Simulated,
		Answers: make([]*result.Search, len(o.Limits))}
	if err := Check(r.Variable, r.Goal); err != nil {
		return nil, Refusal{err}
	}
	if r.place, err = r.contest(); err != nil {
		return nil, err
	} else if r.place != nil {
		r.doc.Contest = &r.Contest
	}
	if err := os.MkdirAll(r.Dir, 0o777); err != nil {
		return nil, err
	}
	ctx, release, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	r.held = func() error { return lease.Check(ctx) }
	if err := r.open(); err != nil {
		return nil, err
	}
	if err := r.findSpan(ctx); err != nil {
		return nil, err
	}
	if err := Check(r.Variable, r.Goal); err != nil { // against what the server can serve
		return nil, Refusal{err}
	}
	if r.doc.Question = r.question(); !r.doc.Question.same(r.before) {
		return nil, r.another()
	}
	if err := r.resume(); err != nil {
		return nil, err
	}
	for set := range o.Limits {
		if err := r.search(ctx, set); err != nil {
			if errors.Is(err, lease.ErrLost) {
				return &r.doc, err // the files are another's by now
			}
			return &r.doc, errors.Join(err, r.save())
		}
	}
	if err := r.save(); err != nil {
		return &r.doc, err
	}
	return &r.doc, r.keepBest()
}

// write replaces a file of the folder, unless that is another's by now.
func (r *runner) write(path string, data []byte) error {
	return durable.WriteFileIf(path, data, 0o666, r.held)
}

func (r *runner) question() Question {
	q := Question{Variable: r.Variable, Min: r.Goal.Min, Max: r.Goal.Max, Resolution: r.Goal.Step, Command: r.Command,
		Load: r.Load, Speed: r.Speed, Simulated: r.Simulated}
	for _, set := range r.Limits {
		var texts []string
		for _, l := range set {
			texts = append(texts, l.String())
		}
		q.Limits = append(q.Limits, texts)
	}
	return q
}

// open makes the folder that of this search, unless it is that of another. From then on the folder
// says what its files measure.
func (r *runner) open() error {
	data, err := regular.ReadFile(filepath.Join(r.Dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		r.before = r.doc.Question
		return r.save()
	}
	var before Document
	if err == nil {
		err = json.Unmarshal(data, &before)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(r.Dir, File), err)
	}
	if r.before = before.Question; !r.doc.Question.same(r.before) {
		return r.another()
	}
	return nil
}

func (r *runner) another() error {
	return Refusal{fmt.Errorf("%s is of another search\n\thint: choose another folder with --result-dir, or remove it",
		filepath.Join(r.Dir, File))}
}

// resume takes the probes that the folder has.
func (r *runner) resume() error {
	for {
		var p Probe
		dir := filepath.Join(r.Dir, name(len(r.doc.Probes)))
		data, err := regular.ReadFile(filepath.Join(dir, ProbeFile))
		if errors.Is(err, fs.ErrNotExist) {
			return r.save()
		}
		if err == nil {
			err = json.Unmarshal(data, &p)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, ProbeFile), err)
		}
		if p.Seconds == 0 { // killed before its end
			return r.save()
		}
		r.judge(&p)
		r.doc.Probes = append(r.doc.Probes, p)
	}
}

// save writes search.json. A set of limits whose search is not over has the answer of the probes so
// far, which is what remains if nothing else is written.
func (r *runner) save() error {
	r.doc.Unfinished = false
	for set := range r.Limits {
		if r.done[set] {
			continue
		}
		a := r.goal(set).Conclude(r.probes(set))
		a.Kind = search.Interrupted
		r.answer(set, a)
		r.doc.Unfinished = true
	}
	data, err := json.MarshalIndent(r.doc, "", "  ")
	if err != nil {
		return err
	}
	return r.write(filepath.Join(r.Dir, File), append(data, '\n'))
}

// search measures until one set of limits has its answer.
func (r *runner) search(ctx context.Context, set int) error {
	for {
		r.look(set)
		step := r.goal(set).Next(r.probes(set))
		switch {
		case step.Answer != nil:
			r.answer(set, step.Answer)
			r.done[set] = true
			return nil
		case r.Time > 0 && r.Now().Sub(r.begun) >= r.Time:
			r.answer(set, r.goal(set).Conclude(r.probes(set)))
			r.done[set] = true
			return nil
		}
		if err := r.measure(ctx, step.Value); err != nil {
			return err
		}
	}
}

// goal is that of one set of limits, which may have to reach what a rival does.
func (r *runner) goal(set int) search.Goal {
	g := r.Goal
	g.AtLeast = max(g.AtLeast, r.best[set].reach)
	return g
}

// probes are the probes so far as one set of limits sees them.
func (r *runner) probes(set int) []search.Probe {
	var list []search.Probe
	for i := range r.doc.Probes {
		list = append(list, r.evidence(set, &r.doc.Probes[i]).Probe)
	}
	return list
}

func (r *runner) evidence(set int, p *Probe) Evidence {
	if p.record == nil {
		return Evidence{Probe: search.Probe{Value: p.Value, Invalid: true}, Why: p.Error}
	}
	return Of(faster(r.Limits[set], r.Speed), p.Value, p.record)
}

// faster are limits for a server whose time passes faster.
func faster(limits []metric.Limit, n int) []metric.Limit {
	list := make([]metric.Limit, len(limits))
	for i, l := range limits {
		switch {
		case l.Metric.Unit == "ms":
			l.Value /= float64(n)
		case l.Metric.Better == metric.Higher && l.Metric.Unit != "%":
			l.Value *= float64(n)
		}
		list[i] = l
	}
	return list
}

// keepBest copies the result at the highest load that holds beside search.json, so that whoever
// reads one result of this folder reads that. There is none if no load holds.
func (r *runner) keepBest() error {
	kept := filepath.Join(r.Dir, vllmserve.DefaultFile)
	best := r.Best(0)
	if best == nil {
		if err := r.held(); err != nil {
			return err
		}
		if err := os.Remove(kept); !errors.Is(err, fs.ErrNotExist) { // of fewer probes
			return err
		}
		return nil
	}
	data, err := regular.ReadFile(filepath.Join(r.Dir, best.Name, vllmserve.DefaultFile))
	if err != nil {
		return err
	}
	return r.write(kept, data)
}

// Best is the probe that holds at the highest load that the answer says holds; nil if there is none.
// Where the answer says that of no load, the load must be below the likeliest edge.
func (r *runner) Best(set int) *Probe {
	a := r.doc.Answers[set]
	most := r.edges[set]
	if a.Low != nil {
		most = *a.Low
	}
	var best *Probe
	for i := range r.doc.Probes {
		p := &r.doc.Probes[i]
		e := r.evidence(set, p)
		if !e.Invalid && e.Holds() && p.Value <= most && (best == nil || p.Value >= best.Value) {
			best = p
		}
	}
	return best
}
