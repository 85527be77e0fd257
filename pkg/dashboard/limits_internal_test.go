package dashboard

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/profllm/profllm/pkg/query"
)

// The values in memory have a bound however many requests come, and readers take their time; small ones pass
// beside large ones, and room is given back when the answer is written.
func TestReservations(t *testing.T) {
	d := &Server{room: semaphore.NewWeighted(mostAtOnce)}
	large := &query.Rows{Limit: rowsOf(100), Fields: make([]string, 100)}
	small := &query.Rows{Limit: 50, Fields: make([]string, 5)}
	var releases []func()
	for range mostAtOnce/mostCells - 1 {
		ctx, release := d.reserving(t.Context())
		releases = append(releases, release)
		require.NoError(t, d.reserve(ctx, large))
		require.NoError(t, d.reserve(ctx, large), "one request reserves once")
	}
	ctx, release := d.reserving(t.Context())
	require.NoError(t, d.reserve(ctx, small))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	waiting, none := d.reserving(gone)
	err := d.reserve(waiting, large)
	var refused huma.StatusError
	require.True(t, errors.As(err, &refused))
	require.Equal(t, http.StatusServiceUnavailable, refused.GetStatus())
	none()
	release()
	last, free := d.reserving(t.Context())
	require.NoError(t, d.reserve(last, large))
	free()
	for _, release := range releases {
		release()
	}
	require.True(t, d.room.TryAcquire(mostAtOnce), "all of it is free again")
	require.NoError(t, d.reserve(t.Context(), nil))
}
