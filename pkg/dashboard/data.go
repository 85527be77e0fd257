package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/profllm/profllm/pkg/explore"
	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/records"
)

func (d *Server) addData() {
	huma.Register(d.api, huma.Operation{
		OperationID: "experiments", Method: http.MethodGet, Path: "/api/data/experiments",
		Summary: "Runs that meet a filter, in pages",
	}, d.experiments)
	huma.Register(d.api, huma.Operation{
		OperationID: "experiment", Method: http.MethodGet, Path: "/api/data/experiments/{id}", Summary: "One run",
	}, d.experiment)
	huma.Register(d.api, huma.Operation{
		OperationID: "summary", Method: http.MethodGet, Path: "/api/data/summary",
		Summary: "Counts and statistics of the runs that meet a filter",
	}, d.summary)
	huma.Register(d.api, huma.Operation{
		OperationID: "compare", Method: http.MethodPost, Path: "/api/data/compare",
		Summary: "Two to ten runs, or two sets of runs, against each other", MaxBodyBytes: maxQuery,
	}, analysed(d, d.compare))
}

// Chosen are the runs that a request in a URL asks for. The type is exported because huma reads no others that are
// embedded.
type Chosen struct {
	Filter string `query:"filter" doc:"a filter, as JSON"`
}

func (c Chosen) filter() (*filter.Filter, error) {
	if c.Filter == "" {
		return nil, nil
	}
	f, err := filter.Parse([]byte(c.Filter))
	if err != nil {
		return nil, refused(err)
	}
	return f, nil
}

type experimentsInput struct {
	Chosen
	Sort   string   `query:"sort" doc:"a field; with - before it from its largest value" example:"-timestamp"`
	Fields []string `query:"fields" doc:"default: the columns that a page shows at first"`
	Offset int      `query:"offset" minimum:"0"`
	Limit  int      `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type experimentsAnswer struct {
	Body struct {
		Runs        int                      `json:"runs" doc:"in the store"`
		Matches     int                      `json:"matches" doc:"runs that meet the filter"`
		Experiments []map[string]field.Value `json:"experiments" doc:"run_id and the fields that were asked for"`
	}
}

func (d *Server) experiments(ctx context.Context, in *experimentsInput) (*experimentsAnswer, error) {
	f, err := in.filter()
	if err != nil {
		return nil, err
	}
	rows := &query.Rows{Fields: in.Fields, Offset: in.Offset, Limit: in.Limit}
	if len(rows.Fields) == 0 {
		rows.Fields = slices.Clone(query.First.Columns)
	}
	if in.Sort != "" {
		name, down := strings.CutPrefix(in.Sort, "-")
		rows.Sort = []query.Order{{Field: name, Descending: down}}
	}
	q := query.Query{Filter: f, Rows: rows}
	if err := checked(&q); err != nil {
		return nil, err
	}
	got, err := d.store.Query(ctx, q)
	if err != nil {
		return nil, d.failed(err)
	}
	a := &experimentsAnswer{}
	a.Body.Runs, a.Body.Matches = got.Runs, got.Matches
	a.Body.Experiments = make([]map[string]field.Value, len(got.Rows.IDs))
	for i, id := range got.Rows.IDs {
		one := map[string]field.Value{}
		for at, name := range got.Rows.Fields {
			one[name] = got.Rows.Columns[at][i]
		}
		one["run_id"] = field.OfText(id) // also where the field was asked for: two runs may have the same
		a.Body.Experiments[i] = one
	}
	return a, nil
}

type experimentInput struct {
	ID string `path:"id"`
}

type experimentAnswer struct {
	Body struct {
		ID       string                 `json:"id"`
		Case     records.Case           `json:"case"`
		Title    string                 `json:"title" doc:"the case in words"`
		Dir      string                 `json:"dir" doc:"folder of the run when it was stored"`
		Settings map[string]string      `json:"settings"`
		Values   map[string]field.Value `json:"values" doc:"all fields of the run"`
		Record   json.RawMessage        `json:"record" doc:"result.json"`
		Files    []runFile              `json:"files" doc:"of the run's folder, by name; none if this server does not have it"`
		More     bool                   `json:"more_files,omitempty" doc:"the folder has more files than these"`
	}
}

func (d *Server) experiment(ctx context.Context, in *experimentInput) (*experimentAnswer, error) {
	s, err := d.store.Get(ctx, in.ID)
	if err != nil {
		return nil, d.failed(err)
	}
	a := &experimentAnswer{}
	b := &a.Body
	b.ID, b.Case, b.Title, b.Dir = in.ID, s.Run.Case, s.Run.Case.Title(), s.Run.Dir
	b.Settings, b.Record, b.Values, b.Files = s.Settings, s.Record, map[string]field.Value{}, []runFile{}
	for _, c := range field.Of(&s.Run) {
		b.Values[c.Field.Name] = c.Value
	}
	if dir, err := d.folderOf(&s.Run); err == nil {
		b.Files, b.More = filesBelow(dir)
	}
	return a, nil
}

type summaryAnswer struct {
	Body struct {
		Runs      int           `json:"runs" doc:"in the store"`
		Matches   int           `json:"matches"`
		First     *time.Time    `json:"first,omitempty" doc:"start of the oldest run that meets the filter"`
		Last      *time.Time    `json:"last,omitempty"`
		ByStatus  []query.Count `json:"by_status"`
		ByVerdict []query.Count `json:"by_verdict"`
		ByKind    []query.Count `json:"by_kind"`
		Metrics   []query.Stats `json:"metrics"`
		GPUHours  float64       `json:"gpu_hours" doc:"of all runs that meet the filter and have a number of it"`
	}
}

func (d *Server) summary(ctx context.Context, in *struct{ Chosen }) (*summaryAnswer, error) {
	f, err := in.filter()
	if err != nil {
		return nil, err
	}
	counted := []string{"status", "verdict", "kind"}
	got, err := d.store.Query(ctx, query.Query{
		Filter: f, Within: true, Facets: counted, Metrics: append([]string{"timestamp", "gpu_hours"}, query.First.Metrics...),
	})
	if err != nil {
		return nil, d.failed(err)
	}
	a := &summaryAnswer{}
	b := &a.Body
	b.Runs, b.Matches, b.Metrics = got.Runs, got.Matches, got.Metrics[2:]
	b.ByStatus, b.ByVerdict, b.ByKind = got.Facets[0].Values, got.Facets[1].Values, got.Facets[2].Values
	if h := got.Metrics[1]; h.Mean != nil {
		b.GPUHours = *h.Mean * float64(h.Runs)
	}
	if t := got.Metrics[0]; t.Runs > 0 {
		b.First, b.Last = new(time.UnixMilli(int64(*t.Min)).UTC()), new(time.UnixMilli(int64(*t.Max)).UTC())
	}
	return a, nil
}

// most is the greatest number of runs that an analysis reads.
const most = 5000

// these gives the runs that meet a filter, oldest first; too many are refused.
func (d *Server) these(ctx context.Context, f *filter.Filter) ([]explore.Run, error) {
	q := query.Query{Filter: f, Rows: &query.Rows{Sort: []query.Order{{Field: "timestamp"}}, Limit: most}}
	if err := checked(&q); err != nil {
		return nil, err
	}
	got, err := d.store.Query(ctx, q)
	if err != nil {
		return nil, d.failed(err)
	}
	if got.Matches > most {
		return nil, huma.Error422UnprocessableEntity(
			fmt.Sprintf("the filter chooses %d runs, and at most %d are analysed at once: narrow it", got.Matches, most))
	}
	list, err := d.store.Several(ctx, got.Rows.IDs)
	if err != nil {
		return nil, d.failed(err)
	}
	runs := make([]explore.Run, len(list))
	for i := range list {
		runs[i] = explore.Run{ID: got.Rows.IDs[i], Run: list[i]}
	}
	return runs, nil
}

// plain are the runs without their ids.
func plain(runs []explore.Run) []records.Run {
	list := make([]records.Run, len(runs))
	for i := range runs {
		list[i] = runs[i].Run
	}
	return list
}
