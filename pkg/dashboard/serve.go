package dashboard

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/profllm/profllm/pkg/httpserve"
)

// grace is how long requests may take after the server was told to end.
const grace = 10 * time.Second

// Serve answers requests until ctx ends; then it lets those that are under way finish.
func (d *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler:           d.Handler(),
		ReadHeaderTimeout: min(10*time.Second, d.opts.Patience),
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelWarn), // of clients; panics go to Options.Log
	}
	return httpserve.Until(ctx, srv, l, grace)
}
