package main

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/profllm/profllm/pkg/dashboard"
)

type dashboardCmd struct {
	Serve dashboardServeCmd `cmd:"" help:"Serve results as a page and an HTTP API until interrupted."`
}

type dashboardServeCmd struct {
	placeFlags
	filterFlag
	Paths    []string `arg:"" optional:"" help:"Folders of records, run directories, records, or archives; default: the results folder."`
	Address  string   `meant:"listen,bind,port" default:"127.0.0.1:8642" placeholder:"HOST:PORT" help:"Address to listen at; port 0 takes a free one."`
	Host     []string `placeholder:"NAME" help:"Also answer requests for this host name, such as that of a reverse proxy; repeatable. Addresses and localhost always work."`
	ReadOnly bool     `name:"read-only" help:"Accept no uploads and save no presets."`
}

// Run serves until it is interrupted.
func (c dashboardServeCmd) Run(ctx context.Context, a *app) error {
	o := dashboard.Options{
		Version: version(), ReadOnly: c.ReadOnly, Hosts: c.Host, Token: strings.TrimSpace(a.env("PROFLLM_DASHBOARD_TOKEN")),
	}
	paths, err := c.paths(ctx, a, c.Paths)
	if err != nil {
		return err
	}
	runs, done, err := a.loadRuns(ctx, paths...)
	defer done()
	if err != nil {
		return err
	}
	if runs, err = c.choose(runs); err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Address)
	if err != nil {
		return fail(exitUsage, err)
	}
	if addr, ok := l.Addr().(*net.TCPAddr); ok && !addr.IP.IsLoopback() && o.Token == "" && !o.ReadOnly {
		l.Close()
		return fail(exitUsage, errors.New("anybody on the network could write: set PROFLLM_DASHBOARD_TOKEN, or name --read-only"))
	}
	a.logf("dashboard at http://%s/", l.Addr())
	return dashboard.New(dashboard.NewMemory(runs), o).Serve(ctx, l)
}
