package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// searchProgram is what measured a search outside of a job.
const searchProgram = "profllm's bench search"

// A search that a time limit ends has no num_prompts to lower: it chooses the requests of each probe.
const (
	timeLimit     = "slurm-time-limit" // the cause
	shorterSearch = "raise time_limit, or let the search end before it: set search.time, lower search.probes, raise " +
		"search.tolerance or narrow search.min and search.max; then submit again; --continue keeps the finished points of a sweep"
)

// addSearch adds the answers of a search.
func addSearch(e *evidence, d *draft) {
	place := run.SearchFile // of a search outside of a job
	if e.plan != nil {
		place = path.Join(run.RawDir, run.SearchFile)
	}
	data, name, err := packed.Read(e.files, place, regular.Record)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var file struct {
		Schema string `json:"schema"`
		Probes []struct {
			Began time.Time `json:"began"`
		} `json:"probes"`
		Answers   []*result.Search `json:"answers"`
		Simulated bool             `json:"simulated"`
	}
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if ours := strings.HasPrefix(file.Schema, run.SearchSchemas); err == nil && ours && file.Schema != run.SearchSchema {
		err = fmt.Errorf("schema is %q, this profllm reads %s", file.Schema, run.SearchSchema)
	}
	if err != nil {
		d.late.add(result.Warning{Kind: result.Unreadable, File: name, Text: err.Error()})
		return
	}
	if e.plan == nil {
		if file.Schema != run.SearchSchema { // another program's
			return
		}
		d.record.Simulated = d.record.Simulated || file.Simulated
		if len(file.Probes) > 0 {
			d.record.Timestamp = file.Probes[0].Began.UTC()
		}
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
