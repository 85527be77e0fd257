package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/collect/cache"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

type importCmd struct {
	Paths     []string `arg:"" help:"Result files of other programs, or folders of them."`
	OutputDir string   `placeholder:"DIR" help:"Folder for the run directories (required); existing ones are kept."`
	Output    string   `default:"text" placeholder:"FORM" help:"text, or json (one document at the end, also if the command fails; see docs/reference/output.md). Any other value is taken as --output-dir."`
}

// folder is where the run directories go: --output was its only name once.
func (c *importCmd) folder() error {
	if c.Output == "text" || c.Output == "json" {
		if c.OutputDir == "" {
			return fail(exitUsage, errors.New("the folder for the run directories is missing\n\thint: profllm import FILE --output-dir DIR"))
		}
		return nil
	}
	if c.OutputDir != "" {
		return fail(exitUsage, fmt.Errorf("--output=%s: text or json, because --output-dir names the folder", c.Output))
	}
	c.Output, c.OutputDir = "text", c.Output
	return nil
}

// Run makes a run directory of each result. One file that cannot be read spoils
// nothing but itself.
func (c importCmd) Run(a *app) error {
	a.answer.wanted = c.Output == "json"
	if err := c.folder(); err != nil {
		return err
	}
	output, err := filepath.Abs(c.OutputDir)
	if err != nil {
		return err
	}
	k := importing{app: a, output: output, doc: &document.Import{Head: document.NewHead("import"), Dir: output, Results: []document.Row{}}}
	a.answers(k.doc)
	s := interchange.Scan{Skip: output, Name: relative, Spoilt: k.spoilt}
	var files []interchange.File
	for _, path := range c.Paths {
		found, err := s.Path(path)
		if err != nil {
			return fail(exitUsage, err)
		}
		kept, left := interchange.Once(found) // of each path: folders of one name are not the same
		files = append(files, kept...)
		for _, why := range left {
			a.logf("note: left out %s", why)
		}
	}
	if len(files) == 0 && s.Unreadable == 0 {
		return fail(exitUsage, fmt.Errorf("no result of a known format in %s\n\thint: profllm collect reads what load clients wrote in a folder of their own", strings.Join(c.Paths, " ")))
	}
	return k.keep(files, s.Unknown)
}

// importing makes run directories of results.
type importing struct {
	*app
	output string
	doc    *document.Import
	bad    int // files and results that cannot be read
}

// spoilt says what cannot be read.
func (k *importing) spoilt(name string, err error) {
	if name != "" && !strings.Contains(err.Error(), relative(name)) {
		err = fmt.Errorf("%s: %w", relative(name), err)
	}
	k.complain(err)
	k.bad++
}

// keep makes the run directories, shows the records and answers for the worst.
func (k *importing) keep(files []interchange.File, unknown int) error {
	col, err := k.client().Collector()
	if err != nil {
		return err
	}
	out := k.newPrinter()
	made, there, failed, invalid := 0, 0, 0, 0
	for _, f := range files {
		for _, it := range f.Items {
			dir, isNew, err := k.keepOne(col, f, it)
			if err == nil {
				var records []collect.Record
				if records, err = col.Run(dir, nil); err == nil {
					err = out.add(cache.Row{Dir: dir, Result: records[0].Result})
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
				k.spoilt(dir, err)
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
	d := k.doc
	d.Imported, d.Present, d.Unreadable, d.Other = made, there, k.bad, unknown
	k.logf("imported %d, already present %d, unreadable %d, other files %d: %s", made, there, k.bad, unknown, relative(k.output))
	switch {
	case failed > 0:
		return exit(exitJobFailed)
	case invalid > 0 || k.bad > 0:
		return exit(exitInvalid)
	}
	return nil
}

// keepOne makes the run directory of a result unless it is there. Another result of
// that name gets the digest of its file as well.
func (k *importing) keepOne(col *collect.Collector, f interchange.File, it interchange.Item) (dir string, isNew bool, err error) {
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
	dir = filepath.Join(append([]string{k.output}, at...)...)
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
	return dir, false, fmt.Errorf("%s exists and has other content\n\thint: name another folder with --output-dir", relative(dir))
}
