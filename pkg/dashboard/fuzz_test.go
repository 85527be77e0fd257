package dashboard_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/dashboard"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/upload"
)

// Whatever the body of an upload is, it is accepted or refused as the client's mistake, and what was refused leaves
// nothing.
func FuzzForm(f *testing.F) {
	part := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a/b.json\"\r\n\r\n{}\r\n"
	for _, body := range []string{
		part + "--b--\r\n", part + part + "--b--", part, "--b--", "", "--b\r\n\r\n\r\n--b--", "--b\r\nContent-Disposition: x; filename*=utf-8''%2e%2e%2fa\r\n\r\n\r\n--b--",
		"--b\r\nContent-Disposition: form-data; filename=\"..\\..\\a\"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=\r\n--b--",
	} {
		f.Add("multipart/form-data; boundary=b", body)
	}
	f.Add("multipart/form-data; boundary=\"\x00\"", "--\x00")
	f.Add("multipart/mixed; boundary=b; boundary=c", part)
	f.Fuzz(func(t *testing.T, kind, body string) {
		dir := t.TempDir()
		spool, err := upload.Open(dir, upload.Options{
			Collector: &collect.Collector{}, Bytes: 1 << 20, Files: 20,
			Put: func(context.Context, []records.Run) ([]upload.Outcome, error) { return nil, nil },
		})
		require.NoError(t, err)
		defer spool.Close()
		h := dashboard.New(dashboard.InDatabase(nil), dashboard.Options{Uploads: spool}).Handler()
		r := httptest.NewRequest(http.MethodPost, "http://localhost/api/upload/batch", strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		answer, err := io.ReadAll(w.Result().Body)
		require.NoError(t, err)
		left, err := filepath.Glob(filepath.Join(dir, "*-*"))
		require.NoError(t, err)
		switch w.Code {
		case http.StatusAccepted:
			require.Len(t, left, 1)
			require.True(t, strings.HasPrefix(filepath.Base(left[0]), "job-"))
		case http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
			require.Empty(t, left)
		default:
			t.Fatalf("%d %s", w.Code, answer)
		}
	})
}
