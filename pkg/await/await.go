// Package await lets a test wait for an event. It has no time limit of its own, for a
// machine under load is slow and not wrong: a wait ends when the event has come, or
// just before the time of the whole test run (go test -timeout) is over, with what was
// seen last.
//
//	await.True(t, func() bool { out = squeue(); return out == "" }, "the queue is empty; last: %s", &out)
package await

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The pause between two looks is some times as long as a look takes, and a share of the time that was waited: a look that
// starts a process, and many waits at once, leave most of the machine to what is waited for.
const (
	shortest = time.Millisecond
	longest  = time.Second
	looks    = 5  // pauses are as long as so many looks
	waits    = 20 // and at least so small a part of the wait
)

// lastWords is how long before the end of the test run a wait gives up.
const lastWords = 20 * time.Second

// True looks until ok, in the goroutine of the test, so that ok may use require. what
// and args, as for fmt.Sprintf, say what is waited for, and hold what ok saw by
// pointers: they are printed when the wait gives up.
func True(t testing.TB, ok func() bool, what string, args ...any) {
	t.Helper()
	began := time.Now()
	end := limit(t)
	for {
		look := time.Now()
		if ok() {
			return
		}
		if !end.IsZero() && look.After(end) {
			t.Fatalf("waited %s: %s", look.Sub(began).Round(time.Second), fmt.Sprintf(what, pointed(args)...))
		}
		time.Sleep(min(max(looks*time.Since(look), look.Sub(began)/waits, shortest), longest))
	}
}

// limit is when to give up, zero for never.
func limit(t testing.TB) time.Time {
	run, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok { // a benchmark
		return time.Time{}
	}
	end, ok := run.Deadline()
	if !ok { // -timeout 0
		return time.Time{}
	}
	return end.Add(-min(lastWords, time.Until(end)/10))
}

// pointed are the values to which args point now.
func pointed(args []any) []any {
	values := make([]any, len(args))
	for i, a := range args {
		switch p := a.(type) {
		case *string:
			a = *p
		case *[]string:
			a = *p
		case *error:
			a = *p
		}
		values[i] = a
	}
	return values
}

// File waits until a file is there.
func File(t testing.TB, path string) {
	t.Helper()
	var beside []string
	True(t, func() bool {
		_, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			beside, _ = filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		return true
	}, "%s is not there; beside it: %q", path, &beside)
}

// Text waits until a file holds a text.
func Text(t testing.TB, path, text string) {
	t.Helper()
	last := "nothing"
	True(t, func() bool {
		data, err := os.ReadFile(path)
		if err == nil {
			last = string(data)
		}
		return err == nil && strings.Contains(last, text)
	}, "%s does not hold %q; it holds:\n%s", path, text, &last)
}
