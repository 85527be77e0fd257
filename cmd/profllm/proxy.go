package main

import (
	"context"
	"io"
	"log/slog"
	"net"

	"github.com/profllm/profllm/pkg/proxy"
)

// serveProxy answers until ctx ends.
func serveProxy(ctx context.Context, args []string, stderr io.Writer) error {
	address, o, err := proxy.ParseArgs(args)
	if err != nil {
		return fail(exitUsage, err)
	}
	o.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	p, err := proxy.New(o)
	if err != nil {
		return fail(exitUsage, err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	o.Logger.Info("profllm proxy", "address", l.Addr().String(), "prefill", o.Prefill, "decode", o.Decode)
	return p.Serve(ctx, l)
}
