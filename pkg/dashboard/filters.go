package dashboard

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/profllm/profllm/pkg/query"
)

// optionsAnswer is what a page can be built from.
type optionsAnswer struct {
	Body struct {
		query.Options
		Version  string `json:"version"`
		Demo     bool   `json:"demo"`
		ReadOnly bool   `json:"readonly"`
		Auth     bool   `json:"auth" doc:"writes need a token"`
	}
}

func (d *Server) addFilters() {
	huma.Register(d.api, huma.Operation{
		OperationID: "filter-options", Method: http.MethodGet, Path: "/api/filters/options",
		Summary: "The fields that runs have, and their values",
	}, func(ctx context.Context, _ *struct{}) (*optionsAnswer, error) { return d.options(ctx) })
	huma.Register(d.api, huma.Operation{
		OperationID: "apply-filter", Method: http.MethodPost, Path: "/api/filters/apply",
		Summary: "The runs that meet a filter: how many, counts of values, statistics, rows", MaxBodyBytes: maxQuery,
	}, d.apply)
	d.addPresets()
}

func (d *Server) options(ctx context.Context) (*optionsAnswer, error) {
	got, err := query.OptionsOf(ctx, d.store)
	if err != nil {
		return nil, d.failed(err)
	}
	a := &optionsAnswer{}
	b := &a.Body
	b.Options, b.Version, b.Demo, b.ReadOnly, b.Auth = *got, d.opts.Version, d.opts.Demo, d.opts.ReadOnly, d.opts.Token != ""
	return a, nil
}

type applyInput struct{ Body query.Query }

type applyAnswer struct{ Body applied }

type applied struct {
	query.Answer
	TookMS float64 `json:"took_ms" doc:"time in the store"`
}

// writeJSON writes the rows by themselves: encoding/json would read their text once more, which takes longer than to
// write it.
func (a applied) writeJSON(w io.Writer) error {
	rows := a.Rows
	a.Rows = nil
	text, err := json.Marshal(a)
	if err == nil && rows != nil {
		var table []byte
		table, err = rows.MarshalJSON()
		text = append(append(append(text[:len(text)-1], `,"rows":`...), table...), '}')
	}
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	return err
}

func (d *Server) apply(ctx context.Context, in *applyInput) (*applyAnswer, error) {
	if err := checked(&in.Body); err != nil {
		return nil, err
	}
	if err := d.reserve(ctx, in.Body.Rows); err != nil {
		return nil, err
	}
	began := time.Now()
	got, err := d.store.Query(ctx, in.Body)
	if err != nil {
		return nil, d.failed(err)
	}
	a := &applyAnswer{}
	a.Body.Answer, a.Body.TookMS = *got, float64(time.Since(began).Microseconds())/1000
	return a, nil
}
