package result

import (
	"strings"

	"github.com/profllm/profllm/pkg/redact"
)

// Redact removes secrets from all settings, process arguments and environments, data of
// other programs, and what repeats lines of logs: by the names of keys, options and
// variables, and by shape. It is applied whenever a record is written or read.
func (r *Result) Redact() {
	c := &r.Config
	c.Server = redact.Table(c.Server)
	for i := range c.Roles {
		c.Roles[i].Server = redact.Table(c.Roles[i].Server)
	}
	for i := range c.Resolved {
		c.Resolved[i].Server = redact.Table(c.Resolved[i].Server)
	}
	redactAll(c.Settings)
	c.Benchmark.Endpoint = redact.Setting("endpoint", c.Benchmark.Endpoint)
	for i := range r.Warnings {
		r.Warnings[i].Text = redact.Line(r.Warnings[i].Text)
	}
	if r.Validity != nil {
		for i := range r.Validity.Checks {
			r.Validity.Checks[i].Detail = redact.Line(r.Validity.Checks[i].Detail)
		}
	}
	if r.APICheck != nil {
		for i := range r.APICheck.Failed {
			r.APICheck.Failed[i].Text = redact.Line(r.APICheck.Failed[i].Text)
		}
	}
	if r.Failure != nil {
		r.Failure.redact()
	}
	if r.Provenance != nil {
		r.Provenance.redact()
	}
}

func (f *Failure) redact() {
	f.Line, f.About = redact.Line(f.Line), redact.Line(f.About)
	for i := range f.Tail {
		f.Tail[i] = redact.Line(f.Tail[i])
	}
	for i := range f.Others {
		f.Others[i].Line = redact.Line(f.Others[i].Line)
	}
}

func (p *Provenance) redact() {
	for i := range p.Commands {
		p.Commands[i].Argv = redact.Words(p.Commands[i].Argv)
	}
	for _, env := range p.Environment {
		redactAll(env.Vars)
	}
	for i := range p.Repositories {
		p.Repositories[i].URL = redact.Line(p.Repositories[i].URL)
	}
	if p.Imported != nil {
		p.Imported.Fields = redact.Table(p.Imported.Fields)
	}
}

// redactAll redacts values by the last part of their keys.
func redactAll(settings map[string]string) {
	for key, value := range settings {
		settings[key] = redact.Setting(key[strings.LastIndexByte(key, '.')+1:], value)
	}
}
