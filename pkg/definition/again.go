package definition

import (
	"fmt"
	"path/filepath"

	"github.com/profllm/profllm/pkg/again"
	"github.com/profllm/profllm/pkg/archive"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/render"
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
	e := again.Execution{Root: root, Shown: root, Run: archives.OnDisk(runs[len(runs)-1]), Simulated: kind.Simulated(),
		Speed: kind.Speed()}
	verb := again.Verb(root)
	var commands []string
	if file := archives.File(root); file != "" {
		quoted, err := render.Quote(file)
		if err != nil {
			return nil
		}
		force := ""
		if kind.Simulated() && verb != "slurm submit" { // its links lead to the program
			force = "--force "
		}
		commands = append(commands, fmt.Sprintf("profllm archive --restore %s%s", force, quoted))
		e.Shown = filepath.Join(filepath.Dir(file), filepath.Base(root))
	}
	command, ok := e.Command(verb)
	if !ok {
		return nil
	}
	return append(commands, fmt.Sprintf("%s  # times %d", command, (missing+each-1)/each))
}

// keptRoot finds the scenario's directory that a run lies in, if it keeps its definitions.
func keptRoot(dir string) (string, bool) {
	for range 5 { // <scenario>/<test>/<iteration>/<step>/<repeat>
		if again.HasDefinitions(dir) {
			return dir, true
		}
		dir = filepath.Dir(dir)
	}
	return "", false
}
