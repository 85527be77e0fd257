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

// Run goes on with the other paths behind one that is refused.
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
	a.answers(&archiveDocument{head: head{Schema: "profllm.output.archive/1"}, Archives: []archiveEntry{}})
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
	if err := noDefinitions(path); err != nil {
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
	if open, err := stillOpen(dir); err != nil {
		return fail(exitUsage, err)
	} else if len(open) > 0 && !c.Force {
		return fail(exitUsage, fmt.Errorf("%s was not archived:\n\t%s\n\thint: ask Slurm with profllm slurm status %s; --force archives it anyway", relative(dir), strings.Join(open, "\n\t"), relative(dir)))
	}
	if kept, err := keepSecrets(dir); err != nil {
		return fail(exitUsage, err)
	} else if kept != "" { // --force or not
		return fail(exitUsage, fmt.Errorf("%s was not archived: %s has secrets of a job whose end is not known\n\thint: profllm slurm status %s\n\tif the run is not submitted: rm -r %s", relative(dir), relative(kept), relative(dir), relative(kept)))
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
	var bytes int64
	out := 0
	for _, e := range entries {
		bytes += e.Size
		if e.LeadsOut() {
			out++
		}
	}
	if out > 0 {
		a.logf("note: %s out of %s; the archive does not contain their targets, and --restore creates them only with --force",
			quantity.Clause(out, "link", "lead"), relative(dir))
	}
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	e := a.archived(archiveEntry{File: file, Dir: dir, Entries: len(entries), Bytes: bytes, Packed: st.Size(), LeadsOut: out})
	a.sayArchived("%s: %d entries, %d bytes in %d, read back and compared\n", relative(file), len(entries), bytes, st.Size())
	if !c.Remove {
		return nil
	}
	if err := archive.Remove(dir, entries); err != nil {
		return err
	}
	e.Removed = true
	a.sayArchived("%s: removed\n", relative(dir))
	return nil
}

// absolute is a path for a program, which may run in another folder.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// archived adds an archive to the document, if there is one.
func (a *app) archived(e archiveEntry) *archiveEntry {
	d, ok := a.documentOf().(*archiveDocument)
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

// keepSecrets returns a directory of secrets below dir, "" for none.
func keepSecrets(dir string) (string, error) {
	dirs, err := run.Find(dir)
	for _, d := range dirs {
		if run.KeepsSecrets(d) {
			return filepath.Join(d, run.SecretDir), err
		}
	}
	return "", err
}

// stillOpen lists the runs of a directory that are not known to be over, and why.
func stillOpen(dir string) ([]string, error) {
	dirs, err := run.Find(dir)
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(filepath.Join(dir, run.ScenarioFile))
	if err != nil && (len(dirs) == 0 || dirs[0] != dir) {
		return []string{"it is neither the directory of a scenario nor that of a run"}, nil
	}
	var open []string
	var book run.Book
	for _, d := range dirs {
		if why := whyOpen(&book, d); why != "" {
			open = append(open, fmt.Sprintf("%s: %s", relative(d), why))
		}
	}
	return open, nil
}

// whyOpen says why a run is not known to be over, "" if it is: from what is on
// disk, of the job that was submitted last.
func whyOpen(book *run.Book, dir string) string {
	if _, err := os.Stat(filepath.Join(dir, run.ImportFile)); err == nil {
		return "" // another program's, and over before it was imported
	}
	if !isRunDir(dir) {
		return "it has no plan, and nothing says whether it is over"
	}
	sub, err := book.ReadSubmission(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "it was not submitted, or nobody knows"
	case err != nil:
		return err.Error()
	case sub.Refused != "":
		return ""
	}
	var st run.State
	if run.ReadJSON(filepath.Join(dir, run.StateFile), &st) == nil && st.JobID == sub.JobID && st.Final() {
		return ""
	}
	var end run.Sentinel
	if run.ReadJSON(filepath.Join(dir, run.SentinelFile), &end) == nil && end.JobID == sub.JobID {
		return ""
	}
	return fmt.Sprintf("it is not known whether job %s is over", sub.JobID)
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
	a.archived(archiveEntry{File: absolute(file), Dir: dir})
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
		a.archived(listed(absolute(file), entries))
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
		name := plainName(e.Name)
		if e.Link != "" {
			name += " -> " + plainName(e.Link)
		}
		if _, err := fmt.Fprintf(a.stdout, "%s %12d  %-64s  %s\n", e.Mode, e.Size, what, name); err != nil {
			return err
		}
	}
	return nil
}

// plainName is a name as it stands, or quoted if it could be taken for more.
func plainName(name string) string {
	if q := fmt.Sprintf("%q", name); q != `"`+name+`"` {
		return q
	}
	return name
}

// unpacked puts, in the place of each archive among paths, a folder with what it
// holds, which done removes. a.archives knows what they are called.
func (a *app) unpacked(ctx context.Context, paths []string) (list []string, done func(), err error) {
	var temps []string
	done = func() {
		for _, t := range temps {
			if err := os.RemoveAll(t); err != nil {
				a.logf("note: %v", err)
			}
		}
	}
	for _, path := range paths {
		if st, err := os.Stat(path); !strings.HasSuffix(path, archive.Suffix) || err != nil || !st.Mode().IsRegular() {
			list = append(list, path)
			continue
		}
		if dir := a.unpackedTo(path); dir != "" { // both sides of a comparison may be the same
			list = append(list, dir)
			continue
		}
		temp, err := archive.TempDir()
		if err != nil {
			return nil, done, err
		}
		temps = append(temps, temp)
		if temp, err = filepath.Abs(temp); err != nil {
			return nil, done, err
		}
		dir, err := archive.Restore(ctx, path, temp, archive.Options{Links: archive.SkipLinks})
		if err != nil {
			if errors.Is(err, archive.ErrLimit) {
				err = fmt.Errorf("%w\n\thint: profllm archive --restore --max-gib 256 %s", err, relative(path))
			}
			return nil, done, fail(exitUsage, err)
		}
		if a.archives == nil {
			a.archives = map[string]string{}
		}
		a.archives[dir] = path
		a.logf("note: %s is read in a temporary folder; nothing is written back to it", path)
		list = append(list, dir)
	}
	return list, done, nil
}

// unpackedTo is where an archive has been unpacked to, "" if it has not.
func (a *app) unpackedTo(file string) string {
	for dir, from := range a.archives {
		if _, err := os.Stat(dir); from == file && err == nil {
			return dir
		}
	}
	return ""
}

// called is a path, or a text with paths, as it is to be printed: with the name of
// the archive in the place of the folder that it was unpacked to.
func (a *app) called(text string) string {
	for dir, file := range a.archives {
		text = strings.ReplaceAll(text, dir, file)
	}
	return text
}

// onDisk is where a path lies that called has named.
func (a *app) onDisk(path string) string {
	for dir, file := range a.archives {
		if below, ok := strings.CutPrefix(path, file+"/"); ok {
			return filepath.Join(dir, below)
		}
	}
	return path
}

// inArchive is the place of a run that called has named, below its archive.
func inArchive(dir string) (string, bool) {
	for root := dir; root != filepath.Dir(root); root = filepath.Dir(root) {
		if st, err := os.Stat(root); err == nil && strings.HasSuffix(root, archive.Suffix) && st.Mode().IsRegular() {
			name, err := filepath.Rel(filepath.Dir(root), dir)
			return name, err == nil
		}
	}
	return "", false
}
