// Package racetest tells tests whether the race detector watches them, which makes them ten times as slow.
package racetest

import "testing"

// Alone skips a test under the race detector that computes for long in one goroutine: there is no race to find.
func Alone(t testing.TB) {
	t.Helper()
	if watched {
		t.Skip("computes in one goroutine: nothing for the race detector")
	}
}
