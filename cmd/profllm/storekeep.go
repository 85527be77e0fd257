package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/store"
)

// storeName is a store as messages name it.
func storeName(place string) string {
	if store.IsURL(place) {
		return place
	}
	return relative(absolute(place))
}

type storeInfoCmd struct {
	storeFlag
	outputFlag
}

// Run says what is in a store.
func (c storeInfoCmd) Run(ctx context.Context, a *app) error {
	s, err := c.open(ctx, a, false)
	if err != nil {
		return err
	}
	defer s.Close()
	i, err := s.Info(ctx)
	if err != nil {
		return err
	}
	a.answers(&document.StoreInfo{Head: document.NewHead("store-info"), Info: i})
	a.sayArchived("%s: %s, %s, %s, %s in %s\n", storeName(i.Store), i.Kind, quantity.Count(i.Runs, "run"),
		quantity.Count(i.Formers, "former record"), quantity.Count(i.Presets, "preset"), quantity.Bytes(i.Bytes))
	if i.First != nil && i.Newest != nil {
		a.sayArchived("runs from %s to %s\n", i.First.Format(time.DateTime), i.Newest.Format(time.DateTime))
	}
	how := "as measured here"
	if !i.Measured {
		how = "as most stores need; 100 runs are too few to tell"
	}
	a.sayArchived("%s for each run (%s): %s for 1,000,000 runs\n", quantity.Bytes(i.PerRun), how, quantity.Bytes(i.Million))
	return nil
}

type storeVerifyCmd struct {
	storeFlag
	outputFlag
	Files bool `negatable:"" default:"true" help:"Compare the records with those in the result folders."`
}

// Run fails if anything is wrong.
func (c storeVerifyCmd) Run(ctx context.Context, a *app) error {
	s, err := c.open(ctx, a, false)
	if err != nil {
		return err
	}
	defer s.Close()
	var load store.Load
	if c.Files {
		load = func(dir string) ([]records.Run, error) { return records.Load(dir) }
	}
	found, err := s.Verify(ctx, load)
	if err != nil {
		return err
	}
	a.answers(&document.StoreVerify{Head: document.NewHead("store-verify"), Check: *found})
	for _, p := range found.Problems {
		if p.ID != "" {
			a.sayArchived("%s: ", p.ID)
		}
		a.sayArchived("%s\n", p.What)
	}
	a.sayArchived("%s: %s and %s read, %s compared with their folders, %d without a folder: %s\n", storeName(s.Place()),
		quantity.Count(found.Runs, "run"), quantity.Count(found.Formers, "former record"), quantity.Count(found.Compared, "run"),
		found.Gone, quantity.Count(len(found.Problems), "problem"))
	if len(found.Problems) > 0 {
		return exit(exitInvalid)
	}
	return nil
}

type storeBackupCmd struct {
	storeFlag
	outputFlag
	File string `arg:"" help:"File to write; an existing file is not overwritten."`
}

// Run writes a backup of one moment; the store may be used meanwhile.
func (c storeBackupCmd) Run(ctx context.Context, a *app) error {
	s, err := c.open(ctx, a, false)
	if err != nil {
		return err
	}
	defer s.Close()
	n, err := s.Backup(ctx, c.File)
	if err != nil {
		return fail(exitUsage, err)
	}
	d, err := backupOf("store-backup", s, c.File, n)
	if err != nil {
		return err
	}
	a.answers(d)
	a.sayArchived("%s: %s, %s, %s in %s, read back\n", relative(d.File), quantity.Count(n.Runs, "run"),
		quantity.Count(n.Formers, "former record"), quantity.Count(n.Presets, "preset"), quantity.Bytes(d.Bytes))
	return nil
}

func backupOf(form string, s *store.Store, file string, n store.DumpCounts) (*document.StoreBackup, error) {
	st, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	return &document.StoreBackup{
		Head: document.NewHead(form), Store: s.Place(), File: absolute(file), Bytes: st.Size(),
		Runs: n.Runs, Formers: n.Formers, Presets: n.Presets,
	}, nil
}

type storeRestoreCmd struct {
	storeFlag
	outputFlag
	File string `arg:"" help:"Backup, or archive of store prune. What the store has is kept."`
}

// Run stores what a backup holds.
func (c storeRestoreCmd) Run(ctx context.Context, a *app) error {
	s, err := c.open(ctx, a, true)
	if err != nil {
		return err
	}
	defer s.Close()
	n, outcomes, err := s.Restore(ctx, c.File)
	if err != nil {
		return fail(exitUsage, err)
	}
	d, err := backupOf("store-restore", s, c.File, n)
	if err != nil {
		return err
	}
	for _, o := range outcomes {
		d.Stored, d.Updated = d.Stored+count(o.Did == store.Stored), d.Updated+count(o.Did == store.Updated)
	}
	a.answers(d)
	a.sayArchived("%s: %s stored, %d updated, %d already there\n", storeName(s.Place()), quantity.Count(d.Stored, "run"),
		d.Updated, n.Runs-d.Stored-d.Updated)
	return nil
}

type storePruneCmd struct {
	storeFlag
	outputFlag
	Formers string `placeholder:"WHEN" help:"Remove former records that were replaced before WHEN: 90d (days ago), 2026-01-31, or a time."`
	Runs    string `placeholder:"WHEN" help:"Remove runs that began before WHEN, with their former records; needs --archive."`
	Archive string `placeholder:"FILE" help:"Write these runs to this file first; store restore reads it."`
}

// Run removes what is old, and nothing without a flag.
func (c storePruneCmd) Run(ctx context.Context, a *app) error {
	var p store.Prune
	for text, into := range map[*string]**time.Time{&c.Formers: &p.Formers, &c.Runs: &p.Runs} {
		if *text == "" {
			continue
		}
		at, err := whenOf(*text, a.now())
		if err != nil {
			return fail(exitUsage, err)
		}
		*into = &at
	}
	switch {
	case p.Formers == nil && p.Runs == nil:
		return fail(exitUsage, errors.New("nothing is to be removed\n\thint: --formers 90d, or --runs 2026-01-01 --archive old.zst"))
	case p.Runs != nil && c.Archive == "":
		return fail(exitUsage, errors.New("--runs needs --archive FILE, which gets the runs before they are removed"))
	}
	s, err := c.open(ctx, a, false)
	if err != nil {
		return err
	}
	defer s.Close()
	p.Archive = c.Archive
	n, err := s.Prune(ctx, p)
	if err != nil {
		return fail(exitUsage, err)
	}
	d := &document.StorePrune{Head: document.NewHead("store-prune"), Store: s.Place(), Formers: n.Formers, Runs: n.Runs}
	where := ""
	if n.Runs > 0 {
		d.Archive, where = absolute(c.Archive), ", archived in "+relative(absolute(c.Archive))
	}
	a.answers(d)
	a.sayArchived("%s: %s removed%s, %s removed\n", storeName(s.Place()), quantity.Count(n.Runs, "run"), where,
		quantity.Count(n.Formers, "former record"))
	return nil
}

// whenOf reads a time: days ago, a day, or a moment.
func whenOf(text string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n < 100_000 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time\n\thint: 90d, 2026-01-31 or 2026-01-31T12:00:00Z", text)
}
