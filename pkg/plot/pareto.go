package plot

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/figure"
	"github.com/profllm/profllm/pkg/pareto"
	"github.com/profllm/profllm/pkg/quantity"
)

// ParetoOptions are those of vllm bench sweep plot_pareto.
type ParetoOptions struct {
	pareto.Options
	LabelBy []string
	Mean    bool // the frontier is that of the means of repeats, not of single runs
}

// The columns that Pareto adds, by vLLM's names.
const (
	perUser   = "tokens_per_user"
	perGPU    = "tokens_per_gpu"
	userCount = "user_count_estimate"
	gpuCount  = "gpu_count"
)

// paretoPoint is a run, or the mean of the runs of a configuration.
type paretoPoint struct {
	pareto.Point
	row *Row
	n   int
	sd  pareto.Point // of PerUser and PerGPU
}

// Pareto draws tokens per second and user against tokens per second and GPU.
func Pareto(t *Table, o ParetoOptions) (Named, error) {
	points, skipped, err := t.pareto(o.Options)
	if err != nil {
		return Named{}, err
	}
	if len(points) == 0 {
		return Named{}, fmt.Errorf("no run has both an output throughput and a number of users\n\thint: "+
			"--user-count-var names the column that counts users\n\tcolumns: %s", strings.Join(t.short(), ", "))
	}
	if err := t.need("--label-by", o.LabelBy...); err != nil {
		return Named{}, err
	}
	n := Named{Name: "PARETO", Runs: len(points)}
	rows := make([]*Row, len(points))
	for i, p := range points {
		rows[i] = p.row
	}
	panel := figure.Panel{
		X: figure.Axis{Label: "Output tokens/s per user", FromZero: true},
		Y: figure.Axis{Label: "Output tokens/s per GPU", FromZero: true},
	}
	kinds := distinct(rows, func(r *Row) string { return string(r.Kind) })
	n.Series = len(kinds)
	repeated := false
	for i, k := range kinds { // simulated and measured runs have frontiers of their own
		list := slices.DeleteFunc(slices.Clone(points), func(p paretoPoint) bool { return string(p.row.Kind) != k })
		suffix := ""
		if len(kinds) > 1 {
			suffix = list[0].row.Kind.Suffix()
		}
		valid := slices.DeleteFunc(slices.Clone(list), func(p paretoPoint) bool { return p.row.Hollow })
		means := meansOf(valid)
		repeated = repeated || len(means) < len(valid)
		from := valid
		if o.Mean {
			from = means
		}
		panel.Series = append(panel.Series, everyRun(list, suffix), spreads(means))
		if front := frontier(from, o, i, suffix); len(front.Points) > 0 {
			panel.Series = append(panel.Series, front)
		}
	}
	n.Figure = figure.Figure{Title: title("Pareto frontier", rows), Panels: [][]figure.Panel{{panel}}}
	n.Figure.Caption = t.paretoCaption(rows, skipped, repeated, o)
	return n, nil
}

func (t *Table) paretoCaption(rows []*Row, skipped int, repeated bool, o ParetoOptions) []string {
	of := "runs"
	if o.Mean {
		of = "means of repeats"
	}
	if slices.ContainsFunc(rows, func(r *Row) bool { return r.Hollow }) {
		of = map[bool]string{false: "valid runs", true: "means of valid repeats"}[o.Mean]
	}
	text := fmt.Sprintf("%s. Frontier: the %s that no other beats in both.", quantity.Count(len(rows), "run"), of)
	if repeated {
		text += " Crosses: mean of a configuration's repeats ± 1 standard deviation."
	}
	list := []string{text}
	if len(o.LabelBy) > 0 {
		list = append(list, "Labels: "+strings.Join(o.LabelBy, ", ")+".")
	}
	list = append(list, t.remarks(rows)...)
	if skipped > 0 {
		list = append(list, fmt.Sprintf("Without a number of users: %s.", quantity.Count(skipped, "run")))
	}
	return append(list, without(t.Rows, pareto.Throughput)...)
}

// pareto is where each run stands. It adds vLLM's columns to the rows.
func (t *Table) pareto(o pareto.Options) (points []paretoPoint, skipped int, err error) {
	if o.Users != "" && o.Users != "max_concurrency" {
		if err := t.need("--user-count-var", o.Users); err != nil {
			return nil, 0, err
		}
	}
	if o.GPUs != "" {
		if err := t.need("--gpu-count-var", o.GPUs); err != nil {
			return nil, 0, err
		}
	}
	for _, r := range t.Rows {
		if r.Run != nil && r.Number(pareto.Throughput) == nil {
			continue // the caption counts it
		}
		own := o
		if r.Run != nil && own.GPUs == "" {
			own.GPUs = "gpus" // a record says how many served; replicas and roles are no sizes of parallelism
		}
		p, ok, err := pareto.Of(r.lookup, own)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", cmp.Or(r.Title, "a run"), err)
		}
		if !ok {
			skipped++
			continue
		}
		points = append(points, paretoPoint{Point: p, row: r, n: 1})
		for k, v := range map[string]float64{
			perUser: p.PerUser, perGPU: p.PerGPU, userCount: p.Users, gpuCount: p.GPUs,
		} {
			r.Values[k], t.columns[k] = Value{Number: &v, Text: shortest(v)}, true
		}
	}
	return points, skipped, nil
}

// lookup is a row as package pareto reads it: a text that reads as a number is one, as in Python.
func (r *Row) lookup(key string) (*float64, bool, error) {
	v, ok := r.Values[key]
	if !ok || v.Number != nil || v.Text == "None" {
		return v.Number, ok, nil
	}
	x, err := strconv.ParseFloat(strings.TrimSpace(v.Text), 64)
	if err != nil {
		return nil, true, fmt.Errorf("%s is %q and not a number", key, v.Text)
	}
	return &x, true, nil
}

// meansOf are the means of the runs of each configuration.
func meansOf(points []paretoPoint) []paretoPoint {
	var order []string
	by := map[string][]paretoPoint{}
	for _, p := range points {
		if by[p.row.same] == nil {
			order = append(order, p.row.same)
		}
		by[p.row.same] = append(by[p.row.same], p)
	}
	var list []paretoPoint
	for _, k := range order {
		m := by[k][0]
		var xs, ys []float64
		for _, p := range by[k] {
			xs, ys = append(xs, p.PerUser), append(ys, p.PerGPU)
		}
		m.n = len(xs)
		m.PerUser, m.sd.PerUser = moments(xs)
		m.PerGPU, m.sd.PerGPU = moments(ys)
		list = append(list, m)
	}
	return list
}

// everyRun has the points of all runs, those of suspect runs hollow.
func everyRun(points []paretoPoint, suffix string) figure.Series {
	all := figure.Series{Name: "all runs" + suffix, Style: figure.Grey, Marks: true}
	for _, p := range points {
		all.Points = append(all.Points, figure.Point{X: p.PerUser, Y: p.PerGPU, Hollow: p.row.Hollow})
	}
	return all
}

// spreads are the means of repeats with their deviations.
func spreads(means []paretoPoint) figure.Series {
	s := figure.Series{Style: figure.Grey}
	for _, p := range means {
		if p.n > 1 {
			s.Points = append(s.Points,
				figure.Point{X: p.PerUser, Y: p.PerGPU, XErr: p.sd.PerUser, YErr: p.sd.PerGPU})
		}
	}
	return s
}

// frontier is the frontier of valid points with its labels. A suspect run is not on it and keeps no
// valid run from it.
func frontier(from []paretoPoint, o ParetoOptions, style int, suffix string) figure.Series {
	front := figure.Series{Name: "frontier" + suffix, Style: style, Line: true, Marks: true}
	where := make([]pareto.Point, len(from))
	for i, p := range from {
		where[i] = p.Point
	}
	for _, i := range pareto.Frontier(where) {
		p := from[i]
		var words []string
		for _, k := range o.LabelBy {
			if v, ok := p.row.Values[k]; ok {
				words = append(words, v.Text)
			}
		}
		front.Points = append(front.Points, figure.Point{X: p.PerUser, Y: p.PerGPU, Label: strings.Join(words, ", ")})
	}
	return front
}
