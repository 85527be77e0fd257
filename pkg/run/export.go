package run

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/regular"
)

// usual are the variables of the submitting shell that every job is given: who and
// where its user is, where programs, libraries and modules are found, and the
// language. Those of profllm itself come with them.
var usual = strings.Fields(`
	HOME USER LOGNAME SHELL PATH LD_LIBRARY_PATH LIBRARY_PATH MANPATH
	LANG LANGUAGE LC_ALL LC_CTYPE LC_COLLATE LC_MESSAGES LC_NUMERIC LC_TIME TZ
	VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE PYTHONPATH PYTHONHOME
	CUDA_HOME CUDA_PATH ROCM_PATH HF_HOME
	MODULEPATH MODULESHOME LOADEDMODULES _LMFILES_ LMOD_CMD LMOD_DIR LMOD_PKG BASH_ENV
	BASH_FUNC_module%% BASH_FUNC_ml%% BASH_FUNC__module_raw%%`)

// Export says which variables of the submitting shell a job gets. The zero value means the
// usual ones.
type Export struct {
	Names    []string // besides the usual variables; config.ExportAll: all of them
	Withheld []string // whatever Names says: the job's secrets, which its steps read
}

// From returns the part of an environment that the job gets. A benchmark does not need the
// rest, and Slurm's controller would keep it in files.
func (e Export) From(environ []string) []string {
	all := slices.Contains(e.Names, config.ExportAll)
	var kept []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		asked := all || slices.Contains(usual, name) || strings.HasPrefix(name, "PROFLLM_") || name == "SLURM_CONF" ||
			slices.Contains(e.Names, name)
		if asked && name != HeldVar && !slices.Contains(e.Withheld, name) {
			kept = append(kept, kv)
		}
	}
	return kept
}

// mention finds the variables that shell text names.
var mention = lazyregexp.New(`\$\{?#?!?([A-Za-z_][A-Za-z0-9_]*)`)

// exportOf is what a job is given: what its definitions ask for, and what its
// scripts name, but for the secrets of its plans, by both their names: a shell text that names
// one runs in a step that has it. An --export of the user's own is about a whole environment.
func exportOf(job *plan.Job, plans []*plan.Plan, scripts [][]byte) Export {
	e := Export{Names: slices.Clone(job.Export)}
	for _, line := range job.SbatchArgs {
		if strings.HasPrefix(line, "--export") {
			e.Names = append(e.Names, config.ExportAll)
		}
	}
	for _, p := range plans {
		for _, s := range p.Secrets() { // a shell may have another value by the name that a step is given
			e.Withheld = append(e.Withheld, s.Name)
			if s.Env != "" {
				e.Withheld = append(e.Withheld, s.Env)
			}
		}
	}
	for _, text := range scripts {
		for _, m := range mention.FindAllSubmatch(text, -1) {
			e.Names = append(e.Names, string(m[1]))
		}
	}
	for _, list := range []*[]string{&e.Names, &e.Withheld} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return e
}

// export is what the job of a unit is given.
func (u *Unit) export() (Export, error) {
	if u.OnKubernetes() { // its manifest names what its containers get
		return Export{}, nil
	}
	dirs := []string{u.Dir}
	var plans []*plan.Plan
	err := u.eachPlan(func(dir string, p *plan.Plan) error {
		if dir != u.Dir {
			dirs = append(dirs, dir)
		}
		plans = append(plans, p)
		return nil
	})
	if err != nil {
		return Export{}, err
	}
	scripts := make([][]byte, len(dirs))
	for i, dir := range dirs {
		if scripts[i], err = regular.ReadFile(filepath.Join(dir, ScriptFile)); err != nil {
			return Export{}, err
		}
	}
	return exportOf(u.Job(), plans, scripts), nil
}

// tuning begins the names of variables that decide how processes on GPUs talk to
// each other, and so the numbers.
var tuning = []string{"NCCL_", "UCX_"}

// Unexported lists the shell's variables that tune communication and that the run would
// not get, sorted. job is the run's own job or that of its batch. A variable that the
// definitions set is not listed.
func (r *Printed) Unexported(job *plan.Job, environ []string) []string {
	var names []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		set := slices.ContainsFunc(r.Plan.Env, func(v plan.Var) bool { return v.Name == name })
		if !set && slices.ContainsFunc(tuning, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			names = append(names, name)
		}
	}
	if names == nil {
		return nil // as mostly: no script is searched
	}
	plans, scripts := []*plan.Plan{r.Plan}, append([][]byte{r.Script}, r.Hooks...)
	for _, h := range hooksOf(r.Plan) {
		plans = append(plans, h.Plan)
	}
	e := exportOf(job, plans, scripts)
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains(e.Withheld, name) || len(e.From([]string{name})) > 0
	})
	slices.Sort(names)
	return slices.Compact(names)
}
