package scenario

import (
	"github.com/profllm/profllm/pkg/source"
)

// HookFiles are the files of a hook directory: hook scenarios, and the tests
// that only these may refer to.
type HookFiles struct {
	Scenarios []File
	Tests     []File
}

// load returns the tests of the hook scenario of that name. Files are read only
// when a scenario asks for a hook, so that a broken one disturbs nobody else.
func (h HookFiles) load(asked *source.Value, name string, c *source.Complaints) []Test {
	if asked == nil || name == "" {
		return nil
	}
	var names []string
	var unread source.Complaints
	for _, f := range h.Scenarios {
		t, err := source.Parse(f.Name, f.Data)
		unread.Add(err)
		if err != nil {
			continue
		}
		own, _ := t.Get("name").Text()
		if own != name {
			names = append(names, own)
			continue
		}
		return loadHook(t, definitions(h.Tests, c), c)
	}
	c.Add(source.Errorf(asked.Pos, "no hook has the name %q", name).
		Hintf("%s; --hook-dir names another folder of hooks", source.Suggest(name, names)))
	c.Add(unread.Err())
	return nil
}

func loadHook(top *source.Table, defs *testFiles, c *source.Complaints) []Test {
	var h head
	c.Add(source.Decode(top, &h))
	for _, key := range []string{"pre_test", "post_test"} {
		if top.Has(key) {
			c.Addf(top.PosOf(key), "%s: a hook cannot have hooks", key)
		}
	}
	var s Scenario
	s.load(h.Tests, defs, c)
	for _, t := range s.Tests {
		if pathElement.MatchString(t.ID) && !partName.MatchString(t.ID) {
			c.Add(source.Errorf(t.Table.PosOf("id"), "hook id %q cannot be used", t.ID).
				Hintf("use letters, digits and _ . -"))
		}
		if t.Iterations > 1 {
			c.Add(source.Errorf(t.Table.PosOf("iterations"), "hook %q has %d iterations, but a hook is one run", t.ID,
				t.Iterations).Hintf("write repeat, or the test several times"))
		}
		if len(t.Dependencies) > 0 {
			c.Addf(t.Table.PosOf("dependencies"),
				"tests of a hook run one after the other and cannot have dependencies")
		}
	}
	return s.Tests
}
