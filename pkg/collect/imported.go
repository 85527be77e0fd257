package collect

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
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
			return c.judged(it, mark), nil
		}
	}
	return nil, errors.Join(fmt.Errorf("%s: no result %d of format %s in it", file, mark.Index, mark.Format), err)
}

func (c *Collector) judged(it interchange.Item, mark run.Import) *result.Result {
	r := it.Record
	r.RunID, r.Suite = mark.RunID, mark.Suite
	r.Provenance.Profllm = c.Version
	i := r.Provenance.Imported
	i.File, i.Digest, i.Index = mark.File, mark.Digest, mark.Index
	i.Fields, _ = masked(i.Fields).(map[string]any)
	r.Config.Server, _ = masked(r.Config.Server).(map[string]any)
	for k := range r.Config.Roles {
		r.Config.Roles[k].Server, _ = masked(r.Config.Roles[k].Server).(map[string]any)
	}
	if r.Results.Source == "" {
		r.Results.Source = mark.File
	}
	for k := range r.Warnings {
		r.Warnings[k].File, r.Warnings[k].Text = mark.File, redact.Line(r.Warnings[k].Text)
	}
	r.FindProfiler()
	r.Derive()
	r.MetricsVersion = result.MetricsVersion
	r.Validity = result.Judge(r, it.Evidence)
	switch numbers := r.Results.Measured() && (r.Results.CompletedRequests == nil || *r.Results.CompletedRequests > 0); {
	case numbers && r.Validity.Valid:
		r.Status = result.Completed
	case numbers:
		r.Status = result.Partial
	default:
		r.Status = result.Failed
	}
	return r
}

// masked is a value without what has the shape of a secret, or the name of one.
func masked(v any) any {
	switch x := v.(type) {
	case map[string]any:
		if x == nil {
			return x
		}
		out := make(map[string]any, len(x))
		for k, y := range x {
			if text, ok := y.(string); ok {
				out[k] = strings.TrimPrefix(redact.Line(k+"="+text), k+"=")
				continue
			}
			out[k] = masked(y)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for k, y := range x {
			out[k] = masked(y)
		}
		return out
	case string:
		return redact.Line(x)
	}
	return v
}

// Digest names the content of a file.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
