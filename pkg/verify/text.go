package verify

import (
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/quantity"
)

// Line is the line of a file.
func (v Found) Line(name string) string {
	switch {
	case v.Err != nil:
		return fmt.Sprintf("bad  %-8s %s", v.Kind, name)
	case v.NotRunnable != "":
		what := "not runnable"
		if v.Tests != nil {
			what = "partly not runnable"
		}
		return fmt.Sprintf("ok   %-8s %s: %s: %s", v.Kind, name, what, v.NotRunnable)
	}
	return fmt.Sprintf("ok   %-8s %s", v.Kind, name)
}

// Tally counts files.
type Tally struct {
	Files, Bad int
	Idle, Part int // in order, and cannot run: all of their tests, or some
}

// Add counts a file.
func (n *Tally) Add(v Found) {
	n.Files++
	switch {
	case v.Err != nil:
		n.Bad++
	case v.Tests != nil:
		n.Part++
	case v.NotRunnable != "":
		n.Idle++
	}
}

// String counts the files that are bad and those that are in order and cannot run; "" for neither.
func (n Tally) String() string {
	var parts []string
	for _, x := range []struct {
		n    int
		what string
	}{{n.Bad, "bad"}, {n.Idle, "not runnable"}, {n.Part, "partly not runnable"}} {
		switch {
		case x.n == 0:
		case parts == nil:
			parts = append(parts, fmt.Sprintf("%d of %s %s", x.n, quantity.Count(n.Files, "file"), x.what))
		default:
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	return strings.Join(parts, ", ")
}
