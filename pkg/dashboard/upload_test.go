package dashboard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/dashboard"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/upload"
)

// form is the body of an upload: a name, its content, and so on.
func form(t *testing.T, list ...string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	require.NoError(t, w.WriteField("comment", "no file"))
	for i := 0; i+1 < len(list); i += 2 {
		p, err := w.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {fmt.Sprintf(`form-data; name="file"; filename=%q`, list[i])},
		})
		require.NoError(t, err)
		_, err = p.Write([]byte(list[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.String(), w.FormDataContentType()
}

// uploading is a server that takes uploads, which nothing works off.
func uploading(t *testing.T, token string) *api {
	t.Helper()
	spool, err := upload.Open(t.TempDir(), upload.Options{
		Collector: &collect.Collector{Bench: catalog.Benches, Eval: catalog.Evals}, Bytes: 1 << 20,
		Put: func(context.Context, []records.Run) ([]upload.Outcome, error) { return nil, nil },
	})
	require.NoError(t, err)
	return newAPI(t, dashboard.Options{Uploads: spool, Token: token})
}

// covers: API-1, API-2, API-3, API-4, DASH-1
func TestUploads(t *testing.T) {
	a := uploading(t, "")
	record, err := os.ReadFile("../result/testdata/releases/2026-11-22/release/aggregated/0/result.json")
	require.NoError(t, err)
	body, kind := form(t, "a/result.json", string(record), "a/b/x.json", "{}")
	for _, c := range []struct{ path, body, kind string }{
		{"/api/upload/json", body, kind},
		{"/api/upload/batch", body, kind},
		{"/api/upload/raw", string(record), "application/json"},
	} {
		status, answer := a.ask("POST", c.path, c.body, "Content-Type", c.kind)
		require.Equal(t, http.StatusAccepted, status, "%s", answer)
		var st upload.Status
		require.NoError(t, json.Unmarshal(answer, &st))
		require.Equal(t, upload.Queued, st.State)
		require.Equal(t, 1, st.Total)
		got := as[upload.Status](a, "GET", "/api/upload/status/"+st.Job, "/api/upload/status/{job_id}", "")
		require.Equal(t, st.Job, got.Job)
		require.Contains(t, a.paths, c.path, "the document has it")
	}
}

func TestUploadsThatAreRefused(t *testing.T) {
	a := uploading(t, "secret-of-the-server")
	bearer := []string{"Authorization", "Bearer secret-of-the-server"}
	good, kind := form(t, "a.json", "{}")
	up, upKind := form(t, "../../etc/passwd", "x")
	none, noneKind := form(t)
	big, bigKind := form(t, "a.json", strings.Repeat("x", 1<<20+1))
	for _, c := range []struct {
		name, path, body, kind string
		headers                []string
		status                 int
	}{
		{"without the token", "/api/upload/json", good, kind, nil, 401},
		{"raw without the token", "/api/upload/raw", "{}", "application/json", nil, 401},
		{"from a page of another server", "/api/upload/batch", good, kind, append([]string{"Origin", "http://elsewhere.example"}, bearer...), 403},
		{"a name that leads out", "/api/upload/json", up, upKind, bearer, 422},
		{"no file", "/api/upload/json", none, noneKind, bearer, 422},
		{"a form that ends early", "/api/upload/json", good[:len(good)-20], kind, bearer, 422},
		{"no form", "/api/upload/json", "{}", "application/json", bearer, 415},
		{"a form as a record", "/api/upload/raw", good, kind, bearer, 415},
		{"more bytes than allowed", "/api/upload/json", big, bigKind, bearer, 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := a.ask("POST", c.path, c.body, append([]string{"Content-Type", c.kind}, c.headers...)...)
			require.Equal(t, c.status, status, "%s", body)
		})
	}
	status, _ := a.ask("GET", "/api/upload/status/..%2f..%2fx", "")
	require.Equal(t, 400, status)
}

// Uploads that wait take no more room than they may: another one is told to come again later.
//
// covers: API-1, SM-4
func TestUploadsHaveARoom(t *testing.T) {
	s := start(t, t.TempDir(), config{idle: true, ups: upload.Options{Room: 1 << 20}})
	body, kind := form(t, "a.json", strings.Repeat("x", 900<<10))
	status, answer, _ := s.send("POST", "/api/upload/json", kind, strings.NewReader(body))
	require.Equal(t, 202, status, "%s", answer)
	status, answer, head := s.send("POST", "/api/upload/json", kind, strings.NewReader(body))
	require.Equal(t, 507, status, "%s", answer)
	require.Equal(t, "application/problem+json", head.Get("Content-Type"))
	var p problemOf
	require.NoError(t, json.Unmarshal(answer, &p))
	require.Equal(t, `nothing was stored: "a.json": the uploads that wait to be stored leave no room for this one: `+
		`all together may have 1048576 bytes; send it again later`, p.Detail)
	s.well()
}

func TestNoUploads(t *testing.T) {
	for _, o := range []dashboard.Options{{}, {ReadOnly: true}} {
		s := httptest.NewServer(dashboard.New(live(t, nil), o).Handler())
		defer s.Close()
		body, kind := form(t, "a.json", "{}")
		got, err := http.Post(s.URL+"/api/upload/json", kind, strings.NewReader(body))
		require.NoError(t, err)
		got.Body.Close()
		require.Equal(t, 403, got.StatusCode)
	}
}
