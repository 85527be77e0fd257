package document

import (
	"encoding/json"
	"io"

	"github.com/profllm/profllm/pkg/nightly"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/story"
)

// Row is a record and the directory of its run or load.
type Row struct {
	Dir    string         `json:"dir"`
	Result *result.Result `json:"result"`
	// refused by Slurm, or not submitted: the result has no verdict, and nothing runs
	NoJob string `json:"no_job,omitempty"`
}

// Collect is the answer of collect.
type Collect struct {
	Head
	Results []Row `json:"results"` // as they come
}

// CollectWriter prints the answer of collect, each record as it comes.
type CollectWriter struct {
	Head
	Out io.Writer
	n   int
}

// Add prints a record.
func (d *CollectWriter) Add(r Row) error {
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
	_, err = d.Out.Write(append([]byte(before), data...))
	return err
}

func (d *CollectWriter) begin() error {
	_, err := io.WriteString(d.Out, "{\n  \"schema\": \""+d.Schema+"\",\n  \"results\": [")
	return err
}

// Close prints what follows the records.
func (d *CollectWriter) Close() error {
	end := "\n  ],\n"
	if d.n == 0 {
		if err := d.begin(); err != nil {
			return err
		}
		end = "],\n"
	}
	rest, err := json.MarshalIndent(struct {
		ExitCode int       `json:"exit_code"`
		Errors   []Problem `json:"errors"`
	}{d.ExitCode, d.Errors}, "", "  ")
	if err != nil {
		return err
	}
	_, err = d.Out.Write(append(append([]byte(end), rest[len("{\n"):]...), '\n'))
	return err
}

// Import is the answer of import.
type Import struct {
	Head
	Dir        string `json:"dir"`        // in which the run directories are
	Imported   int    `json:"imported"`   // results
	Present    int    `json:"present"`    // results that were imported before
	Unreadable int    `json:"unreadable"` // files and results
	Other      int    `json:"other"`      // files of no known format
	Results    []Row  `json:"results"`    // the records, as of collect
}

// Add adds a record.
func (d *Import) Add(r Row) error {
	d.Results = append(d.Results, r)
	return nil
}

// Why is the answer of why.
type Why struct {
	Head
	Stories []story.Story `json:"stories"`
}

// Nightly is the answer of nightly.
type Nightly struct {
	Head
	nightly.Outcome
}
