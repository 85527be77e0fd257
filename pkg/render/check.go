package render

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
)

// What stands bare in the script, because it is part of a comment, of an option
// or of a variable's name, is checked here; everything else is quoted.
var (
	safeName = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.+=@-]*$`) // of directories too
	safeStep = lazyregexp.New(`^[a-z][a-z0-9_-]*$`)
	safeVar  = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	safeFile = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_./%+=@-]*$`)
	safeLog  = lazyregexp.New(`^(?:\.\./)*[A-Za-z0-9_][A-Za-z0-9_./%+=@-]*$`)
	safePart = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`) // of a phase's name, which ends at "="
	safeText = lazyregexp.New(`^[ -~]*$`)
)

// scriptVars are names that a variable of the job's environment must not have:
// the script's own; the locals of its functions, which bash exports when they
// hide an exported variable; and those that bash computes or keeps read-only
// (bash(1), "Shell Variables").
var scriptVars = strings.Fields(`
	RUN PROFLLM GUARD ROLES CLIENT PHASES FINISHING LATE POST LAUNCH ENGINE BOX BOX2 BOX3 BOX4 SLURM_EXPORT_ENV
	name pid code role ends
	_ BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND BASH_LINENO BASH_SOURCE
	BASH_SUBSHELL BASH_VERSINFO BASH_VERSION DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS HISTCMD IFS LINENO
	OPTARG OPTIND PIPESTATUS PPID RANDOM SECONDS SHELLOPTS SRANDOM UID`)

// check refuses a plan whose names could be read as something else by the shell.
func check(p *plan.Plan) error {
	c := checker{taken: map[string]bool{}}
	c.match(safeName, "scenario name", p.Scenario)
	c.match(safeName, "test id", p.Test)
	c.match(safeName, "run ID", p.RunID)
	c.match(safeText, "version", p.Version)
	c.noPercent("run", p.Dir)
	c.takes(scriptVars)
	for _, port := range p.Ports {
		c.match(safeVar, "port", port.Name)
		c.taken[PortVar(port.Name)] = true
	}
	for i := range p.Setup {
		c.step(&p.Setup[i])
	}
	for i := range p.Roles {
		c.match(safeVar, "role", p.Roles[i].Name)
		c.taken[AddrVar(p.Roles[i].Name)] = true
		c.takes(CommandVars(p.Roles[i].KindName()))
		c.step(&p.Roles[i].Step)
	}
	for _, name := range p.Job.Export {
		c.match(safeVar, "exported variable", name)
	}
	for _, h := range p.PreTest {
		c.match(safePart, "hook", h.Name)
	}
	for _, h := range p.PostTest {
		c.match(safePart, "hook", h.Name)
	}
	if p.APICheck != nil {
		c.step(p.APICheck)
	}
	for i := range p.Loads {
		if len(p.Loads) > 1 || p.Loads[i].Name != "" {
			c.match(safePart, "load", p.Loads[i].Name)
		}
		for j := range p.Loads[i].Clients {
			c.takes(CommandVars(p.Loads[i].Clients[j].Name))
			c.step(&p.Loads[i].Clients[j])
		}
	}
	c.env(p.Env)
	return errors.Join(c.errs...)
}

// checker collects what is wrong with the names of a plan.
type checker struct {
	errs  []error
	taken map[string]bool // variables that the script sets
}

func (c *checker) add(err error) { c.errs = append(c.errs, err) }

// takes notes variables that the script sets.
func (c *checker) takes(names []string) {
	for _, name := range names {
		c.taken[name] = true
	}
}

func (c *checker) match(pattern *lazyregexp.Regexp, what, value string) {
	if !pattern.MatchString(value) {
		c.add(fmt.Errorf("%s %q does not match %s", what, value, pattern))
	}
}

func (c *checker) noPercent(what, dir string) {
	if strings.ContainsRune(dir, '%') {
		c.add(fmt.Errorf("the %s directory %q holds a %%, which Slurm expands in the names of logs", what, dir))
	}
}

func (c *checker) step(s *plan.Step) {
	c.match(safeStep, "step", s.Name)
	if dir, file := path.Split(s.Log); path.IsAbs(s.Log) {
		c.noPercent("log", dir)
		c.match(sbatchValue, "log", dir)
		c.match(safeFile, "log", file)
	} else {
		c.match(safeLog, "log", s.Log)
	}
	if _, err := regexp.Compile(s.Success); err != nil {
		c.add(fmt.Errorf("step %s: success: %w", s.Name, err))
	}
	for _, v := range s.Env {
		c.match(safeVar, "variable", v.Name)
	}
	for _, x := range s.Secrets {
		c.match(safeVar, "secret", x.Name)
		if (x.Env == "") == (x.File == "") {
			c.add(fmt.Errorf("secret %s has both a variable and a file, or neither", x.Name))
		}
		if x.File == "" {
			c.match(safeVar, "secret's variable", x.Env)
		}
	}
}

// env checks the variables of the job's environment.
func (c *checker) env(vars []plan.Var) {
	for _, v := range vars {
		c.match(safeVar, "variable", v.Name)
		if c.taken[v.Name] {
			c.add(fmt.Errorf("environment variable %s belongs to the script or to bash itself\n\thint: use another name",
				v.Name))
		}
	}
}
