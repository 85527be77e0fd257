package validity

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// wrongServer compares what every engine said of itself with the plan, and the
// engines with each other.
func wrongServer(c *facts) answer {
	var bad []string
	answered := 0
	versions := map[string]string{} // → the first role that said it
	for _, s := range c.e.Servers {
		if s.Names == nil {
			continue
		}
		answered++
		for _, name := range s.Wanted {
			if !slices.Contains(s.Names, name) {
				bad = append(bad,
					fmt.Sprintf("%s answers to %s, not to %q", s.Role, orNone(strings.Join(s.Names, " ")), name))
			}
		}
		if expected := c.e.Planned.Model; expected != "" && s.Model != "" && !sameModel(expected, s) {
			bad = append(bad, fmt.Sprintf("%s serves %q, but %q was planned", s.Role, s.Model, expected))
		}
		if expected := c.e.Planned.EngineVersion; expected != "" && s.Version != "" &&
			!result.HasVersion(s.Version, expected) {
			bad = append(bad, fmt.Sprintf("%s is version %s, but %s was planned", s.Role, s.Version, expected))
		}
		if expected := c.e.Planned.Locked.EngineVersion; expected != "" && s.Version != "" &&
			!result.SameVersion(s.Version, expected) {
			bad = append(bad, fmt.Sprintf("%s is version %s, but the lock file has %s", s.Role, s.Version, expected))
		}
		if _, known := versions[s.Version]; s.Version != "" && !known {
			versions[s.Version] = s.Role
		}
	}
	if len(versions) > 1 && c.e.EngineVersion() == "" {
		var each []string
		for _, v := range slices.Sorted(maps.Keys(versions)) {
			each = append(each, versions[v]+" is version "+v)
		}
		bad = append(bad, "the engines differ: "+list(each))
	}
	if p := c.r.Provenance; p != nil {
		locked := c.e.Planned.Locked
		if locked.ImageDigest != "" && p.ImageDigest != "" && p.ImageDigest != locked.ImageDigest {
			bad = append(bad, fmt.Sprintf("the image is %s, but the lock file has %s", p.ImageDigest,
				locked.ImageDigest))
		}
		if locked.ModelRevision != "" && p.ModelRevision != "" && p.ModelRevision != locked.ModelRevision {
			bad = append(bad, fmt.Sprintf("the model's revision is %s, but the lock file has %s", p.ModelRevision,
				locked.ModelRevision))
		}
	}
	switch {
	case len(bad) > 0:
		return fail("%s", list(bad))
	case answered == 0:
		return notPossible("no engine reported what it serves")
	}
	return pass("%d of %d engines serve what was planned, %s", answered, len(c.e.Servers), c.e.version())
}

// version is what the engines said, in words.
func (e *Evidence) version() string {
	if v := e.EngineVersion(); v != "" {
		return "version " + v
	}
	return "version not reported"
}

// EngineVersion is the version that the engines have in common, "" if none said any
// or they differ.
func (e *Evidence) EngineVersion() string {
	var versions []string
	for _, s := range e.Servers {
		versions = append(versions, s.Version)
	}
	return result.CommonVersion(versions)
}

// served reports whether an engine was to answer to a name.
func (e *Evidence) served(name string) bool {
	return slices.ContainsFunc(e.Servers, func(s Server) bool { return slices.Contains(s.Wanted, name) })
}

// sameModel allows for the ways in which an engine says where it found a model: as
// it was told, its served name (SGLang's /v1/models), or the file of a hub's cache.
func sameModel(model string, s Server) bool {
	return path.Clean(s.Model) == path.Clean(model) || slices.Contains(s.Names, s.Model) ||
		strings.HasSuffix(s.Model, "/"+model) ||
		strings.Contains(s.Model, "models--"+strings.ReplaceAll(model, "/", "--")+"/")
}

// serverRestarted looks for engines whose counters fell, or which began after the
// first look at them. One that only ended is role-died or instance-died.
func serverRestarted(c *facts) answer {
	if len(c.m.Server) == 0 {
		return notPossible("no engine's counters were read both before and after the load")
	}
	var bad []string
	for _, d := range c.m.Server {
		if d.Reset {
			bad = append(bad, fmt.Sprintf("%s %d restarted between the first and the last reading of its counters",
				d.Role, d.Replica))
		}
	}
	if len(bad) > 0 {
		return fail("%s", list(bad))
	}
	return pass("the counters of %d engines were not reset", len(c.m.Server))
}
