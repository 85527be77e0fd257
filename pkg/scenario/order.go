package scenario

import (
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/source"
)

// Types of a Dependency, as CloudAI names them.
const (
	StartPostComp = "start_post_comp" // start when the other test is over
	StartPostInit = "start_post_init" // start when the other test has started
	EndPostComp   = "end_post_comp"   // end when the other test is over
)

var dependencyTypes = []string{StartPostComp, StartPostInit, EndPostComp}

// checkOrder looks at the dependencies of all tests: known types and tests, and
// no test that waits for itself.
func (s *Scenario) checkOrder(c *source.Complaints) {
	byID := map[string]*Test{}
	var ids []string
	for i := range s.Tests {
		id := s.Tests[i].ID
		if byID[id] == nil {
			ids = append(ids, id)
		}
		byID[id] = &s.Tests[i]
	}
	for _, t := range s.Tests {
		for _, d := range t.Dependencies {
			switch {
			case !slices.Contains(dependencyTypes, d.Type):
				c.Add(source.Errorf(t.Table.PosOf("dependencies"), "test %q: unknown dependency type %q", t.ID, d.Type).
					Hintf("%s", source.Suggest(d.Type, dependencyTypes)))
			case byID[d.ID] == nil:
				c.Add(source.Errorf(t.Table.PosOf("dependencies"), "test %q depends on unknown test %q", t.ID, d.ID).
					Hintf("%s", source.Suggest(d.ID, ids)))
			case d.ID == t.ID:
				c.Addf(t.Table.PosOf("dependencies"), "test %q depends on itself", t.ID)
			}
		}
	}
	done := map[string]bool{}
	for _, id := range ids {
		if cycle := waits(byID, id, nil, done); cycle != nil {
			t := byID[cycle[0]]
			c.Add(source.Errorf(t.Table.PosOf("dependencies"), "tests wait for each other: %s",
				strings.Join(append(cycle, cycle[0]), " -> ")).
				Hintf("none of these tests would start; remove one of the dependencies"))
		}
	}
}

// waits follows what id waits for and returns the first cycle it comes to.
func waits(byID map[string]*Test, id string, path []string, done map[string]bool) []string {
	if at := slices.Index(path, id); at >= 0 {
		return slices.Clone(path[at:])
	}
	t := byID[id]
	if t == nil || done[id] {
		return nil
	}
	path = append(path, id)
	for _, d := range t.Dependencies {
		if d.Type == EndPostComp || d.ID == id {
			continue
		}
		if cycle := waits(byID, d.ID, path, done); cycle != nil {
			done[id] = true
			return cycle
		}
	}
	done[id] = true
	return nil
}

// checkPhases looks at [[Tests.phases]] and [Tests.sweep].
func (t *Test) checkPhases(c *source.Complaints) {
	c.Add(t.expandSuites())
	seen := map[string]bool{}
	for i := range t.Phases {
		p := &t.Phases[i]
		switch {
		case p.Name == "":
			c.Addf(p.Pos, "phases.name is required")
		case !partName.MatchString(p.Name):
			c.Add(source.Errorf(p.posOf("name"), "phase name %q cannot be used", p.Name).
				Hintf("use letters, digits and _ . -"))
		case slices.Contains(runNames, p.Name) || fileName.MatchString(p.Name):
			c.Addf(p.posOf("name"), "phase name %q is reserved: every run directory has a file or folder of this name", p.Name)
		case seen[p.Name]:
			c.Addf(p.posOf("name"), "phase name %q is taken", p.Name)
		}
		seen[p.Name] = true
		oneOf(c, p.posOf("cache"), "phases.cache", p.Cache, "keep", "reset")
	}
	keys := t.Table.Table("sweep")
	oneOf(c, keys.PosOf("mode"), "sweep.mode", t.Sweep.Mode, "array", "jobs", "single")
	oneOf(c, keys.PosOf("cache"), "sweep.cache", t.Sweep.Cache, "reset", "keep")
	if t.Sweep.MaxParallel < 0 {
		c.Addf(keys.PosOf("max_parallel"), "sweep.max_parallel is %d, must be 0 or more", t.Sweep.MaxParallel)
	}
}

// PhaseName refuses a name that a phase cannot have: its results have a folder of that name in the run's.
func PhaseName(name string, pos source.Pos) error {
	switch {
	case !partName.MatchString(name):
		return source.Errorf(pos, "phase name %q cannot be used", name).Hintf("use letters, digits and _ . -")
	case slices.Contains(runNames, name) || fileName.MatchString(name):
		return source.Errorf(pos, "phase name %q is reserved: every run directory has a file or folder of this name", name)
	}
	return nil
}

// partName is a part of a run, which the run's script knows by that name.
var partName = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// Directories of a run and of a scenario, whose names a phase or a test cannot
// take, and names like those of the files beside them.
var (
	runNames      = []string{"raw", "logs", "attempts", "pre_test", "post_test", "telemetry", "bin"}
	scenarioNames = []string{"batches", "definitions"}
	fileName      = lazyregexp.New(`\.(json|jsonl|txt|sh|env|csv)$`)
)

func oneOf(c *source.Complaints, pos source.Pos, key, value string, known ...string) {
	if value != "" && !slices.Contains(known, value) {
		c.Add(source.Errorf(pos, "unknown %s %q", key, value).Hintf("%s", source.Suggest(value, known)))
	}
}
