package collect

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/validity"
)

// imported computes the record of a run that another program measured, from the
// copy of that program's file.
func (c *Collector) imported(dir string, mark run.Import) (*result.Result, error) {
	if mark.File != filepath.Base(mark.File) {
		return nil, fmt.Errorf("%s: no file of %s: %q", filepath.Join(dir, run.ImportFile), run.RawDir, mark.File)
	}
	file := filepath.Join(dir, run.RawDir, mark.File)
	data, err := regular.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if have := Digest(data); have != mark.Digest {
		return nil, fmt.Errorf("%s: changed since it was imported: %s, was %s\n\thint: remove %s and import the file again", file, have, mark.Digest, dir)
	}
	// A run of a sweep is told from others by its folder.
	format, items, err := interchange.Read(mark.Path, data)
	for _, it := range items {
		if it.Index == mark.Index && string(format) == mark.Format {
			return c.importedResult(it, mark), nil
		}
	}
	return nil, errors.Join(fmt.Errorf("%s: no result %d of format %s in it", file, mark.Index, mark.Format), err)
}

func (c *Collector) importedResult(it interchange.Item, mark run.Import) *result.Result {
	r := it.Record
	r.Schema, r.RunID, r.Suite = result.SchemaV1, mark.RunID, mark.Suite
	r.Provenance.Profllm = c.Version
	i := r.Provenance.Imported
	i.File, i.Digest, i.Index = mark.File, mark.Digest, mark.Index
	if r.Results.Source == "" {
		r.Results.Source = mark.File
	}
	for k := range r.Warnings {
		r.Warnings[k].File = mark.File
	}
	r.FindProfiler()
	r.Redact()
	r.Derive()
	r.MetricsVersion = result.MetricsVersion
	r.Validity = validity.Judge(r, it.Evidence)
	switch numbers := r.Results.Measured() &&
		(r.Results.CompletedRequests == nil || *r.Results.CompletedRequests > 0); {
	case numbers && r.Validity.Valid:
		r.Status = result.Completed
	case numbers:
		r.Status = result.Partial
	default:
		r.Status = result.Failed
	}
	return r
}

// Digest names the content of a file.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
