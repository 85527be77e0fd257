package plan_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// told notes the variables that a container is given.
type told struct{ names *[]string }

func (l told) Wrap(s plan.Step, c plan.Container) (plan.Step, error) {
	*l.names = c.Env
	return s, nil
}

// The key is of what is compiled for: the image by its digest, else its name, else
// the engine on the nodes.
//
// covers: PL-G18
func TestCompileCache(t *testing.T) {
	const cache = "compile_cache = \"/local/cache/\"\n"
	make := func(site, image string, change func(*plan.Input)) *plan.Plan {
		in := input(t, site, "")
		w := in.Workload.(service)
		w.Image = image
		in.Workload = w
		change(&in)
		p, err := plan.Make(in)
		require.NoError(t, err)
		return p
	}
	none := func(*plan.Input) {}
	p := make(cache, "nvcr.io#nvidia/vllm:26.01", none)
	require.Equal(t, &plan.CompileCache{Root: "/local/cache", Key: "nvcr.io_nvidia_vllm_26.01"}, p.CompileCache)
	require.Contains(t, p.Mounts, "/local/cache:/local/cache")
	var names []string
	make(cache+"[global_env_vars]\nTRITON_CACHE_DIR = \"/mine\"\n", "x",
		func(in *plan.Input) { in.Launcher = told{&names} })
	require.Contains(t, names, "VLLM_CACHE_ROOT", "a container gets the variables by name")
	slices.Sort(names)
	require.Equal(t, slices.Compact(slices.Clone(names)), names, "each once")

	p = make(cache, "x", func(in *plan.Input) { in.Staged = plan.Staged{Path: "/i/x.sqsh", Digest: "sha256:12ab"} })
	require.Equal(t, "sha256_12ab", p.CompileCache.Key)

	p = make(cache, "", func(in *plan.Input) { in.LauncherName, in.Test.Template = "bare", "vllm" })
	require.Equal(t, "bare-vllm", p.CompileCache.Key)

	p = make("", "x", none)
	require.Nil(t, p.CompileCache)
	require.NotContains(t, p.Mounts, "/local/cache:/local/cache")
	p = make(cache, "x", func(in *plan.Input) { in.Simulated = true })
	require.Nil(t, p.CompileCache, "nothing is compiled")
}
