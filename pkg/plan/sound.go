package plan

import (
	"fmt"
	"path/filepath"
	"strings"
)

// maxNodes bounds the nodes of a job, since every one of them is looked at. Slurm's
// limit is 65,533.
const maxNodes = 1 << 17

// Sound refuses what no planning writes and what would lead a reader of plan.json
// astray: no load, roles beyond the nodes of the job, and paths that leave the run's
// directory. A file may have been edited, copied badly, or come from somebody else.
func (p *Plan) Sound() error {
	if len(p.Loads) == 0 {
		return fmt.Errorf("no load is planned: loads is empty")
	}
	if p.Job.Nodes < 0 || p.Job.Nodes > maxNodes {
		return fmt.Errorf("job.nodes is %d, at most %d are supported", p.Job.Nodes, maxNodes)
	}
	for i, f := range p.Files {
		if !pathElement(f.Name) {
			return fmt.Errorf("files[%d].name is not a file name: %q", i, f.Name)
		}
	}
	for i := range p.Roles {
		r := &p.Roles[i]
		if err := p.holds(r.Nodes); err != nil {
			return fmt.Errorf("roles[%d].nodes, of %q: %w", i, r.Name, err)
		}
		if !pathElement(r.Name) {
			return fmt.Errorf("roles[%d].name is not a file name: %q", i, r.Name)
		}
		if r.Report != "" && !filepath.IsAbs(r.Report) && !filepath.IsLocal(r.Report) {
			return fmt.Errorf("roles[%d].report is outside the run's directory: %q", i, r.Report)
		}
		if r.TraceDir != "" && !filepath.IsLocal(r.TraceDir) {
			return fmt.Errorf("roles[%d].trace_dir is outside the run's directory: %q", i, r.TraceDir)
		}
		if !p.inside(r.Step.Log) {
			return fmt.Errorf("roles[%d].step.log is outside the run's directory: %q", i, r.Step.Log)
		}
	}
	for _, hooks := range [][]Hook{p.PreTest, p.PostTest} {
		for _, h := range hooks {
			if !pathElement(h.Name) {
				return fmt.Errorf("the name of a hook is not a file name: %q", h.Name)
			}
			if at, err := filepath.Rel(p.Dir, h.Dir); h.Dir != "" && (err != nil || !filepath.IsLocal(at)) {
				return fmt.Errorf("the directory of hook %q is outside the run's directory: %q", h.Name, h.Dir)
			}
		}
	}
	for i := range p.Loads {
		if err := p.soundLoad(&p.Loads[i]); err != nil {
			return fmt.Errorf("loads[%d].%w", i, err)
		}
	}
	return nil
}

func (p *Plan) soundLoad(l *Load) error {
	if l.Dir != "" {
		at, err := filepath.Rel(p.Dir, l.Dir)
		if err != nil || !beside(at) {
			return fmt.Errorf("dir is neither inside nor beside the run: %q, run %q", l.Dir, p.Dir)
		}
	}
	if l.Client != "" && len(l.Clients) == 0 {
		return fmt.Errorf("clients is empty, but %s should measure", l.Client)
	}
	for k := range l.Clients {
		c := &l.Clients[k]
		switch err := p.holds(c.Nodes); {
		case err != nil:
			return fmt.Errorf("clients[%d].nodes, of %q: %w", k, c.Name, err)
		case !pathElement(c.Name):
			return fmt.Errorf("clients[%d].name is not a file name: %q", k, c.Name)
		case c.Report != "" && !filepath.IsAbs(c.Report) && !filepath.IsLocal(c.Report):
			return fmt.Errorf("clients[%d].report is outside the run's directory: %q", k, c.Report)
		case !p.inside(c.Log):
			return fmt.Errorf("clients[%d].log is outside the run's directory: %q", k, c.Log)
		}
	}
	return nil
}

// holds says why a slice is none of the job's nodes. A step may have none, and
// sizes are compared so that no sum can overflow.
func (p *Plan) holds(s Slice) error {
	if s.Offset < 0 || s.Count < 0 || s.Count > maxNodes || s.Offset > maxNodes ||
		p.Job.Nodes > 0 && s.End() > p.Job.Nodes {
		return fmt.Errorf("offset %d and count %d do not fit the job's %d nodes", s.Offset, s.Count, p.Job.Nodes)
	}
	return nil
}

// inside reports whether a path that is written relative to the run lies in it or
// beside it, where the loads of a sweep are.
func (p *Plan) inside(name string) bool { return name == "" || beside(filepath.Clean(name)) }

// beside reports whether a relative path lies in its directory or in one beside that.
func beside(rel string) bool {
	return filepath.IsLocal(strings.TrimPrefix(rel, ".."+string(filepath.Separator)))
}

func pathElement(name string) bool {
	return name == "" || filepath.IsLocal(name) && !strings.ContainsAny(name, `/\`)
}
