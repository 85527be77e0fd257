package render

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
)

// What stands bare in the script, because it is part of a comment, of an option
// or of a variable's name, is checked here; everything else is quoted.
var (
	safeName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+=@-]*$`) // of directories too
	safeStep = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
	safeVar  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	safeFile = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./%+=@-]*$`)
	safeLog  = regexp.MustCompile(`^(?:\.\./)*[A-Za-z0-9_][A-Za-z0-9_./%+=@-]*$`)
	safePart = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`) // of a phase's name, which ends at "="
	safeText = regexp.MustCompile(`^[ -~]*$`)
)

// scriptVars are names that a variable of the job's environment must not have:
// the script's own; the locals of its functions, which bash exports when they
// hide an exported variable; and those that bash computes or keeps read-only
// (bash(1), "Shell Variables").
var scriptVars = strings.Fields(`
	RUN PROFLLM GUARD ROLES CLIENT PHASES FINISHING POST SLURM_EXPORT_ENV
	name pid code role ends
	_ BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND BASH_LINENO BASH_SOURCE
	BASH_SUBSHELL BASH_VERSINFO BASH_VERSION DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS HISTCMD IFS LINENO
	OPTARG OPTIND PIPESTATUS PPID RANDOM SECONDS SHELLOPTS SRANDOM UID`)

// check refuses a plan whose names could be read as something else by the shell.
func check(p *plan.Plan) error {
	var errs []error
	match := func(pattern *regexp.Regexp, what, value string) {
		if !pattern.MatchString(value) {
			errs = append(errs, fmt.Errorf("%s %q does not match %s", what, value, pattern))
		}
	}
	match(safeName, "scenario name", p.Scenario)
	match(safeName, "test id", p.Test)
	match(safeName, "run ID", p.RunID)
	match(safeText, "version", p.Version)
	noPercent := func(what, dir string) {
		if strings.ContainsRune(dir, '%') {
			errs = append(errs,
				fmt.Errorf("the %s directory %q holds a %%, which Slurm expands in the names of logs", what, dir))
		}
	}
	noPercent("run", p.Dir)
	taken := map[string]bool{}
	for _, name := range scriptVars {
		taken[name] = true
	}
	for _, port := range p.Ports {
		match(safeVar, "port", port.Name)
		taken[PortVar(port.Name)] = true
	}
	step := func(s *plan.Step) {
		match(safeStep, "step", s.Name)
		if dir, file := path.Split(s.Log); path.IsAbs(s.Log) {
			noPercent("log", dir)
			match(sbatchValue, "log", dir)
			match(safeFile, "log", file)
		} else {
			match(safeLog, "log", s.Log)
		}
		if _, err := regexp.Compile(s.Success); err != nil {
			errs = append(errs, fmt.Errorf("step %s: success: %w", s.Name, err))
		}
		for _, v := range s.Env {
			match(safeVar, "variable", v.Name)
		}
		for _, x := range s.Secrets {
			match(safeVar, "secret", x.Name)
			if (x.Env == "") == (x.File == "") {
				errs = append(errs, fmt.Errorf("secret %s has both a variable and a file, or neither", x.Name))
			}
			if x.File == "" {
				match(safeVar, "secret's variable", x.Env)
			}
		}
	}
	for i := range p.Setup {
		step(&p.Setup[i])
	}
	for i := range p.Roles {
		match(safeVar, "role", p.Roles[i].Name)
		taken[AddrVar(p.Roles[i].Name)] = true
		step(&p.Roles[i].Step)
	}
	for _, name := range p.Job.Export {
		match(safeVar, "exported variable", name)
	}
	for _, h := range p.PreTest {
		match(safePart, "hook", h.Name)
	}
	for _, h := range p.PostTest {
		match(safePart, "hook", h.Name)
	}
	if p.APICheck != nil {
		step(p.APICheck)
	}
	for i := range p.Loads {
		if len(p.Loads) > 1 || p.Loads[i].Name != "" {
			match(safePart, "load", p.Loads[i].Name)
		}
		for j := range p.Loads[i].Clients {
			step(&p.Loads[i].Clients[j])
		}
	}
	for _, v := range p.Env {
		match(safeVar, "variable", v.Name)
		if taken[v.Name] {
			errs = append(errs,
				fmt.Errorf("environment variable %s belongs to the script or to bash itself\n\thint: use another name",
					v.Name))
		}
	}
	return errors.Join(errs...)
}
