package dashboard

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"
)

// Few analyses run at once. One more waits for its turn, and says so if that does not come in time.
func TestFewAnalysesAtOnce(t *testing.T) {
	d := &Server{analyses: make(chan struct{}, mostAnalyses)}
	began, free := make(chan struct{}), make(chan struct{})
	do := analysed(d, func(context.Context, *int) (*int, error) {
		began <- struct{}{}
		<-free
		return new(1), nil
	})
	ended := make(chan error, mostAnalyses+1)
	start := func() {
		go func() {
			_, err := do(t.Context(), nil)
			ended <- err
		}()
		<-began
	}
	for range mostAnalyses {
		start()
	}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	_, err := do(late, nil)
	var status huma.StatusError
	require.ErrorAs(t, err, &status)
	require.Equal(t, http.StatusServiceUnavailable, status.GetStatus())
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err = do(gone, nil)
	require.ErrorAs(t, err, &status)
	require.Equal(t, statusClosed, status.GetStatus())
	close(free)
	for range mostAnalyses {
		require.NoError(t, <-ended)
	}
	start()
	require.NoError(t, <-ended)
}
