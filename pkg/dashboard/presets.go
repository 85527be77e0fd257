package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"unicode"

	"github.com/danielgtaylor/huma/v2"

	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/store"
)

type presetsAnswer struct {
	Body struct {
		Presets []store.Preset `json:"presets"`
	}
}

type presetInput struct {
	Body struct {
		Name   string          `json:"name" minLength:"1" maxLength:"100"`
		Filter json.RawMessage `json:"filter,omitempty"`
		View   json.RawMessage `json:"view,omitempty" doc:"the page's own settings"`
	}
}

func (d *Server) addPresets() {
	huma.Register(d.api, huma.Operation{
		OperationID: "presets", Method: http.MethodGet, Path: "/api/filters/presets", Summary: "Saved filters",
	}, func(ctx context.Context, _ *struct{}) (*presetsAnswer, error) {
		list, err := d.store.Presets(ctx)
		a := &presetsAnswer{}
		a.Body.Presets = list
		return a, d.failed(err)
	})
	huma.Register(d.api, huma.Operation{
		OperationID: "save-preset", Method: http.MethodPost, Path: "/api/filters/presets",
		Summary: "Save a filter under a name; one of that name is replaced", DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *presetInput) (*struct{}, error) {
		if strings.Trim(in.Body.Name, "./") == "" || strings.ContainsFunc(in.Body.Name, unicode.IsControl) {
			return nil, huma.Error422UnprocessableEntity("the name of a preset needs a letter, and has no control characters")
		}
		p := store.Preset{Name: in.Body.Name, Filter: in.Body.Filter, View: in.Body.View}
		if p.Filter != nil {
			if _, err := filter.Parse(p.Filter); err != nil {
				return nil, refused(err)
			}
		}
		return nil, d.failed(d.store.SetPreset(ctx, p))
	})
	huma.Register(d.api, huma.Operation{
		OperationID: "delete-preset", Method: http.MethodDelete, Path: "/api/filters/presets/{name}",
		Summary: "Delete a saved filter", DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *struct {
		Name string `path:"name"`
	},
	) (*struct{}, error) {
		return nil, d.failed(d.store.DeletePreset(ctx, in.Name))
	})
}
