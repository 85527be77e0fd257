package vllmsweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// Names in the folder of an experiment, besides those of vLLM.
const (
	BookFile = "sweep.json" // what the sweep is of
	RunsDir  = "profllm"    // the executions of its scenarios
)

// Name is that of an experiment that was given none.
func Name(at time.Time) string { return at.Format("20060102_150405") }

// Executions are those of the sweep's scenarios in the folder of its experiment, the newest last.
func Executions(dir string) ([]string, error) {
	roots, err := run.Scenarios(filepath.Join(dir, RunsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	slices.Sort(roots)
	return roots, err
}

// raw is what a load's client wrote, below the directory of the load.
func (s *Sweep) raw() string {
	if s.startup {
		return "raw/startup.json"
	}
	return "raw/vllm-bench.json"
}

// Schema is the version of a Book.
const Schema = "profllm.vllm-sweep/1"

// A Book says what a sweep is of, so that nobody resumes it as another one.
type Book struct {
	Schema   string      `json:"schema"`
	ServeCmd string      `json:"serve_cmd"`
	BenchCmd string      `json:"bench_cmd"`
	Points   []BookPoint `json:"points"`

	// Settings are what else the numbers depend on; nil in the books of older releases.
	Settings *BookSettings `json:"settings,omitempty"`
}

// BookSettings are the same for all points.
type BookSettings struct {
	Client    string `json:"client"` // "": vllm
	Image     string `json:"image"`  // "": no container
	Nodes     int    `json:"nodes"`  // of each server; 0: one
	Simulated bool   `json:"simulated"`
	AfterLoad string `json:"after_load"` // "": the caches are emptied
	Warmup    int    `json:"warmup"`     // prompts
}

// differs says in which setting a sweep differs from what it was, by its flag; "" if in none.
func (b BookSettings) differs(now BookSettings) string {
	for _, s := range []struct {
		flag string
		same bool
	}{
		{"client", b.Client == now.Client}, {"image", b.Image == now.Image}, {"nodes", max(b.Nodes, 1) == max(now.Nodes, 1)},
		{"simulate", b.Simulated == now.Simulated}, {"after-bench-cmd", b.AfterLoad == now.AfterLoad},
		{"warmup-num-prompts", b.Warmup == now.Warmup},
	} {
		if !s.same {
			return "--" + s.flag
		}
	}
	return ""
}

// BookPoint is one combination.
type BookPoint struct {
	Folder string          `json:"folder"`
	Test   string          `json:"test"`  // in the scenarios
	Phase  string          `json:"phase"` // of that test
	Serve  json.RawMessage `json:"serve"` // the parameters
	Bench  json.RawMessage `json:"bench"`
}

// book is that of the sweep.
func (s *Sweep) book() Book {
	b := Book{Schema: Schema, ServeCmd: s.ServeCmd, BenchCmd: s.BenchCmd, Settings: &BookSettings{
		Client: s.Client, Image: s.Image, Nodes: s.Nodes, Simulated: s.Simulate, AfterLoad: s.AfterLoad, Warmup: s.Warmup,
	}}
	for _, p := range s.Points() {
		b.Points = append(b.Points, BookPoint{p.Folder, p.Server.ID, p.ID, json.RawMessage(overrides(p.Server.Item)),
			json.RawMessage(overrides(p.Item))})
	}
	return b
}

// Check refuses a sweep that is not the one of the book in the folder of its experiment: results
// there are of other parameters. Nothing is refused if there is no book.
func (s *Sweep) Check(dir string) error {
	_, err := s.merged(dir)
	return err
}

// Keep writes the book of the sweep into the folder of its experiment. Combinations of an earlier
// book stay; one that has changed since is refused.
func (s *Sweep) Keep(dir string) error {
	book, err := s.merged(dir)
	if err != nil {
		return err
	}
	return run.WriteJSON(filepath.Join(dir, BookFile), book)
}

// merged is the book of the sweep with what an earlier one has besides.
func (s *Sweep) merged(dir string) (Book, error) {
	book := s.book()
	var before Book
	file := filepath.Join(dir, BookFile)
	if ok, err := run.ReadRecord(file, &before); err != nil || !ok {
		return book, err
	}
	if err := before.same(book); err != nil {
		return book, fmt.Errorf("%s: %w\n\thint: give this sweep another name: --experiment-name", file, err)
	}
	for _, p := range before.Points {
		if !slices.ContainsFunc(book.Points, func(q BookPoint) bool { return p.Folder == q.Folder }) {
			book.Points = append(book.Points, p)
		}
	}
	return book, nil
}

// same refuses a sweep that is not the one of the book.
func (b Book) same(now Book) error {
	if b.ServeCmd != now.ServeCmd || b.BenchCmd != now.BenchCmd {
		return errors.New("the sweep was begun with other commands")
	}
	if b.Settings != nil {
		if flag := b.Settings.differs(*now.Settings); flag != "" {
			return fmt.Errorf("the sweep was begun with another %s", flag)
		}
	}
	compact := func(m json.RawMessage) string {
		data, err := json.Marshal(m)
		if err != nil {
			return string(m)
		}
		return string(data)
	}
	for _, p := range b.Points {
		for _, q := range now.Points {
			switch {
			case p.Folder != q.Folder && p.Test == q.Test && p.Phase == q.Phase:
				return fmt.Errorf("the runs of %s would be taken for those of %s", shownFolder(p.Folder), shownFolder(q.Folder))
			case p.Folder != q.Folder:
			case p.Test != q.Test || p.Phase != q.Phase:
				return fmt.Errorf("the point %s stands at another place than when the sweep was begun",
					shownFolder(p.Folder))
			case compact(p.Serve) != compact(q.Serve) || compact(p.Bench) != compact(q.Bench):
				return fmt.Errorf("the point %s had other parameters when the sweep was begun", shownFolder(p.Folder))
			}
		}
	}
	return nil
}

func shownFolder(folder string) string {
	if folder == "" {
		return "without parameters"
	}
	return folder
}

// runFile is the place of a run's result below the folder of the experiment.
func (p *Point) runFile(n int) string { return path.Join(p.Folder, fmt.Sprintf("run=%d.json", n)) }

// Has reports whether the result of a run is there. A place that cannot be looked at is an error: its
// result would be measured again.
func (s *Sweep) Has(dir string, p *Point, n int) (bool, error) {
	return exists(filepath.Join(dir, p.runFile(n)))
}

// Lacking are the runs without a result in the folder of an experiment, as Scenario and Missing ask for
// them.
func (s *Sweep) Lacking(dir string) (func(p *Point, run int) bool, error) {
	type key struct {
		p   *Point
		run int
	}
	there := map[key]bool{}
	for _, p := range s.Points() {
		for n := range s.Runs {
			has, err := s.Has(dir, p, n)
			if err != nil {
				return nil, err
			}
			there[key{p, n}] = has
		}
	}
	return func(p *Point, run int) bool { return !there[key{p, run}] }, nil
}

// Outcome is what Write found.
type Outcome struct {
	Measured, Failed, Absent int // runs
}

// Write writes into the folder of an experiment what vLLM's command would leave there: the results
// of the runs in executions of its scenarios, the newest last, that are not there yet, and the
// summaries. A run that failed is written as run=N.failure.json.
func (s *Sweep) Write(dir string, roots []string) (Outcome, error) {
	var out Outcome
	var all []record
	for _, p := range s.Points() {
		var list []record
		for n := range s.Runs {
			rec, err := s.writeRun(dir, roots, p, n)
			if err != nil {
				return out, err
			}
			if rec != nil {
				list = append(list, rec)
				out.Measured++
				continue
			}
			failed, err := exists(filepath.Join(dir, failureFile(p.runFile(n))))
			switch {
			case err != nil:
				return out, err
			case failed:
				out.Failed++
			default:
				out.Absent++
			}
		}
		if len(list) == 0 {
			continue
		}
		text, err := summaryJSON(list)
		if err == nil {
			err = durable.WriteFile(filepath.Join(dir, p.Folder, "summary.json"), []byte(text), 0o644)
		}
		if err != nil {
			return out, err
		}
		all = append(all, list...)
	}
	if len(all) == 0 {
		return out, nil
	}
	text, err := summaryCSV(all)
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, "summary.csv"), []byte(text), 0o644)
	}
	return out, err
}

func exists(file string) (bool, error) {
	_, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// failureFile is the place of what is known of a run that failed, as vLLM names it.
func failureFile(runFile string) string {
	return strings.TrimSuffix(runFile, ".json") + ".failure.json"
}

// writeRun returns the result of a run, which it writes if it is not there yet; nil if there is
// none.
func (s *Sweep) writeRun(dir string, roots []string, p *Point, n int) (record, error) {
	file := filepath.Join(dir, p.runFile(n))
	if data, err := regular.ReadFile(file); err == nil {
		rec, err := parseRecord(data)
		if err != nil {
			return nil, fmt.Errorf("%s:%w\n\thint: move the file away to measure the run again", file, err)
		}
		rec.of(p, n)
		return rec, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return nil, err
	}
	var failed *result.Result
	for _, root := range slices.Backward(roots) {
		load, err := s.load(root, p, n)
		if err != nil {
			return nil, err
		}
		if load == "" {
			continue
		}
		rec, err := clientResult(load, s.raw())
		if err != nil {
			return nil, err
		}
		var judged result.Result
		known, err := run.ReadRecord(filepath.Join(load, run.ResultFile), &judged)
		if err != nil {
			return nil, err
		}
		if rec != nil && (!known || judged.Status != result.Failed) {
			rec.of(p, n)
			return rec, s.keepRun(file, rec)
		}
		if known && failed == nil {
			failed = &judged
		}
	}
	if failed != nil {
		return nil, s.keepFailure(dir, p, n, failed)
	}
	return nil, nil
}

// keepRun writes the result of a run, in place of a failure before.
func (s *Sweep) keepRun(file string, rec record) error {
	text, err := rec.json("")
	if err == nil {
		err = durable.WriteFile(file, []byte(text), 0o644)
	}
	if err == nil {
		if err = os.Remove(failureFile(file)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// keepFailure writes why a run has no result, as vLLM's --continue-on-error does.
func (s *Sweep) keepFailure(dir string, p *Point, n int, r *result.Result) error {
	var rec record
	rec.set("run_number", fmt.Sprint(n))
	kind, text := r.Status.String(), "no result; profllm why explains the run "+r.RunID
	if f := r.Failure; f != nil {
		kind = f.Cause
		if f.Line != "" {
			text = f.Line
		} else if len(f.Tail) > 0 {
			text = f.Tail[len(f.Tail)-1]
		}
	}
	rec.set("error_type", quoted(kind))
	rec.set("error", quoted(text))
	rec.set("serve_overrides", overrides(p.Server.Item))
	rec.set("bench_overrides", overrides(p.Item))
	data, err := rec.json("")
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, failureFile(p.runFile(n))), []byte(data+"\n"), 0o644)
}

// load is the directory of a run in an execution; "" if the execution has none.
func (s *Sweep) load(root string, p *Point, n int) (string, error) {
	below := filepath.Join(root, p.Server.ID, "0")
	repeats := filepath.Join(below, p.ID)
	dirs := []string{filepath.Join(repeats, fmt.Sprintf("r%d", n+1)), filepath.Join(below, p.runID(n))}
	if s.startup {
		dirs = []string{startupDir(root, p, n)}
	} else if n == 0 { // else r1 is there, and comes first
		dirs = append(dirs, repeats)
	}
	for _, dir := range dirs {
		if ok, err := exists(dir); ok || err != nil {
			return dir, err
		}
	}
	return "", nil
}

// clientResult is what the client of a load wrote; nil if it wrote nothing.
func clientResult(load, file string) (record, error) {
	data, name, err := packed.Read(regular.DirFS(load), file, regular.Record)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	rec, err := parseRecord(data)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", filepath.Join(load, name), err)
	}
	return rec, nil
}
