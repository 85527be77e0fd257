package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"

	"github.com/profllm/profllm/pkg/proxy"
)

// serveProxy answers until ctx ends.
func serveProxy(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	address, o, err := proxy.ParseArgs(args)
	if errors.Is(err, proxy.ErrHelp) {
		_, err := io.WriteString(stdout, proxy.Usage())
		return err
	}
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
	o.Logger.Info("profllm proxy", "address", l.Addr().String(), "prefill", o.Prefill, "decode", o.Decode,
		"servers", o.Servers)
	endsByItself.Store(true) // requests that are under way have --grace
	return p.Serve(ctx, l)
}
