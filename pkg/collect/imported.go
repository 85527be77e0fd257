package collect

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/validity"
)

// imported computes the record of a run that another program measured, from the
// copy of that program's file.
func (c *Collector) imported(dir string, mark run.Import) (*result.Result, error) {
	if m := mark.Measured; m != nil && m.Error != "" {
		return c.importedResult(interchange.Item{Record: unmeasured(m)}, mark), nil
	}
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
	if mark.Measured != nil {
		addMeasured(r, &it.Evidence, mark.Measured)
	}
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
	switch numbers := (r.Results.Measured() || r.Results.Offline != nil) &&
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

// unmeasured is the record of a load whose client left no result.
func unmeasured(m *run.Measured) *result.Result {
	return &result.Result{
		Config:     result.Config{Server: map[string]any{"model": m.Model}},
		Provenance: &result.Provenance{Imported: &result.Imported{}},
		Warnings:   []result.Warning{{Kind: result.ClientFailed, Text: m.Error}},
	}
}

// addMeasured adds what profllm asked the client for, which the client's file does not say.
func addMeasured(r *result.Result, e *validity.Evidence, m *run.Measured) {
	r.Timestamp, r.Simulated = m.Started.UTC(), r.Simulated || m.Simulated
	r.Provenance.Simulated = r.Simulated
	if m.Failure != "" {
		r.Warnings = append(r.Warnings, result.Warning{Kind: result.ClientFailed, Text: m.Failure})
	}
	r.Provenance.Imported.From, r.Provenance.Imported.Format = m.Client, string(interchange.VLLMServe)
	r.Warnings = slices.DeleteFunc(r.Warnings, func(w result.Warning) bool { return w.Kind == "no-zone" })
	r.Config.Settings = map[string]string{result.ModelSetting: m.Model}
	plan.Flatten(r.Config.Settings, "bench_cmd_args", m.Arguments)
	delete(r.Config.Settings, plan.LabelSetting)
	b, x := &r.Config.Benchmark, m.Expect
	b.Kind = m.Client
	b.Endpoint, _ = m.Arguments["endpoint"].(string)
	b.DatasetName, _ = m.Arguments["dataset_name"].(string)
	if x.IgnoreEOS {
		b.InputTokens, b.OutputTokens, b.IgnoreEOS = &x.InputTokens, &x.OutputTokens, &x.IgnoreEOS
	}
	b.NumPrompts, b.Goodput = &x.NumPrompts, x.Goodput
	e.Planned = validity.Planned{
		NumPrompts: x.NumPrompts, InputTokens: x.InputTokens, OutputTokens: x.OutputTokens, IgnoreEOS: x.IgnoreEOS,
		Concurrency: x.Concurrency, RequestRate: x.RequestRate, Warmups: x.Warmups, SharedInput: x.SharedInput,
		Model: m.Model,
	}
}
