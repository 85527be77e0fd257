package httpserve_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/httpserve"
)

// serve has one request under way that ends with its context, or when it is let go; then the server is told
// to end.
func serve(t *testing.T, grace time.Duration, letGo bool) (ended bool, err error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	began, free := make(chan struct{}), make(chan struct{})
	var over atomic.Bool
	srv := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		select {
		case <-free:
		case <-r.Context().Done():
		}
		over.Store(true)
	})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- httpserve.Until(ctx, srv, l, grace) }()
	go func() {
		if res, err := http.Get("http://" + l.Addr().String()); err == nil {
			res.Body.Close()
		}
	}()
	<-began
	cancel()
	if letGo {
		close(free)
	}
	err = <-done
	return over.Load(), err
}

func TestRequestsMayEnd(t *testing.T) {
	ended, err := serve(t, time.Hour, true)
	require.NoError(t, err)
	require.True(t, ended)
}

func TestRequestsThatDoNotEndAreCut(t *testing.T) {
	ended, err := serve(t, time.Millisecond, false)
	var cut *httpserve.CutError
	require.ErrorAs(t, err, &cut)
	require.EqualError(t, err, "1 requests cut after 1ms")
	require.True(t, ended, "no handler is left")
}

func TestAListenerThatFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	err = httpserve.Until(t.Context(), &http.Server{Handler: http.NotFoundHandler()}, l, time.Hour)
	require.True(t, errors.Is(err, net.ErrClosed), "%v", err)
}
