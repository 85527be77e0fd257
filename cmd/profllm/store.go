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
	Fill    storeFillCmd    `cmd:"" meant:"add,ingest,load" help:"Store the records of finished runs."`
	Info    storeInfoCmd    `cmd:"" meant:"status,size" help:"Show what a store holds and how large it may grow."`
	Verify  storeVerifyCmd  `cmd:"" meant:"check,fsck" help:"Check a store against itself and the result folders."`
	Rebuild storeRebuildCmd `cmd:"" meant:"reindex" help:"Write all rows of a store again from the result folders."`
	Backup  storeBackupCmd  `cmd:"" meant:"dump,export" help:"Write everything in a store to one file."`
	Restore storeRestoreCmd `cmd:"" meant:"undump,import" help:"Store what a backup holds."`
	Prune   storePruneCmd   `cmd:"" meant:"clean,delete,remove" help:"Archive and remove old runs and former records."`
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

// alsoStoreFlag names a store that a command fills besides what it does.
type alsoStoreFlag struct {
	Store string `env:"PROFLLM_STORE" meant:"database,db" placeholder:"FILE|URL" help:"Also store the records: in a file of SQLite, or postgres://USER@HOST/DATABASE."`
}

// keep stores the records below paths, if a store is named.
func (f alsoStoreFlag) keep(ctx context.Context, a *app, paths ...string) error {
	if f.Store == "" || ctx.Err() != nil {
		return nil
	}
	runs, done, err := a.loadRuns(ctx, paths...)
	defer done()
	if err != nil {
		return err
	}
	s, err := storeFlag(f).open(ctx, a, true)
	if err != nil {
		return err
	}
	defer s.Close()
	d := newFill("store-fill", s)
	if err := a.fillStore(ctx, s.Put, runs, d); err != nil {
		return err
	}
	a.logf("%s", filled(d))
	if d.Refused > 0 {
		return exit(exitInvalid)
	}
	return nil
}

// fillFlags name a store and the records for it.
type fillFlags struct {
	storeFlag
	placeFlags
	outputFlag
	Paths []string `arg:"" optional:"" help:"Folders of records, run directories, records, or archives; default: the results folder."`
}

// fill has do put the records into the store, and says what was stored.
func (c fillFlags) fill(
	ctx context.Context, a *app, form string, do func(*store.Store, []records.Run, *document.StoreFill) error,
) error {
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
	d := newFill(form, s)
	a.answers(d)
	if err := do(s, runs, d); err != nil {
		return err
	}
	return a.sayFilled(d)
}

type storeFillCmd struct{ fillFlags }

// Run stores what is new, and fails if a record cannot be stored.
func (c storeFillCmd) Run(ctx context.Context, a *app) error {
	return c.fill(ctx, a, "store-fill", func(s *store.Store, runs []records.Run, d *document.StoreFill) error {
		return a.fillStore(ctx, s.Put, runs, d)
	})
}

func newFill(form string, s *store.Store) *document.StoreFill {
	return &document.StoreFill{Head: document.NewHead(form), Store: s.Place(), Runs: []document.StoredRun{}}
}

// sayFilled says what was stored; it is an error if a record was refused.
func (a *app) sayFilled(d *document.StoreFill) error {
	a.sayArchived("%s\n", filled(d))
	if d.Refused > 0 {
		return exit(exitInvalid)
	}
	return nil
}

type storeRebuildCmd struct {
	fillFlags
	Forget bool `help:"Remove runs that are in none of the folders; without it, they are kept, with the records that the store has."`
}

// Run writes every row again, those of runs that were moved with their new folders.
func (c storeRebuildCmd) Run(ctx context.Context, a *app) error {
	return c.fill(ctx, a, "store-rebuild", func(s *store.Store, runs []records.Run, d *document.StoreFill) error {
		anew, err := s.Rebuild(ctx)
		if err != nil {
			return err
		}
		if err := a.fillStore(ctx, anew.Put, runs, d); err != nil {
			return err
		}
		n, err := anew.End(ctx, c.Forget)
		if d.Kept = n; c.Forget {
			d.Kept, d.Forgotten = 0, n
		}
		return err
	})
}

// batch is how many runs are stored in one transaction.
const batch = 1000

// fillStore stores runs and counts in a document what became of them.
func (a *app) fillStore(
	ctx context.Context, put func(context.Context, []records.Run) ([]store.Outcome, error), runs []records.Run,
	d *document.StoreFill,
) error {
	for some := range slices.Chunk(runs, batch) {
		for i := range some {
			a.placed(&some[i])
		}
		outcomes, err := put(ctx, some)
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
	text := fmt.Sprintf("%s: %s stored, %d updated, %d already there", storeName(d.Store), quantity.Count(d.Stored, "run"),
		d.Updated, d.Duplicates)
	if d.Missing > 0 {
		text += fmt.Sprintf(", %d without a record (profllm collect)", d.Missing)
	}
	if d.Kept > 0 {
		text += fmt.Sprintf(", %d kept that are in no folder", d.Kept)
	}
	if d.Forgotten > 0 {
		text += fmt.Sprintf(", %d removed", d.Forgotten)
	}
	if d.Refused > 0 {
		text += fmt.Sprintf(", %d not stored", d.Refused)
	}
	return text
}
