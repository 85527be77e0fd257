package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/collect/cache"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/interchange/importer"
	"github.com/profllm/profllm/pkg/result"
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
			return fail(exitUsage,
				errors.New("the folder for the run directories is missing\n\thint: profllm import FILE --output-dir DIR"))
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
	if err := a.client().CheckFolder("--output-dir", output); err != nil {
		return err
	}
	k := importing{app: a, output: output,
		doc: &document.Import{Head: document.NewHead("import"), Dir: output, Results: []document.Row{}}}
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
		return fail(exitUsage,
			fmt.Errorf("no result of a known format in %s\n\thint: profllm collect reads the output folders of load clients", strings.Join(c.Paths, " ")))
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
	col := k.client().Collector()
	dirs := importer.Importer{Collector: col, Dir: k.output, Relative: relative}
	out := k.newPrinter()
	made, there, failed, invalid := 0, 0, 0, 0
	for _, f := range files {
		for _, it := range f.Items {
			dir, isNew, err := dirs.Import(f, it)
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
	k.logf("imported %d, already present %d, unreadable %d, other files %d: %s", made, there, k.bad, unknown,
		relative(k.output))
	switch {
	case failed > 0:
		return exit(exitJobFailed)
	case invalid > 0 || k.bad > 0:
		return exit(exitInvalid)
	}
	return nil
}
