package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// SGLang's client goes by the version that a test declares, unless the test names the module.
func TestSGLangClientByVersion(t *testing.T) {
	const old, successor = "sglang.bench_serving", "sglang.benchmark.serving"
	for _, c := range []struct{ template, args, want string }{
		{"sglang", "", old},
		{"sglang", "docker_image_url = 'lmsysorg/sglang:v0.5.5'", old},
		{"sglang", "docker_image_url = 'lmsysorg/sglang:v0.5.14-cu129'", old},
		{"sglang", "docker_image_url = 'lmsysorg/sglang:v0.5.15'", successor},
		{"sglang", "docker_image_url = '/images/lmsysorg+sglang+v0.5.23-cu129.sqsh'", successor},
		{"sglang", "docker_image_url = 'docker.io#lmsysorg/sglang:v1.0.0'", successor},
		{"sglang", "docker_image_url = 'lmsysorg/sglang:latest'", old}, // every version so far has that name
		{"sglang", "docker_image_url = 'site/mysglang:9.9.9'", old},
		{"sglang", "engine_version = '0.5.23'", successor},
		{"sglang", "engine_version = '0.5'", old},
		{"sglang", "engine_version = '0.5.5'\ndocker_image_url = 'lmsysorg/sglang:v0.5.23'", old},
		{"sglang", "engine_version = '0.5.23'\nbench_module = 'my.client'", "my.client"},
		{"vllm", "engine_version = '0.11.0'", old}, // that of another engine
	} {
		args, err := source.Parse("t.toml", []byte(c.args))
		require.NoError(t, err)
		var test scenario.Test
		test.Template, test.Client, test.CmdArgs = c.template, "sglang", args
		l, err := catalog.NewClient(test)
		require.NoError(t, err)
		require.Equal(t, c.want, l.Name(), "%s %s", c.template, c.args)
	}
}
