package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	json "github.com/go-json-experiment/json/v1"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/collect/index"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/trajectory"
)

// Row is a record and the directory of its run or load.
type Row struct {
	Dir    string
	Result *result.Result
	NoJob  string // why no verdict will come: see Collected.NoJob

	brief bool // Result is what the index keeps, see Read
}

// Read reads the record of a row of which only what the index keeps is known.
func (r *Row) Read() error {
	if !r.brief {
		return nil
	}
	file := filepath.Join(r.Dir, run.ResultFile)
	data, err := regular.ReadFile(file)
	if err != nil {
		return err
	}
	var whole result.Result
	if err := json.Unmarshal(data, &whole); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	r.Result, r.brief = &whole, false
	return nil
}

// keptRun is what an index keeps of a run.
type keptRun struct {
	State string            `json:"state"` // of the job
	Rows  []keptRow         `json:"rows"`
	Sweep *trajectory.Sweep `json:"sweep,omitempty"`
}

// keptRow is a row without what is not printed of many runs.
type keptRow struct {
	Dir    string         `json:"dir"` // below the run's
	Result *result.Result `json:"result"`
}

// recalled is what became of a run by its entry, which may be nil.
func recalled(dir string, e *index.Entry) (c Collected, ok bool) {
	var kept keptRun
	if e == nil || json.Unmarshal(e.Shown, &kept) != nil {
		return c, false
	}
	c = Collected{Dir: dir, State: kept.State, Sweep: kept.Sweep}
	for _, r := range kept.Rows {
		c.Rows = append(c.Rows, Row{Dir: filepath.Join(dir, r.Dir), Result: r.Result, brief: true})
	}
	return c, true
}

// keep remembers what became of a run, which look has seen before it was read.
func keep(x *index.Index, look *index.Look, c Collected, st *run.State, records []collect.Record) {
	if len(records) == 0 {
		x.Keep(c.Dir, nil, index.Entry{}, nil)
		return
	}
	folders, files, err := collect.Outside(c.Dir, records[0].Plan)
	if err != nil || c.Err != nil {
		look = nil
	}
	kept := keptRun{State: c.State, Sweep: c.Sweep}
	var content []byte
	for _, rec := range records {
		below, err := filepath.Rel(c.Dir, rec.Dir)
		if err != nil {
			look = nil
		}
		if below == "." {
			content = rec.Data
		}
		kept.Rows = append(kept.Rows, keptRow{below, brief(rec.Result)})
	}
	data, err := json.Marshal(kept)
	if err != nil {
		look = nil
	}
	x.Keep(c.Dir, look, index.Entry{
		Asked: digest(st), Stays: finalFrom(st, c.Dir), Shown: data, Folders: folders, Files: files,
	}, content)
}

// finalFrom is the time, in ns since 1970, from which on a scheduler says the same of a job for
// good, 0 if that cannot be known.
func finalFrom(st *run.State, dir string) int64 {
	if st == nil || st.Outdated(dir) {
		return 0
	}
	from, ok := st.KeptFrom()
	switch {
	case !ok:
		return 0
	case from.IsZero():
		return 1
	}
	return from.UnixNano()
}

// digest is a digest of what a scheduler says of a job.
func digest(st *run.State) string {
	data, err := json.Marshal(st)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// brief is a record without what is not printed of many runs.
func brief(r *result.Result) *result.Result {
	b := *r
	b.Config, b.Results, b.Accuracy = result.Config{}, result.Metrics{}, nil
	b.System, b.Profiling, b.Placement, b.Slurm, b.Repeats = nil, nil, nil, nil, nil
	if p := r.Provenance; p != nil {
		b.Provenance = &result.Provenance{Foreign: p.Foreign}
		if p.Imported != nil {
			b.Provenance.Imported = &result.Imported{From: p.Imported.From}
		}
	}
	if v := r.Validity; v != nil {
		few := result.Validity{Valid: v.Valid, Verdict: v.Verdict}
		for _, c := range v.Checks {
			if c.Outcome == result.Fail && (c.Severity == result.Invalid || c.Severity == result.Suspect) {
				few.Checks = append(few.Checks, c)
			}
		}
		b.Validity = &few
	}
	if f := r.Failure; f != nil {
		first := *f
		first.Tail, first.Others = nil, nil
		b.Failure = &first
	}
	return &b
}
