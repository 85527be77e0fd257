package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/node"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/regular"
)

// tokenFile is a file in the shared folder that a node must see.
const tokenFile = "token"

// containerPrograms start containers: those of the launchers, and apptainer by its earlier name.
var containerPrograms = slices.Concat(config.Programs, []string{"singularity"})

// proxyVars divert HTTP, and with it what engines say to each other.
var proxyVars = []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
	"grpc_proxy"}

// Probe is what profllm sees on one machine.
type Probe struct {
	Schema   string    `json:"schema"` // profllm.probe/1
	Version  string    `json:"version"`
	Host     string    `json:"host"`
	Arch     string    `json:"arch"` // as Go names it
	Time     time.Time `json:"time"`
	Folder   Folder    `json:"folder"`
	Shm      Space     `json:"shm"`
	Temp     Space     `json:"temp"`
	Memlock  string    `json:"memlock"` // soft limit: bytes, or "unlimited"
	PortLow  int       `json:"port_low"`
	PortHigh int       `json:"port_high"` // ports for outgoing connections
	Proxy    []string  `json:"proxy"`     // names of variables that are set
	Programs []string  `json:"programs"`  // of containerPrograms
	GPUs     []string  `json:"gpus"`      // "name, driver, memory", one for each
	GPUError string    `json:"gpu_error,omitempty"`
	// who reads GPUs here: "nvml 12.570.86.15", "nvidia-smi", or nobody can
	Reader string `json:"gpu_reader,omitempty"`
	NoNVML string `json:"no_nvml,omitempty"` // why that is not NVML
}

// Space is a file system at a path.
type Space struct {
	Path  string `json:"path"`
	Total int64  `json:"total"` // bytes
	Free  int64  `json:"free"`  // bytes, for this user
	Kind  string `json:"kind"`  // "nfs", "ext", …
	Error string `json:"error,omitempty"`
}

// Folder is what can be done in a folder.
type Folder struct {
	Space              // at the folder, or the nearest one above that exists
	Writable    bool   `json:"writable"`
	Exclusive   bool   `json:"exclusive"`  // a file is not created twice
	HardLinks   bool   `json:"hard_links"` // and not linked over another
	Renames     bool   `json:"renames"`    // over an existing file
	Token       string `json:"token"`      // content of tokenFile
	Explanation string `json:"explanation,omitempty"`
}

// Look makes the probe of this machine. It may hang if a file system does, so it runs in a
// process of its own. env reads the environment.
func Look(ctx context.Context, dir string, env func(string) string, gpus gpu.Reader, version string,
	now time.Time) Probe {
	p := Probe{Schema: "profllm.probe/1", Version: version, Arch: runtime.GOARCH, Time: now, Proxy: []string{},
		Programs: []string{}, GPUs: []string{}}
	p.Host, _ = os.Hostname()
	p.Folder = lookFolder(dir)
	p.Shm = space("/dev/shm")
	p.Temp = space(cmp.Or(env("TMPDIR"), "/tmp"))
	if data, err := os.ReadFile("/proc/self/limits"); err == nil {
		p.Memlock = node.SoftLimit(string(data), "Max locked memory")
	}
	if data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		p.PortLow, p.PortHigh = parseRange(string(data))
	}
	for _, name := range proxyVars {
		if env(name) != "" {
			p.Proxy = append(p.Proxy, name)
		}
	}
	for _, name := range containerPrograms {
		if _, err := exec.LookPath(name); err == nil {
			p.Programs = append(p.Programs, name)
		}
	}
	p.lookGPUs(ctx, gpus)
	return p
}

// lookGPUs asks the driver, which hangs when a GPU has fallen off the bus.
func (p *Probe) lookGPUs(ctx context.Context, r gpu.Reader) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := r.List(ctx)
	if err != nil {
		p.GPUError = oneLine(err.Error())
		if errors.Is(err, gpu.ErrNoDriver) {
			_, p.NoNVML = r.Which(ctx)
		}
	}
	p.NoNVML = cmp.Or(list.Note, p.NoNVML)
	for _, d := range list.Devices {
		p.Reader = d.Reader
		p.GPUs = append(p.GPUs, fmt.Sprintf("%s, %s, %s", d.Name, d.Driver, quantity.Bytes(d.Total)))
	}
}

// parseRange reads "low high".
func parseRange(text string) (low, high int) {
	f := strings.Fields(text)
	if len(f) != 2 {
		return 0, 0
	}
	low, errLow := strconv.Atoi(f[0])
	high, errHigh := strconv.Atoi(f[1])
	if errLow != nil || errHigh != nil || low < 0 || high < low {
		return 0, 0
	}
	return low, high
}

// kindNames are file systems by their magic number (statfs(2)).
var kindNames = map[uint32]string{
	0x6969: "nfs", 0x0BD00BD0: "lustre", 0x47504653: "gpfs", 0x19830326: "beegfs", 0x00C36400: "ceph",
	0xFF534D42: "cifs", 0xFE534D42: "smb2",
	0x7461636F: "ocfs2", 0x01161970: "gfs2", 0x65735546: "fuse", 0x6B414653: "afs",
	0x01021994: "tmpfs", 0xEF53: "ext", 0x58465342: "xfs", 0x9123683E: "btrfs", 0x794C7630: "overlay",
	0x2FC12FC1: "zfs", 0x858458F6: "ramfs",
}

// localKinds are seen by one machine, unless it exports them.
var localKinds = []string{"tmpfs", "ext", "xfs", "btrfs", "overlay", "zfs", "ramfs"}

func space(path string) Space {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return Space{Path: path, Error: err.Error()}
	}
	kind := uint32(st.Type)
	name := kindNames[kind]
	if name == "" {
		name = fmt.Sprintf("0x%X", kind)
	}
	return Space{Path: path, Total: int64(st.Blocks) * int64(st.Bsize), Free: int64(st.Bavail) * int64(st.Bsize),
		Kind: name}
}

// existing is the folder itself, or the nearest one above that exists.
func existing(dir string) string {
	for {
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return dir
		}
		dir = up
	}
}

// lookFolder tries what run directories and leases need. It leaves nothing.
func lookFolder(dir string) (f Folder) {
	f.Space = space(existing(dir))
	if data, err := regular.ReadFile(filepath.Join(dir, tokenFile)); err == nil {
		f.Token = string(bytes.TrimSpace(data))
	}
	temp, err := os.MkdirTemp(f.Path, ".profllm-probe-")
	if err != nil {
		f.Explanation = err.Error()
		return f
	}
	defer os.RemoveAll(temp)
	if err := f.try(temp); err != nil {
		f.Explanation = err.Error()
	}
	return f
}

func (f *Folder) try(dir string) error {
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	for _, path := range []string{one, two} {
		if err := os.WriteFile(path, []byte(path), 0o644); err != nil {
			return err
		}
	}
	f.Writable = true
	again, err := os.OpenFile(one, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if f.Exclusive = errors.Is(err, fs.ErrExist); err == nil {
		err = again.Close()
	}
	link := filepath.Join(dir, "link")
	linkErr := os.Link(one, link)
	f.HardLinks = linkErr == nil && errors.Is(os.Link(two, link), fs.ErrExist)
	renameErr := os.Rename(two, one)
	data, readErr := regular.ReadFile(one)
	f.Renames = renameErr == nil && readErr == nil && string(data) == two
	if f.Exclusive {
		err = nil
	}
	return errors.Join(err, linkErr, renameErr, readErr)
}

// Write prints a probe as JSON.
func (p Probe) Write(w io.Writer) error { return json.NewEncoder(w).Encode(p) }

// parseProbe finds a probe among what a site's prolog may print.
func parseProbe(out string) (*Probe, error) {
	for line := range strings.Lines(out) {
		var p Probe
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &p) == nil && p.Schema == "profllm.probe/1" {
			return &p, nil
		}
	}
	return nil, fmt.Errorf("no probe in %q", oneLine(out))
}
