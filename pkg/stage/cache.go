package stage

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/container"
	"github.com/profllm/profllm/pkg/regular"
)

// Entry is one file of the cache below install_path.
type Entry struct {
	Record
	Path     string    `json:"path"`
	Size     int64     `json:"size_on_disk_bytes"`
	Modified time.Time `json:"modified"`
	State    string    `json:"state"` // one of the states below
}

// States of an Entry.
const (
	Good     = "ok"           // an image with its record
	Foreign  = "no record"    // an image that another tool left
	Differs  = "differs"      // an image whose size is not the recorded one
	Partial  = "interrupted"  // what an interrupted staging left
	Busy     = "being staged" // what one that goes on works on
	Orphaned = "record only"  // a record whose image is gone
)

// List returns the content of the cache, sorted by name. A missing cache is empty.
func List(dir, host string) ([]Entry, error) {
	files, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			continue // gone meanwhile
		}
		e := Entry{Path: filepath.Join(dir, f.Name()), Size: info.Size(), Modified: info.ModTime()}
		if e.State = e.inspect(host, f.IsDir()); e.State != "" {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return entries, nil
}

// inspect says what a file of the cache is, "" for none of ours.
func (e *Entry) inspect(host string, dir bool) string {
	name := filepath.Base(e.Path)
	switch {
	case strings.HasPrefix(name, ".") && strings.Contains(name, partial):
		final, _, _ := strings.Cut(strings.TrimPrefix(name, "."), partial)
		if _, stale, _, err := read(filepath.Join(filepath.Dir(e.Path), final+".lock"), host); err == nil && !stale {
			return Busy
		}
		return Partial
	case dir:
		return ""
	case strings.HasSuffix(name, ".lock"):
		if _, stale, _, err := read(e.Path, host); err != nil || !stale {
			return ""
		}
		return Partial
	case strings.HasSuffix(name, ".json"):
		final := strings.TrimSuffix(e.Path, ".json")
		if _, err := os.Stat(final); !os.IsNotExist(err) || !readRecord(e.Path, &e.Record) {
			return ""
		}
		if _, stale, _, err := read(final+".lock", host); err == nil && !stale {
			return "" // its image is about to be renamed
		}
		return Orphaned
	case !container.HasExtension(filepath.Ext(name)):
		return ""
	case !readRecord(e.Path+".json", &e.Record):
		return Foreign
	case e.Record.Size != e.Size:
		return Differs
	}
	return Good
}

func readRecord(file string, r *Record) bool {
	data, err := regular.ReadFile(file)
	return err == nil && json.Unmarshal(data, r) == nil && r.Schema == recordSchema
}

// Prune removes leftovers of interrupted stagings, records whose images are gone, and, if
// olderThan is not 0, older images with a record. Files of other tools stay. It returns
// what it removed or, with dry, would remove.
func Prune(dir, host string, olderThan time.Duration, now time.Time, dry bool) ([]Entry, error) {
	all, err := List(dir, host)
	if err != nil {
		return nil, err
	}
	var gone []Entry
	for _, e := range all {
		old := olderThan > 0 && now.Sub(e.Modified) > olderThan && (e.State == Good || e.State == Differs)
		if !old && e.State != Partial && e.State != Orphaned {
			continue
		}
		gone = append(gone, e)
		if dry {
			continue
		}
		if err := os.RemoveAll(e.Path); err != nil {
			return gone, fmt.Errorf("prune: %w", err)
		}
		if old {
			if err := os.Remove(e.Path + ".json"); err != nil && !os.IsNotExist(err) {
				return gone, fmt.Errorf("prune: %w", err)
			}
		}
	}
	return gone, nil
}
