package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// Profilable says how a profiler goes around a step that measures without a server.
type Profilable struct {
	// Range has the step call the CUDA profiler around what it measures; NoRange is why it cannot.
	Range   func() ([]Word, []Var, error)
	NoRange string
	// VizOption takes the file of VizTracer, which the step's program then runs itself; "": VizTracer
	// runs the command.
	VizOption string
	// Inner is where in Argv the command begins that each rank runs, behind what tells it its rank.
	Inner int
}

// reporter is a step whose profiler writes a report, as a role.
func (s *Step) reporter() Role {
	return Role{Name: s.Name, Nodes: s.Nodes, Report: s.Report, ReportKind: s.ReportKind, ReportRanks: s.ReportRanks,
		Step: *s}
}

// Reporters are the roles, and the steps of a load as roles, around which a profiler runs; those of
// all loads if none is given.
func (p *Plan) Reporters(only *Load) []Role {
	list := slices.DeleteFunc(slices.Clone(p.Roles), func(r Role) bool { return r.Report == "" })
	for i := range p.Loads {
		if only != nil && only.Name != p.Loads[i].Name {
			continue
		}
		for j := range p.Loads[i].Clients {
			if s := &p.Loads[i].Clients[j]; s.Report != "" {
				list = append(list, s.reporter())
			}
		}
	}
	return list
}

// profilable are the steps that a profiler may go around.
func (p *Plan) profilable() []*Step {
	var list []*Step
	for i := range p.Loads {
		for j := range p.Loads[i].Clients {
			if s := &p.Loads[i].Clients[j]; s.Profile != nil {
				list = append(list, s)
			}
		}
	}
	return list
}

// insert puts words before those of the step's result.
func (s *Step) insert(words ...Word) {
	at := len(s.Argv)
	if s.Result != nil {
		at -= 2
	}
	s.Argv = slices.Insert(slices.Clone(s.Argv), at, words...)
}

// wrapStep puts a profiler around a step. nsys goes around everything, and names its reports
// itself; VizTracer reads Python only, so it goes behind what tells a rank its number.
func (p *Plan) wrapStep(w wrapper, s *Step) {
	stem := p.reportStem(w, s.Name)
	s.Report, s.ReportKind = stem.kept+"0", w.kind
	mark := p.RunID + "/" + s.Name
	lead := p.supervise(mark, false)
	if only := w.ranks[s.Name]; w.ranks != nil && len(only) < s.Tasks() {
		s.ReportRanks = only
		lead = append(lead, Texts("--ranks", FormatGPUs(only))...)
	}
	if w.kind == NsysReport {
		file := stem.written + w.rank + w.host + w.suffix
		s.wrap(append(append(lead, Text("--")), Texts(w.lead(file, ProfiledVar+"="+mark)...)...))
		return
	}
	file := stem.written + "0" + w.suffix
	if s.Tasks() > 1 {
		file = stem.written + "%t" + w.suffix
		lead = append(lead, Texts("--ranked", file)...)
	}
	words := w.lead(file, ProfiledVar+"="+mark)
	if s.Profile.VizOption != "" {
		words = []string{"env", ProfiledVar + "=" + mark}
		s.insert(Texts(s.Profile.VizOption, file)...)
	}
	s.Inner = s.Profile.Inner
	s.wrap(append(append(lead, Text("--")), Texts(words...)...))
	s.Inner = 0
}

// captureSteps has the steps open the capture range of nsys around what they measure.
func (p *Plan) captureSteps(in Input, pos source.Pos) error {
	for _, s := range p.profilable() {
		if s.Report == "" {
			continue
		}
		if s.Profile.Range == nil {
			return source.Errorf(pos, "capture_range cudaProfilerApi: %s", s.Profile.NoRange).
				Hintf("remove it: nsys then records all of the benchmark")
		}
		words, env, err := s.Profile.Range()
		if err != nil {
			return source.Errorf(pos, "capture_range cudaProfilerApi records nothing: %v", err)
		}
		s.insert(words...)
		s.Env = append(slices.Clone(s.Env), p.unset(in, env)...)
	}
	return nil
}

// selectRanks lists the ranks of a step that a table names, all without.
func selectRanks(s *Step, table *source.Table, n *nsys) (ranks []int) {
	for rank := range s.Tasks() {
		node := s.Nodes.Offset + rank/max(s.TasksPerNode, 1)
		if (!table.Has("ranks") || slices.Contains(n.Ranks, rank)) &&
			(!table.Has("nodes") || slices.Contains(n.Nodes, node)) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// Ranked is a word of a profiler's command with the number of the rank in the name of its file.
func Ranked(word, file string, rank int) string {
	i := strings.LastIndex(file, "%t")
	if word != file || i < 0 {
		return word
	}
	return file[:i] + strconv.Itoa(rank) + file[i+2:]
}
