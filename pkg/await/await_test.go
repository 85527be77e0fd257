package await

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTrue(t *testing.T) {
	n := 0
	True(t, func() bool { n++; return n == 5 }, "five looks")
	require.Equal(t, 5, n)
}

func TestFileAndText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	go func() {
		time.Sleep(10 * time.Millisecond)
		if err := os.WriteFile(path, []byte("one"), 0o644); err != nil {
			t.Error(err)
		}
	}()
	File(t, path)
	go func() {
		time.Sleep(10 * time.Millisecond)
		if err := os.WriteFile(path, []byte("one two"), 0o644); err != nil {
			t.Error(err)
		}
	}()
	Text(t, path, "two")
}

// hurried is a test whose run is over in a moment.
type hurried struct {
	testing.TB
	end  time.Time
	said string
}

func (h *hurried) Deadline() (time.Time, bool) { return h.end, true }

func (h *hurried) Fatalf(format string, args ...any) {
	h.said = fmt.Sprintf(format, args...)
	panic(h)
}

// What never comes ends before the test run does, with what was seen last.
func TestGivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		wait func(testing.TB)
		want string
	}{
		"true": {func(t testing.TB) {
			n, last := 0, ""
			True(t, func() bool { n++; last = fmt.Sprint("look ", min(n, 1)); return false },
				"the queue is empty; last: %s", &last)
		}, ": the queue is empty; last: look 1"},
		"file": {func(t testing.TB) { File(t, "testdata/none/f") }, `: testdata/none/f is not there; beside it: []`},
		"text": {func(t testing.TB) { Text(t, "await.go", "no such "+"text") }, ": await.go does not hold \"no such text\"; it holds:\n// Package await"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hurried{TB: t, end: time.Now().Add(50 * time.Millisecond)}
			require.PanicsWithValue(t, h, func() { c.wait(h) })
			require.Contains(t, h.said, c.want)
		})
	}
}
