package dashboard_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/dashboard"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/store"
)

// Another program, such as collect from cron, changes the store while the dashboard runs.
func TestWhatOthersStoreIsShown(t *testing.T) {
	place := filepath.Join(t.TempDir(), "runs.db")
	open := func() *store.Store {
		s, err := store.Open(t.Context(), place, store.Options{Create: true})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}
	l, err := dashboard.Load(t.Context(), open())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.Follow(ctx, 10*time.Millisecond, func(err error) { t.Error(err) })
	}()
	count := func(n int) func() bool {
		return func() bool {
			a, err := l.Query(t.Context(), query.Query{})
			require.NoError(t, err)
			return a.Runs == n
		}
	}
	runs, err := records.Load("../result/testdata/releases/2026-11-22/release")
	require.NoError(t, err)
	other := open()
	list, err := other.Put(t.Context(), runs)
	require.NoError(t, err)
	await.True(t, count(len(runs)), "all runs are shown")
	_, err = other.Delete(t.Context(), list[0].ID)
	require.NoError(t, err)
	await.True(t, count(len(runs)-1), "the run that was removed is not shown")
	cancel()
	<-ended
}
