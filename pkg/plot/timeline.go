package plot

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/figure"
	"github.com/profllm/profllm/pkg/plot/runfiles"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
)

// Timeline draws what one job did over time: the requests in its engines, their cache, the tokens
// that they generated, its GPUs, and which client ran when. The runs of a table must be of one job.
func Timeline(runs []records.Run) (Named, error) {
	if err := oneJob(runs); err != nil {
		return Named{}, err
	}
	first := &runs[0]
	loads := loadsOf(runs)
	files := timed{runfiles.Over(first.Job, loads.dirs)}
	if files.Empty() {
		return Named{}, fmt.Errorf("%s has no samples of engines or GPUs\n\thint: the job of a serving test samples its "+
			"engines; docs/how-to/gpus.md says when GPUs are sampled%s", first.Job, problems(files))
	}
	n := Named{Name: "TIMELINE", Runs: len(runs)}
	start := files.start()
	spans := phases(files, start, loads)
	last := files.last(spans) - start
	for _, x := range panelsOver(files.Run) {
		p := figure.Panel{
			X: figure.Axis{Label: "Time since the servers were ready (s)", FromZero: true, Tight: true, High: &last},
			Y: figure.Axis{Label: x.label, FromZero: true}, Spans: spans, OwnLegend: true,
		}
		if x.high > 0 {
			p.Y.High = &x.high
		}
		for _, s := range x.series {
			if s.Points = shifted(s.Points, start); len(s.Points) == 0 {
				continue
			}
			p.Series = append(p.Series, s)
			n.Series++
		}
		n.Figure.Panels = append(n.Figure.Panels, []figure.Panel{p})
	}
	n.Figure.Height, n.Figure.Aspect, n.Figure.SharedX = 1.7, 6.4/1.7, true
	name := strings.TrimSpace(cmp.Or(first.Case.Scenario, first.Case.Test) + " " + caseOf(first))
	n.Figure.Title = "Over time: " + name + kindOf(runs)
	n.Figure.Caption = timelineCaption(files.Run, runs, loads)
	return n, nil
}

// caseOf is the test of a run behind its scenario.
func caseOf(r *records.Run) string {
	if r.Case.Scenario == "" {
		return ""
	}
	return r.Case.Test
}

func kindOf(runs []records.Run) string {
	for i := range runs {
		if runs[i].Result != nil {
			return records.KindOf(runs[i].Result).Suffix()
		}
	}
	return ""
}

// oneJob refuses runs of several jobs, and names some of them.
func oneJob(runs []records.Run) error {
	var jobs []string
	for i := range runs {
		if !slices.Contains(jobs, runs[i].Job) {
			jobs = append(jobs, runs[i].Job)
		}
	}
	switch n := len(jobs); {
	case n == 0:
		return fmt.Errorf("no run of profllm: only these have samples over time")
	case n > 1:
		return fmt.Errorf("%d jobs: a timeline shows one\n\thint: profllm plot timeline %s", n, jobs[0])
	}
	return nil
}

func problems(r timed) string {
	if len(r.Problems) == 0 {
		return ""
	}
	return "\n\t" + strings.Join(r.Problems, "\n\t")
}

func timelineCaption(r *runfiles.Run, runs []records.Run, loads loads) []string {
	text := quantity.Count(len(runs), "run") + " of one job."
	if n := len(r.Phases); n > 0 {
		text += " Shaded: " + quantity.Count(n, "phase") + " of the load client"
		if loads.key != "" {
			text += ", with their " + loads.key
		}
		text += "."
	}
	list := []string{text}
	if gaps(r) {
		list = append(list, "Where a line is broken, nothing was sampled, or an engine started again.")
	}
	var missing []string
	for name, n := range map[string]int{"engines": len(r.Running), "GPU use": len(r.Use), "GPU power": len(r.Power)} {
		if n == 0 {
			missing = append(missing, name)
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		list = append(list, "Not sampled: "+strings.Join(missing, ", ")+".")
	}
	for _, p := range r.Problems {
		list = append(list, "Unreadable: "+p+".")
	}
	if strings.Contains(kindOf(runs), "simulated") {
		list = append(list, "Simulated engine: the numbers are no measurements.")
	}
	return list
}

// timed is a run with a start.
type timed struct{ *runfiles.Run }

// start is the first mark or sample.
func (r timed) start() float64 {
	first := math.Inf(1)
	for _, p := range r.Phases {
		first = min(first, p.Begin)
	}
	if r.Ready > 0 {
		first = min(first, r.Ready)
	}
	if !math.IsInf(first, 1) {
		return first
	}
	for _, list := range [][]runfiles.Track{r.Running, r.Use, r.Power} {
		for _, t := range list {
			if len(t.Samples) > 0 {
				first = min(first, t.Samples[0].At)
			}
		}
	}
	return first
}

// last is the last sample or mark.
func (r timed) last(spans []figure.Span) float64 {
	at := r.start()
	for _, list := range [][]runfiles.Track{r.Running, r.Use, r.Power} {
		for _, t := range list {
			if n := len(t.Samples); n > 0 {
				at = max(at, t.Samples[n-1].At)
			}
		}
	}
	for _, s := range spans {
		at = max(at, r.start()+s.To)
	}
	return at
}

// gaps reports whether samples are missing between others.
func gaps(r *runfiles.Run) bool {
	return slices.ContainsFunc(slices.Concat(r.Running, r.Waiting, r.Cache, r.Tokens, r.Use, r.Power),
		func(t runfiles.Track) bool {
			return slices.ContainsFunc(t.Samples, func(s runfiles.Sample) bool { return s.Gap })
		})
}

// loads are the loads of a job.
type loads struct {
	dirs   []string
	key    string            // of the setting that tells them apart, "" for none
	values map[string]string // of that setting, by the names of the loads' folders
}

// loadsOf tells the loads of a job apart by how much load there is, else by the one setting that
// the sweep chose.
func loadsOf(runs []records.Run) loads {
	l := loads{values: map[string]string{}}
	chosen := map[string]map[string]string{} // by key, then by folder
	for i := range runs {
		l.dirs = append(l.dirs, runs[i].Dir)
		for _, v := range runs[i].Values {
			key := strings.TrimPrefix(v.Key, "bench_cmd_args.")
			if chosen[key] == nil {
				chosen[key] = map[string]string{}
			}
			chosen[key][filepath.Base(runs[i].Dir)] = v.Value
		}
	}
	if len(runs) < 2 {
		return l
	}
	keys := loadKeys
	if len(chosen) == 1 {
		keys = slices.Collect(maps.Keys(chosen))
	}
	for _, key := range keys {
		if of := chosen[key]; valuesOf(of) == len(runs) {
			l.key, l.values = key, of
			break
		}
	}
	return l
}

// valuesOf counts the different values.
func valuesOf(of map[string]string) int {
	return len(slices.Compact(slices.Sorted(maps.Values(of))))
}

// named is a phase with what its load is, in place of the load's number.
func (l loads) named(phase string) string {
	number, name, ok := strings.Cut(phase, "/")
	if value := l.values[number]; ok && value != "" {
		return name + " " + value
	}
	return phase
}

// phases are the ranges of clients. A phase that did not end lasts until the servers were stopped.
func phases(r timed, start float64, l loads) []figure.Span {
	var list []figure.Span
	for _, p := range r.Phases {
		end := p.End
		if end == 0 {
			end = max(r.Stopping, p.Begin)
		}
		list = append(list, figure.Span{Name: l.named(p.Name), From: p.Begin - start, To: end - start})
	}
	return list
}

// over is one panel.
type over struct {
	label  string
	high   float64 // that the axis shows at least; 0 for none
	series []figure.Series
}

// mostGPUs are drawn one by one. Of more, the means of the nodes and the extremes are drawn, and of
// more than mostNodes the mean of all.
const mostGPUs, mostNodes = 4, 4

func panelsOver(r *runfiles.Run) []over {
	var list []over
	add := func(label string, high float64, series []figure.Series) {
		if len(series) > 0 {
			list = append(list, over{label, high, series})
		}
	}
	add("Requests in the engines", 0, requests(r))
	add("KV cache in use (%)", 0, tracks(r.Cache, 100))
	add("Generated tokens/s", 0, tracks(r.Tokens, 1))
	add("GPU use (%)", 100, gpuTracks(r.Use))
	add("GPU power (W)", 0, gpuTracks(r.Power))
	return list
}

// requests are the running ones of each role, and dashed the waiting ones.
func requests(r *runfiles.Run) []figure.Series {
	running, waiting := tracks(r.Running, 1), tracks(r.Waiting, 1)
	for i := range running {
		running[i].Name = strings.TrimSpace(running[i].Name + " running")
	}
	for i := range waiting {
		waiting[i].Name = strings.TrimSpace(waiting[i].Name + " waiting")
		waiting[i].Dashed, waiting[i].Sparse, waiting[i].Marks = true, false, false
	}
	return slices.Concat(running, waiting)
}

// tracks are the curves of a number, one for each role. A role has the same colour and mark in every
// panel, and its name stands where there are several.
func tracks(list []runfiles.Track, times float64) []figure.Series {
	var out []figure.Series
	for i, t := range list {
		s := figure.Series{Style: i, Line: true}
		if len(list) > 1 {
			s.Name = t.Of
		}
		for _, x := range t.Samples {
			s.Points = append(s.Points, figure.Point{X: x.At, Y: x.Value * times, Gap: x.Gap})
		}
		mark(&s)
		out = append(out, s)
	}
	return out
}

// mostMarks are drawn on a line over time: more run into each other.
const mostMarks = 40

// mark gives a line marks: at every point, or now and then if they would run into each other.
func mark(s *figure.Series) {
	s.Marks = len(s.Points) <= mostMarks
	s.Sparse = !s.Marks
}

// gpuTracks are the curves of GPUs.
func gpuTracks(list []runfiles.Track) []figure.Series {
	if len(list) <= mostGPUs {
		out := tracks(list, 1)
		for i := range out {
			out[i].Name, out[i].Marks, out[i].Sparse = list[i].Of, false, true
		}
		return out
	}
	mean := func(values []float64) float64 { m, _ := moments(values); return m }
	extremes := fmt.Sprintf("highest and lowest of %d GPUs", len(list))
	out := []figure.Series{
		binned(extremes, list, func(v []float64) float64 { return slices.Max(v) }),
		binned(extremes, list, func(v []float64) float64 { return slices.Min(v) }),
	}
	for i := range out {
		out[i].Style, out[i].Dashed, out[i].Marks, out[i].Sparse = figure.Grey, true, false, false
	}
	nodes := byNode(list)
	if len(nodes) == 1 || len(nodes) > mostNodes {
		return append(out, binned("mean", list, mean))
	}
	for i, node := range slices.Sorted(maps.Keys(nodes)) {
		s := binned("mean on "+node, nodes[node], mean)
		s.Style = i
		out = append(out, s)
	}
	return out
}

// byNode are the GPUs of each node.
func byNode(list []runfiles.Track) map[string][]runfiles.Track {
	nodes := map[string][]runfiles.Track{}
	for _, t := range list {
		nodes[t.Node] = append(nodes[t.Node], t)
	}
	return nodes
}

// binned is one number of many GPUs, second by second.
func binned(name string, list []runfiles.Track, of func([]float64) float64) figure.Series {
	bins := map[int64][]float64{}
	for _, t := range list {
		for _, x := range t.Samples {
			at := int64(math.Floor(x.At))
			bins[at] = append(bins[at], x.Value)
		}
	}
	var samples []runfiles.Sample
	for _, at := range slices.Sorted(maps.Keys(bins)) {
		samples = append(samples, runfiles.Sample{At: float64(at), Value: of(bins[at])})
	}
	s := figure.Series{Name: name, Line: true}
	for _, x := range runfiles.WithGaps(samples) {
		s.Points = append(s.Points, figure.Point{X: x.At, Y: x.Value, Gap: x.Gap})
	}
	s.Sparse = true // nodes that do the same are told apart
	return s
}

// shifted are the points from a moment on, counted from it: while servers start, nothing is measured.
func shifted(points []figure.Point, start float64) []figure.Point {
	out := slices.DeleteFunc(slices.Clone(points), func(p figure.Point) bool { return p.X < start })
	for i := range out {
		out[i].X -= start
	}
	return out
}
