// Package conf holds the sample sites. Two of them are built in: the site of
// simulated nodes that a rehearsal uses without a system file, and the machine
// that profllm run uses without one.
package conf

import _ "embed"

// Local is the system file of simulated nodes on this machine.
//
//go:embed local.toml
var Local []byte

// Standalone is the system file of this machine.
//
//go:embed standalone.toml
var Standalone []byte
