// Package scenarios holds the shipped scenarios. Each is planned and rendered by
// tests; the demonstration is built in.
package scenarios

import "embed"

// Demo is the name of the built-in scenario.
const Demo = "demo"

// FS holds the shipped scenarios, and their test files below tests.
//
//go:embed *.toml tests/*.toml
var FS embed.FS
