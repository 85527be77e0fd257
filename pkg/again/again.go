// Package again makes the commands that run an execution again, from the definitions that are kept
// with it.
//
//	e := again.Execution{Root: root, Shown: "results/qwen_2026-11-25", Run: dir, Simulated: true, Speed: 10}
//	command, ok := e.Command("rehearse") // profllm rehearse results/…/definitions/scenario.toml --system …
package again

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/shell"
)

// Execution is one execution of a scenario, which is to be run again as one of its runs was.
type Execution struct {
	Root      string // where it lies
	Shown     string // the same, as a command names it
	Run       string // where the run lies
	Simulated bool   // with the simulated engine, whose settings are those of the run
	Speed     int    // of the simulated time of a rehearsal; 0: as rehearse chooses
}

// HasDefinitions reports whether the definitions of an execution are kept in its directory.
func HasDefinitions(root string) bool {
	_, err := os.Stat(filepath.Join(root, run.DefinitionDir, run.ScenarioCopy))
	return err == nil
}

// Verb is by what command an execution was made.
func Verb(root string) string {
	var s run.Scenario
	if run.ReadJSON(filepath.Join(root, run.ScenarioFile), &s) != nil || !s.Local {
		return "slurm submit"
	}
	return cmp.Or(s.Verb, "rehearse")
}

// Command is the command that runs it again by a [Verb]; false if the
// definitions are not kept, or if no shell takes the settings or the paths.
func (e Execution) Command(verb string) (command string, ok bool) {
	if !HasDefinitions(e.Root) || strings.ContainsRune(e.Shown, 0) {
		return "", false
	}
	kept := filepath.Join(e.Shown, run.DefinitionDir)
	command = "profllm " + verb + " " + shell.Quote(filepath.Join(kept, run.ScenarioCopy))
	if _, err := os.Stat(filepath.Join(e.Root, run.DefinitionDir, run.SystemCopy)); err == nil {
		command += " --system " + shell.Quote(filepath.Join(kept, run.SystemCopy))
	}
	command += " --output-dir " + shell.Quote(filepath.Dir(e.Shown))
	if verb == "serve" {
		command += e.served()
	}
	if !e.Simulated {
		return command, true
	}
	switch {
	case verb != "rehearse":
		command += " --simulate"
	case e.Speed > 0:
		command += fmt.Sprintf(" --speed %d", e.Speed)
	}
	settings, ok := Simulator(e.Run, e.Root)
	return settings + command, ok
}

// served are the options that choose what serve served.
func (e Execution) served() string {
	p, err := run.ReadPlan(e.Run)
	if err != nil || p.Serve == nil {
		return ""
	}
	options := " --test " + shell.Quote(p.Test)
	if p.Serve.For > 0 {
		options += " --for " + time.Duration(p.Serve.For).String()
	}
	return options
}

// Simulator is the settings of the simulated programs that a run took from the shell, as they
// stand before a command; false if no shell takes them. root is the scenario's directory.
func Simulator(dir, root string) (text string, ok bool) {
	var place run.Placement
	for range 4 { // <test>/<iteration>/<step>/<repeat>
		if dir == root || run.ReadJSON(filepath.Join(dir, run.PlacementFile), &place) == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	for _, name := range slices.Sorted(maps.Keys(place.Simulator)) {
		if strings.ContainsRune(place.Simulator[name], 0) {
			return "", false
		}
		text += name + "=" + shell.Quote(place.Simulator[name]) + " "
	}
	return text, true
}
