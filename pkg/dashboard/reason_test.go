package dashboard_test

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/dashboard"
	"github.com/profllm/profllm/pkg/store"
)

// The answer to a request that the store does not answer has no text of the database: the log has it.
func TestStoreThatIsAway(t *testing.T) {
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), store.Options{Create: true})
	require.NoError(t, err)
	l, err := dashboard.Load(t.Context(), s)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	var said strings.Builder
	h := dashboard.New(l, dashboard.Options{Log: func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }}).Handler()
	for path, status := range map[string]int{"/api/ready": 503, "/api/data/experiments/x": 500, "/api/filters/presets": 500} {
		said.Reset()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+path, nil))
		require.Equal(t, status, w.Code, path)
		require.Contains(t, w.Body.String(), "the store reported an error", path)
		require.NotContains(t, w.Body.String(), "sql:", path)
		require.Contains(t, said.String(), "sql: database is closed", path)
	}
}
