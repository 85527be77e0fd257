package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/dashboard"
	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/store"
	"github.com/profllm/profllm/pkg/synthetic"
	"github.com/profllm/profllm/pkg/upload"
)

type dashboardCmd struct {
	Serve dashboardServeCmd `cmd:"" help:"Serve results as a page and an HTTP API until interrupted."`
}

type dashboardServeCmd struct {
	storeFlag
	placeFlags
	Paths    []string `arg:"" optional:"" help:"Folders of records, run directories, records, or archives, which are stored first; default: the results folder, if no store is named."`
	Address  string   `meant:"listen,bind,port" default:"127.0.0.1:8642" placeholder:"HOST:PORT" help:"Address to listen at; port 0 takes a free one."`
	Host     []string `placeholder:"NAME" help:"Also answer requests for this host name, such as that of a reverse proxy; repeatable. Addresses and localhost always work."`
	Files    []string `placeholder:"DIR" type:"existingdir" help:"Show samples and traces of runs whose folders are below DIR; repeatable; default: the paths."`
	Uploads  string   `placeholder:"DIR" help:"Folder for files that were uploaded and are not stored yet; default: that of the store's file, with .uploads at its end. A database of PostgreSQL has none."`
	Demo     bool     `help:"Show 2000 made-up runs, each marked as simulated, to try the page."`
	Lean     bool     `help:"Let the database answer questions, and keep no runs in memory: slower, for few users or little memory."`
	TokenFor string   `name:"token-for" enum:"writes,all" default:"writes" placeholder:"WHAT" help:"What needs the token of PROFLLM_DASHBOARD_TOKEN: writes (uploads and presets), or all, reading too (default: writes)."`
	ReadOnly bool     `name:"read-only" help:"Accept no uploads and save no presets."`
}

// Validate refuses made-up runs among others.
func (c dashboardServeCmd) Validate() error {
	if c.Demo && (c.Store != "" || len(c.Paths) > 0) {
		return errors.New("--demo shows made-up runs only: it goes with no --store and no paths")
	}
	return nil
}

// demoRuns is how many runs --demo makes up.
const demoRuns = 2000

// Run serves until it is interrupted.
func (c dashboardServeCmd) Run(ctx context.Context, a *app) error {
	l, err := net.Listen("tcp", c.Address)
	if err != nil {
		return fail(exitUsage, fmt.Errorf("--address %s: %w", c.Address, err))
	}
	defer l.Close()
	token, err := c.token(a, l.Addr())
	if err != nil {
		return err
	}
	s, done, err := c.openStore(ctx, a)
	defer done()
	if err != nil {
		return err
	}
	if err := c.fill(ctx, a, s); err != nil {
		return err
	}
	live := dashboard.InDatabase(s)
	if !c.Lean {
		if live, err = dashboard.Load(ctx, s); err != nil {
			return err
		}
	}
	o := dashboard.Options{
		Version: version(), Token: token, TokenForReads: c.TokenFor == "all", ReadOnly: c.ReadOnly, Hosts: c.Host,
		Roots: c.roots(), Demo: c.Demo, Log: a.logf,
	}
	ctx, stop := context.WithCancel(ctx)
	var working sync.WaitGroup
	defer func() {
		stop()
		working.Wait()
		if o.Uploads != nil {
			o.Uploads.Close() //nolint:errcheck // the lease of a program that has ended counts for nothing
		}
	}()
	if o.Uploads, err = c.spool(a, live); err != nil {
		return err
	}
	if o.Uploads != nil {
		working.Go(func() {
			if err := o.Uploads.Work(ctx); err != nil {
				a.logf("note: uploads are not stored: %v", err)
			}
		})
	}
	working.Go(func() {
		live.Follow(ctx, 2*time.Second, func(err error) { a.logf("note: the store cannot be read: %v", err) })
	})
	n, err := s.Count(ctx)
	if err != nil {
		return err
	}
	a.logf("dashboard of %s at http://%s/", quantity.Count(n, "run"), l.Addr())
	endsByItself.Store(true) // requests and uploads that are under way
	return dashboard.New(live, o).Serve(ctx, l)
}

// token is the server's token, "" for none. It is an error if a server at this address needs one.
func (c *dashboardServeCmd) token(a *app, at net.Addr) (string, error) {
	token := strings.TrimSpace(a.env("PROFLLM_DASHBOARD_TOKEN"))
	if addr, ok := at.(*net.TCPAddr); ok && !addr.IP.IsLoopback() && token == "" && !c.ReadOnly {
		return "", fail(exitUsage, errors.New(
			"anybody on the network could write\n\thint: export PROFLLM_DASHBOARD_TOKEN=…, or name --read-only"))
	}
	if c.TokenFor == "all" && token == "" {
		return "", fail(exitUsage, errors.New("--token-for all needs a token\n\thint: export PROFLLM_DASHBOARD_TOKEN=…"))
	}
	return token, nil
}

// openStore opens the store, or makes one for as long as the command runs. done closes it, and is never nil.
func (c *dashboardServeCmd) openStore(ctx context.Context, a *app) (s *store.Store, done func(), err error) {
	if c.Store != "" {
		if s, err = c.open(ctx, a, true); err != nil {
			return nil, func() {}, err
		}
		return s, func() { s.Close() }, nil
	}
	dir, err := os.MkdirTemp("", "profllm-dashboard-")
	if err != nil {
		return nil, func() {}, err
	}
	s, err = store.Open(ctx, filepath.Join(dir, "runs.db"), store.Options{Create: true, Now: a.now})
	if err != nil {
		return nil, func() { os.RemoveAll(dir) }, err
	}
	return s, func() { s.Close(); os.RemoveAll(dir) }, nil
}

// fill stores made-up runs for --demo, or what the paths have.
func (c *dashboardServeCmd) fill(ctx context.Context, a *app, s *store.Store) error {
	switch {
	case c.Demo:
		made := synthetic.New(1, demoRuns, a.now())
		runs := make([]records.Run, demoRuns)
		for i := range runs {
			runs[i] = made.Run(i)
		}
		_, err := s.Put(ctx, runs)
		return err
	case c.Store != "" && len(c.Paths) == 0:
		return nil
	}
	var err error
	if c.Paths, err = c.paths(ctx, a, c.Paths); err != nil {
		return err
	}
	runs, unpacked, err := a.loadRuns(ctx, c.Paths...)
	defer unpacked()
	if err != nil {
		return err
	}
	return a.fillStore(ctx, s.Put, runs, newFill("store-fill", s)) // says what is refused
}

// roots are the folders below which files of runs may be read, as they are without links.
func (c *dashboardServeCmd) roots() []string {
	var list []string
	for _, dir := range append(c.Files, c.Paths...) {
		if abs, err := filepath.Abs(dir); err == nil {
			if real, err := filepath.EvalSymlinks(abs); err == nil {
				list = append(list, real)
			}
		}
	}
	return list
}

// spool takes uploads, if there is a store for them.
func (c *dashboardServeCmd) spool(a *app, live *dashboard.Live) (*upload.Spool, error) {
	dir := c.Uploads
	if dir == "" && c.Store != "" && !store.IsURL(c.Store) {
		dir = c.Store + ".uploads"
	}
	if dir == "" || c.ReadOnly || c.Store == "" {
		return nil, nil
	}
	col := a.client().Collector()
	s, err := upload.Open(dir, upload.Options{Collector: col, Now: a.now, Log: a.logf, Reason: store.Reason,
		Put: func(ctx context.Context, runs []records.Run) ([]upload.Outcome, error) {
			list, err := live.Put(ctx, runs)
			out := make([]upload.Outcome, len(list))
			for i, o := range list {
				out[i] = upload.Outcome{ID: o.ID, Did: string(o.Did), Why: o.Why}
			}
			return out, err
		}})
	if errors.As(err, new(*lease.HeldError)) {
		err = fmt.Errorf("%w\n\thint: stop that program, or name another folder with --uploads, or --read-only", err)
	}
	if err != nil {
		return nil, fail(exitUsage, fmt.Errorf("folder for uploads: %w", err))
	}
	return s, nil
}
