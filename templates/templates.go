// Package templates holds the templates that are built into the program.
package templates

import "embed"

// FS holds <scheduler>/<name>.tmpl.
//
//go:embed slurm
var FS embed.FS
