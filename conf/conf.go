// Package conf holds the sample sites. One of them is built in: the site of
// simulated nodes that a rehearsal uses without a system file.
package conf

import _ "embed"

// Local is the system file of simulated nodes on this machine.
//
//go:embed local.toml
var Local []byte
