package container_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/container"
)

func TestImporters(t *testing.T) {
	ref, err := container.ParseReference("nvcr.io#nvidia/vllm:26.01")
	require.NoError(t, err)
	digest, err := container.ParseReference("x:1@sha256:ab")
	require.NoError(t, err)
	const enroot, plain = "docker://nvcr.io#nvidia/vllm:26.01", "nvcr.io/nvidia/vllm:26.01"
	want := map[string][]string{
		"pyxis":     {"enroot", "import", "-o", "F", enroot},
		"enroot":    {"enroot", "import", "-o", "F", enroot},
		"apptainer": {"apptainer", "pull", "F", "docker://" + plain},
		"docker": {"bash", "-c", `docker pull "$1" && docker save --output "$2" "$1"`,
			"stage", plain, "F"},
		"podman": {"bash", "-c", `podman pull "$1" && podman save --format docker-archive --output "$2" "$1" && ` +
			`podman image inspect --format '{{.Digest}}' "$1"`, "stage", plain, "F"},
	}
	for _, launcher := range config.Launchers {
		importer, ok := container.ImporterOf(launcher)
		require.Equal(t, want[launcher] != nil, ok, launcher)
		if !ok {
			continue
		}
		require.True(t, container.HasExtension(importer.Extension))
		argv, err := importer.Command(ref, "F")
		require.NoError(t, err)
		require.Equal(t, want[launcher], argv, launcher)
		_, err = importer.Command(digest, "F")
		require.Equal(t, importer.Program == "enroot", err != nil, "enroot imports by tag, not by digest")
	}
	require.False(t, container.HasExtension(".json"))
}
