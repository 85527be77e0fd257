package plot

import (
	"cmp"
	"fmt"
	"math"
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
	var loads []string
	for i := range runs {
		loads = append(loads, runs[i].Dir)
	}
	files := timed{runfiles.Over(first.Job, loads)}
	if files.Empty() {
		return Named{}, fmt.Errorf("%s has no samples of engines or GPUs\n\thint: the job of a serving test samples its "+
			"engines; docs/how-to/gpus.md says when GPUs are sampled%s", first.Job, problems(files))
	}
	n := Named{Name: "TIMELINE", Runs: len(runs)}
	start := files.start()
	spans := phases(files, start)
	last := files.last(spans) - start
	for _, x := range panelsOver(files.Run) {
		p := figure.Panel{
			X: figure.Axis{Label: "Time since the servers were ready (s)", FromZero: true, Tight: true, High: &last},
			Y: figure.Axis{Label: x.label, FromZero: true}, Spans: spans,
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
	n.Figure.Height, n.Figure.Aspect = 1.9, 6.4/1.9
	name := strings.TrimSpace(cmp.Or(first.Case.Scenario, first.Case.Test) + " " + caseOf(first))
	n.Figure.Title = "Over time: " + name + kindOf(runs)
	n.Figure.Caption = timelineCaption(files.Run, runs)
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

func timelineCaption(r *runfiles.Run, runs []records.Run) []string {
	text := quantity.Count(len(runs), "run") + " of one job"
	if n := len(r.Phases); n > 0 {
		text += ", " + quantity.Count(n, "phase") + " of clients (shaded)"
	}
	list := []string{text + "."}
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

// phases are the ranges of clients. A phase that did not end lasts until the servers were stopped.
func phases(r timed, start float64) []figure.Span {
	var list []figure.Span
	for _, p := range r.Phases {
		end := p.End
		if end == 0 {
			end = max(r.Stopping, p.Begin)
		}
		list = append(list, figure.Span{Name: p.Name, From: p.Begin - start, To: end - start})
	}
	return list
}

// over is one panel.
type over struct {
	label  string
	high   float64 // that the axis shows at least; 0 for none
	series []figure.Series
}

// mostGPUs are drawn one by one; of more, the mean and the extremes are.
const mostGPUs = 8

func panelsOver(r *runfiles.Run) []over {
	var list []over
	add := func(label string, high float64, series []figure.Series) {
		if len(series) > 0 {
			list = append(list, over{label, high, series})
		}
	}
	requests := slices.Concat(tracks("running", r.Running, 1, 0), tracks("waiting", r.Waiting, 1, 1))
	add("Requests in the engines", 0, requests)
	add("KV cache in use (%)", 0, tracks("KV cache", r.Cache, 100, 3))
	add("Generated tokens/s", 0, tracks("tokens/s", r.Tokens, 1, 4))
	add("GPU use (%)", 100, gpuTracks(r.Use))
	add("GPU power (W)", 0, gpuTracks(r.Power))
	return list
}

// tracks are the curves of a number: one for each role, the name of which is told where there are
// several.
func tracks(name string, list []runfiles.Track, times float64, style int) []figure.Series {
	var out []figure.Series
	for i, t := range list {
		s := figure.Series{Name: name, Style: style, Line: true}
		if len(list) > 1 {
			s.Name, s.Style = name+" ("+t.Of+")", style+i*otherStyle
		}
		for _, x := range t.Samples {
			s.Points = append(s.Points, figure.Point{X: x.At, Y: x.Value * times})
		}
		s.Marks = len(s.Points) <= mostMarks
		out = append(out, s)
	}
	return out
}

// otherStyle is how far the styles of roles are apart: same colour wheel, other dashes.
const otherStyle = 6

// mostMarks are drawn on a line over time: more run into each other.
const mostMarks = 40

// gpuTracks are the curves of GPUs.
func gpuTracks(list []runfiles.Track) []figure.Series {
	if len(list) <= mostGPUs {
		var out []figure.Series
		for i, t := range list {
			s := tracks("", []runfiles.Track{t}, 1, i)[0]
			s.Name = t.Of
			out = append(out, s)
		}
		return out
	}
	return spreadOf(list)
}

// spreadOf are the least, the mean and the most of many GPUs, second by second.
func spreadOf(list []runfiles.Track) []figure.Series {
	bins := map[int64][]float64{}
	for _, t := range list {
		for _, x := range t.Samples {
			at := int64(math.Floor(x.At))
			bins[at] = append(bins[at], x.Value)
		}
	}
	var seconds []int64
	for at := range bins {
		seconds = append(seconds, at)
	}
	slices.Sort(seconds)
	names := []string{"least of the GPUs", "mean of the GPUs", "most of the GPUs"}
	styles := []int{figure.Grey, 0, figure.Grey}
	out := make([]figure.Series, len(names))
	for i, name := range names {
		out[i] = figure.Series{Name: fmt.Sprintf("%s (%d)", name, len(list)), Style: styles[i], Line: true}
	}
	for _, at := range seconds {
		mean, _ := moments(bins[at])
		for i, y := range []float64{slices.Min(bins[at]), mean, slices.Max(bins[at])} {
			out[i].Points = append(out[i].Points, figure.Point{X: float64(at), Y: y})
		}
	}
	return out
}

// shifted are the points from a moment on, counted from it: while servers start, nothing is measured.
func shifted(points []figure.Point, start float64) []figure.Point {
	out := slices.DeleteFunc(slices.Clone(points), func(p figure.Point) bool { return p.X < start })
	for i := range out {
		out[i].X -= start
	}
	return out
}
