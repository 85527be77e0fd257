package records

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
)

// Case says which point of a scenario a run is.
type Case struct {
	Scenario  string `json:"scenario,omitempty"`
	Test      string `json:"test"`
	Iteration int    `json:"iteration"`
	Step      int    `json:"step,omitempty"`   // from 1; 0: no point of a sweep
	Point     string `json:"point,omitempty"`  // what the sweep chose there, such as "max_concurrency=4"
	Phase     string `json:"phase,omitempty"`  // of a test with several loads
	Repeat    int    `json:"repeat,omitempty"` // from 1; 0: measured once
}

// String is the test's id, with what tells its runs apart, points by their steps. It is the
// same for a run of every report.
func (c Case) String() string {
	c.Point = ""
	return c.Title()
}

// Title is the case as a person reads it: a point of a sweep by its settings, where they
// are known.
func (c Case) Title() string {
	s := c.Test
	if c.Phase != "" {
		s += " " + c.Phase
	}
	if c.Iteration > 0 {
		s += fmt.Sprintf(" iter=%d", c.Iteration)
	}
	switch {
	case c.Point != "":
		s += " " + c.Point
	case c.Step > 0:
		s += fmt.Sprintf(" step=%d", c.Step)
	}
	if c.Repeat > 0 {
		s += fmt.Sprintf(" repeat=%d", c.Repeat)
	}
	return s
}

var stamp = lazyregexp.New(`_\d{4}-\d{2}-\d{2}_\d{2}-\d{2}-\d{2}$`)

// place reads a case from a path: <scenario>_<time>/<test>/<iteration>[/<step>].
// Anything else is a test by the name of its directory.
func place(dir string) Case {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	elems := strings.Split(filepath.ToSlash(dir), "/")
	var numbers []int
	for len(elems) > 1 && len(numbers) < 2 {
		n, err := strconv.Atoi(elems[len(elems)-1])
		if err != nil || n < 0 {
			break
		}
		numbers = append([]int{n}, numbers...)
		elems = elems[:len(elems)-1]
	}
	c := Case{Test: elems[len(elems)-1]}
	if len(elems) > 1 && stamp.MatchString(elems[len(elems)-2]) {
		c.Scenario = stamp.ReplaceAllString(elems[len(elems)-2], "")
	}
	if len(numbers) > 0 {
		c.Iteration = numbers[0]
	}
	if len(numbers) > 1 {
		c.Step = numbers[1]
	}
	return c
}

// sides are the folders of the two tests of a confirmation.
var sides = []string{"first", "second"}

// side is the folder, behind a slash, of a run of a confirmation: two tests of one name,
// of which nothing but the image may differ, are not one. It is "" for other runs.
func side(p *plan.Plan) string {
	at := strings.Split(filepath.ToSlash(p.Dir), "/") // <scenario>_<time>/<side>/<test>/<iteration>
	if n := len(at) - 3; n > 0 && slices.Contains(sides, at[n]) && stamp.MatchString(at[n-1]) {
		return "/" + at[n]
	}
	return ""
}
