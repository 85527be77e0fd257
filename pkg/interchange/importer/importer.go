// Package importer makes run directories of results that other benchmark programs wrote, and
// collects them. Results that were imported before are left as they are.
package importer

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/run"
)

// Importer makes run directories in one folder.
type Importer struct {
	Collector *collect.Collector
	Dir       string                   // of the run directories
	Relative  func(path string) string // shortens paths in errors
}

// Import makes the run directory of a result, unless it is there. Another result of that name
// gets the digest of its file as well. dir is the file itself if it cannot be read.
func (m Importer) Import(f interchange.File, it interchange.Item) (dir string, isNew bool, err error) {
	data, err := run.ReadFile(f.Source)
	if err != nil {
		return f.Source, false, err
	}
	mark := run.Import{
		Schema: "profllm.import/1", Format: string(f.Format), Path: f.Path, File: filepath.Base(f.Path),
		Digest: collect.Digest(data), Index: it.Index,
	}
	mark.RunID = it.RunID(mark.Digest)
	at := f.Place(it)
	mark.Suite = strings.Join(at[:max(1, len(at)-1)], "/")
	dir = filepath.Join(append([]string{m.Dir}, at...)...)
	for _, dir := range []string{dir, fmt.Sprintf("%s-%.8s", dir, strings.TrimPrefix(mark.Digest, "sha256:"))} {
		err := m.write(dir, mark, data)
		if !errors.Is(err, fs.ErrExist) {
			return dir, err == nil, err
		}
		var have run.Import
		if run.ReadJSON(filepath.Join(dir, run.ImportFile), &have) == nil &&
			have.Digest == mark.Digest && have.Index == mark.Index && have.Format == mark.Format {
			return dir, false, nil
		}
	}
	return dir, false, fmt.Errorf("%s exists and has other content\n\thint: name another folder with --output-dir",
		m.Relative(dir))
}

// write makes a run directory, which appears whole or not at all.
func (m Importer) write(dir string, mark run.Import, data []byte) error {
	return run.Whole(dir, func(temp string) error {
		if err := run.WriteFile(filepath.Join(temp, run.RawDir, mark.File), data, 0o644); err != nil {
			return err
		}
		if err := run.WriteJSON(filepath.Join(temp, run.ImportFile), mark); err != nil {
			return err
		}
		_, err := m.Collector.Write(temp, nil)
		return err
	})
}
