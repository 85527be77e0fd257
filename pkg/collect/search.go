package collect

import (
	"encoding/json"
	"errors"
	"io/fs"
	"slices"

	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
)

// searchFile is what a search for the highest load leaves beside its probes.
const searchFile = "raw/search.json"

// addSearch adds the answers of a search.
func addSearch(e *evidence, d *draft) {
	data, name, err := packed.Read(e.files, searchFile, regular.Record)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var file struct {
		Answers []*result.Search `json:"answers"`
	}
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil {
		d.late.add(result.Warning{Kind: result.Unreadable, File: name, Text: err.Error()})
		return
	}
	d.searched = true
	d.record.Search = slices.DeleteFunc(file.Answers, func(s *result.Search) bool { return s == nil })
}

// addSearchShare marks the engines' counters of a search: they are those of all its probes, and the
// numbers of the record those of one.
func addSearchShare(e *evidence, d *draft) {
	if !d.searched {
		return
	}
	for i := range d.record.Results.Server {
		d.record.Results.Server[i].Others = true
	}
}
