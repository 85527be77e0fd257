package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/stage"
	"github.com/profllm/profllm/pkg/summary"
	"github.com/profllm/profllm/pkg/terminal"
)

// stageFlags are how items are fetched.
type stageFlags struct {
	System    string        `aliases:"system-config" meant:"site,cluster,config" env:"PROFLLM_SYSTEM,CLOUDAI_SYSTEM_CONFIG" placeholder:"FILE" help:"System file; default: ask Slurm."`
	Launcher  string        `enum:"${launchers}" default:"" placeholder:"NAME" help:"Use this launcher for all tests: ${launcher_list}."`
	On        string        `enum:"auto,here,slurm" default:"auto" help:"Where to import images: here (this machine), slurm (a CPU step), or auto (here if the program is installed, else slurm)."`
	Timeout   time.Duration `default:"1h" help:"Time limit of each import, clone or download."`
	ImageSize float64       `default:"12" placeholder:"GB" help:"Expected compressed size of an image; 2.5 times as much must be free. 0 disables the check."`
	Force     bool          `help:"Import images again that are staged, such as a tag that was pushed again."`
	DryRun    bool          `help:"Print what would be fetched; fetch nothing."`
	outputFlag
}

// site reads the system file and what its relative paths mean.
func (a *app) site(ctx context.Context, file string) (*config.System, planner.Options, error) {
	var o planner.Options
	sys, err := a.client().System(ctx, file, false)
	if err != nil {
		return nil, o, err
	}
	o.WorkDir, err = os.Getwd()
	return sys, o, err
}

func (f stageFlags) stager(a *app, site stage.Site) (*stage.Stager, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	where := f.On
	if where == "auto" {
		where = ""
	}
	prune := "profllm image prune"
	if f.System != "" {
		system, err := render.Quote(f.System)
		if err != nil {
			return nil, err
		}
		prune += " --system " + system
	}
	s := &stage.Stager{
		Site: site, Environ: a.environ, LookPath: exec.LookPath, Now: a.now, Log: a.logf, Force: f.Force, Where: where,
		Timeout:   f.Timeout,
		ImageSize: int64(f.ImageSize * 1e9), Host: host, Job: a.env("SLURM_JOB_ID"), Prune: prune,
	}
	if screen := terminal.Below(a.stderr); isTerminal(screen) {
		s.Progress = func(item stage.Item, bytes int64) {
			fmt.Fprintf(screen, "\r%s: %.2f GB ", printable.Line(item.Name), float64(bytes)/1e9)
		}
	}
	return s, nil
}

// isTerminal reports whether a person reads w.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// stage fetches items one after the other; what fails does not keep the rest.
func (f stageFlags) stage(ctx context.Context, a *app, site stage.Site, items []stage.Item) error {
	s, err := f.stager(a, site)
	if err != nil {
		return err
	}
	outcomes, err := s.StageAll(ctx, items, f.DryRun)
	return errors.Join(a.printOutcomes(outcomes), fail(exitInternal, err))
}

func (a *app) printOutcomes(outcomes []stage.Outcome) error {
	if a.json() {
		a.answers(&document.Stage{Head: document.NewHead("stage"), Items: outcomes})
		return nil
	}
	t := terminal.Table{Columns: []terminal.Column{
		{Name: "state"}, {Name: "kind", Drop: 2}, {Name: "name"}, {Name: "where", Drop: 4}, {Name: "digest", Drop: 1},
		{Name: "note", Drop: 3},
	}}
	for _, o := range outcomes {
		t.Row(summary.Cells(o.State, o.Kind, o.Name, relative(o.Path), short(o.Digest), o.Detail)...)
	}
	return a.printTable(&t)
}

func short(digest string) string {
	digest = strings.TrimPrefix(digest, "sha256:")
	return digest[:min(12, len(digest))]
}

type stageCmd struct {
	stageFlags
	definitionFlags
	Scenario string `arg:"" meant:"test-scenario" help:"Scenario file, lock file, or demo (the built-in scenario)."`
}

func (c stageCmd) Run(ctx context.Context, a *app) error {
	s, defs, err := definition.Load(c.Scenario, definition.Folders(c.definitionFlags))
	if errors.Is(err, fs.ErrNotExist) {
		return fail(exitUsage, err)
	}
	if err != nil {
		return fail(exitDefinition, err)
	}
	sys, err := a.client().SystemOf(ctx, defs, c.System, false)
	if err != nil {
		return err
	}
	o := planner.Options{Launcher: c.Launcher}
	if o.WorkDir, err = os.Getwd(); err != nil {
		return err
	}
	if l := defs.Lock; l != nil {
		o.Launcher, o.WorkDir = cmp.Or(c.Launcher, l.Launcher), cmp.Or(l.WorkDir, o.WorkDir)
	}
	site := planner.Site(sys, o)
	items, err := stage.Items(s.All(), site)
	if err != nil {
		return fail(exitDefinition, err)
	}
	return c.stage(ctx, a, site, items)
}

type imageCmd struct {
	List  imageListCmd  `cmd:"" help:"List staged images."`
	Stage imageStageCmd `cmd:"" help:"Import images into files."`
	Prune imagePruneCmd `cmd:"" help:"Remove leftovers of interrupted staging and old images."`
}

type imageStageCmd struct {
	stageFlags
	Images []string `arg:"" help:"Images, such as nvcr.io/nvidia/vllm:26.01."`
}

func (c imageStageCmd) Run(ctx context.Context, a *app) error {
	sys, o, err := a.site(ctx, c.System)
	if err != nil {
		return err
	}
	launcher := cmp.Or(c.Launcher, sys.Launcher, "pyxis")
	site := planner.Site(sys, o)
	var items []stage.Item
	for _, image := range c.Images {
		item, ok, err := site.ImageItem(image, launcher)
		if err == nil && !ok {
			err = fmt.Errorf("%q needs no staging for launcher %s", image, launcher)
		}
		if err != nil {
			return fail(exitUsage, err)
		}
		items = append(items, item)
	}
	return c.stage(ctx, a, site, items)
}

type imageListCmd struct {
	System string `aliases:"system-config" meant:"site,cluster,config" env:"PROFLLM_SYSTEM,CLOUDAI_SYSTEM_CONFIG" placeholder:"FILE" help:"System file; default: ask Slurm."`
	Verify bool   `help:"Read every image and compare it with its digest."`
	outputFlag
}

func (c imageListCmd) Run(ctx context.Context, a *app) error {
	entries, _, err := a.cache(ctx, c.System)
	if err != nil {
		return err
	}
	if c.Verify {
		err = stage.VerifyAll(entries)
	}
	return errors.Join(a.printEntries("image-list", entries), fail(exitInvalid, err))
}

type imagePruneCmd struct {
	System    string        `aliases:"system-config" meant:"site,cluster,config" env:"PROFLLM_SYSTEM,CLOUDAI_SYSTEM_CONFIG" placeholder:"FILE" help:"System file; default: ask Slurm."`
	OlderThan time.Duration `placeholder:"DURATION" help:"Also remove images staged longer ago than this, such as 720h."`
	DryRun    bool          `help:"Print what would be removed; remove nothing."`
	outputFlag
}

func (c imagePruneCmd) Run(ctx context.Context, a *app) error {
	_, dir, err := a.cache(ctx, c.System)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	gone, err := stage.Prune(dir, host, c.OlderThan, a.now(), c.DryRun)
	return errors.Join(a.printEntries("image-prune", gone), err)
}

// cache lists the staged images of a site.
func (a *app) cache(ctx context.Context, system string) (entries []stage.Entry, dir string, err error) {
	sys, o, err := a.site(ctx, system)
	if err != nil {
		return nil, "", err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, "", err
	}
	dir = planner.Site(sys, o).Install()
	entries, err = stage.List(dir, host)
	return entries, dir, err
}

func (a *app) printEntries(name string, entries []stage.Entry) error {
	if a.json() {
		a.answers(&document.Images{Head: document.NewHead(name), Images: append([]stage.Entry{}, entries...)})
		return nil
	}
	t := terminal.Table{Columns: []terminal.Column{
		{Name: "state"}, {Name: "GB", Drop: 3}, {Name: "image"}, {Name: "digest", Drop: 1}, {Name: "staged", Drop: 2},
		{Name: "file", Drop: 4},
	}}
	for _, e := range entries {
		t.Row(summary.Cells(e.State, fmt.Sprintf("%.2f", float64(e.Size)/1e9), e.Reference, short(e.Digest),
			e.Modified.Format("2006-01-02 15:04"),
			filepath.Base(e.Path))...)
	}
	return a.printTable(&t)
}
