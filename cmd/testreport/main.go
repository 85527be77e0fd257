// Testreport reads what go test -json writes, while it writes it: every 15 seconds it prints how much is done, and at the
// end every reason for which tests were skipped, with the tests, and how many passed, failed and were skipped.
//
//	go test -json ./... | testreport
//
// With the seconds that tests took before (-seconds), it also prints the time that is left.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const every = 15 * time.Second

func main() {
	var o options
	flag.StringVar(&o.seconds, "seconds", "", "`file` with the seconds that tests took, for the time left")
	flag.StringVar(&o.packages, "packages", "", "the packages that are tested, separated by white space, for the time left")
	flag.StringVar(&o.took, "took", "", "`file` to write with the seconds that tests take")
	flag.StringVar(&o.proved, "proved", "", "`file` to write with the tests that ran whole and passed, and those that did not")
	flag.Parse()
	if err := follow(os.Stdin, os.Stdout, os.Stderr, o); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

type options struct{ seconds, packages, took, proved string }

// follow reads events until they end, tells stderr how far the tests are, and prints the report.
func follow(events io.Reader, stdout, stderr io.Writer, o options) error {
	r := newReport()
	left, err := readSeconds(o.seconds, strings.Fields(o.packages))
	if err != nil {
		return err
	}
	began := time.Now()
	lines, failed := make(chan []byte), make(chan error, 1)
	go func() {
		in := bufio.NewReader(events)
		for {
			line, err := in.ReadBytes('\n')
			lines <- line
			if err != nil {
				failed <- err
				close(lines)
				return
			}
		}
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fmt.Fprintln(stderr, progress(r, left, time.Since(began)))
			continue
		case line, more := <-lines:
			if more {
				var e event
				if json.Unmarshal(line, &e) == nil { // a test's process may print to the same stream
					r.add(e)
					left.over(e)
				}
				continue
			}
		}
		break
	}
	if err := <-failed; err != io.EOF {
		return err
	}
	return errors.Join(r.write(stdout), r.writeTook(o.took), r.writeProved(o.proved))
}

// progress is a line of how far the tests are.
func progress(r *report, left *seconds, since time.Duration) string {
	text := fmt.Sprintf("... %s: %d passed, %d failed", since.Round(time.Second), r.passed, r.failed)
	if r.passed+r.failed == 0 {
		return text + "; compiling"
	}
	if share, d, known := left.left(since); known {
		text += fmt.Sprintf("; %d %%, about %s left", int(100*share), d.Round(10*time.Second))
	}
	return text
}
