package dashboard

import (
	"context"
	"encoding/csv"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/query"
)

func (d *Server) addExport() {
	huma.Register(d.api, huma.Operation{
		OperationID: "export-csv", Method: http.MethodPost, Path: "/api/export/csv",
		Summary: "The runs that meet a filter as CSV, one line for each", MaxBodyBytes: maxQuery,
	}, d.csv)
}

type csvInput struct {
	Body struct {
		Filter *filter.Filter `json:"filter,omitempty"`
		Fields []string       `json:"fields,omitempty" doc:"default: all that any run has"`
		Sort   []query.Order  `json:"sort,omitempty"`
	}
}

// csv writes the first part before the second is read.
func (d *Server) csv(ctx context.Context, in *csvInput) (*huma.StreamResponse, error) {
	rows := &query.Rows{Fields: in.Body.Fields, Sort: in.Body.Sort}
	fields, err := d.columns(ctx, rows)
	if err != nil {
		return nil, err
	}
	q := query.Query{Filter: in.Body.Filter, Rows: rows}
	if err := q.Check(); err != nil {
		return nil, refused(err)
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", "text/csv; charset=utf-8")
		hctx.SetHeader("Content-Disposition", `attachment; filename="profllm.csv"`)
		w := csv.NewWriter(hctx.BodyWriter())
		head := []string{"run_id"}
		for _, f := range fields {
			head = append(head, f.Name)
		}
		err := w.Write(head)
		for t, pageErr := range d.pages(ctx, in.Body.Filter, rows) {
			if pageErr != nil || err != nil {
				// The status is sent: only a broken body says that the rest is missing.
				panic(http.ErrAbortHandler)
			}
			err = writeRows(w, fields, t)
		}
		if w.Flush(); w.Error() != nil || err != nil {
			panic(http.ErrAbortHandler)
		}
	}}, nil
}

// columns are the fields of the rows, all that any run has if none are named.
func (d *Server) columns(ctx context.Context, rows *query.Rows) ([]*field.Field, error) {
	if len(rows.Fields) == 0 {
		all, err := d.store.Fields(ctx)
		if err != nil {
			return nil, failed(err)
		}
		for _, f := range all {
			if f.Name != "run_id" {
				rows.Fields = append(rows.Fields, f.Name)
			}
		}
	}
	fields := make([]*field.Field, len(rows.Fields))
	for i, name := range rows.Fields {
		f, err := field.Find(name)
		if err != nil {
			return nil, refused(err)
		}
		fields[i] = f
	}
	return fields, nil
}

func writeRows(w *csv.Writer, fields []*field.Field, t *query.Table) error {
	line := make([]string, len(fields)+1)
	for i, id := range t.IDs {
		line[0] = neutral(id)
		for at, f := range fields {
			line[at+1] = cell(f, t.Columns[at][i])
		}
		if err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// cell is a value in a CSV file: numbers with all their digits, times as RFC 3339.
func cell(f *field.Field, v field.Value) string {
	switch {
	case v.IsNumber() && f.Kind == field.Time:
		return time.UnixMilli(int64(v.Number)).UTC().Format(time.RFC3339Nano)
	case v.IsNumber():
		return v.String()
	}
	return neutral(v.Text)
}

// neutral keeps a spreadsheet from taking a text as a formula.
func neutral(s string) string {
	if first, _ := utf8.DecodeRuneInString(s); s != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) {
		return "'" + s
	}
	return s
}
