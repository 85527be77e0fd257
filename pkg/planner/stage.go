package planner

import (
	"cmp"
	"fmt"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/stage"
)

// Site is what staging needs to know of the site and of how tests will be planned.
func Site(sys *config.System, o Options) stage.Site {
	return stage.Site{
		System: sys, WorkDir: o.WorkDir,
		Launcher: func(t scenario.Test) string { return launcherName(t, sys, o) },
		Image:    func(t scenario.Test) string { return text(t, "docker_image_url") },
		Model: func(t scenario.Test) string {
			return cmp.Or(text(t, "model"), catalog.Model(t))
		},
	}
}

// launcherName is the chosen launcher, else the usual one for a test that names an image.
func launcherName(t scenario.Test, sys *config.System, o Options) string {
	byImage := config.Bare
	switch {
	case !t.CmdArgs.Has("docker_image_url"):
	case o.ImageLauncher != "":
		byImage = o.ImageLauncher
	case !sys.Standalone():
		byImage = "pyxis"
	}
	return cmp.Or(chosenLauncher(t, sys, o), byImage)
}

// chosenLauncher is what the rehearsal, the command line, the test or the site says,
// in this order; "" if none does.
func chosenLauncher(t scenario.Test, sys *config.System, o Options) string {
	if o.Simulated {
		return config.Bare
	}
	return cmp.Or(o.Launcher, t.Launcher, sys.Launcher)
}

func text(t scenario.Test, key string) string {
	if t.CmdArgs == nil {
		return ""
	}
	s, _ := t.CmdArgs.Get(key).Text()
	return s
}

// staged chooses the file of a test's image: the one that was found, or, where the
// site caches images, the one that will be staged.
func staged(t scenario.Test, sys *config.System, o Options) (found plan.Staged, note string) {
	item, ok, err := Site(sys, o).ImageItem(text(t, "docker_image_url"), launcherName(t, sys, o))
	if err != nil || !ok {
		return found, "" // the launcher says what is wrong with it
	}
	if found, ok := o.Images[item.Path]; ok {
		return found, ""
	}
	if sys.CacheDockerImagesLocally {
		return plan.Staged{Path: item.Path},
			fmt.Sprintf("%s: image %s is not staged yet: profllm stage SCENARIO writes %s", t.Pos, item.Name, item.Path)
	}
	return found, ""
}
