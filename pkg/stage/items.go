package stage

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/container"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// Kinds of an Item.
const (
	Image      = "image"
	Repository = "repository"
	Model      = "model"
)

// Item is one thing to fetch.
type Item struct {
	Kind     string            `json:"kind"`
	Name     string            `json:"name"` // reference, URL at commit, or model
	Path     string            `json:"path"` // where it goes, absolute
	Importer string            `json:"importer,omitempty"`
	Repo     *scenario.GitRepo `json:"-"`
	Skip     string            `json:"skip,omitempty"` // why nothing is to be done
	Tests    []string          `json:"tests"`          // ids of the tests that need it

	importer container.Importer // of an image
	image    container.Reference
}

// Site is where items go, and the settings that this depends on.
type Site struct {
	System   *config.System
	WorkDir  string                     // what relative paths of the system file mean, absolute
	Launcher func(scenario.Test) string // the launcher that a test will use
	Model    func(scenario.Test) string // its model, "" for none
	Image    func(scenario.Test) string // its image, "" for none
}

func (s Site) abs(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(s.WorkDir, path)
}

// Install is the root of caches, absolute.
func (s Site) Install() string { return s.abs(s.System.InstallPath) }

// HFHome is the Hugging Face home, absolute.
func (s Site) HFHome() string {
	if s.System.HFHomePath == "" {
		return filepath.Join(s.Install(), "huggingface")
	}
	return s.abs(s.System.HFHomePath)
}

// Items lists what tests need, including tests of hooks if they are among the tests,
// without duplicates and in order of first use.
func Items(tests []scenario.Test, s Site) ([]Item, error) {
	var c source.Complaints
	var items []Item
	known := map[string]int{}
	add := func(t scenario.Test, item Item) {
		key := item.Kind + "\x00" + item.Path
		if i, ok := known[key]; ok {
			if items[i].Name != item.Name {
				c.Addf(t.Pos, "%s %q and %q would both be stored as %s", item.Kind, items[i].Name, item.Name, item.Path)
			} else if last := items[i].Tests; last[len(last)-1] != t.ID {
				items[i].Tests = append(last, t.ID)
			}
			return
		}
		item.Tests = []string{t.ID}
		known[key] = len(items)
		items = append(items, item)
	}
	for _, t := range tests {
		if item, ok, err := s.image(t); err != nil {
			c.Addf(t.Pos, "test %q: %v", t.ID, err)
		} else if ok {
			add(t, item)
		}
		repos := t.GitRepos
		if t.ProxyRepo != nil {
			repos = append(append([]scenario.GitRepo(nil), repos...), *t.ProxyRepo)
		}
		for _, r := range repos {
			if err := checkRepo(r); err != nil {
				c.Addf(t.Pos, "test %q: %v", t.ID, err)
				continue
			}
			add(t, Item{Kind: Repository, Name: r.URL + "@" + r.Commit, Path: filepath.Join(s.Install(), r.Directory()),
				Repo: &r})
		}
		if model := s.Model(t); model != "" {
			add(t, s.model(model))
		}
	}
	return items, c.Err()
}

// checkRepo refuses what git would take for an option, or what would leave
// install_path.
func checkRepo(r scenario.GitRepo) error {
	dir := r.Directory()
	switch {
	case r.URL == "" || strings.HasPrefix(r.URL, "-") || strings.Contains(r.URL, "::"):
		return fmt.Errorf("repository %q is not a URL", r.URL)
	case r.Commit == "" || strings.HasPrefix(r.Commit, "-") || strings.ContainsAny(r.Commit, " \t\r\n~^:?*[\\") ||
		strings.Contains(r.Commit, ".."):
		return fmt.Errorf("repository %s: %q is not a commit, tag or branch", r.URL, r.Commit)
	case filepath.Base(dir) != dir || strings.HasPrefix(dir, "."), strings.HasPrefix(dir, "__"):
		return fmt.Errorf("repository %q has no name for a directory", r.URL)
	}
	return nil
}

// ImageItem is the staging of one image for a launcher. A file, and an image for the
// launcher "bare", need no staging: ok is false.
func (s Site) ImageItem(image, launcher string) (item Item, ok bool, err error) {
	importer, ok := container.ImporterOf(launcher)
	if !ok || image == "" {
		return item, false, nil
	}
	ref, err := container.ParseReference(image)
	if err != nil || ref.File != "" {
		return item, false, err
	}
	if _, err := importer.Command(ref, ""); err != nil {
		return item, false, err
	}
	return Item{
		Kind: Image, Name: image, Importer: importer.Program, importer: importer, image: ref,
		Path: filepath.Join(s.Install(), container.CacheName(image, importer.Extension)),
	}, true, nil
}

func (s Site) image(t scenario.Test) (Item, bool, error) {
	return s.ImageItem(s.Image(t), s.Launcher(t))
}

// model goes where Hugging Face's own programs look. A path is there already.
func (s Site) model(name string) Item {
	item := Item{Kind: Model, Name: name,
		Path: filepath.Join(s.HFHome(), "hub", "models--"+strings.ReplaceAll(name, "/", "--"))}
	switch {
	case strings.HasPrefix(name, "/"), strings.HasPrefix(name, "."):
		item.Path, item.Skip = name, "a path, not a name at Hugging Face"
	case strings.HasPrefix(name, "-"), strings.Count(name, "/") > 1, strings.Contains(name, "://"):
		item.Skip = "not a name at Hugging Face"
	}
	return item
}
