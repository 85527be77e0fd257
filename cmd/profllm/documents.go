package main

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"

	"github.com/profllm/profllm/pkg/archive"
	"github.com/profllm/profllm/pkg/lockfile"
	"github.com/profllm/profllm/pkg/nightly"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/stage"
	"github.com/profllm/profllm/pkg/story"
)

// The documents of --output json. docs/reference/output.md is written from them.

// errorSchema is the form of a command that fails before it has an answer.
const errorSchema = "profllm.output.error/1"

type errorDocument struct{ head }

// jobsDocument is the answer of submit, resume and rehearse.
type jobsDocument struct {
	head
	Root    string      `json:"root"`              // the scenario's directory
	Jobs    []jobEntry  `json:"jobs"`              // in the order of submission, with those submitted earlier
	Left    []leftEntry `json:"left,omitempty"`    // resume: why runs are submitted again, or are not
	Results []row       `json:"results,omitempty"` // with --wait, --watch and of rehearse: the records, as of collect
}

// jobEntry is a job that was submitted, or found.
type jobEntry struct {
	JobID   string   `json:"job_id"`
	Dir     string   `json:"dir"`               // of the run, or of the batch of runs
	Runs    []string `json:"runs"`              // directories of the runs that the job executes
	Adopted bool     `json:"adopted,omitempty"` // an interrupted command had submitted it
	Waits   []string `json:"waits,omitempty"`   // what it waits for, as afterok:60
}

// leftEntry counts runs.
type leftEntry struct {
	Runs int    `json:"runs"`
	Why  string `json:"why"`
}

func newJobs(verb string) *jobsDocument {
	return &jobsDocument{head: head{Schema: "profllm.output." + verb + "/1"}, Jobs: []jobEntry{}}
}

func (d *jobsDocument) submitted(o run.Outcome) {
	s := o.Submission
	d.Jobs = append(d.Jobs, jobEntry{s.JobID, o.Dir, slices.Clone(o.Unit.Runs()), s.Adopted, s.Waits})
}

func (d *jobsDocument) add(r row) error {
	d.Results = append(d.Results, r)
	return nil
}

// statesDocument is the answer of status and cancel.
type statesDocument struct {
	head
	Runs []stateEntry `json:"runs"`
}

// stateEntry is a run and its job.
type stateEntry struct {
	Dir        string         `json:"dir"`
	Submission run.Submission `json:"submission"` // as in submit.json; without job_id if there is no job
	State      run.State      `json:"state"`      // as in state.json
}

// collectDocument is the answer of collect. Its results are printed as they come.
type collectDocument struct {
	head
	Results []row `json:"results"` // as they come

	out io.Writer
	n   int
}

func (d *collectDocument) add(r row) error {
	data, err := json.MarshalIndent(r, "    ", "  ")
	if err != nil {
		return err
	}
	before := ",\n    "
	if d.n == 0 {
		if err := d.begin(); err != nil {
			return err
		}
		before = "\n    "
	}
	d.n++
	_, err = d.out.Write(append([]byte(before), data...))
	return err
}

func (d *collectDocument) begin() error {
	_, err := io.WriteString(d.out, "{\n  \"schema\": \""+d.Schema+"\",\n  \"results\": [")
	return err
}

func (d *collectDocument) end(w io.Writer) error {
	end := "\n  ],\n"
	if d.n == 0 {
		if err := d.begin(); err != nil {
			return err
		}
		end = "],\n"
	}
	rest, err := json.MarshalIndent(struct {
		ExitCode int       `json:"exit_code"`
		Errors   []problem `json:"errors"`
	}{d.ExitCode, d.Errors}, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(append([]byte(end), rest[len("{\n"):]...), '\n'))
	return err
}

// verifyDocument is the answer of verify.
type verifyDocument struct {
	head
	Files        []fileEntry `json:"files"`
	SizesChecked bool        `json:"sizes_checked"` // scenarios were planned for a cluster (--system), so that nodes, GPUs and ports were checked
}

// fileEntry is what verify found in a file.
type fileEntry struct {
	File string `json:"file"`
	Kind string `json:"kind"` // system, scenario, test; file if that is not known
	OK   bool   `json:"ok"`

	NotRunnable string `json:"not_runnable,omitempty"` // why the file is in order, but cannot run

	Errors []problem `json:"errors"`
}

// logsDocument is the answer of logs.
type logsDocument struct {
	head
	Dir   string          `json:"dir"`             // of the run
	Cause *result.Failure `json:"cause,omitempty"` // if the lines around the cause of a failure are shown
	Logs  []logEntry      `json:"logs"`
}

// logEntry is an excerpt of a log.
type logEntry struct {
	Name  string    `json:"name"` // role or client and rank, as decode-0; job for the script
	File  string    `json:"file"`
	Lines []logLine `json:"lines"`
}

// logLine is a line of a log, without secrets.
type logLine struct {
	Number int    `json:"number,omitempty"` // in the log, 1 for the first; only around a cause
	Text   string `json:"text"`
	Cause  bool   `json:"cause,omitempty"` // this line shows the cause
}

// importDocument is the answer of import.
type importDocument struct {
	head
	Dir        string `json:"dir"`        // in which the run directories are
	Imported   int    `json:"imported"`   // results
	Present    int    `json:"present"`    // results that were imported before
	Unreadable int    `json:"unreadable"` // files and results
	Other      int    `json:"other"`      // files of no known format
	Results    []row  `json:"results"`    // the records, as of collect
}

func (d *importDocument) add(r row) error {
	d.Results = append(d.Results, r)
	return nil
}

// lockDocument is the answer of lock.
type lockDocument struct {
	head
	Scenario string      `json:"scenario"`
	File     string      `json:"file,omitempty"` // that was written
	Text     string      `json:"text,omitempty"` // the lock file, without --save
	Runs     []lockedRun `json:"runs"`
}

// lockedRun is a run that a lock file reproduces.
type lockedRun struct {
	RunID string `json:"run_id"`
	Test  string `json:"test"`
}

// archiveDocument is the answer of archive.
type archiveDocument struct {
	head
	Archives []archiveEntry `json:"archives"` // that were written, restored or listed
}

// archiveEntry is an archive.
type archiveEntry struct {
	File     string         `json:"file"`
	Dir      string         `json:"dir,omitempty"`          // that was archived, or restored
	Entries  int            `json:"entries,omitempty"`      // directories, files and links in it
	Bytes    int64          `json:"bytes,omitempty"`        // of all files
	Packed   int64          `json:"packed_bytes,omitempty"` // of the archive
	LeadsOut int            `json:"leads_out,omitempty"`    // links that lead out of the directory
	Removed  bool           `json:"removed,omitempty"`      // the directory was removed
	List     []archivedFile `json:"list,omitempty"`         // with --list
}

// archivedFile is one entry of an archive.
type archivedFile struct {
	Name   string `json:"name"`
	Mode   string `json:"mode"` // as ls shows it
	Size   int64  `json:"size_bytes"`
	SHA256 string `json:"sha256,omitempty"` // of a file
	Link   string `json:"link,omitempty"`   // where a link leads
}

// whyDocument is the answer of why.
type whyDocument struct {
	head
	Stories []story.Story `json:"stories"`
}

// nightlyDocument is the answer of nightly.
type nightlyDocument struct {
	head
	nightly.Outcome
}

// confirmDocument is the answer of confirm while its runs are not over.
type confirmDocument struct {
	head
	confirming
}

// stageDocument is the answer of stage and image stage.
type stageDocument struct {
	head
	Items []stage.Outcome `json:"items"`
}

// imagesDocument is the answer of image list and image prune.
type imagesDocument struct {
	head
	Images []stage.Entry `json:"images"` // staged images; those that prune removed
}

func (d *verifyDocument) add(file string, v verified) {
	e := fileEntry{File: file, Kind: v.kind, OK: v.err == nil, NotRunnable: v.unsupported, Errors: []problem{}}
	if v.err != nil {
		e.Errors, e.NotRunnable = problems(v.err), ""
	}
	d.Files = append(d.Files, e)
}

func newLockDocument(f *lockfile.File, file string, data []byte) *lockDocument {
	d := &lockDocument{head: head{Schema: "profllm.output.lock/1"}, Scenario: f.Scenario, Runs: []lockedRun{}}
	if file == "" {
		d.Text = string(data)
	} else {
		d.File = absolute(file)
	}
	for _, r := range f.Runs {
		d.Runs = append(d.Runs, lockedRun{r.RunID, r.Test})
	}
	return d
}

func listed(file string, entries []archive.Entry) archiveEntry {
	out := archiveEntry{File: file, Entries: len(entries), List: []archivedFile{}}
	for _, e := range entries {
		f := archivedFile{Name: e.Name, Mode: e.Mode.String(), Size: e.Size, Link: e.Link}
		if e.Mode.IsRegular() {
			f.SHA256 = hex.EncodeToString(e.SHA256[:])
		}
		out.Bytes += e.Size
		if e.LeadsOut() {
			out.LeadsOut++
		}
		out.List = append(out.List, f)
	}
	return out
}
