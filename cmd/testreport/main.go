// Testreport sums up what go test -json wrote: every reason for which tests were
// skipped, with the tests, and how many passed, failed and were skipped.
//
//	go test -json ./... >events.json; testreport events.json
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: testreport FILE")
		os.Exit(2)
	}
	f, err := os.Open(os.Args[1])
	if err == nil {
		err = Sum(f, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

// event is one line of go test -json; see "go doc test2json".
type event struct{ Action, Package, Test, Output string }

// test is one test, or one subtest.
type test struct{ pkg, name string }

type report struct {
	passed, failed int
	reasons        map[string][]test   // the tests that were skipped, by the reason they gave
	said           map[test]string     // the last line a test logged
	broken         map[string]struct{} // packages in which a test failed
}

// Sum reads events and prints the report. Lines that are no events are passed over: a
// test's process may print to the same stream.
func Sum(events io.Reader, w io.Writer) error {
	r := report{reasons: map[string][]test{}, said: map[test]string{}, broken: map[string]struct{}{}}
	in := bufio.NewReader(events)
	for {
		line, err := in.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil {
			r.add(e)
		}
		if err == io.EOF {
			return r.write(w)
		}
		if err != nil {
			return err
		}
	}
}

// logged is a line of t.Log, t.Skip and the like.
var logged = regexp.MustCompile(`^\s+[^\s:]+\.go:[0-9]+: (.*)`)

func (r *report) add(e event) {
	t := test{strings.TrimPrefix(e.Package, "github.com/profllm/profllm/"), e.Test}
	switch {
	case e.Action == "output":
		if m := logged.FindStringSubmatch(e.Output); m != nil {
			r.said[t] = m[1]
		}
		return
	case e.Test == "" && e.Action == "fail":
		if _, known := r.broken[t.pkg]; !known {
			r.failed++ // it did not build, or ended outside its tests
		}
	case e.Test == "":
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
