package dashboard

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/profllm/profllm/pkg/explore"
	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/result"
)

func (d *Server) addAnalysis() {
	op := func(id, summary string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: http.MethodPost, Path: "/api/analysis/" + id, Summary: summary, MaxBodyBytes: maxQuery,
		}
	}
	huma.Register(d.api, op("trends", "Series of runs over time, with the changes that are more than noise"), analysed(d, d.trends))
	huma.Register(d.api, op("regression", "The series whose last change is for the worse"), analysed(d, d.regression))
	huma.Register(d.api, op("pareto", "The runs that no other run beats in both of two metrics"), d.pareto)
}

type trendsInput struct {
	Body struct {
		Filter  *filter.Filter `json:"filter,omitempty"`
		Metrics []string       `json:"metrics,omitempty" doc:"default: throughput, TTFT, TPOT and accuracy"`
		By      []string       `json:"by,omitempty" doc:"settings whose equal values make runs of a test a series; default: the whole configuration"`
	}
}

type trendsAnswer struct {
	Body struct {
		Said   []format.Paragraph `json:"said"`
		Report *report.Report     `json:"report" doc:"as profllm trend prints it with --output json, without its list of runs"`
		Starts [][]seriesStart    `json:"starts" doc:"the points of each trend, oldest first"`
	}
}

// seriesStart is what a point of a series is of.
type seriesStart struct {
	ID   string  `json:"id"`
	Time float64 `json:"time" doc:"Unix milliseconds"`
}

func (d *Server) trends(ctx context.Context, in *trendsInput) (*trendsAnswer, error) {
	r, ids, err := d.traced(ctx, in)
	if err != nil {
		return nil, err
	}
	return answerOf(r, ids), nil
}

// regression gives the series that got worse.
func (d *Server) regression(ctx context.Context, in *trendsInput) (*trendsAnswer, error) {
	r, ids, err := d.traced(ctx, in)
	if err != nil {
		return nil, err
	}
	worse := *r
	worse.Trends = nil
	for _, t := range r.Trends {
		if t.Verdict == report.Regressed {
			worse.Trends = append(worse.Trends, t)
		}
	}
	return answerOf(&worse, ids), nil
}

func answerOf(r *report.Report, ids map[*records.Run]string) *trendsAnswer {
	a := &trendsAnswer{}
	a.Body.Said = format.Paragraphs(r)
	short := *r
	short.Runs = nil
	a.Body.Report = &short
	for _, t := range r.Trends {
		var starts []seriesStart
		for _, s := range t.ByStart {
			first := s.Runs[0]
			starts = append(starts, seriesStart{ids[first], float64(first.Began().UnixMilli())})
		}
		a.Body.Starts = append(a.Body.Starts, starts)
	}
	return a
}

// traced judges series as profllm trend does, and gives the runs' ids.
func (d *Server) traced(ctx context.Context, in *trendsInput) (*report.Report, map[*records.Run]string, error) {
	metrics, err := metricsOf(in.Body.Metrics)
	if err != nil {
		return nil, nil, refused(err)
	}
	stored, err := d.these(ctx, in.Body.Filter)
	if err != nil {
		return nil, nil, err
	}
	runs, ids := plain(stored), map[*records.Run]string{}
	for i := range runs {
		ids[&runs[i]] = stored[i].ID
	}
	if err := records.UnknownKeys(runs, in.Body.By); err != nil {
		return nil, nil, refused(err)
	}
	r, err := report.Trace(runs, metrics, in.Body.By)
	return r, ids, d.failed(err)
}

type paretoInput struct {
	Body struct {
		Filter *filter.Filter `json:"filter,omitempty"`
		X      string         `json:"x"`
		Y      string         `json:"y"`
	}
}

type paretoAnswer struct {
	Body struct {
		IDs  []string `json:"ids" doc:"the best x last"`
		Kind string   `json:"kind" doc:"of the runs: measured if any are, or else simulated or profiled"`
	}
}

// pareto finds the frontier among the valid runs of one kind: what is suspect, or was not measured, must
// not stand above what was.
func (d *Server) pareto(ctx context.Context, in *paretoInput) (*paretoAnswer, error) {
	var fields []*field.Field
	for _, name := range []string{in.Body.X, in.Body.Y} {
		f, err := field.Find(name)
		if err != nil {
			return nil, refused(err)
		}
		fields = append(fields, f)
	}
	f := &filter.Filter{And: []filter.Filter{{Condition: filter.Condition{
		Field: "verdict", In: []field.Value{field.OfText(string(result.VerdictValid))},
	}}}}
	if in.Body.Filter != nil {
		f.And = append(f.And, *in.Body.Filter)
	}
	best := explore.NewFrontier[runAt](fields[0], fields[1])
	names := []string{fields[0].Name, fields[1].Name, "kind", "timestamp"}
	err := d.store.Each(ctx, f, names, func(id []byte, v []field.Value) {
		best.Add(v[2].Text, v[0], v[1], func() runAt { return runAt{string(id), v[3].Number} })
	})
	if err != nil {
		return nil, d.failed(err)
	}
	a := &paretoAnswer{}
	a.Body.IDs = []string{}
	runs, kind := best.Runs(newestFirst)
	a.Body.Kind = kind
	for _, r := range runs {
		a.Body.IDs = append(a.Body.IDs, r.id)
	}
	return a, nil
}

// runAt is a run and when it began.
type runAt struct {
	id   string
	time float64
}

func newestFirst(a, b runAt) int { return cmp.Or(cmp.Compare(b.time, a.time), cmp.Compare(a.id, b.id)) }

// errChanged is the error of an answer of several parts that do not belong together.
var errChanged = errors.New("runs were stored or removed meanwhile: ask again")

// pages gives the rows of all runs that meet a filter, a part at a time. They are those of one moment, or
// end with an error.
func (d *Server) pages(ctx context.Context, f *filter.Filter, rows *query.Rows) iter.Seq2[*query.Table, error] {
	return func(yield func(*query.Table, error) bool) {
		q := query.Query{Filter: f, Rows: rows}
		rows.Limit = rowsOf(len(rows.Fields))
		if err := q.Check(); err != nil {
			yield(nil, refused(err))
			return
		}
		before, err := d.store.changes(ctx)
		if err != nil {
			yield(nil, d.failed(err))
			return
		}
		for ; ; rows.Offset += rows.Limit {
			got, err := d.store.Query(ctx, q)
			if err == nil && rows.Offset > 0 {
				var now int64
				if now, err = d.store.changes(ctx); err == nil && now != before {
					err = errChanged
				}
			}
			if err != nil {
				yield(nil, d.failed(err))
				return
			}
			if !yield(got.Rows, nil) || rows.Offset+rows.Limit >= got.Matches {
				return
			}
		}
	}
}
