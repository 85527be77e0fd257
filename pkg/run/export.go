package run

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
)

// usual are the variables of the submitting shell that every job is given: who and
// where its user is, where programs, libraries and modules are found, and the
// language. Those of profllm itself come with them.
var usual = strings.Fields(`
	HOME USER LOGNAME SHELL PATH LD_LIBRARY_PATH LIBRARY_PATH MANPATH
	LANG LANGUAGE LC_ALL LC_CTYPE LC_COLLATE LC_MESSAGES LC_NUMERIC LC_TIME TZ
	VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE PYTHONPATH PYTHONHOME
	CUDA_HOME CUDA_PATH ROCM_PATH HF_HOME
	MODULEPATH MODULESHOME LOADEDMODULES _LMFILES_ LMOD_CMD LMOD_DIR LMOD_PKG BASH_ENV`)

// Exported returns what of an environment a job is given: the usual variables and
// those with the given names, or all of it for config.ExportAll. The rest of a
// shell holds what no benchmark needs, and is kept by Slurm's controller in files.
func Exported(environ, names []string) []string {
	if slices.Contains(names, config.ExportAll) {
		return slices.Clone(environ)
	}
	var kept []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if slices.Contains(usual, name) || strings.HasPrefix(name, "PROFLLM_") || name == "SLURM_CONF" || slices.Contains(names, name) {
			kept = append(kept, kv)
		}
	}
	return kept
}

// mention finds the variables that shell text names.
var mention = regexp.MustCompile(`\$\{?#?!?([A-Za-z_][A-Za-z0-9_]*)`)

// exports lists what the job of a unit is given besides the usual variables: what
// its definitions ask for, and what its scripts name. An --export of the user's own
// is about a whole environment.
func (u *Unit) exports() ([]string, error) {
	job := u.Job()
	names := slices.Clone(job.Export)
	for _, line := range job.SbatchArgs {
		if strings.HasPrefix(line, "--export") {
			names = append(names, config.ExportAll)
		}
	}
	scripts := []string{u.Dir}
	err := u.eachPlan(func(dir string, _ *plan.Plan) error {
		if dir != u.Dir {
			scripts = append(scripts, dir)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, dir := range scripts {
		text, err := os.ReadFile(filepath.Join(dir, ScriptFile))
		if err != nil {
			return nil, err
		}
		for _, m := range mention.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
