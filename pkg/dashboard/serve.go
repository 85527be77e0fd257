package dashboard

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// grace is how long requests may take after the server was told to end.
const grace = 10 * time.Second

// Serve answers requests until ctx ends; then it lets those that are under way finish.
func (d *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler:           d.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       10 * time.Minute, // of an upload
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelWarn), // of clients; panics go to Options.Log
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := srv.Shutdown(ending)
	if err != nil {
		err = fmt.Errorf("requests were cut %s after the server was told to end: %w", grace, err)
		srv.Close()
	}
	<-served
	return err
}
