package document

import (
	"encoding/hex"

	"github.com/profllm/profllm/pkg/archive"
	"github.com/profllm/profllm/pkg/lockfile"
	"github.com/profllm/profllm/pkg/stage"
)

// Verify is the answer of verify.
type Verify struct {
	Head
	Files []FileEntry `json:"files"`
	// scenarios were planned for a cluster (--system), so that nodes, GPUs and ports were
	// checked
	SizesChecked bool `json:"sizes_checked"`
}

// FileEntry is what verify found in a file.
type FileEntry struct {
	File string `json:"file"`
	Kind string `json:"kind"` // system, scenario, test; file if that is not known
	OK   bool   `json:"ok"`

	NotRunnable string `json:"not_runnable,omitempty"` // why the file is in order, but cannot run
	// ids of a scenario's tests that cannot run, if others can
	TestsNotRunnable []string `json:"tests_not_runnable,omitempty"`

	Errors []Problem `json:"errors"`
}

// Lock is the answer of lock.
type Lock struct {
	Head
	Scenario string      `json:"scenario"`
	File     string      `json:"file,omitempty"` // that was written
	Text     string      `json:"text,omitempty"` // the lock file, without --save
	Runs     []LockedRun `json:"runs"`
}

// LockedRun is a run that a lock file reproduces.
type LockedRun struct {
	RunID string `json:"run_id"`
	Test  string `json:"test"`
}

// NewLock is the document of a lock file, without its text or where it was written.
func NewLock(f *lockfile.File) *Lock {
	d := &Lock{Head: NewHead("lock"), Scenario: f.Scenario, Runs: []LockedRun{}}
	for _, r := range f.Runs {
		d.Runs = append(d.Runs, LockedRun{r.RunID, r.Test})
	}
	return d
}

// Archive is the answer of archive.
type Archive struct {
	Head
	Archives []ArchiveEntry `json:"archives"` // that were written, restored or listed
}

// ArchiveEntry is an archive.
type ArchiveEntry struct {
	File     string         `json:"file"`
	Dir      string         `json:"dir,omitempty"`          // that was archived, or restored
	Entries  int            `json:"entries,omitempty"`      // directories, files and links in it
	Bytes    int64          `json:"bytes,omitempty"`        // of all files
	Packed   int64          `json:"packed_bytes,omitempty"` // of the archive
	LeadsOut int            `json:"leads_out,omitempty"`    // links that lead out of the directory
	Removed  bool           `json:"removed,omitempty"`      // the directory was removed
	List     []ArchivedFile `json:"list,omitempty"`         // with --list
}

// ArchivedFile is one entry of an archive.
type ArchivedFile struct {
	Name   string `json:"name"`
	Mode   string `json:"mode"` // as ls shows it
	Size   int64  `json:"size_bytes"`
	SHA256 string `json:"sha256,omitempty"` // of a file
	Link   string `json:"link,omitempty"`   // where a link leads
}

// Summed is an archive with the sums of its entries.
func Summed(file string, entries []archive.Entry) ArchiveEntry {
	out := ArchiveEntry{File: file, Entries: len(entries)}
	for _, e := range entries {
		out.Bytes += e.Size
		if e.LeadsOut() {
			out.LeadsOut++
		}
	}
	return out
}

// Listed is an archive with its entries.
func Listed(file string, entries []archive.Entry) ArchiveEntry {
	out := Summed(file, entries)
	out.List = []ArchivedFile{}
	for _, e := range entries {
		f := ArchivedFile{Name: e.Name, Mode: e.Mode.String(), Size: e.Size, Link: e.Link}
		if e.Mode.IsRegular() {
			f.SHA256 = hex.EncodeToString(e.SHA256[:])
		}
		out.List = append(out.List, f)
	}
	return out
}

// Stage is the answer of stage and image stage.
type Stage struct {
	Head
	Items []stage.Outcome `json:"items"`
}

// Images is the answer of image list and image prune.
type Images struct {
	Head
	Images []stage.Entry `json:"images"` // staged images; those that prune removed
}
