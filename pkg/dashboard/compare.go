package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
)

type compareInput struct {
	Body struct {
		Runs    []string       `json:"runs,omitempty" maxItems:"10" doc:"ids of two to ten runs"`
		First   *filter.Filter `json:"a,omitempty" doc:"the baseline: the runs that meet this filter"`
		Second  *filter.Filter `json:"b,omitempty" doc:"the runs that are compared with it"`
		Names   []string       `json:"names,omitempty" minItems:"2" maxItems:"2" doc:"of a and b, as the answer writes them"`
		Metrics []string       `json:"metrics,omitempty" doc:"default: throughput, TTFT, TPOT and accuracy"`
	}
}

type compareAnswer struct {
	Body struct {
		Said   []format.Paragraph `json:"said" doc:"what can be said, in words, the verdict first"`
		IDs    map[string]string  `json:"ids" doc:"ids in the store by the folders that the report names"`
		Report *report.Report     `json:"report" doc:"as the commands compare and report print it with --output json"`
		Diff   *report.Delta      `json:"diff,omitempty" doc:"of two runs: everything in which they differ, as the command diff prints it"`
	}
}

// compare judges one set of runs against another as profllm compare does, and puts single runs beside each
// other as profllm report does.
func (d *Server) compare(ctx context.Context, in *compareInput) (*compareAnswer, error) {
	b := in.Body
	metrics, err := metricsOf(b.Metrics)
	switch {
	case err != nil:
		return nil, refused(err)
	case b.First != nil && b.Second != nil:
		return d.compareSets(ctx, in, metrics)
	case len(b.Runs) < 2:
		return nil, huma.Error422UnprocessableEntity("name two to ten runs, or filters a and b")
	}
	runs, err := d.store.Several(ctx, b.Runs)
	if err != nil {
		return nil, d.failed(err)
	}
	a := &compareAnswer{}
	a.Body.Report = report.Build(runs, report.Options{})
	if len(runs) == 2 {
		if a.Body.Diff, err = report.Diff(&runs[0], &runs[1]); err != nil {
			return nil, refused(err)
		}
		if pair, err := report.Pair(runs[:1], runs[1:], metrics); err == nil {
			a.Body.Report = pair
		}
	}
	a.Body.Said, a.Body.IDs = format.Paragraphs(a.Body.Report), idsByDir(a.Body.Report, b.Runs, runs)
	return a, nil
}

// idsByDir are the ids of the runs of a report by their folders, where no other run has the same. The run_id
// of a record is no id: two runs may have the same.
func idsByDir(r *report.Report, ids []string, runs []records.Run) map[string]string {
	named, of := map[string]string{}, map[string]string{}
	for i := range runs {
		if other, has := of[runs[i].Dir]; has && other != ids[i] {
			of[runs[i].Dir] = ""
			continue
		}
		of[runs[i].Dir] = ids[i]
	}
	add := func(dir string) {
		if id := of[dir]; dir != "" && id != "" {
			named[dir] = id
		}
	}
	for i := range r.Runs {
		add(r.Runs[i].Dir)
	}
	for _, c := range r.Comparisons {
		for _, column := range c.Columns {
			add(column.Dir)
		}
	}
	return named
}

func (d *Server) compareSets(ctx context.Context, in *compareInput, metrics []metric.Metric) (*compareAnswer, error) {
	var sides [2][]records.Run
	var ids []string
	for i, f := range []*filter.Filter{in.Body.First, in.Body.Second} {
		runs, err := d.these(ctx, f)
		if err != nil {
			return nil, err
		}
		if sides[i] = plain(runs); len(runs) == 0 {
			return nil, huma.Error422UnprocessableEntity("no run meets filter " + string("ab"[i]))
		}
		for _, run := range runs {
			ids = append(ids, run.ID)
		}
	}
	names := namesOf(in.Body.Names)
	r, err := report.PairNamed(sides[0], sides[1], metrics, names)
	if err != nil && !errors.Is(err, report.ErrNoPair) {
		return nil, refused(err)
	}
	a := &compareAnswer{}
	a.Body.Report, a.Body.Said, a.Body.IDs = r, format.Paragraphs(r), idsByDir(r, ids, slices.Concat(sides[:]...))
	if err != nil {
		a.Body.Said = append([]format.Paragraph{{Heading: noPair(names), Lines: r.Notes}}, a.Body.Said...)
	}
	return a, nil
}

// namesOf are the names of two sets, of at most 100 characters each: they are written into every sentence.
func namesOf(list []string) report.Names {
	var short [2]string
	for i, name := range list[:min(len(list), 2)] {
		name = printable.Line(name)
		if r := []rune(name); len(r) > mostName {
			name = string(r[:mostName]) + "…"
		}
		short[i] = name
	}
	return report.Names{First: short[0], Second: short[1]}
}

const mostName = 100

// noPair says of two sets what ErrNoPair says.
func noPair(n report.Names) string {
	if n.First == "" || n.Second == "" {
		return report.ErrNoPair.Error()
	}
	return "no run of " + n.First + " has a partner in " + n.Second
}

func metricsOf(names []string) ([]metric.Metric, error) {
	if len(names) > mostNamed {
		return nil, fmt.Errorf("%d metrics are more than %d", len(names), mostNamed)
	}
	var list []metric.Metric
	for _, name := range names {
		m, err := metric.Find(name)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}
