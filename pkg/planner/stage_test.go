package planner_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/stage"
)

const imageTest = "[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\ncmd_args = { docker_image_url = \"nvcr.io#nvidia/vllm:26.01\" }\nbench_cmd_args = { num_prompts = 80 }\n"

// A staged file takes the image's place, with its digest; where the site caches
// images, its path stands in the plan even before it is there.
func TestStagedImage(t *testing.T) {
	const sqsh = "/home/u/i/nvcr.io_nvidia__vllm__26.01.sqsh"
	plans, err := inline(t, "", imageTest, options)
	require.NoError(t, err)
	require.Equal(t, "nvcr.io#nvidia/vllm:26.01", plans[0].Image)
	require.Empty(t, plans[0].Notes)

	plans, err = inline(t, "cache_docker_images_locally = true\n", imageTest, options)
	require.NoError(t, err)
	require.Equal(t, sqsh, plans[0].Image)
	require.Equal(t, []string{"s.toml:2:3: image nvcr.io#nvidia/vllm:26.01 is not staged yet: profllm stage SCENARIO writes " + sqsh}, plans[0].Notes)

	plans, err = inline(t, "container_args = \"--x 'a b'\"\n", imageTest, options)
	require.NoError(t, err)
	require.Len(t, plans[0].Notes, 1)
	require.Contains(t, plans[0].Notes[0], "container_args has no effect with launcher pyxis")
	const unconfined = "container_security = \"unconfined\"\n"
	plans, err = inline(t, unconfined, imageTest, options)
	require.NoError(t, err)
	require.Len(t, plans[0].Notes, 1)
	require.Contains(t, plans[0].Notes[0], "container_security has no effect with launcher pyxis")
	docker := options
	docker.Launcher = "docker"
	plans, err = inline(t, unconfined, imageTest, docker)
	require.NoError(t, err)
	require.Empty(t, plans[0].Notes)
	require.Contains(t, plans[0].Roles[0].Step.Argv, plan.Text("--security-opt=seccomp=unconfined"))
	plans, err = inline(t, "container_args = \"--x 'a b'\"\n", imageTest, docker)
	require.NoError(t, err)
	require.Empty(t, plans[0].Notes)
	require.Contains(t, plans[0].Roles[0].Step.Argv, plan.Text("a b"))

	o := options
	o.Images = map[string]plan.Staged{sqsh: {Path: sqsh, Digest: "sha256:1"}}
	plans, err = inline(t, "", imageTest, o)
	require.NoError(t, err)
	require.Equal(t, sqsh, plans[0].Image)
	require.Equal(t, "sha256:1", plans[0].ImageDigest)
	require.Contains(t, plans[0].Roles[0].Step.Srun, plan.Text("--container-image="+sqsh))
	require.Empty(t, plans[0].Notes)

	o.Launcher = "podman"
	plans, err = inline(t, "", imageTest, o)
	require.NoError(t, err)
	require.Equal(t, "nvcr.io#nvidia/vllm:26.01", plans[0].Image, "another launcher has another file")
	o.Simulated = true
	plans, err = inline(t, "cache_docker_images_locally = true\n", imageTest, o)
	require.NoError(t, err)
	require.Empty(t, plans[0].ImageDigest, "a rehearsal has no container")
}

func TestSite(t *testing.T) {
	sys := &config.System{InstallPath: "i"}
	s := load(t, "s.toml", []byte("name = \"s\"\n"+imageTest+fmt.Sprintf(minimal, "b", "launcher = \"bare\"\n")), "")
	items, err := stage.Items(s.Tests, planner.Site(sys, options))
	require.NoError(t, err)
	require.Len(t, items, 2)
	require.Equal(t, []string{"a"}, items[0].Tests, "the image of the test that has one")
	require.Equal(t, stage.Model, items[1].Kind)
	require.Equal(t, "Qwen/Qwen3-0.6B", items[1].Name, "CloudAI's default")
	var none scenario.Test
	require.Empty(t, planner.Site(sys, options).Image(none))
	none.Template = "sglang"
	require.Equal(t, "Qwen/Qwen3-8B", planner.Site(sys, options).Model(none), "CloudAI's other default")
}
