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
	"os"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/profllm/profllm/pkg/upload"
)

// The limits of an upload, besides those of the spool.
const (
	maxRecord = 64 << 20 // of a record that is the body of a request
	maxParts  = 2 * upload.MaxFiles
	maxHeads  = 32 << 20 // of what a form has besides its files
)

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
		return &uploadAnswer{st}, d.failed(err)
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
	if d.opts.Uploads != nil {
		r.Body = http.MaxBytesReader(w, r.Body, d.opts.Uploads.Bytes()+maxHeads)
	}
	form, err := r.MultipartReader()
	if err != nil {
		problem(w, http.StatusUnsupportedMediaType, "this takes files as multipart/form-data: "+err.Error())
		return
	}
	d.accept(w, r, sent(form))
}

// sent are the files of a form, one after the other as they come.
func sent(form *multipart.Reader) iter.Seq2[upload.Sent, error] {
	return func(yield func(upload.Sent, error) bool) {
		for n := 1; ; n++ {
			p, err := form.NextPart()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(upload.Sent{}, fmt.Errorf("%w: %w", upload.ErrCut, err))
				return
			}
			if n > maxParts {
				yield(upload.Sent{}, fmt.Errorf("%w: the form has more than %d parts", upload.ErrTooLarge, maxParts))
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
	d.accept(w, r, func(yield func(upload.Sent, error) bool) {
		yield(upload.Sent{Name: "result.json", Reader: body}, nil)
	})
}

// accept writes files to disk. So many are received at once; others wait for some time.
func (d *Server) accept(w http.ResponseWriter, r *http.Request, files iter.Seq2[upload.Sent, error]) {
	if d.opts.Uploads == nil {
		problem(w, http.StatusForbidden, "this server takes no uploads")
		return
	}
	waited := time.NewTimer(d.opts.Patience)
	defer waited.Stop()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-r.Context().Done():
		return
	case <-waited.C:
		w.Header().Set("Retry-After", "10")
		problem(w, http.StatusServiceUnavailable, fmt.Sprintf("%d uploads are being received; try again later", d.opts.AtOnce))
		return
	}
	st, err := d.opts.Uploads.Accept(files)
	if err != nil {
		status, detail := d.uploadRefused(err)
		problem(w, status, detail)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/api/upload/status/"+st.Job)
	w.WriteHeader(http.StatusAccepted)
	writeJSON(w, st)
}

// uploadRefused is the answer to an upload that was not accepted. It does not name this machine's folders.
func (d *Server) uploadRefused(err error) (status int, detail string) {
	switch {
	case errors.As(err, new(*http.MaxBytesError)), errors.Is(err, upload.ErrTooLarge):
		return http.StatusRequestEntityTooLarge, err.Error()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, "the upload came too slowly: " + err.Error()
	case errors.Is(err, upload.ErrName), errors.Is(err, upload.ErrEmpty), errors.Is(err, upload.ErrCut):
		return http.StatusUnprocessableEntity, err.Error()
	}
	d.opts.Log("an upload was not accepted: %v", err)
	if errors.Is(err, upload.ErrFull) {
		return http.StatusInsufficientStorage, "nothing was stored: " + err.Error()
	}
	var why syscall.Errno
	switch errors.As(err, &why); why {
	case 0:
		return http.StatusServiceUnavailable, "nothing was stored: the log of the server says why"
	case syscall.ENOSPC, syscall.EDQUOT:
		return http.StatusInsufficientStorage, "nothing was stored: the server has no room: " + why.Error()
	}
	return http.StatusServiceUnavailable, "nothing was stored: " + why.Error()
}
