package result

import (
	"strings"

	"github.com/profllm/profllm/pkg/redact"
)

// Redact removes secrets from all settings, process arguments and environments, and data
// of other programs: by the names of keys, options and variables, and by shape. It is
// applied whenever a record is written or read.
func (r *Result) Redact() {
	c := &r.Config
	c.Server = redact.Table(c.Server)
	for i := range c.Roles {
		c.Roles[i].Server = redact.Table(c.Roles[i].Server)
	}
	redactAll(c.Settings)
	c.Benchmark.Endpoint = redact.Setting("endpoint", c.Benchmark.Endpoint)
	for i := range r.Warnings {
		r.Warnings[i].Text = redact.Line(r.Warnings[i].Text)
	}
	if r.Provenance != nil {
		r.Provenance.redact()
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
