package dashboard

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/profllm/profllm/pkg/store"
)

type healthAnswer struct {
	Body struct {
		Status  string `json:"status" example:"ok"`
		Version string `json:"version"`
		Runs    *int   `json:"runs,omitempty" doc:"runs in the store; not where reads need a token"`
	}
}

func (d *Server) addHealth() {
	huma.Register(d.api, huma.Operation{
		OperationID: "health", Method: http.MethodGet, Path: "/api/health", Summary: "Whether the server runs",
	}, func(context.Context, *struct{}) (*healthAnswer, error) {
		a := &healthAnswer{}
		a.Body.Status, a.Body.Version = "ok", d.opts.Version
		return a, nil
	})
	huma.Register(d.api, huma.Operation{
		OperationID: "ready", Method: http.MethodGet, Path: "/api/ready", Summary: "Whether the store answers",
	}, func(ctx context.Context, _ *struct{}) (*healthAnswer, error) {
		n, err := d.store.Count(ctx) // in the database: the columns in memory answer without it
		if err != nil {
			d.opts.Log("the store is not ready: %v", err)
			return nil, huma.Error503ServiceUnavailable(store.Reason(err))
		}
		a := &healthAnswer{}
		a.Body.Status, a.Body.Version = "ok", d.opts.Version
		if !d.opts.TokenForReads {
			a.Body.Runs = &n
		}
		return a, nil
	})
}
