package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/store"
)

type storeCmd struct {
	Fill storeFillCmd `cmd:"" help:"Store the records of finished runs."`
}

// storeFlag names the store.
type storeFlag struct {
	Store string `env:"PROFLLM_STORE" meant:"database,db" placeholder:"FILE|URL" help:"File of SQLite, or postgres://USER@HOST/DATABASE."`
}

// open opens the store.
func (f storeFlag) open(ctx context.Context, a *app, create bool) (*store.Store, error) {
	if f.Store == "" {
		return nil, fail(exitUsage, errors.New("no store is named\n\thint: --store runs.db, or export PROFLLM_STORE=runs.db"))
	}
	s, err := store.Open(ctx, f.Store, store.Options{Create: create, Now: a.now})
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	for _, note := range s.Notes() {
		a.logf("note: %s", note)
	}
	return s, nil
}

type storeFillCmd struct {
	storeFlag
	placeFlags
	outputFlag
	Paths []string `arg:"" optional:"" help:"Folders of records, run directories, records, or archives; default: the results folder."`
}

// Run stores what is new, and fails if a record cannot be stored.
func (c storeFillCmd) Run(ctx context.Context, a *app) error {
	paths, err := c.paths(ctx, a, c.Paths)
	if err != nil {
		return err
	}
	runs, done, err := a.loadRuns(ctx, paths...)
	defer done()
	if err != nil {
		return err
	}
	s, err := c.open(ctx, a, true)
	if err != nil {
		return err
	}
	defer s.Close()
	d := &document.StoreFill{Head: document.NewHead("store-fill"), Store: s.Place(), Runs: []document.StoredRun{}}
	a.answers(d)
	if err := a.fillStore(ctx, s, runs, d); err != nil {
		return err
	}
	a.sayArchived("%s\n", filled(d))
	if d.Refused > 0 {
		return exit(exitInvalid)
	}
	return nil
}

// batch is how many runs are stored in one transaction.
const batch = 1000

// fillStore stores runs and counts in a document what became of them.
func (a *app) fillStore(ctx context.Context, s *store.Store, runs []records.Run, d *document.StoreFill) error {
	for some := range slices.Chunk(runs, batch) {
		for i := range some {
			a.placed(&some[i])
		}
		outcomes, err := s.Put(ctx, some)
		if err != nil {
			return err
		}
		for i, o := range outcomes {
			one := document.StoredRun{Dir: some[i].Dir, ID: o.ID, Did: o.Did, Why: o.Why}
			switch {
			case o.Did == store.Stored:
				d.Stored++
			case o.Did == store.Updated:
				d.Updated++
			case o.Did == store.Duplicate:
				d.Duplicates++
				continue
			case o.Why == records.NotCollected || some[i].NoJob != "":
				d.Missing++
				continue
			default:
				d.Refused++
				a.complain(fmt.Errorf("%s: not stored: %s", relative(some[i].Dir), o.Why))
			}
			d.Runs = append(d.Runs, one)
		}
	}
	return nil
}

// placed gives a run the place of its folder in place of what the user called it.
func (a *app) placed(r *records.Run) {
	if r.Job == r.Dir || r.Job == a.archives.OnDisk(r.Dir) {
		r.Job = absolute(r.Dir)
	} else {
		r.Job = absolute(a.archives.Named(r.Job))
	}
	r.Dir, r.Series = absolute(r.Dir), absolute(a.archives.Named(r.Series))
}

// filled says in a line what was stored.
func filled(d *document.StoreFill) string {
	text := fmt.Sprintf("%s: %s stored, %d updated, %d already there", relative(d.Store), quantity.Count(d.Stored, "run"),
		d.Updated, d.Duplicates)
	if d.Missing > 0 {
		text += fmt.Sprintf(", %d without a record (profllm collect)", d.Missing)
	}
	if d.Refused > 0 {
		text += fmt.Sprintf(", %d not stored", d.Refused)
	}
	return text
}
