package campaign

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/stage"
)

// stagedImages looks for the staged files of tests' images: those with our record,
// and, where the site caches images, those that CloudAI left. Absent are the images
// that no plan can take from a file; such a site's plans will expect one.
func stagedImages(tests []scenario.Test, sys *config.System,
	o planner.Options) (found map[string]plan.Staged, absent []stage.Item, err error) {
	found = map[string]plan.Staged{}
	if sys.Kube() != nil {
		return found, nil, nil // kubelets pull images
	}
	site := planner.Site(sys, o)
	lacks := func(item stage.Item) {
		if !slices.ContainsFunc(absent, func(a stage.Item) bool { return a.Path == item.Path }) {
			absent = append(absent, item)
		}
	}
	for _, t := range tests {
		item, ok, err := site.ImageItem(site.Image(t), site.Launcher(t))
		if err != nil || !ok {
			continue // planning says what is wrong
		}
		r, err := stage.Read(item)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			lacks(item)
		case err != nil:
			return nil, nil, as(Definition, err)
		case r.Digest != "" || sys.CacheDockerImagesLocally:
			found[item.Path] = plan.Staged{Path: item.Path, Digest: r.Digest, Source: r.Source()}
		default:
			lacks(item)
		}
	}
	return found, absent, nil
}

// noteFetched warns of images that nodes fetch inside the job, while it holds their
// GPUs. The times are SemiAnalysisAI/InferenceX#2785's.
func (c *Client) noteFetched(absent []stage.Item, staging string) {
	for _, item := range absent {
		c.note("image %s is not staged: a node without the image fetches it inside the job while its GPUs wait (15 to 20 min for 30 to 65 GB)\n\thint: %s",
			item.Name, staging)
	}
}

// staging is the command that stages the images of a scenario as these options plan it.
func (c *Client) staging(file string, f Options) string {
	words := []string{"profllm", "stage", c.relative(file)}
	for _, flag := range []struct{ name, value string }{{"--system", f.System}, {"--tests-dir", f.Folders.TestsDir},
		{"--hook-dir", f.Folders.HookDir}, {"--launcher", f.Launcher}} {
		if flag.value != "" {
			words = append(words, flag.name, flag.value)
		}
	}
	for i, w := range words {
		if quoted, err := render.Quote(w); err == nil { // a path with a NUL byte was not found
			words[i] = quoted
		}
	}
	return strings.Join(words, " ")
}

// staged refuses jobs that would find no image.
func (p *Planned) staged() error {
	if len(p.Missing) == 0 {
		return nil
	}
	names := make([]string, len(p.Missing))
	for i, item := range p.Missing {
		names[i] = item.Name + " (" + item.Path + ")"
	}
	return as(NotSubmitted, fmt.Errorf("not submitted: cache_docker_images_locally is set, but these images are not staged: %s\n\thint: %s", strings.Join(names, ", "), p.staging))
}
