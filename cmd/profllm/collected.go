package main

import (
	"errors"

	"github.com/profllm/profllm/pkg/collect/cache"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/summary"
)

// printer shows results in the order in which they come: as parts of a document, or as text at
// the end.
type printer struct {
	app      *app
	document recordDocument // nil prints text
	text     summary.Results
}

// recordDocument is a document that takes records.
type recordDocument interface{ Add(r document.Row) error }

func (a *app) newPrinter() *printer {
	d, _ := a.documentOf().(recordDocument)
	return &printer{app: a, document: d, text: summary.Results{Relative: relative}}
}

func (p *printer) add(r cache.Row) error {
	if p.document == nil {
		p.text.Add(r)
		return nil
	}
	if err := r.Read(); err != nil {
		return err
	}
	return p.document.Add(document.Row{Dir: r.Dir, Result: r.Result, NoJob: r.NoJob})
}

func (p *printer) end() error {
	if p.document != nil {
		return nil
	}
	blocks, err := p.text.Blocks()
	return errors.Join(err, p.app.printBlocks(blocks...))
}
