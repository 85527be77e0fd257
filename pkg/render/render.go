// Package render prints a plan as a batch script, through layered templates.
//
// A template prints and computes nothing: its data is the finished plan. Every
// value goes through a quoting function, and every script is parsed by a shell
// parser before it is returned. The package runs nothing.
package render

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
)

// Templates of Slurm: of a run's job, and of a batch's.
const (
	Name      = "slurm/job.sh.tmpl"
	BatchName = "slurm/batch.sh.tmpl"

	blockFiles = "slurm/*.block.tmpl" // redefine blocks of Name
)

// Script prints the batch script of p. The first layer that has the template
// wins; *.block.tmpl files of earlier layers in the same folder are parsed after it and
// may redefine its blocks (prologue, env, before_roles, before_client, epilogue).
func Script(p *plan.Plan, layers ...fs.FS) ([]byte, error) {
	t, digest, err := load(Name, layers)
	if err != nil {
		return nil, err
	}
	if err := check(p); err != nil {
		return nil, err
	}
	directives, err := directives(p.Job, "", p.Dir, "")
	if err != nil {
		return nil, err
	}
	v := view{Plan: p, Directives: directives, Digest: digest, Nodes: p.Job.Nodes,
		Env: slices.Concat(p.ModelCacheEnv(), p.Env), SrunArgs: p.Job.SrunArgs, Until: p.Job.Until}
	if v.shared, err = sharedWords(p); err != nil {
		return nil, err
	}
	if p.APICheck != nil {
		v.Gate = &stepView{p.APICheck, v.shared}
	}
	for i := range p.Setup {
		v.Setup = append(v.Setup, stepView{&p.Setup[i], v.shared})
	}
	for i := range p.Roles {
		port, _ := p.PortNamed(p.Roles[i].Health.Port)
		last := p.Roles[i].Helper && (i+1 == len(p.Roles) || !p.Roles[i+1].Helper)
		v.Roles = append(v.Roles, roleView{Role: &p.Roles[i], Step: stepView{&p.Roles[i].Step, v.shared}, LastHelper: last,
			port: port})
	}
	for i := range p.Loads {
		v.Loads = append(v.Loads, loadOf(p, &p.Loads[i], v.shared))
	}
	for _, h := range p.PreTest {
		v.Before = append(v.Before, "pre_test/"+h.Name)
	}
	for _, h := range p.PostTest {
		v.After = append(v.After, "post_test/"+h.Name)
	}
	v.Hooks = len(v.Before)+len(v.After) > 0
	return execute(t, v)
}

// execute prints a template and parses what it printed.
func execute(t *template.Template, data any) ([]byte, error) {
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("render %s: %w", t.Name(), err)
	}
	if i := bytes.IndexByte(out.Bytes(), 0); i >= 0 || bytes.Contains(out.Bytes(), []byte("\r\n")) {
		return nil, fmt.Errorf("render %s: the script holds a NUL byte or a DOS line end, which sbatch refuses",
			t.Name())
	}
	if _, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).
		Parse(bytes.NewReader(out.Bytes()), "job.sh"); err != nil {
		return nil, fmt.Errorf("render %s: the script does not parse: %w", t.Name(), err)
	}
	return out.Bytes(), nil
}

// view is what the template sees.
type view struct {
	*plan.Plan
	Directives []string
	Digest     string
	Nodes      int
	Env        []plan.Var // of every step
	SrunArgs   []string
	Until      []string
	Setup      []stepView
	Roles      []roleView
	Loads      []loadView
	Gate       *stepView // nil: no checks of the API
	shared     *shared
	Hooks      bool
	Before     []string // directories of hooks below the run's
	After      []string
}

type roleView struct {
	*plan.Role
	Step       stepView
	LastHelper bool      // the servers start once this one and the helpers before it are ready
	port       plan.Port // of its readiness path
}

// loadView is a load as the script sees it. Announce says that the job prepares
// it and notes its begin, Asks that those before it may be enough.
type loadView struct {
	Name     string
	Announce bool
	Asks     bool
	Phase    string // of the preparation
	Clients  []clientView
}

type clientView struct {
	Phase string
	Step  stepView
	Apart bool // an empty line stands before it
	Stop  bool // if it fails, nothing follows
}

func loadOf(p *plan.Plan, l *plan.Load, shared *shared) loadView {
	v := loadView{Name: l.Name, Announce: len(p.Loads) > 1 || l.Cache != "", Phase: l.Phase("load")}
	v.Announce = v.Announce || p.Tracing != nil && len(l.Clients) > 0 // the job starts the profilers
	v.Asks = l.Repeat != nil && l.Repeat.Until != nil && l.Repeat.Index > 0
	for i := range l.Clients {
		client := &l.Clients[i]
		v.Clients = append(v.Clients,
			clientView{l.Phase(client.Name), stepView{client, shared}, !v.Announce, l.StopOnFailure})
	}
	return v
}

// Summary is one line about a role, safe inside a comment.
func (r roleView) Summary() string {
	s := fmt.Sprintf("%s: nodes %s", r.Name, r.Nodes)
	if len(r.GPUs) > 0 {
		s += ", GPUs " + plan.FormatGPUs(r.GPUs)
	}
	switch {
	case r.Health.Port == "":
		return s + ", not waited for"
	case r.Health.Path == "":
		return s + fmt.Sprintf(", ready when port %s of the job takes connections", r.port)
	}
	return s + fmt.Sprintf(", ready when %s answers on port %s of the job", oneLine(r.Health.Path), r.port)
}

// Funcs are the functions that quote values in a template of bash.
func Funcs() template.FuncMap { return template.FuncMap{"quote": Quote, "words": words} }

// funcs are the functions of a template.
var funcs = template.FuncMap{"quote": Quote, "words": words, "export": export, "command": command, "array": array}

// load parses the template of the first layer that has it, and the blocks of
// that layer and those before it.
func load(name string, layers []fs.FS) (*template.Template, string, error) {
	for i, layer := range layers {
		text, err := fs.ReadFile(layer, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		t, err := template.New(name).Option("missingkey=error").Funcs(funcs).Parse(string(text))
		if err != nil {
			return nil, "", fmt.Errorf("parse %w", err)
		}
		digest := fmt.Sprintf("sha256:%.12x", sha256.Sum256(text))
		for j := i; j >= 0 && name == Name; j-- { // only a job's script has blocks
			blocks, err := fs.Glob(layers[j], blockFiles)
			if err != nil {
				return nil, "", err
			}
			for _, file := range blocks {
				text, err := fs.ReadFile(layers[j], file)
				if err != nil {
					return nil, "", err
				}
				if err := redefine(t, file, string(text)); err != nil {
					return nil, "", err
				}
				digest += fmt.Sprintf(", %s sha256:%.12x", file, sha256.Sum256(text))
			}
		}
		return t, digest, nil
	}
	return nil, "", fmt.Errorf("no layer has the template %s", name)
}

// CheckLayer refuses a folder of templates with a file that nothing reads.
func CheckLayer(layer fs.FS) error {
	for _, depth := range []string{"*.tmpl", "*/*.tmpl"} {
		files, err := fs.Glob(layer, depth)
		if err != nil {
			return err
		}
		for _, file := range files {
			if block, _ := path.Match(blockFiles, file); !block && file != Name && file != BatchName {
				return fmt.Errorf("templates: %s is not read: the templates are %s, %s and, for blocks of the first, %s",
					file, Name, BatchName, blockFiles)
			}
		}
	}
	return nil
}

// redefine parses a file of blocks over t. What would have no effect, or replace
// the whole script, is refused.
func redefine(t *template.Template, file, text string) error {
	if !safeFile.MatchString(file) {
		return fmt.Errorf("parse %q: the file's name stands in the script and may hold letters, digits and _ . - / only",
			file)
	}
	known := map[string]bool{}
	var names []string
	for _, b := range t.Templates() {
		known[b.Name()] = true
		if b.Name() != Name {
			names = append(names, b.Name())
		}
	}
	sort.Strings(names)
	blocks, err := template.New(file).Funcs(funcs).Parse(text)
	if err != nil {
		return fmt.Errorf("parse %w", err)
	}
	for _, b := range blocks.Templates() {
		switch name := b.Name(); {
		case b.Tree == nil || parse.IsEmptyTree(b.Root) && name == file:
			continue
		case name == file:
			return fmt.Errorf("parse %s: text stands outside of {{define}}", file)
		case !known[name] || name == Name:
			return fmt.Errorf("parse %s: %q is not a block of %s, which has %s", file, name, Name,
				strings.Join(names, ", "))
		}
		if _, err := t.AddParseTree(b.Name(), b.Tree); err != nil {
			return fmt.Errorf("parse %s: %w", file, err)
		}
	}
	return nil
}

// sbatchValue is what may stand in an #SBATCH line: such a line is not shell, so
// no quoting can make another value safe. & | ( ) * ! make up constraints.
var sbatchValue = lazyregexp.New(`^[A-Za-z0-9_.,:=+/@%&|()*!\[\]-]+$`)

// sbatchLine is what may stand in a line that the user wrote as one.
var sbatchLine = lazyregexp.New(`^--?[A-Za-z][ -~]*$`)

// directives lists the options of a job whose output lies in dir; mark is what
// tells the files of an array's tasks apart, array its tasks.
func directives(j plan.Job, array, dir, mark string) ([]string, error) {
	var lines []string
	var bad error
	add := func(option, value string) {
		if value == "" {
			return
		}
		if !sbatchValue.MatchString(value) && bad == nil {
			bad = fmt.Errorf("#SBATCH --%s=%q: the value may hold letters, digits and _ . , : = + / @ %% - [ ] & | ( ) * ! only",
				option, value)
		}
		lines = append(lines, "--"+option+"="+value)
	}
	number := func(option string, n int) {
		if n > 0 {
			add(option, fmt.Sprint(n))
		}
	}
	add("job-name", j.Name)
	add("comment", j.Comment)
	add("array", array)
	add("output", dir+"/stdout"+mark+".txt")
	add("error", dir+"/stderr"+mark+".txt")
	lines = append(lines, "--open-mode=append")
	add("partition", j.Partition)
	add("account", j.Account)
	add("qos", j.QOS)
	add("reservation", j.Reservation)
	add("constraint", j.Constraint)
	add("distribution", j.Distribution)
	number("nodes", j.Nodes)
	add("nodelist", strings.Join(j.NodeList, ","))
	add("exclude", strings.Join(j.Exclude, ","))
	if j.GPUsPerNode > 0 {
		add("gres", fmt.Sprintf("gpu:%d", j.GPUsPerNode))
	}
	number("ntasks-per-node", j.NTasksPerNode)
	if j.Exclusive {
		lines = append(lines, "--exclusive")
	}
	if j.TimeLimit > 0 {
		add("time", scenario.FormatLimit(time.Duration(j.TimeLimit)))
	}
	if j.Grace > 0 {
		add("signal", fmt.Sprintf("B:TERM@%d", int(time.Duration(j.Grace).Seconds())))
	}
	for _, line := range j.SbatchArgs {
		if !sbatchLine.MatchString(line) && bad == nil {
			bad = fmt.Errorf("extra sbatch argument %q must be one option in printable ASCII", line)
		}
		lines = append(lines, line)
	}
	return lines, bad
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
