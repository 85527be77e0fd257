// Package collect turns what a run left behind into records, one per load: it reads the
// clients' files, the engines' counters and the sentinel, looks for the cause of
// a failure in the logs, and has the record judged.
//
// What a scheduler said is an argument, and nothing that is read is edited. So a record
// can be computed again at any time, with the same outcome; Write replaces result.json.
package collect

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// A Parser reads what one client left in a run directory. fs.ErrNotExist means
// that it left nothing.
type Parser interface {
	Parse(dir fs.FS) (result.Part, error)
}

// Of is a parser of the clients that plans name so. What a run has of another client than
// planned gives it no numbers.
type Of struct {
	Parser
	Client func(name string) bool
}

// Collector reads run directories, several at a time if it shall.
type Collector struct {
	Version string
	Bench   []Parser                       // the first that finds something gives the numbers
	Eval    []Parser                       // likewise the accuracy
	Causes  func() (*failure.Table, error) // for runs whose site has no signatures of its own; nil: no cause is looked for

	mu  sync.Mutex
	own map[string]*failure.Table // by the signatures of a site
}

// Record is the result of one load, and the directory it belongs to.
type Record struct {
	Dir    string
	Result *result.Result
	Plan   *plan.Plan // of the run; nil for a run of CloudAI
	Data   []byte     // of result.json; nil if Write did not make it
}

// Run computes the results of one run directory: one for each of its loads.
// state is what a scheduler says of the job, nil if nobody was asked.
func (c *Collector) Run(dir string, state *run.State) ([]Record, error) {
	return c.RunAs(dir, "", state)
}

// RunAs is Run for somebody who knows the run by another path than it was planned in: commands in
// the records name it so.
func (c *Collector) RunAs(dir, shown string, state *run.State) (records []Record, err error) {
	// The files of a run come from many programs, and one of a thousand runs must not
	// take the records of the others with it.
	defer func() {
		if p := recover(); p != nil {
			records, err = nil, fmt.Errorf("%s: a defect of profllm, please report it: %v, at %s", dir, p, panicked())
		}
	}()
	return c.run(dir, shown, state)
}

// panicked is the line of ours that the panic which is being recovered came from.
func panicked() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	thrown := false
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			thrown = true
		case thrown && !strings.HasPrefix(f.Function, "runtime."):
			return fmt.Sprintf("%s (%s:%d)", f.Function, filepath.Base(f.File), f.Line)
		case !more:
			return "an unknown line"
		}
	}
}

func (c *Collector) run(dir, shown string, state *run.State) ([]Record, error) {
	var mark run.Import
	switch err := run.ReadJSON(filepath.Join(dir, run.ImportFile), &mark); {
	case err == nil:
		r, err := c.imported(dir, mark)
		if err != nil {
			return nil, err
		}
		return []Record{{Dir: dir, Result: r}}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	e, err := readEvidence(dir, state)
	if err != nil {
		return nil, err
	}
	e.shown = shown
	loads, err := e.loads()
	if err != nil {
		return nil, err
	}
	var records []Record
	for _, l := range loads {
		r, err := c.load(l)
		if err != nil {
			return nil, err
		}
		records = append(records, Record{Dir: l.at, Result: r, Plan: e.plan})
	}
	if err := c.judgeTwins(loads, records); err != nil {
		return nil, err
	}
	return records, nil
}

// judgeTwins makes the records anew of loads whose clients began at the same time to the
// last digit: loads follow each other, so these are copies of one file.
func (c *Collector) judgeTwins(loads []*evidence, records []Record) error {
	started := map[time.Time][]int{} // → records
	for i, rec := range records {
		if k := rec.Result.Results.Client; k != nil && k.Started != nil && rec.Result.Results.Measured() {
			started[k.Started.UTC()] = append(started[k.Started.UTC()], i)
		}
	}
	for _, same := range started {
		for _, i := range same {
			if len(same) < 2 || loads[i].load == nil {
				continue
			}
			one := *loads[i]
			for _, k := range same {
				if k != i {
					one.twins = append(one.twins, loads[k].load.Name)
				}
			}
			r, err := c.load(&one)
			if err != nil {
				return err
			}
			records[i].Result = r
		}
	}
	return nil
}

// writeRecord writes the record of a load of a run.
func writeRecord(dir, path string, data []byte) error {
	if err := run.CheckLoad(dir, filepath.Dir(path)); err != nil {
		return err
	}
	return run.WriteUnsynced(path, data)
}

// Write computes the results and replaces each result.json that changed. With an
// error of a file that could not be written it returns them all the same.
func (c *Collector) Write(dir string, state *run.State) ([]Record, error) {
	records, err := c.Run(dir, state)
	if err != nil {
		return nil, err
	}
	var errs []error
	for i, rec := range records {
		if rec.Result.RunID == "" { // the one thing of its schema that a file can break
			return nil, fmt.Errorf("%s: the run has no id, run_id of %s", rec.Dir, run.PlanFile)
		}
		data, err := result.Encode(rec.Result)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rec.Dir, err)
		}
		records[i].Data = data
		path := filepath.Join(rec.Dir, run.ResultFile)
		if old, err := regular.ReadFile(path); err == nil && bytes.Equal(old, data) {
			continue
		}
		errs = append(errs, writeRecord(dir, path, data))
	}
	return records, errors.Join(errs...)
}
