package job

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/regular"
)

// sharedTypes are the file systems of several nodes, by their magic numbers
// (statfs(2); Lustre's, GPFS's, BeeGFS's and WekaFS's own headers).
var sharedTypes = map[int64]string{
	0x6969: "NFS", 0x0bd00bd0: "Lustre", 0x47504653: "GPFS", 0x19830326: "BeeGFS", 0x00c36400: "Ceph",
	0xff534d42: "CIFS", 0xfe534d42: "SMB", 0x5346414f: "AFS", 0x18031977: "WekaFS",
}

// makeCache makes the folder of the own caches below root on this node: what
// several nodes share would be written by all of them at once, and
// somebody else's folder is not to be run from.
func makeCache(root string) error {
	own := ownCache(root)
	// As /tmp: everybody may add a folder of his own.
	err := os.Mkdir(root, 0o777|fs.ModeSticky)
	if err == nil {
		err = os.Chmod(root, 0o777|fs.ModeSticky) // whatever the umask
	}
	if err != nil && !os.IsExist(err) {
		return fmt.Errorf("compile_cache: %w", err)
	}
	if err := os.Mkdir(own, 0o700); err != nil && !os.IsExist(err) {
		return fmt.Errorf("compile_cache: %w", err)
	}
	if err := regular.CheckOwnDir(own); err != nil {
		return fmt.Errorf("compile_cache: %w", err)
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(own, &fs); err != nil {
		return fmt.Errorf("compile_cache: %s: %w", own, err)
	}
	return notShared(root, int64(fs.Type))
}

func notShared(root string, kind int64) error {
	if name := sharedTypes[kind&0xffffffff]; name != "" {
		return fmt.Errorf("compile_cache: %s is on %s, where the caches of several nodes would conflict\n\thint: set a folder on the nodes' local disks", root, name)
	}
	return nil
}

func ownCache(root string) string { return filepath.Join(root, "u"+strconv.Itoa(os.Getuid())) }

// hardware names what compiled code is for: the processor, and the GPUs as NVIDIA's
// driver lists them below proc.
func hardware(proc fs.FS) string {
	kinds := []string{}
	files, _ := fs.Glob(proc, "driver/nvidia/gpus/*/information")
	for _, file := range files {
		data, err := fs.ReadFile(proc, file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if model, ok := strings.CutPrefix(line, "Model:"); ok {
				kinds = append(kinds, notInHardware.ReplaceAllString(strings.TrimSpace(model), "_"))
			}
		}
	}
	slices.Sort(kinds)
	return strings.Join(append([]string{runtime.GOARCH}, slices.Compact(kinds)...), "-")
}

var (
	notInHardware = lazyregexp.New(`[^A-Za-z0-9.]+`)
	hardwareName  = lazyregexp.New(`^[A-Za-z0-9._-]+$`)
)

// cacheExports are the lines of job.env that move the engines' caches. What the job
// has set already stays.
func cacheExports(c *plan.CompileCache, hardware []string) []string {
	slices.Sort(hardware)
	dir := path.Join(ownCache(c.Root), c.Key, strings.Join(slices.Compact(hardware), "+"))
	var lines []string
	for _, v := range plan.CompileCacheVars {
		lines = append(lines, fmt.Sprintf(`export %s="${%s:-%s}"`, v.Name, v.Name, path.Join(dir, v.Value.String())))
	}
	return lines
}
