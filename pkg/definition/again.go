package definition

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/profllm/profllm/pkg/archive"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/run"
)

// MoreRuns are the commands that make the missing runs like the given ones, from the
// definitions that are kept with them; none if the definitions are not there. Paths are named
// as archives names them.
func MoreRuns(runs []string, missing int, kind records.Kind, archives *archive.Folders) []string {
	if missing == 0 || len(runs) == 0 {
		return nil
	}
	root, ok := keptRoot(archives.OnDisk(runs[len(runs)-1]))
	if !ok {
		return nil
	}
	each := 0
	for _, dir := range runs {
		if r, ok := keptRoot(archives.OnDisk(dir)); ok && r == root {
			each++
		}
	}
	verb, simulate, simulator := "slurm submit", "", ""
	var sc run.Scenario
	switch local := run.ReadJSON(filepath.Join(root, run.ScenarioFile), &sc) == nil && sc.Local; {
	case kind.Simulated() && local:
		verb, simulate = "rehearse", fmt.Sprintf(" --speed %d", kind.Speed())
	case kind.Simulated():
		simulate = " --simulate"
	}
	if kind.Simulated() {
		if simulator, ok = Simulator(archives.OnDisk(runs[len(runs)-1]), root); !ok {
			return nil
		}
	}
	var commands []string
	if file := archives.File(root); file != "" {
		quoted, err := render.Quote(file)
		if err != nil {
			return nil
		}
		force := ""
		if verb == "rehearse" { // its links lead to the program
			force = "--force "
		}
		commands = append(commands, fmt.Sprintf("profllm archive --restore %s%s", force, quoted))
		root = filepath.Join(filepath.Dir(file), filepath.Base(root))
	}
	kept := filepath.Join(root, run.DefinitionDir)
	var words []string
	for _, path := range []string{filepath.Join(kept, ScenarioCopy), filepath.Join(kept, SystemCopy),
		filepath.Dir(root)} {
		q, err := render.Quote(path)
		if err != nil {
			return nil // no shell takes such a name
		}
		words = append(words, q)
	}
	times := (missing + each - 1) / each
	return append(commands, fmt.Sprintf("%sprofllm %s %s --system %s --output-dir %s%s  # times %d",
		simulator, verb, words[0], words[1], words[2], simulate, times))
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
		value, err := render.Quote(place.Simulator[name])
		if err != nil {
			return "", false
		}
		text += name + "=" + value + " "
	}
	return text, true
}

// keptRoot finds the scenario's directory that a run lies in, if it keeps its definitions.
func keptRoot(dir string) (string, bool) {
	for range 5 { // <scenario>/<test>/<iteration>/<step>/<repeat>
		if _, err := os.Stat(filepath.Join(dir, run.DefinitionDir, ScenarioCopy)); err == nil {
			return dir, true
		}
		dir = filepath.Dir(dir)
	}
	return "", false
}
