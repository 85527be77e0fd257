package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/regular"
)

// Contest says which searches of other configurations have the same question: those with an equal one.
type Contest struct {
	Load string `json:"load"`           // digest of what the client sends, without the server's address
	GPUs int    `json:"gpus,omitempty"` // of the configuration; 0: not known
}

// rival is what the best of the other configurations reaches.
type rival struct {
	name  string  // of its folder
	reach float64 // highest load that holds; 0: there is none
}

// A contender is the place of a search among those of other configurations.
type contender struct {
	all  string // folder with a folder for each configuration
	own  string // name of this one's
	rest string // from there to the folder of the search
}

// contest finds the place of the search among its rivals. The searches of one configuration, such as
// those of its phases, lie below one folder and are no rivals of each other.
func (r *runner) contest() (*contender, error) {
	if r.Rivals == "" {
		return nil, nil
	}
	all, err := filepath.Abs(r.Rivals)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(all, dir)
	if err != nil || rel == "." || !filepath.IsLocal(rel) {
		return nil, Refusal{fmt.Errorf("the folder of the search, %s, is not below that of its rivals, %s", r.Dir, r.Rivals)}
	}
	own, rest, _ := strings.Cut(rel, string(filepath.Separator))
	return &contender{all: all, own: own, rest: rest}, nil
}

// look finds out what the best rival of a set of limits reaches. Only a search that is over counts. A file
// that cannot be read is no rival: the search goes on as if it were alone.
func (r *runner) look(set int) {
	if r.place == nil {
		return
	}
	entries, err := os.ReadDir(r.place.all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.once(err)
	}
	for _, e := range entries {
		if e.Name() == r.place.own || !e.IsDir() {
			continue
		}
		dir := filepath.Join(r.place.all, e.Name(), r.place.rest)
		data, file, err := packed.Read(regular.DirFS(dir), File, regular.Record)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var doc Document
		if err == nil {
			err = json.Unmarshal(data, &doc)
		}
		if at := new(fs.PathError); errors.As(err, &at) {
			err = at.Err // without the path
		}
		if err != nil {
			r.once(fmt.Errorf("%s: %w", filepath.Join(dir, file), err))
		} else if reach := r.reach(&doc, set); reach > r.best[set].reach {
			r.best[set] = rival{e.Name(), reach}
		}
	}
}

// once says an error, and the same not again.
func (r *runner) once(err error) {
	if text := err.Error(); !slices.Contains(r.complaints, text) {
		r.complaints = append(r.complaints, text)
		r.Said("not compared with: %s", text)
	}
}

// reach is the highest load at which a rival keeps a set of limits; 0 if it says nothing of that.
func (r *runner) reach(doc *Document, set int) float64 {
	q := r.question()
	if doc.Schema != Schema || doc.Unfinished || doc.Contest == nil || *doc.Contest != r.Contest ||
		doc.Question.Variable != q.Variable || doc.Question.Speed != q.Speed || doc.Question.Simulated != q.Simulated {
		return 0
	}
	for i, limits := range doc.Question.Limits {
		if i < len(doc.Answers) && slices.Equal(limits, q.Limits[set]) {
			// One that needs more load than it may have does not keep all limits.
			if a := doc.Answers[i]; a != nil && a.Low != nil && a.Why == "" {
				return *a.Low
			}
		}
	}
	return 0
}
