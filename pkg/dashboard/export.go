package dashboard

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
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
	huma.Register(d.api, huma.Operation{
		OperationID: "export-json", Method: http.MethodPost, Path: "/api/export/json",
		Summary: "The runs that meet a filter as a JSON array, one object for each", MaxBodyBytes: maxQuery,
	}, d.json)
}

type exportInput struct {
	Body struct {
		Filter *filter.Filter `json:"filter,omitempty"`
		Fields []string       `json:"fields,omitempty" doc:"default: all that any run has"`
		Sort   []query.Order  `json:"sort,omitempty"`
	}
}

// csv writes the first part before the second is read.
func (d *Server) csv(ctx context.Context, in *exportInput) (*huma.StreamResponse, error) {
	rows, fields, err := d.exported(ctx, in)
	if err != nil {
		return nil, err
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

// json writes the values as the API's other answers have them: a run has no key of a field without a value.
func (d *Server) json(ctx context.Context, in *exportInput) (*huma.StreamResponse, error) {
	rows, fields, err := d.exported(ctx, in)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", "application/json")
		hctx.SetHeader("Content-Disposition", `attachment; filename="profllm.json"`)
		w := bufio.NewWriter(hctx.BodyWriter())
		before := "[\n"
		for t, err := range d.pages(ctx, in.Body.Filter, rows) {
			if err != nil {
				panic(http.ErrAbortHandler) // only a broken body says that the rest is missing
			}
			for i, id := range t.IDs {
				one := map[string]field.Value{}
				for at, f := range fields {
					if v := t.Columns[at][i]; v.Has() {
						one[f.Name] = v
					}
				}
				one["run_id"] = field.OfText(id) // as in the list of experiments
				text, err := json.Marshal(one)
				if err != nil {
					panic(http.ErrAbortHandler)
				}
				w.WriteString(before) //nolint:errcheck // Flush says it
				w.Write(text)         //nolint:errcheck
				before = ",\n"
			}
		}
		if before == "[\n" {
			w.WriteString("[") //nolint:errcheck
		}
		w.WriteString("\n]\n") //nolint:errcheck
		if w.Flush() != nil {
			panic(http.ErrAbortHandler)
		}
	}}, nil
}

// exported are the rows that an export asks for, and their fields.
func (d *Server) exported(ctx context.Context, in *exportInput) (*query.Rows, []*field.Field, error) {
	rows := &query.Rows{Fields: in.Body.Fields, Sort: in.Body.Sort}
	if err := limited(&query.Query{Rows: rows}); err != nil {
		return nil, nil, refused(err)
	}
	fields, err := d.columns(ctx, rows)
	if err != nil {
		return nil, nil, err
	}
	q := query.Query{Filter: in.Body.Filter, Rows: rows}
	if err := q.Check(); err != nil {
		return nil, nil, refused(err)
	}
	rows.Limit = rowsOf(len(fields))
	return rows, fields, d.reserve(ctx, rows)
}

// columns are the fields of the rows, all that any run has if none are named.
func (d *Server) columns(ctx context.Context, rows *query.Rows) ([]*field.Field, error) {
	if len(rows.Fields) == 0 {
		all, err := d.store.Fields(ctx)
		if err != nil {
			return nil, d.failed(err)
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
