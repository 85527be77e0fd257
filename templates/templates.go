// Package templates holds the templates that are built into the program.
package templates

import "embed"

// FS holds slurm/<name>.tmpl, which a user's folder can replace.
//
//go:embed slurm
var FS embed.FS

// Kube holds kube/<name>.tmpl.
//
//go:embed kube
var Kube embed.FS
