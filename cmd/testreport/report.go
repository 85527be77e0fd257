package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

const module = "github.com/profllm/profllm/"

// event is one line of go test -json; see "go doc test2json".
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // s
}

// name is the test of an event, Test "" for the package itself.
func (e event) name() test { return test{strings.TrimPrefix(e.Package, module), e.Test} }

// test is one test, or one subtest.
type test struct{ pkg, name string }

// top is the test that a subtest is part of.
func (t test) top() test {
	name, _, _ := strings.Cut(t.name, "/")
	return test{t.pkg, name}
}

type report struct {
	passed, failed int
	reasons        map[string][]test   // the tests that were skipped, by the reason they gave
	said           map[test]string     // the last line a test logged
	broken         map[string]struct{} // packages in which a test failed
	took           map[test]float64    // s, of whole tests, or of their parts where these ran in parallel
	packages       map[string]float64  // s, of the tests of a package
	whole          map[test]bool       // of whole tests: passed, and nothing of it was skipped or left out
}

func newReport() *report {
	return &report{reasons: map[string][]test{}, said: map[test]string{}, broken: map[string]struct{}{},
		took: map[test]float64{}, packages: map[string]float64{}, whole: map[test]bool{}}
}

var (
	// logged is a line of t.Log, t.Skip and the like.
	logged = lazyregexp.New(`^\s+[^\s:]+\.go:[0-9]+: (.*)`)
	// inPart is what a test logs that does less with -short.
	inPart = "in part: "
)

func (r *report) add(e event) {
	t := e.name()
	switch {
	case e.Action == "output":
		if m := logged.FindStringSubmatch(e.Output); m != nil {
			r.said[t] = m[1]
			if strings.HasPrefix(m[1], inPart) {
				r.whole[t.top()] = false
			}
		}
		return
	case e.Test == "" && e.Action == "fail":
		if _, known := r.broken[t.pkg]; !known {
			r.failed++ // it did not build, or ended outside its tests
		}
	case e.Test == "":
		r.packages[t.pkg] = e.Elapsed
		return
	case e.Action == "pass":
		r.passed++
	case e.Action == "fail":
		r.failed++
		r.broken[t.pkg] = struct{}{}
	case e.Action == "skip":
		why := r.said[t]
		r.reasons[why] = append(r.reasons[why], t)
	default:
		return
	}
	delete(r.said, t)
	if e.Test == "" {
		return
	}
	if _, known := r.whole[t.top()]; !known || e.Action != "pass" {
		r.whole[t.top()] = e.Action == "pass"
	}
	switch strings.Count(t.name, "/") {
	case 0: // after its parts; without the wait for those that run in parallel
		r.took[t] = max(r.took[t], e.Elapsed)
	case 1:
		r.took[t.top()] += e.Elapsed
	}
}

func (r *report) write(w io.Writer) error {
	var b strings.Builder
	skipped := 0
	for _, why := range slices.Sorted(maps.Keys(r.reasons)) {
		tests := r.reasons[why]
		skipped += len(tests)
		fmt.Fprintf(&b, "skipped %d: %s\n", len(tests), cmp.Or(why, "no reason given"))
		names := map[string][]string{}
		for _, t := range tests {
			names[t.pkg] = append(names[t.pkg], t.name)
		}
		for _, pkg := range slices.Sorted(maps.Keys(names)) {
			fmt.Fprintf(&b, "    %s: %s\n", pkg, strings.Join(names[pkg], " "))
		}
	}
	fmt.Fprintf(&b, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, skipped)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeProved writes a line for each test: proved or left, its package and its name.
func (r *report) writeProved(file string) error {
	words := map[bool]string{true: "proved", false: "left"}
	return writeLines(file, r.whole, func(t test) string {
		return fmt.Sprintf("%s %s %s", words[r.whole[t]], t.pkg, t.name)
	})
}

// writeTook writes the seconds of tests as readSeconds reads them: the seconds of a package, shared out among its tests
// by how long they took, since they may have run in parallel. Less than half a second is not worth a line.
func (r *report) writeTook(file string) error {
	all := map[string]float64{}
	for t, s := range r.took {
		all[t.pkg] += s
	}
	return writeLines(file, r.took, func(t test) string {
		s := r.took[t] / all[t.pkg] * r.packages[t.pkg]
		if !(s >= 0.5) {
			return ""
		}
		return fmt.Sprintf("%s %s %.1f", t.pkg, t.name, s)
	})
}

// writeLines writes a line for each test, in order; a file or a line "" is left out.
func writeLines[V any](file string, tests map[test]V, line func(test) string) error {
	if file == "" {
		return nil
	}
	var lines []string
	for t := range tests {
		if text := line(t); text != "" {
			lines = append(lines, text+"\n")
		}
	}
	slices.Sort(lines)
	return os.WriteFile(file, []byte(strings.Join(lines, "")), 0o644)
}
