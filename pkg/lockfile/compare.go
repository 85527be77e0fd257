package lockfile

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
)

// Planned is a run as it is planned, or as it lies in a run directory.
type Planned struct {
	Plan   *plan.Plan
	Script []byte
	Hooks  []Planned
	Root   string // of the scenario, as the plan spells it
}

// Printed are the digests of a plan and of its script, each with those of its hooks,
// without what cannot be the same twice: run ids, times, the scenario's directory, and
// which profllm lies where. What is seen of sources is compared by itself.
func (p Planned) Printed() (planDigest, scriptDigest string, err error) {
	plans, scripts := sha256.New(), sha256.New()
	for _, x := range append([]Planned{p}, p.Hooks...) {
		own := *x.Plan
		own.Version, own.Created, own.Source, own.Locked, own.Notes, own.Rehearsal = "", time.Time{}, plan.Source{}, nil, nil, nil
		own.Roles = slices.Clone(own.Roles)
		for i := range own.Roles {
			own.Roles[i].Executor = "" // says in words what the command says
		}
		data, err := own.Encode()
		if err != nil {
			return "", "", err
		}
		plans.Write(p.plain(data))
		script := bytes.ReplaceAll(x.Script, []byte("profllm "+x.Plan.Version+":"), []byte("profllm:"))
		// where a line ends depends on how long paths are
		scripts.Write(p.plain(folded.ReplaceAll(script, []byte(" "))))
	}
	return fmt.Sprintf("sha256:%x", plans.Sum(nil)), fmt.Sprintf("sha256:%x", scripts.Sum(nil)), nil
}

var folded = lazyregexp.New(` *\\\n *`)

var runID = lazyregexp.New(`exp_\d{8}_\d{6}_[0-9a-f]{6}`)

// plain numbers run ids by their first place, and names places by what they are.
func (p Planned) plain(text []byte) []byte {
	text = bytes.ReplaceAll(text, []byte(p.Root), []byte("{scenario}"))
	text = bytes.ReplaceAll(text, []byte(p.Plan.Binary), []byte("{profllm}"))
	ids := map[string]int{}
	return runID.ReplaceAllFunc(text, func(id []byte) []byte {
		if _, ok := ids[string(id)]; !ok {
			ids[string(id)] = len(ids)
		}
		return fmt.Appendf(nil, "{run %d}", ids[string(id)])
	})
}

// Of finds the locked run that a plan repeats, nil if it repeats none.
func (f *File) Of(p *plan.Plan) *Run {
	for i := range f.Runs {
		if r := &f.Runs[i]; r.Test == p.Test && r.Iteration == p.Iteration && r.Step == p.Step {
			return r
		}
	}
	return nil
}

// Difference is something that is not as it was locked.
type Difference struct {
	Run    string
	Field  string
	Locked string
	Now    string
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s: %s is locked, now it is %s", d.Run, d.Field, cmp.Or(d.Locked, "nothing"),
		cmp.Or(d.Now, "nothing"))
}

// Compare says what of plans is not as it was locked, as far as it is known before a
// job runs. What is not known on one side is asked for in the job, or by nobody.
func (f *File) Compare(plans []Planned) ([]Difference, error) {
	var all []Difference
	found := map[string]bool{}
	for _, p := range plans {
		r := f.Of(p.Plan)
		if r == nil {
			continue
		}
		found[r.Name()] = true
		differs, err := r.compare(p)
		if err != nil {
			return nil, err
		}
		all = append(all, differs...)
	}
	for _, r := range f.Runs {
		if !found[r.Name()] {
			all = append(all, Difference{r.Name(), "run", "it", "not planned"})
		}
	}
	return all, nil
}

func (r *Run) compare(p Planned) ([]Difference, error) {
	var list []Difference
	add := func(field, locked, now string) { list = append(list, Difference{r.Name(), field, locked, now}) }
	known := func(field, locked, now string) {
		if locked != "" && now != "" && locked != now {
			add(field, locked, now)
		}
	}
	known("image digest", r.ImageDigest, stagedDigest(p.Plan))
	known("model revision", r.ModelRevision, p.Plan.Source.ModelRevision)
	heads := map[string]string{}
	for _, c := range p.Plan.Source.Repositories {
		heads[c.URL] = c.Commit
	}
	if r.Repositories != nil {
		locked := texts(r.Repositories)
		for _, url := range slices.Sorted(maps.Keys(locked)) {
			known("repository "+url, locked[url], heads[url])
		}
	}
	if r.Settings != nil && len(p.Plan.Loads) > 0 {
		locked, now := texts(r.Settings), p.Plan.Settings(&p.Plan.Loads[0])
		keys := maps.Clone(locked)
		maps.Copy(keys, now)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			if locked[k] != now[k] {
				add(k, locked[k], now[k])
			}
		}
	}
	planDigest, script, err := p.Printed()
	if err != nil {
		return nil, err
	}
	if len(list) > 0 {
		return list, nil // which make the plan another as well
	}
	known("plan", r.Plan, planDigest)
	if len(list) == 0 {
		known("script", r.Script, script)
	}
	return list, nil
}

// stagedDigest is that of the image's file, or the one in its name; "" for a tag.
func stagedDigest(p *plan.Plan) string {
	if _, digest, ok := strings.Cut(p.Image, "@sha256:"); ok && p.ImageDigest == "" {
		return "sha256:" + digest
	}
	return p.ImageDigest
}

// RootOf is the scenario's directory as a plan spells it, of a run that lies at rel
// below it.
func RootOf(p *plan.Plan, rel string) string {
	return strings.TrimSuffix(p.Dir, string(filepath.Separator)+filepath.Clean(rel))
}
