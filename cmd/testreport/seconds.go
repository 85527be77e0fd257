package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// seconds is what the tests of a run took before, and how much of that is over.
type seconds struct {
	of          map[test]float64
	total, done float64
}

// readSeconds reads "PACKAGE TEST SECONDS" lines, of some packages. Tests that are not listed count as nothing.
func readSeconds(file string, packages []string) (*seconds, error) {
	s := &seconds{of: map[test]float64{}}
	if file == "" {
		return s, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for i := range packages {
		packages[i] = strings.TrimPrefix(packages[i], module)
	}
	for line := range strings.Lines(string(data)) {
		var t test
		var took float64
		if _, err := fmt.Sscan(line, &t.pkg, &t.name, &took); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, line, err)
		}
		if slices.Contains(packages, t.pkg) {
			s.of[t] = took
			s.total += took
		}
	}
	return s, nil
}

// over counts a test that has ended.
func (s *seconds) over(e event) {
	if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
		s.done += s.of[e.name()]
	}
}

// left estimates which share is done, and how long the rest takes if it goes on as it went so far.
func (s *seconds) left(since time.Duration) (share float64, d time.Duration, known bool) {
	if s.done == 0 {
		return 0, 0, false
	}
	share = s.done / s.total
	return share, time.Duration((1 - share) / share * float64(since)), true
}
