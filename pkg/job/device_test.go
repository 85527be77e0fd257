package job_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/job"
)

// A server's container gets the devices of RDMA that its node has, and a node without them is no
// error. What the site passes by itself is not passed twice.
//
// covers: CTR-5
func TestContainDevices(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"dev/infiniband/uverbs0", "dev/infiniband/uverbs10", "dev/infiniband/rdma_cm", "dev/infiniband/umad0", "dev/gdrdrv"} {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, nil, 0o644))
	}
	const ib = "--device=/dev/infiniband/uverbs0 --device=/dev/infiniband/uverbs10 --device=/dev/infiniband/rdma_cm "
	const before = "run --name=profllm-4711-3-serve-1 --label=profllm.job=4711 "
	for _, c := range []struct {
		name string
		step job.Contain
		want string
	}{
		{"all", job.Contain{RDMA: true, Root: root, Args: []string{"i"}}, ib + "--device=/dev/gdrdrv i"},
		{"a node without", job.Contain{RDMA: true, Root: t.TempDir(), Args: []string{"i"}}, "i"},
		{"a client", job.Contain{Root: root, Args: []string{"i"}}, "i"},
		{"the site's own", job.Contain{RDMA: true, Root: root, Args: []string{"--device=/dev/infiniband", "i"}}, "--device=/dev/gdrdrv --device=/dev/infiniband i"},
		{"the site's own", job.Contain{RDMA: true, Root: root, Args: []string{"--device", "/dev/gdrdrv", "i"}}, ib + "--device /dev/gdrdrv i"},
		{"privileged", job.Contain{RDMA: true, Root: root, Args: []string{"--privileged", "i"}}, "--privileged i"},
	} {
		calls, contain := standIn(t, "docker", ``)
		_, _, err := contain(t.Context(), c.step)
		require.NoError(t, err)
		require.Equal(t, before+c.want, lines(t, calls)[0], c.name)
	}
}

// A container without a daemon inherits the limits of its step, raised as far as the step may
// raise them.
//
// covers: CTR-3
func TestContainLimits(t *testing.T) {
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_STACK, &before))
	low := before
	low.Cur = min(1<<20, before.Max)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_STACK, &low))
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_STACK, &before) }()
	for _, program := range []string{"podman", "apptainer", "enroot"} {
		_, contain := standIn(t, program, `[[ $1 == kill || $1 == rm ]] || echo "$(ulimit -Sl)=$(ulimit -Hl) $(ulimit -Ss)"`)
		_, said, err := contain(t.Context(), job.Contain{Args: []string{"i"}})
		require.NoError(t, err)
		memlock, stack, ok := strings.Cut(strings.TrimSpace(said), " ")
		require.True(t, ok, said)
		soft, hard, _ := strings.Cut(memlock, "=")
		require.Equal(t, hard, soft, "locked memory, KiB")
		require.Equal(t, fmt.Sprint(min(64<<20, before.Max)/1024), stack, "KiB")
	}
}
