package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"mime/multipart"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/profllm/profllm/pkg/upload"
)

// maxRecord is the largest record that is taken as the body of a request.
const maxRecord = 64 << 20

type uploadAnswer struct{ Body *upload.Status }

// addUploads takes files. Their bodies are written to disk as they come, so huma, which would
// hold them in memory, only documents these operations.
func (d *Server) addUploads() {
	for _, op := range []struct {
		id, path, summary string
		media             []string
		take              http.HandlerFunc
	}{
		{"upload-json", "/api/upload/json", "Store the runs of one file: a record, a result of another program, or an archive (.tar.xz)",
			[]string{"multipart/form-data"}, d.uploadFiles},
		{"upload-batch", "/api/upload/batch", "Store the runs of several files, or of a whole folder",
			[]string{"multipart/form-data"}, d.uploadFiles},
		{"upload-raw", "/api/upload/raw", "Store one record that is the body of the request",
			[]string{"application/json"}, d.uploadRaw},
	} {
		d.mux.HandleFunc("POST "+op.path, op.take)
		d.document(op.id, op.path, op.summary, op.media)
	}
	huma.Register(d.api, huma.Operation{
		OperationID: "upload-status", Method: http.MethodGet, Path: "/api/upload/status/{job_id}",
		Summary: "How far an upload is, and what became of each file",
	}, func(_ context.Context, in *struct {
		Job string `path:"job_id"`
	},
	) (*uploadAnswer, error) {
		if d.opts.Uploads == nil {
			return nil, huma.Error404NotFound(upload.ErrNoJob.Error())
		}
		st, err := d.opts.Uploads.Status(in.Job)
		if errors.Is(err, upload.ErrNoJob) {
			return nil, huma.Error404NotFound(err.Error())
		}
		return &uploadAnswer{st}, failed(err)
	})
}

// document describes an operation that huma does not handle.
func (d *Server) document(id, path, summary string, media []string) {
	api := d.api.OpenAPI()
	op := &huma.Operation{
		OperationID: id, Method: http.MethodPost, Path: path, Summary: summary,
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}},
		Responses: map[string]*huma.Response{
			"202": {Description: "Accepted: the files are on disk", Content: map[string]*huma.MediaType{
				"application/json": {Schema: huma.SchemaFromType(api.Components.Schemas, reflect.TypeFor[upload.Status]())},
			}},
			"default": {Description: "Error", Content: map[string]*huma.MediaType{
				"application/problem+json": {Schema: huma.SchemaFromType(api.Components.Schemas, reflect.TypeFor[huma.ErrorModel]())},
			}},
		},
	}
	for _, m := range media {
		op.RequestBody.Content[m] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeObject}}
	}
	api.AddOperation(op)
}

// uploadFiles takes the files of a form. Their names may have folders before them.
func (d *Server) uploadFiles(w http.ResponseWriter, r *http.Request) {
	form, err := r.MultipartReader()
	if err != nil {
		problem(w, http.StatusUnsupportedMediaType, "this takes files as multipart/form-data: "+err.Error())
		return
	}
	d.accept(w, sent(form))
}

// sent are the files of a form, one after the other as they come.
func sent(form *multipart.Reader) iter.Seq2[upload.Sent, error] {
	return func(yield func(upload.Sent, error) bool) {
		for {
			p, err := form.NextPart()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(upload.Sent{}, fmt.Errorf("%w: %w", upload.ErrCut, err))
				return
			}
			name := fileName(p)
			if name == "" { // a field of the form that is no file
				continue
			}
			if !yield(upload.Sent{Name: name, Reader: p}, nil) {
				return
			}
		}
	}
}

// fileName is the whole name that was sent: FileName would leave out its folders.
func fileName(p *multipart.Part) string {
	if p.FileName() == "" {
		return ""
	}
	_, params, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
	if err != nil {
		return p.FileName()
	}
	return params["filename"]
}

// uploadRaw takes one record.
func (d *Server) uploadRaw(w http.ResponseWriter, r *http.Request) {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/json" {
		problem(w, http.StatusUnsupportedMediaType, "this takes one record as application/json")
		return
	}
	body := http.MaxBytesReader(w, r.Body, maxRecord)
	d.accept(w, func(yield func(upload.Sent, error) bool) {
		yield(upload.Sent{Name: "result.json", Reader: body}, nil)
	})
}

func (d *Server) accept(w http.ResponseWriter, files iter.Seq2[upload.Sent, error]) {
	if d.opts.Uploads == nil {
		problem(w, http.StatusForbidden, "this server takes no uploads")
		return
	}
	st, err := d.opts.Uploads.Accept(files)
	var large *http.MaxBytesError
	switch {
	case err == nil:
	case errors.As(err, &large), errors.Is(err, upload.ErrTooLarge):
		problem(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	case errors.Is(err, upload.ErrName), errors.Is(err, upload.ErrEmpty), errors.Is(err, upload.ErrCut):
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	default:
		problem(w, http.StatusInsufficientStorage, "nothing was stored: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/api/upload/status/"+st.Job)
	w.WriteHeader(http.StatusAccepted)
	writeJSON(w, st)
}
