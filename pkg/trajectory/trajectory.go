// Package trajectory writes the tables of a sweep from the records of its points, and reads
// them again for the sweep that goes on.
package trajectory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/sweep"
)

// Files of a sweep, beside its steps: CloudAI's, and the table that any tool reads.
var sweepFiles = map[string]sweep.Format{
	"trajectory.csv": sweep.CloudAI, "metadata.csv": sweep.Metadata, "sweep.csv": sweep.CSV,
	"trajectory.jsonl": sweep.JSONLines,
}

// Places are the sweeps that runs belong to: tests by the scenario's directory.
type Places map[string]map[string]bool

// Sweep is the sweep that a run is a point of.
type Sweep struct {
	Root string `json:"root"` // the scenario's directory, relative to the run's
	Test string `json:"test"`
}

// Of is the sweep of a plan, nil if it is no point of one.
func Of(p *plan.Plan) *Sweep {
	if p == nil || p.Step == 0 {
		return nil
	}
	root, err := filepath.Rel(filepath.Join(p.Scenario, p.Test, fmt.Sprint(p.Iteration), fmt.Sprint(p.Step)),
		p.Scenario)
	if err != nil {
		return nil
	}
	return &Sweep{root, p.Test}
}

// Add notes the sweep of a run, nil for none.
func (s Places) Add(dir string, of *Sweep) {
	if of == nil {
		return
	}
	root := filepath.Join(dir, of.Root)
	if s[root] == nil {
		s[root] = map[string]bool{}
	}
	s[root][of.Test] = true
}

// Tabulate writes the tables of every sweep.
func (s Places) Tabulate() error {
	var errs []error
	for root, tests := range s {
		for _, id := range slices.Sorted(maps.Keys(tests)) {
			errs = append(errs, tabulate(root, id))
		}
	}
	return errors.Join(errs...)
}

// tabulate writes the tables of one sweep.
func tabulate(root, id string) error {
	t, s, err := sweepOf(root, id)
	if err != nil || !s.Active() {
		return err
	}
	rows, err := observed(root, t, s)
	if err != nil {
		return err
	}
	layout := s.Layout()
	for name, format := range sweepFiles {
		text := layout.Header(format)
		for _, o := range rows {
			row, err := layout.Row(format, o)
			if err != nil {
				return err
			}
			text = append(text, row...)
		}
		file := filepath.Join(root, id, "0", name)
		if old, err := regular.ReadFile(file); err == nil && bytes.Equal(old, text) || len(text) == 0 {
			continue
		}
		if err := run.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sweepOf reads a test and its sweep from the definitions kept with the results.
func sweepOf(root, id string) (scenario.Test, *sweep.Sweep, error) {
	kept := filepath.Join(root, run.DefinitionDir)
	sc, _, err := definition.Load(filepath.Join(kept, run.ScenarioCopy), definition.KeptFolders(kept))
	if err != nil {
		return scenario.Test{}, nil, err
	}
	for _, t := range sc.Tests {
		if t.ID == id {
			s, err := planner.Sweep(t)
			return t, s, err
		}
	}
	return scenario.Test{}, nil, fmt.Errorf("%s: no test %q", root, id)
}

// observed lists the points of a sweep so far, by step: those of the executions it
// continues, those that were left out, and those that ran.
func observed(root string, t scenario.Test, s *sweep.Sweep) ([]sweep.Observed, error) {
	sc, err := run.ReadScenario(root)
	if err != nil {
		return nil, err
	}
	var rows []sweep.Observed
	if sc.Continues != "" {
		if rows, err = trajectory(sc.Continues, t.ID); err != nil {
			return nil, err
		}
	}
	for _, x := range sc.Skipped {
		if x.Test == t.ID {
			rows = append(rows, s.Refuse(point(s, x.Step, x.Values)))
		}
	}
	steps, err := os.ReadDir(filepath.Join(root, t.ID, "0"))
	if err != nil {
		return nil, err
	}
	values, at := map[int][][]float64{}, map[int]sweep.Point{}
	for _, entry := range steps {
		if !entry.IsDir() {
			continue // the tables of an earlier look
		}
		dir := filepath.Join(root, t.ID, "0", entry.Name())
		p, err := run.ReadPlan(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a point on the server of another
		}
		if err != nil {
			return nil, err
		}
		for _, l := range p.Loads {
			at[l.Step] = point(s, l.Step, l.Values)
			below, err := filepath.Rel(p.Dir, l.Dir)
			if err != nil {
				return nil, err
			}
			at := filepath.Join(dir, below)
			if l.Repeat != nil && l.Repeat.Until != nil && l.Repeat.Index > 0 && !hasRecord(at) {
				continue // those before it were enough
			}
			values[l.Step] = append(values[l.Step], metrics(at, s.Metrics))
		}
	}
	for step, p := range at {
		o, err := s.Observe(p, means(values[step]), filepath.Join("0", fmt.Sprint(step)))
		if err != nil {
			return nil, err
		}
		rows = append(rows, o)
	}
	slices.SortFunc(rows, func(a, b sweep.Observed) int { return a.Step - b.Step })
	return rows, nil
}

func hasRecord(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, run.ResultFile))
	return err == nil
}

// means is the mean of each metric over what measured the same point; a missing
// one stays missing.
func means(list [][]float64) []float64 {
	sum := slices.Clone(list[0])
	for _, values := range list[1:] {
		for i, v := range values {
			sum[i] += v
		}
	}
	for i := range sum {
		sum[i] /= float64(len(list))
	}
	return sum
}

// metrics reads what a sweep observes from a record, NaN for what is not there; an
// invalid record has nothing that can be believed.
func metrics(dir string, names []string) []float64 {
	values := make([]float64, len(names))
	for i := range values {
		values[i] = math.NaN()
	}
	var r result.Result
	if run.ReadJSON(filepath.Join(dir, run.ResultFile), &r) != nil || r.Validity == nil || !r.Validity.Valid {
		return values
	}
	data, err := json.Marshal(r.Results)
	flat := map[string]any{}
	if err != nil || json.Unmarshal(data, &flat) != nil {
		return values
	}
	for i, name := range names {
		if v, ok := flat[sweep.ResultKey(name)].(float64); ok {
			values[i] = v
		}
		if name == "accuracy" && r.Accuracy != nil {
			values[i] = r.Accuracy.Value
		}
	}
	return values
}

// point finds what a plan says of a point among the values of the dimensions, so
// that their types are those of the definition.
func point(s *sweep.Sweep, step int, list []plan.Assignment) sweep.Point {
	p := sweep.Point{Step: step}
	for _, a := range list {
		want, err := json.Marshal(a.Value)
		if err != nil {
			continue
		}
		for _, d := range s.Dimensions {
			i := slices.IndexFunc(d.Values, func(v *source.Value) bool {
				have, err := json.Marshal(v.Plain())
				return err == nil && bytes.Equal(have, want)
			})
			if d.Path == a.Path && i >= 0 {
				p.Values = append(p.Values, sweep.Assignment{Path: a.Path, Value: d.Values[i]})
			}
		}
		for _, e := range s.Env {
			if e.Name == a.Path {
				p.Env = append(p.Env, sweep.Assignment{Path: a.Path, Value: e.Draw(s.EnvSeed, step)})
			}
		}
	}
	return p
}

// trajectory reads what the sweep of a test gave in an execution.
func trajectory(root, id string) ([]sweep.Observed, error) {
	name := filepath.Join(root, id, "0", "trajectory.jsonl")
	f, err := regular.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%w\n\thint: profllm collect %s", err, root)
	}
	defer f.Close()
	t, err := sweep.Read(name, f)
	if err != nil {
		return nil, err
	}
	return t.Rows, nil
}

// History is what the sweeps of a scenario gave in an earlier execution.
func History(s *scenario.Scenario, root string) (map[string][]sweep.Observed, error) {
	past := map[string][]sweep.Observed{}
	for _, t := range s.Tests {
		sw, err := planner.Sweep(t)
		if err != nil || !sw.Active() {
			return nil, errors.Join(err,
				fmt.Errorf("test %q is not a sweep, but --continue works with sweeps only", t.ID))
		}
		if past[t.ID], err = trajectory(root, t.ID); err != nil {
			return nil, err
		}
	}
	return past, nil
}
