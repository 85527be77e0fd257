// Package tier says how much a test has to prove in this run: make test proves each thing once, make test-all proves
// all of many alike, and the race detector, which makes tests ten times as slow, watches those that it can say
// something of.
package tier

import (
	"os"
	"testing"
)

// Whole reports whether a test is to try all of many alike, not some of them.
func Whole() bool { return os.Getenv("PROFLLM_TEST_ALL") == "1" }

// NeedsWhole skips what differs from other cases of the same test only in numbers.
func NeedsWhole(t testing.TB) {
	t.Helper()
	if !Whole() {
		t.Skip("one of many alike: make test-all")
	}
}

// Of is how many cases a test tries: all, or part of them where not everything is to be tried, which it logs.
func Of(t testing.TB, all, part int) int {
	t.Helper()
	if Whole() {
		return all
	}
	t.Logf("sampled: %d of %d (make test-all: all)", part, all)
	return part
}

// Alone skips a test under the race detector that computes for long in one goroutine: there is no race to find.
func Alone(t testing.TB) {
	t.Helper()
	if watched {
		t.Skip("computes in one goroutine: nothing for the race detector")
	}
}
