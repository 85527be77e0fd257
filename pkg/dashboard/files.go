package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
)

func (d *Server) addFiles() {
	huma.Register(d.api, huma.Operation{
		OperationID: "series", Method: http.MethodGet, Path: "/api/data/experiments/{id}/series",
		Summary: "What the engines and GPUs of a run did over time, from its files",
	}, d.series)
	huma.Register(d.api, huma.Operation{
		OperationID: "export-trace", Method: http.MethodGet, Path: "/api/export/traces/{id}",
		Summary: "A trace that a profiler left; without a path, those that there are",
	}, d.trace)
}

// errNoFiles is the error of a run whose files this server does not have.
var errNoFiles = errors.New("the files of this run are not on this server")

// folderOf is the folder of a run's job, if it is below one of the folders that may be read.
func (d *Server) folderOf(r *records.Run) (string, error) {
	dir := r.Job
	if dir == "" {
		dir = r.Dir
	}
	if filepath.IsAbs(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil && slices.ContainsFunc(d.opts.Roots, func(root string) bool {
			rel, err := filepath.Rel(root, real)
			return err == nil && filepath.IsLocal(rel)
		}) {
			return real, nil
		}
	}
	return "", fmt.Errorf("%w: %q is not below the folders that it was started with", errNoFiles, dir)
}

type traceInput struct {
	ID   string `path:"id"`
	Path string `query:"path" doc:"as the record has it"`
}

type tracesAnswer struct {
	Traces []result.Trace `json:"traces"`
}

// trace sends a file that the record of the run names as a trace, and no other.
func (d *Server) trace(ctx context.Context, in *traceInput) (*huma.StreamResponse, error) {
	s, err := d.store.Get(ctx, in.ID)
	if err != nil {
		return nil, d.failed(err)
	}
	var list []result.Trace
	if p := s.Run.Result.Profiling; p != nil {
		list = p.Traces
	}
	if in.Path == "" {
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			hctx.SetHeader("Content-Type", "application/json")
			writeJSON(hctx.BodyWriter(), tracesAnswer{append([]result.Trace{}, list...)})
		}}, nil
	}
	if !slices.ContainsFunc(list, func(t result.Trace) bool { return t.Path == in.Path }) {
		return nil, huma.Error404NotFound(fmt.Sprintf("the record of %s names no trace %q", in.ID, in.Path))
	}
	dir, err := d.folderOf(&s.Run)
	if err != nil {
		return nil, huma.Error404NotFound(err.Error())
	}
	f, err := openBelow(dir, in.Path)
	if err != nil {
		return nil, huma.Error404NotFound(errNoFiles.Error())
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer f.Close()
		hctx.SetHeader("Content-Type", "application/octet-stream")
		hctx.SetHeader("Content-Disposition", fmt.Sprintf("attachment; filename=%q", asciiName(in.Path)))
		if _, err := io.Copy(hctx.BodyWriter(), f); err != nil {
			panic(http.ErrAbortHandler) // only a broken body says that the rest is missing
		}
	}}, nil
}

// openBelow opens a regular file below a folder, whatever links lie there.
func openBelow(dir, name string) (*os.File, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, name)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	if rel, err := filepath.Rel(dir, real); err != nil || !filepath.IsLocal(rel) {
		return nil, fs.ErrPermission
	}
	return regular.OpenLarge(real)
}

// asciiName is the last part of a path in characters that a header may have.
func asciiName(path string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return '_'
		}
		return c
	}, filepath.Base(path))
}
