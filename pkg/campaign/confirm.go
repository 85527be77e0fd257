package campaign

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/stage"
	"github.com/profllm/profllm/pkg/stats"
)

// Pairs say which runs a confirmation has.
type Pairs struct {
	First, Second string   // FILE, FILE#TEST or a directory of runs, whose stored definitions are used
	Pairs         int      // runs of each; 0 means the fewest of which one metric alone can pass
	Metrics       []string // keys of results; none means the usual ones
	Jobs          bool     // each run is a job of its own
}

// PlanPairs plans pairs of runs of two tests.
func (c *Client) PlanPairs(ctx context.Context, of Pairs, f Options) (*Planned, error) {
	k := planner.Confirmation{Pairs: of.Pairs, Jobs: of.Jobs}
	if k.Pairs == 0 {
		k.Pairs = defaultPairs(len(of.Metrics))
	}
	p := &Planned{Scenario: of.First, Simulated: f.Simulate, Definitions: map[string]run.Copy{},
		Confirm: &run.Confirmation{Pairs: k.Pairs, Metrics: of.Metrics}}
	if f.Time.IsZero() {
		p.again = func() (*Planned, error) { return c.silent().PlanPairs(ctx, of, f) }
	}
	b := pairing{client: c, f: f, k: &k, p: p, digest: sha256.New()}
	fmt.Fprintf(b.digest, "%d %v %q\n", k.Pairs, k.Jobs, of.Metrics)
	for i, arg := range []string{of.First, of.Second} {
		if err := b.add(ctx, i, arg); err != nil {
			return nil, err
		}
	}
	k.Name = "confirm-" + k.Sides[0].Scenario.Name
	if other := k.Sides[1].Scenario.Name; other != k.Sides[0].Scenario.Name {
		k.Name += "-" + other
	}
	if err := c.newName(ctx, k.Name, f, &b.o); err != nil {
		return nil, err
	}
	p.Name, p.Created, p.Digest = k.Name, b.o.Created, fmt.Sprintf("sha256:%x", b.digest.Sum(nil))
	p.Root = planner.Execution(k.Name, b.o)
	set, err := planner.Confirm(k, b.o)
	if err != nil {
		return nil, as(Definition, err)
	}
	if err := c.printed(p, set, f.Templates); err != nil {
		return nil, err
	}
	for i, command := range b.staging {
		if !f.Simulate {
			c.noteFetched(b.absent[i], command)
		}
	}
	return p, nil
}

// A pairing reads the two sides of a confirmation.
type pairing struct {
	client  *Client
	f       Options
	k       *planner.Confirmation
	p       *Planned
	o       planner.Options
	digest  hash.Hash
	absent  [2][]stage.Item // images that are fetched when the jobs start
	staging [2]string       // the command that stages the images of a side
}

// add reads side i.
func (b *pairing) add(ctx context.Context, i int, arg string) error {
	d, err := b.client.definedBy(ctx, arg, b.f)
	if err != nil {
		return err
	}
	if i == 0 {
		if b.o, err = b.client.options(b.f, d.system); err != nil {
			return err
		}
	}
	b.staging[i] = d.staging
	side := planner.Side{Scenario: d.scenario, System: d.system, Test: d.test}
	tests := append(slices.Concat(d.scenario.PreTest, d.scenario.PostTest), d.test)
	if side.Images, b.absent[i], err = stagedImages(tests, d.system, b.o); err != nil {
		return err
	}
	b.k.Sides[i] = side
	if d.system.CacheDockerImagesLocally {
		if len(b.absent[i]) > 0 && len(b.p.Missing) == 0 {
			b.p.staging = d.staging
		}
		b.p.Missing = append(b.p.Missing, b.absent[i]...)
		b.absent[i] = nil
	}
	if err := b.client.inventory(ctx, d.scenario, b.f, &b.o); err != nil {
		return err
	}
	fmt.Fprintf(b.digest, "%s %q\n", d.files.Digest(), d.test.ID)
	for name, data := range d.files.Copies(fileOf(d.system)) {
		b.p.Definitions[path.Join(planner.Sides[i], name)] = data
	}
	return nil
}

// defaultPairs is the fewest pairs, an even number, of which one metric alone can
// pass; of 0 metrics the usual ones are judged.
func defaultPairs(metrics int) int {
	if metrics == 0 {
		metrics = len(metric.Usual)
	}
	n := stats.LeastPairs(metrics)
	return n + n%2
}

// defined is a test, and what it was read from.
type defined struct {
	scenario *scenario.Scenario
	test     scenario.Test
	system   *config.System
	files    *definition.Files
	staging  string // the command that stages its images
}

// definedBy finds a test by FILE, FILE#TEST or a directory of runs.
func (c *Client) definedBy(ctx context.Context, arg string, f Options) (d defined, err error) {
	file, id, folders := arg, "", f.Folders
	info, err := os.Stat(arg)
	if err != nil {
		if at := strings.LastIndexByte(arg, '#'); at > 0 {
			file, id = arg[:at], arg[at+1:]
		}
	} else if info.IsDir() {
		kept, test, err := keptDefinitions(arg)
		if err != nil {
			return d, as(Usage, err)
		}
		file, id = filepath.Join(kept, run.ScenarioCopy), test
		folders = definition.KeptFolders(kept)
		f.System = cmp.Or(f.System, filepath.Join(kept, run.SystemCopy))
	}
	f.Folders = folders
	d.staging = c.staging(file, f)
	if d.scenario, d.files, err = definition.Load(file, folders); errors.Is(err, fs.ErrNotExist) {
		return d, as(Usage, err)
	} else if err != nil {
		return d, as(Definition, err)
	}
	var ids []string
	for _, t := range d.scenario.Tests {
		if d.test = t; t.ID == id || id == "" && len(d.scenario.Tests) == 1 {
			d.system, err = c.System(ctx, f.System, f.Simulate)
			return d, err
		}
		ids = append(ids, t.ID)
	}
	what := fmt.Sprintf("%s has no test %q", arg, id)
	if id == "" {
		what = fmt.Sprintf("%s has %d tests, but only one can be confirmed", arg, len(ids))
	}
	likely := cmp.Or(source.Nearest(id, ids), ids[0])
	hint := fmt.Sprintf("%s#%s", file, likely)
	if info != nil && info.IsDir() {
		hint = filepath.Join(arg, likely)
	}
	return d, as(Usage, fmt.Errorf("%s\n\thint: name it, as in %s; %s", what, hint, source.Suggest(id, ids)))
}

// keptDefinitions finds the folder of the definitions that runs were made from, and
// the test that a directory is of, "" for that of a whole scenario.
func keptDefinitions(dir string) (folder, test string, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", "", err
	}
	root := run.Root(abs)
	s, err := run.ReadScenario(root)
	if root == "" || err != nil {
		return "", "", fmt.Errorf("%s has no runs with stored definitions\n\thint: name the scenario file", dir)
	}
	folder = filepath.Join(root, run.DefinitionDir)
	below, err := filepath.Rel(root, abs)
	if err != nil {
		return "", "", err
	}
	words := strings.Split(filepath.ToSlash(below), "/")
	if s.Confirm != nil {
		if !slices.Contains(planner.Sides[:], words[0]) {
			return "", "", fmt.Errorf("%s is a confirmation of two tests\n\thint: name %s or %s", dir,
				filepath.Join(dir, planner.Sides[0]), filepath.Join(dir, planner.Sides[1]))
		}
		folder = filepath.Join(folder, words[0])
		for _, rel := range s.Runs { // one test on each side
			if side, rest, _ := strings.Cut(filepath.ToSlash(rel), "/"); side == words[0] {
				test, _, _ = strings.Cut(rest, "/")
			}
		}
		return folder, test, nil
	}
	if words[0] == "." {
		return folder, "", nil
	}
	return folder, words[0], nil
}
