// Package httpserve runs an HTTP server until it is told to end, and leaves no request behind.
package httpserve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// CutError is the error of a server that had to cut requests at its end.
type CutError struct {
	Requests int64
	Grace    time.Duration
}

func (e *CutError) Error() string {
	return fmt.Sprintf("%d requests cut after %s", e.Requests, e.Grace)
}

// Until serves on l until ctx ends. Then it accepts no more, lets requests end within the grace
// period and cuts the others, for which the error is a *CutError. No handler runs any more when it
// returns: Server.Close alone does not wait for them. It closes l.
func Until(ctx context.Context, srv *http.Server, l net.Listener, grace time.Duration) error {
	var handlers sync.WaitGroup
	var running atomic.Int64
	defer handlers.Wait()
	next := srv.Handler
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers.Add(1)
		defer handlers.Done()
		running.Add(1)
		defer running.Add(-1)
		next.ServeHTTP(w, r)
	})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		srv.Close()
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := srv.Shutdown(ending)
	if err != nil {
		err = &CutError{running.Load(), grace}
		srv.Close()
	}
	<-served
	return err
}
