package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/archive"
	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
)

type archiveCmd struct {
	outputFlag
	Paths   []string `arg:"" help:"Scenario or run directories; with --restore or --list, archives. There is no default, because --remove deletes."`
	Restore bool     `xor:"act" help:"Unpack archives beside themselves."`
	List    bool     `xor:"act" help:"List the contents of archives with SHA-256; this reads the whole archives."`
	Remove  bool     `xor:"act" help:"Remove each directory once its archive was read back and compared."`
	Force   bool     `help:"Also archive runs that may still be running; with --restore, also create links that lead out of the directory."`
	MaxGiB  int64    `name:"max-gib" default:"64" help:"Largest unpacked size of an archive, in GiB."`
}

// Run continues with the other paths after a refused one.
func (c archiveCmd) Run(ctx context.Context, a *app) error {
	if c.MaxGiB < 1 || c.MaxGiB > 1<<30 {
		return fail(exitUsage, fmt.Errorf("--max-gib %d: 1 to %d", c.MaxGiB, 1<<30))
	}
	act := c.write
	switch {
	case c.Restore:
		act = c.restore
	case c.List:
		act = c.list
	}
	a.answers(&document.Archive{Head: document.NewHead("archive"), Archives: []document.ArchiveEntry{}})
	var errs []error
	for _, path := range c.Paths {
		if ctx.Err() != nil {
			break
		}
		errs = append(errs, act(ctx, a, path))
	}
	err := errors.Join(errs...)
	var refused *exitError
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	return fail(exitUsage, err)
}

func (c archiveCmd) limits() archive.Limits { return archive.Limits{Bytes: c.MaxGiB << 30} }

// write makes one archive beside a directory.
func (c archiveCmd) write(ctx context.Context, a *app, path string) error {
	if err := fail(exitUsage, definition.RefuseFiles(path)); err != nil {
		return err
	}
	dir, err := filepath.Abs(path)
	if err == nil {
		err = archive.Recover(dir)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return fail(exitUsage, err)
	}
	if err := c.allow(dir); err != nil {
		return fail(exitUsage, err)
	}
	file := dir + archive.Suffix
	entries, err := archive.Write(ctx, dir, file)
	if errors.Is(err, fs.ErrExist) && c.Remove { // a command that was interrupted before it removed anything
		entries, err = archive.Compare(ctx, dir, file, c.limits())
	}
	if errors.Is(err, fs.ErrExist) {
		return fail(exitUsage, fmt.Errorf("%w\n\thint: profllm archive --list %s", err, relative(file)))
	}
	if err != nil {
		return err
	}
	e := document.Summed(file, entries)
	if e.LeadsOut > 0 {
		a.logf("note: %s out of %s; the archive does not contain their targets, and --restore creates them only with --force",
			quantity.Clause(e.LeadsOut, "link", "lead"), relative(dir))
	}
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	e.Dir, e.Packed = dir, st.Size()
	a.sayArchived("%s: %d entries, %d bytes in %d, read back and compared\n", relative(file), e.Entries, e.Bytes,
		e.Packed)
	added := a.archived(e)
	if !c.Remove {
		return nil
	}
	if err := archive.Remove(dir, entries); err != nil {
		return err
	}
	added.Removed = true
	a.sayArchived("%s: removed\n", relative(dir))
	return nil
}

// allow refuses a directory whose runs may not be over, or that has secrets.
func (c archiveCmd) allow(dir string) error {
	open, err := run.OpenRuns(dir)
	if err != nil {
		return err
	}
	if len(open) > 0 && !c.Force {
		var lines []string
		for _, o := range open {
			line := o.Why
			if o.Dir != "" {
				line = relative(o.Dir) + ": " + o.Why
			}
			lines = append(lines, line)
		}
		return fmt.Errorf("%s was not archived:\n\t%s\n\thint: ask Slurm with profllm slurm status %s; --force archives it anyway", relative(dir), strings.Join(lines, "\n\t"), relative(dir))
	}
	kept, err := run.SecretsBelow(dir)
	if err == nil && kept != "" { // --force or not
		err = fmt.Errorf("%s was not archived: %s has secrets of a job whose end is not known\n\thint: profllm slurm status %s\n\tif the run is not submitted: rm -r %s", relative(dir), relative(kept), relative(dir), relative(kept))
	}
	return err
}

// absolute is a path for a program, which may run in another folder.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// archived adds an archive to the document, if there is one.
func (a *app) archived(e document.ArchiveEntry) *document.ArchiveEntry {
	d, ok := a.documentOf().(*document.Archive)
	if !ok {
		return &e
	}
	d.Archives = append(d.Archives, e)
	return &d.Archives[len(d.Archives)-1]
}

// sayArchived prints a line of text, unless the answer is a document.
func (a *app) sayArchived(format string, args ...any) {
	if !a.json() {
		fmt.Fprintf(a.stdout, format, args...)
	}
}

func (c archiveCmd) restore(ctx context.Context, a *app, file string) error {
	o := archive.Options{Limits: c.limits()}
	if c.Force {
		o.Links = archive.KeepLinks
	}
	dir, err := archive.Restore(ctx, file, filepath.Dir(file), o)
	switch {
	case errors.Is(err, archive.ErrLeadsOut):
		return fail(exitUsage, fmt.Errorf("%w\n\thint: --force creates them anyway", err))
	case err != nil:
		return fail(exitUsage, hinted(err))
	}
	a.archived(document.ArchiveEntry{File: absolute(file), Dir: dir})
	a.sayArchived("%s: restored\n", relative(dir))
	return nil
}

// hinted tells how to unpack more.
func hinted(err error) error {
	if errors.Is(err, archive.ErrLimit) {
		return fmt.Errorf("%w\n\thint: --max-gib allows more, if you trust the file", err)
	}
	return err
}

// list prints an archive as sha256sum would its files, with sizes.
func (c archiveCmd) list(ctx context.Context, a *app, file string) error {
	entries, err := archive.List(ctx, file, c.limits())
	if err != nil {
		return fail(exitUsage, hinted(err))
	}
	if a.json() {
		a.archived(document.Listed(absolute(file), entries))
		return nil
	}
	for _, e := range entries {
		what := "-"
		switch {
		case e.Mode.IsRegular():
			what = fmt.Sprintf("%x", e.SHA256)
		case e.LeadsOut():
			what = "leads out"
		}
		if _, err := fmt.Fprintf(a.stdout, "%s %12d  %-64s  %s\n", e.Mode, e.Size, what, e.Shown()); err != nil {
			return err
		}
	}
	return nil
}

// unpacked puts, in the place of each archive among paths, a folder with what it
// holds, which done removes.
func (a *app) unpacked(ctx context.Context, paths []string) (list []string, done func(), err error) {
	done = func() {
		for _, err := range a.archives.Remove() {
			a.logf("note: %v", err)
		}
	}
	for _, path := range paths {
		if !archive.Is(path) {
			list = append(list, path)
			continue
		}
		dir, isNew, err := a.archives.Unpack(ctx, path)
		var temp *archive.TempError
		switch {
		case errors.As(err, &temp):
			return nil, done, err
		case errors.Is(err, archive.ErrLimit):
			return nil, done, fail(exitUsage,
				fmt.Errorf("%w\n\thint: profllm archive --restore --max-gib 256 %s", err, relative(path)))
		case err != nil:
			return nil, done, fail(exitUsage, err)
		case isNew:
			a.logf("note: %s is read in a temporary folder; nothing is written back to it", path)
		}
		list = append(list, dir)
	}
	return list, done, nil
}
