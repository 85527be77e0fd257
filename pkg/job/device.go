package job

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// rdmaDevices are the devices of a node that RDMA needs: of verbs, of connections, and of
// GDRCopy. The name tells whether the site passes them by itself.
var rdmaDevices = []struct{ name, pattern string }{
	{"/dev/infiniband", "/dev/infiniband/uverbs*"}, {"/dev/infiniband", "/dev/infiniband/rdma_cm"},
	{"/dev/gdrdrv", "/dev/gdrdrv"},
}

// devices are the options that pass the devices of RDMA which this node has. Those that
// container_args names are left to it, and a privileged container has all of them.
func (b *box) devices() (options []string) {
	if !b.RDMA || slices.Contains(b.Args, "--privileged") {
		return nil
	}
	for _, d := range rdmaDevices {
		if slices.ContainsFunc(b.Args, func(arg string) bool { return strings.Contains(arg, d.name) }) {
			continue
		}
		files, _ := filepath.Glob(b.Root + d.pattern)
		for _, file := range files {
			options = append(options, "--device="+strings.TrimPrefix(file, b.Root))
		}
	}
	return options
}

// stackLimit is the least stack that the threads of a container have, bytes, if the node allows
// it.
const stackLimit = 64 << 20

// rlimitMemlock is RLIMIT_MEMLOCK of Linux, which package syscall leaves out.
const rlimitMemlock = 8

// raiseLimits raises what a container without a daemon inherits of this process, as far as the
// step may raise it: RDMA registers its buffers, which locks memory. An option of the runtime
// would replace the limits that the site has set for it.
func raiseLimits() {
	for _, l := range []struct {
		kind int
		want uint64
	}{{rlimitMemlock, math.MaxUint64}, {syscall.RLIMIT_STACK, stackLimit}} {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.kind, &now); err != nil {
			continue
		}
		if want := min(l.want, now.Max); now.Cur < want {
			_ = syscall.Setrlimit(l.kind, &syscall.Rlimit{Cur: want, Max: now.Max}) // else it stays
		}
	}
}
