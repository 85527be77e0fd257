// Package node checks one node of a job before its servers start, and cleans the node
// once they have ended.
//
// Its findings travel as lines of text, which srun carries to the job's script (see
// Lines), because another node may see a file of this one late. The package starts no
// server, and ends no process that does not carry the job's id.
//
//	checks := look.Checks(ctx)                     // before
//	ended, left := (&node.Sweep{Job: id, …}).Run() // after
package node

import (
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/gpu"
)

// Verdict is the outcome of a check.
type Verdict string

// The verdicts, best first.
const (
	OK          Verdict = "ok"
	NotPossible Verdict = "not possible" // nothing to look at, or nobody may look
	Warn        Verdict = "warn"         // told in the record
	Fail        Verdict = "fail"         // the job ends before servers start
)

// Check is one thing that was looked at.
type Check struct {
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	Seen    string  `json:"seen"`
}

// Report is what one node looks like.
type Report struct {
	Host   string       `json:"host"`
	Checks []Check      `json:"checks"`
	GPUs   []gpu.Device `json:"gpus,omitempty"` // all that the job may see
	Strays []Process    `json:"strays,omitempty"`
	Is     *Machine     `json:"machine,omitempty"`
	Ran    []Ran        `json:"ran,omitempty"`  // what servers ran with, once all were ready
	Began  time.Time    `json:"began,omitzero"` // by the node's clock: looking
	Ended  time.Time    `json:"ended,omitzero"`
}

// Worst is the worst verdict of some checks.
func Worst(checks []Check) Verdict {
	order := []Verdict{NotPossible, OK, Warn, Fail}
	worst := 0
	for _, c := range checks {
		worst = max(worst, slices.Index(order, c.Verdict))
	}
	return order[worst]
}

// judge gives a check the verdict that the settings leave it; ok is false where
// it is not to be made at all.
func judge(p *config.Preflight, c Check) (Check, bool) {
	if p == nil {
		return c, true
	}
	switch {
	case slices.Contains(p.Off, c.Name):
		return c, false
	case c.Verdict == Fail && slices.Contains(p.Warn, c.Name):
		c.Verdict = Warn
	case c.Verdict == Warn && slices.Contains(p.Fail, c.Name):
		c.Verdict = Fail
	}
	return c, true
}

// Judged returns the check with the verdict that the settings give it, as a list, which is
// empty if the check is switched off.
func Judged(p *config.Preflight, name string, v Verdict, seen string) []Check {
	if c, ok := judge(p, Check{name, v, shortened(seen)}); ok {
		return []Check{c}
	}
	return nil
}

// longest is how much of what was seen is kept: srun passes lines on whole only
// up to a kilobyte.
const longest = 400

func shortened(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + " …"
	}
	return text
}
