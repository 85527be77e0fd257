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
	"regexp"
	"sort"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
)

// Name is the template of a Slurm job.
const Name = "slurm/job.sh.tmpl"

// Script prints the batch script of p. The first layer that has the template
// wins; *.tmpl files of earlier layers in the same folder are parsed after it and
// may redefine its blocks (prologue, env, before_roles, before_client, epilogue).
func Script(p *plan.Plan, layers ...fs.FS) ([]byte, error) {
	t, digest, err := load(layers)
	if err != nil {
		return nil, err
	}
	if err := check(p); err != nil {
		return nil, err
	}
	directives, err := directives(p)
	if err != nil {
		return nil, err
	}
	v := view{Plan: p, Directives: directives, Digest: digest, Nodes: p.Job.Nodes, SrunArgs: p.Job.SrunArgs}
	for i := range p.Roles {
		v.Roles = append(v.Roles, roleView{Role: &p.Roles[i], Step: &p.Roles[i].Step})
	}
	var out bytes.Buffer
	if err := t.Execute(&out, v); err != nil {
		return nil, fmt.Errorf("render %s: %w", Name, err)
	}
	if i := bytes.IndexByte(out.Bytes(), 0); i >= 0 || bytes.Contains(out.Bytes(), []byte("\r\n")) {
		return nil, fmt.Errorf("render %s: the script holds a NUL byte or a DOS line end, which sbatch refuses", Name)
	}
	if _, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(out.Bytes()), "job.sh"); err != nil {
		return nil, fmt.Errorf("render %s: the script does not parse: %w", Name, err)
	}
	return out.Bytes(), nil
}

// view is what the template sees.
type view struct {
	*plan.Plan
	Directives []string
	Digest     string
	Nodes      int
	SrunArgs   []string
	Roles      []roleView
}

type roleView struct {
	*plan.Role
	Step *plan.Step
}

// Checked reports whether a client's log must hold a certain line.
func (v view) Checked() bool {
	for _, l := range v.Loads {
		for _, c := range l.Clients {
			if c.Success != "" {
				return true
			}
		}
	}
	return false
}

// Summary is one line about a role, safe inside a comment.
func (r roleView) Summary() string {
	s := fmt.Sprintf("%s: nodes %s", r.Name, r.Nodes)
	if len(r.GPUs) > 0 {
		s += ", GPUs " + plan.FormatGPUs(r.GPUs)
	}
	return s + fmt.Sprintf(", ready at :%s%s", r.Health.Port, oneLine(r.Health.Path))
}

// funcs are the functions of a template.
var funcs = template.FuncMap{"quote": Quote, "words": words, "export": export, "command": command}

// load parses the template of the first layer that has it, and the blocks of
// that layer and those before it.
func load(layers []fs.FS) (*template.Template, string, error) {
	for i, layer := range layers {
		text, err := fs.ReadFile(layer, Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		t, err := template.New(Name).Option("missingkey=error").Funcs(funcs).Parse(string(text))
		if err != nil {
			return nil, "", fmt.Errorf("parse %w", err)
		}
		digest := fmt.Sprintf("sha256:%.12x", sha256.Sum256(text))
		for j := i; j >= 0; j-- {
			blocks, err := fs.Glob(layers[j], "slurm/*.block.tmpl")
			if err != nil {
				return nil, "", err
			}
			for _, name := range blocks {
				text, err := fs.ReadFile(layers[j], name)
				if err != nil {
					return nil, "", err
				}
				if err := redefine(t, name, string(text)); err != nil {
					return nil, "", err
				}
				digest += fmt.Sprintf(", %s sha256:%.12x", name, sha256.Sum256(text))
			}
		}
		return t, digest, nil
	}
	return nil, "", fmt.Errorf("no layer has the template %s", Name)
}

// redefine parses a file of blocks over t. What would have no effect, or replace
// the whole script, is refused.
func redefine(t *template.Template, file, text string) error {
	if !safeFile.MatchString(file) {
		return fmt.Errorf("parse %q: the file's name stands in the script and may hold letters, digits and _ . - / only", file)
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
			return fmt.Errorf("parse %s: %q is no block of %s, which has %s", file, name, Name, strings.Join(names, ", "))
		}
		if _, err := t.AddParseTree(b.Name(), b.Tree); err != nil {
			return fmt.Errorf("parse %s: %w", file, err)
		}
	}
	return nil
}

// sbatchValue is what may stand in an #SBATCH line: such a line is not shell, so
// no quoting can make another value safe. & | ( ) * ! make up constraints.
var sbatchValue = regexp.MustCompile(`^[A-Za-z0-9_.,:=+/@%&|()*!\[\]-]+$`)

// sbatchLine is what may stand in a line that the user wrote as one.
var sbatchLine = regexp.MustCompile(`^--?[A-Za-z][ -~]*$`)

func directives(p *plan.Plan) ([]string, error) {
	j := p.Job
	var lines []string
	var bad error
	add := func(option, value string) {
		if value == "" {
			return
		}
		if !sbatchValue.MatchString(value) && bad == nil {
			bad = fmt.Errorf("#SBATCH --%s=%q: the value may hold letters, digits and _ . , : = + / @ %% - [ ] & | ( ) * ! only", option, value)
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
	add("output", p.Dir+"/stdout.txt")
	add("error", p.Dir+"/stderr.txt")
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
