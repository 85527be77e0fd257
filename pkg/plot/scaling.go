package plot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/figure"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/pareto"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
)

// ScalingOptions say what is compared.
type ScalingOptions struct {
	VarY string // a metric of which more is better
	GPUs string // column that counts GPUs; "" for the usual
}

// spread are the settings that say over how many GPUs and nodes an engine is spread, by their last
// part. They may differ on one curve; everything else may not.
var spread = []string{
	"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "data_parallel_size_local",
	"tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size",
	"tp", "pp", "dp", "tp_size", "pp_size", "dp_size",
	"NUM_NODES", "num_nodes", "nodes", "gpus_per_node", "gpu_ids", "replicas", "num_replicas",
}

// step is one configuration of a curve: its valid runs, or its suspect ones.
type step struct {
	*config
	gpus     float64
	mean, sd float64
}

// Scaling draws the speed-up over the smallest configuration, and how much of it each GPU keeps.
// Runs that must not be compared are refused.
func Scaling(t *Table, o ScalingOptions) (Named, error) {
	o.VarY = cmp.Or(o.VarY, pareto.Throughput)
	if err := o.check(t); err != nil {
		return Named{}, err
	}
	curves, order, err := t.steps(o)
	if err != nil {
		return Named{}, err
	}
	if len(order) == 0 && len(t.Rows) > 0 && !slices.ContainsFunc(t.Rows, func(r *Row) bool { return !r.Hollow }) {
		return Named{}, fmt.Errorf("every run is suspect, and a speed-up is over a valid run\n\thint: " +
			"profllm report says why they are suspect")
	}
	if len(order) == 0 {
		return Named{}, fmt.Errorf("no test ran on different numbers of GPUs with otherwise equal settings" +
			"\n\thint: sweep tensor_parallel_size, or name two folders of one test")
	}
	n := Named{Name: "SCALING", Series: len(order)}
	up := figure.Panel{
		X: figure.Axis{Label: "GPUs", FromZero: true},
		Y: figure.Axis{Label: "Speed-up of " + lower(nameOf(o.VarY)) + " over the smallest", FromZero: true},
	}
	kept := figure.Panel{X: figure.Axis{Label: "GPUs", FromZero: true},
		Y: figure.Axis{Label: "Efficiency per GPU (% of the smallest)", FromZero: true}}
	var used []*Row
	most, notes := 1.0, []string(nil)
	for i, name := range order {
		list := curves[name]
		speed, efficiency, rows, also := scale(list, curveName(name, len(order)), i)
		up.Series, kept.Series = append(up.Series, speed...), append(kept.Series, efficiency...)
		used, notes = append(used, rows...), append(notes, also...)
		for _, s := range list {
			most = max(most, s.gpus)
		}
	}
	fair := ideal(curves, order, func(gpus, base float64) float64 { return gpus / base })
	all100 := ideal(curves, order, func(_, _ float64) float64 { return 100 })
	up.Series = append([]figure.Series{fair}, up.Series...)
	kept.Series = append([]figure.Series{all100}, kept.Series...)
	n.Runs = len(used)
	n.Figure = figure.Figure{Title: title("Scaling over GPUs", used), Height: 3, Aspect: 6.4 / 3.0, SharedX: true,
		Panels: [][]figure.Panel{{up}, {kept}}}
	var all []*config
	for _, name := range order {
		for _, s := range curves[name] {
			all = append(all, s.config)
		}
	}
	said := []string{repeats(all), "Lines join the best configuration of each number of GPUs."}
	n.Figure.Caption = slices.Concat(said,
		t.remarks(used), notes, without(t.Rows, o.VarY))
	return n, nil
}

// check refuses columns that the runs do not have, and those that have no speed-up.
func (o ScalingOptions) check(t *Table) error {
	if m, err := metric.Find(o.VarY); err == nil && m.Better == metric.Lower {
		return fmt.Errorf("--var-y %s: less of it is better, so that there is no speed-up\n\thint: "+
			"a throughput, such as request_throughput", o.VarY)
	}
	if err := t.need("--var-y", o.VarY); err != nil {
		return err
	}
	if o.GPUs == "" {
		return nil
	}
	return t.need("--gpu-count-var", o.GPUs)
}

// ideal is the line that no curve is expected to exceed.
func ideal(curves map[string][]step, order []string, of func(gpus, base float64) float64) figure.Series {
	s := figure.Series{Name: "ideal", Style: figure.Grey, Line: true, Dashed: true}
	least, most := baseOf(curves[order[0]]).gpus, 0.0
	for _, name := range order {
		list := curves[name]
		least, most = min(least, baseOf(list).gpus), max(most, list[len(list)-1].gpus)
	}
	s.Points = []figure.Point{{X: least, Y: of(least, least)}, {X: most, Y: of(most, least)}}
	return s
}

// baseOf is the best of the smallest valid configuration of a curve.
func baseOf(list []step) step {
	return list[slices.IndexFunc(list, func(s step) bool { return !s.hollow() })]
}

// byTrust parts the valid and the suspect runs of a configuration, so that neither is in the mean of
// the other.
func (c *config) byTrust() (parts []*config) {
	for _, hollow := range []bool{false, true} {
		own := *c
		own.rows = slices.DeleteFunc(slices.Clone(c.rows), func(r *Row) bool { return r.Hollow != hollow })
		if len(own.rows) > 0 {
			parts = append(parts, &own)
		}
	}
	return parts
}

// steps are the curves that have at least two numbers of GPUs and a valid run, each by its number of
// GPUs.
func (t *Table) steps(o ScalingOptions) (curves map[string][]step, order []string, err error) {
	curves = map[string][]step{}
	list := configs(t.Rows)
	t.rest(list)
	names, of := byCurve(list)
	for _, name := range names {
		var steps []step
		var parts []*config
		for _, c := range of[name] {
			parts = append(parts, c.byTrust()...)
		}
		for _, c := range parts {
			mean, sd, ok := c.mean(o.VarY)
			gpus, err := c.first().gpus(o.GPUs)
			if err != nil {
				return nil, nil, err
			}
			if ok && gpus > 0 && mean > 0 {
				steps = append(steps, step{c, gpus, mean, sd})
			}
		}
		slices.SortStableFunc(steps, func(a, b step) int {
			return cmp.Or(cmp.Compare(a.gpus, b.gpus), cmp.Compare(b.mean, a.mean))
		})
		valid := slices.ContainsFunc(steps, func(s step) bool { return !s.hollow() })
		if !valid || steps[0].gpus == steps[len(steps)-1].gpus {
			continue
		}
		if err := refused(steps); err != nil {
			return nil, nil, err
		}
		curves[name], order = steps, append(order, name)
	}
	return curves, order, nil
}

// sizes are the settings that multiply to the GPUs of one engine, by their last part.
var sizes = []string{
	"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
	"tp", "pp", "dp", "tp_size", "pp_size", "dp_size", "replicas",
}

// gpus is over how many GPUs the engine of a row is spread: the named column, or the product of the
// sizes that were asked for. A server with fewer GPUs than it was given leaves the others idle, so that
// they are not counted here. With sizes for several roles, or without any, it is what the record says.
func (r *Row) gpus(named string) (float64, error) {
	if named != "" || r.Run == nil {
		return pareto.GPUs(r.lookup, named)
	}
	product, tables := 1.0, map[string]bool{}
	for k, v := range r.Run.Settings {
		last := strings.ReplaceAll(bare(k), "-", "_")
		if n := textual(v).Number; n != nil && *n > 0 && slices.Contains(sizes, last) {
			product *= *n
			tables[strings.TrimSuffix(k, bare(k))] = true
		}
	}
	if given := r.Number("gpus"); len(tables) != 1 && given != nil {
		return *given, nil
	}
	return product, nil
}

// rest names curves by all that varies but the spread over GPUs, and points by that spread.
func (t *Table) rest(list []*config) {
	tests := distinct(rowsOf(list), (*Row).testOf)
	kinds := distinct(rowsOf(list), func(r *Row) string { return string(r.Kind) })
	for _, test := range tests {
		part := slices.DeleteFunc(slices.Clone(list), func(c *config) bool { return c.first().testOf() != test })
		keys := varying(part)
		for _, c := range part {
			asked := c.first().asked()
			var curve, label []string
			for _, k := range keys {
				v, ok := asked[k]
				switch {
				case slices.Contains(spread, bare(k)) && ok:
					label = append(label, bare(k)+"="+v)
				case slices.Contains(spread, bare(k)) || slices.Contains(follows, bare(k)):
				case ok:
					curve = append(curve, bare(k)+"="+v)
				}
			}
			if len(tests) > 1 {
				curve = append([]string{c.first().testIn(tests)}, curve...)
			}
			c.curve, c.label = strings.Join(curve, " "), strings.Join(label, " ")
			if len(kinds) > 1 {
				c.curve += c.first().Kind.Suffix()
			}
		}
	}
}

// refused says which configurations of a curve must not be compared with its smallest.
func refused(steps []step) error {
	smallest := baseOf(steps)
	base := runsOf(smallest)
	for _, s := range steps {
		runs := runsOf(s)
		if len(base) == 0 || len(runs) == 0 {
			continue // of one sweep of vLLM: asked by one command
		}
		if list, _ := report.Differences(base, runs); len(list) > 0 {
			var words []string
			for _, u := range list {
				words = append(words, u.String())
			}
			return fmt.Errorf("%s and %s must not be compared: %s\n\thint: choose runs that differ in their number of "+
				"GPUs only, with --filter-by or other paths",
				smallest.first().Title, s.first().Title, strings.Join(words, "; "))
		}
	}
	return nil
}

func runsOf(s step) []*records.Run {
	var list []*records.Run
	for _, r := range s.rows {
		if r.Run != nil {
			list = append(list, r.Run)
		}
	}
	return list
}

// scale draws one curve: the best valid configuration of each number of GPUs on the line, the others
// beside it.
func scale(list []step, name string, style int) (speed, efficiency []figure.Series, used []*Row, notes []string) {
	base := baseOf(list)
	line := [2]figure.Series{}
	rest := [2]figure.Series{}
	for i := range line {
		line[i] = figure.Series{Name: name, Style: style, Line: true, Marks: true}
		rest[i] = figure.Series{Style: style, Marks: true}
	}
	also, at := map[string]bool{}, map[float64]int{}
	for _, s := range list {
		at[s.gpus]++
	}
	last := 0.0
	for _, s := range list {
		used = append(used, s.rows...)
		up, share := s.mean/base.mean, base.gpus/s.gpus*100
		label := ""
		if at[s.gpus] > 1 { // else the axis says it
			label = s.label
		}
		points := [2]figure.Point{
			{X: s.gpus, Y: up, YErr: s.sd / base.mean, Label: label, Hollow: s.hollow()},
			{X: s.gpus, Y: up * share, YErr: s.sd / base.mean * share, Label: label, Hollow: s.hollow()},
		}
		for i, p := range points {
			if s.gpus != last && !s.hollow() {
				line[i].Points = append(line[i].Points, p)
			} else {
				rest[i].Points = append(rest[i].Points, p)
			}
		}
		if !s.hollow() {
			last = s.gpus
		}
		if runs := runsOf(s); len(runs) > 0 && s.config != base.config {
			_, differs := report.Differences(runsOf(base), runs)
			for _, u := range differs {
				if !u.OfNodes() && !slices.Contains(spread, bare(u.Field)) {
					also[u.String()] = true
				}
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(also)) {
		notes = append(notes, "Differs besides the number of GPUs: "+text+".")
	}
	return []figure.Series{line[0], rest[0]}, []figure.Series{line[1], rest[1]}, used, notes
}
