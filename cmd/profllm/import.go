package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

type importCmd struct {
	Paths  []string `arg:"" help:"Result files of other programs, or folders of them."`
	Output string   `required:"" placeholder:"DIR" help:"Folder for the run directories; what is there already stays as it is."`
}

// Run makes a run directory of each result. One file that cannot be read spoils
// nothing but itself.
func (c importCmd) Run(a *app) error {
	output, err := filepath.Abs(c.Output)
	if err != nil {
		return err
	}
	s := foreignScan{app: a, output: output}
	var files []interchange.File
	for _, path := range c.Paths {
		s.files = nil
		if err := s.path(path); err != nil {
			return fail(exitUsage, err)
		}
		kept, left := interchange.Once(s.files) // of each path: folders of one name are not the same
		files = append(files, kept...)
		for _, why := range left {
			a.logf("note: left out %s", why)
		}
	}
	if len(files) == 0 && s.bad == 0 {
		return fail(exitUsage, fmt.Errorf("no result of a known format in %s\n\thint: profllm collect reads what load clients wrote in a folder of their own", strings.Join(c.Paths, " ")))
	}
	return s.keep(files)
}

// foreignScan looks for results of other programs.
type foreignScan struct {
	*app
	output  string
	files   []interchange.File // of one path
	bad     int                // files and results that cannot be read
	unknown int                // files of a form that is read, of no known format
}

// path takes a file, or what lies in a folder.
func (s *foreignScan) path(path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if own := ownRun(abs); own != "" {
		return fmt.Errorf("%s belongs to the run %s\n\thint: profllm collect %s", path, relative(own), relative(own))
	}
	above := filepath.Dir(abs)
	if !info.IsDir() {
		return s.file(abs, filepath.Dir(above), true)
	}
	return filepath.WalkDir(abs, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			s.logf("%v%s", err, campaign.Hint(err))
			s.bad++
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			if name == s.output || name != abs && isOwn(name) {
				return fs.SkipDir
			}
			return nil
		case d.Type().IsRegular() && slices.Contains([]string{".json", ".yaml", ".yml", ".csv"}, filepath.Ext(name)):
			return s.file(name, above, false)
		}
		return nil
	})
}

// isOwn reports whether a directory is a run that collect reads.
func isOwn(dir string) bool {
	for _, name := range []string{run.PlanFile, run.ImportFile, run.LoadFile, "test-run.toml"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// ownRun finds the run that a path lies in, "" for none.
func ownRun(path string) string {
	for range 4 { // <run>/attempts/<n>/raw
		if isOwn(path) {
			return path
		}
		path = filepath.Dir(path)
	}
	return ""
}

// file reads one file. Only what was named itself must be of a known format.
func (s *foreignScan) file(name, above string, alone bool) error {
	rel, err := filepath.Rel(above, name)
	if err != nil {
		return err
	}
	data, err := regular.ReadAtMost(name, interchange.MaxSize)
	if errors.Is(err, regular.ErrLarge) && !alone && !interchange.Suspected(name, nil) {
		s.unknown++
		return nil
	}
	if err != nil {
		return s.spoilt(name, err)
	}
	key := filepath.ToSlash(rel)
	format, items, err := interchange.Read(key, data)
	switch {
	case errors.Is(err, interchange.ErrUnknown) && alone:
		return fmt.Errorf("%s: %w; known are %s\n\thint: profllm collect reads what load clients wrote in a folder of their own", relative(name), interchange.ErrUnknown, interchange.Names())
	case errors.Is(err, interchange.ErrUnknown), err != nil && format == "" && !alone && !interchange.Suspected(name, data):
		s.unknown++
		return nil
	case err != nil:
		if err := s.spoilt(name, named(err, key, relative(name))); err != nil {
			return err
		}
	}
	if len(items) > 0 {
		for i := range items {
			items[i].Evidence = result.Evidence{} // of thousands of files; the copy is read again
		}
		s.files = append(s.files, interchange.File{Path: key, Source: name, Alone: alone, Format: format, Items: items})
	}
	return nil
}

// named is an error with the path that the user knows.
func named(err error, key, path string) error {
	return errors.New(strings.ReplaceAll(err.Error(), key, path))
}

// spoilt says what cannot be read, and goes on.
func (s *foreignScan) spoilt(name string, err error) error {
	text := err.Error()
	if !strings.Contains(text, relative(name)) {
		text = relative(name) + ": " + text
	}
	s.logf("%s%s", text, campaign.Hint(err))
	s.bad++
	return nil
}

// keep makes the run directories, shows the records and answers for the worst.
func (s *foreignScan) keep(files []interchange.File) error {
	col, err := s.client().Collector()
	if err != nil {
		return err
	}
	out := s.newPrinter("text")
	made, there, failed, invalid := 0, 0, 0, 0
	for _, f := range files {
		for _, it := range f.Items {
			dir, isNew, err := s.keepOne(col, f, it)
			if err == nil {
				var records []collect.Record
				if records, err = col.Run(dir, nil); err == nil {
					err = out.add(row{Dir: dir, Result: records[0].Result})
					switch r := records[0].Result; {
					case r.Status == result.Failed:
						failed++
					case !r.Validity.Valid:
						invalid++
					}
				}
			}
			switch {
			case err != nil:
				_ = s.spoilt(dir, err)
			case isNew:
				made++
			default:
				there++
			}
		}
	}
	if err := out.end(); err != nil {
		return err
	}
	s.logf("imported %d, there before %d, cannot be read %d, other files %d: %s", made, there, s.bad, s.unknown, relative(s.output))
	switch {
	case failed > 0:
		return exit(exitJobFailed)
	case invalid > 0 || s.bad > 0:
		return exit(exitInvalid)
	}
	return nil
}

// keepOne makes the run directory of a result unless it is there. Another result of
// that name gets the digest of its file as well.
func (s *foreignScan) keepOne(col *collect.Collector, f interchange.File, it interchange.Item) (dir string, isNew bool, err error) {
	data, err := run.ReadFile(f.Source)
	if err != nil {
		return f.Source, false, err
	}
	mark := run.Import{
		Schema: "profllm.import/1", Format: string(f.Format), Path: f.Path, File: filepath.Base(f.Path), Digest: collect.Digest(data), Index: it.Index,
	}
	mark.RunID = it.RunID(mark.Digest)
	at := f.Place(it)
	mark.Suite = strings.Join(at[:max(1, len(at)-1)], "/")
	dir = filepath.Join(append([]string{s.output}, at...)...)
	for _, dir := range []string{dir, fmt.Sprintf("%s-%.8s", dir, strings.TrimPrefix(mark.Digest, "sha256:"))} {
		err := run.Whole(dir, func(temp string) error {
			if err := run.WriteFile(filepath.Join(temp, run.RawDir, mark.File), data, 0o644); err != nil {
				return err
			}
			if err := run.WriteJSON(filepath.Join(temp, run.ImportFile), mark); err != nil {
				return err
			}
			_, err := col.Write(temp, nil)
			return err
		})
		if !errors.Is(err, fs.ErrExist) {
			return dir, err == nil, err
		}
		var have run.Import
		if run.ReadJSON(filepath.Join(dir, run.ImportFile), &have) == nil && have.Digest == mark.Digest && have.Index == mark.Index && have.Format == mark.Format {
			return dir, false, nil
		}
	}
	return dir, false, fmt.Errorf("%s: something else is there\n\thint: name another folder with --output", relative(dir))
}
