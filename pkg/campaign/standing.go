package campaign

import (
	"os"
	"path/filepath"

	"github.com/profllm/profllm/pkg/run"
)

// Standing counts runs by what became of their jobs.
type Standing struct {
	Open         int // a job waits or runs, or its state is unknown
	NotSubmitted int // there is no job
	Failed       int // a job failed, was cancelled, or reached a limit
	Invalid      int // a job ended well but for its result, which it judged invalid
	Succeeded    int
}

// Standings counts the runs in dirs. Runs that were imported have no job and are not
// counted.
func Standings(dirs []string, subs map[string]run.Submission, states map[string]run.State) Standing {
	var n Standing
	for _, dir := range dirs {
		switch st := states[dir]; {
		case subs[dir].JobID == "":
			if _, err := os.Stat(filepath.Join(dir, run.ImportFile)); err != nil {
				n.NotSubmitted++
			}
		case !st.Final():
			n.Open++
		case st.State == run.Succeeded:
			n.Succeeded++
		case st.JudgedInvalid():
			n.Invalid++
		default:
			n.Failed++
		}
	}
	return n
}
