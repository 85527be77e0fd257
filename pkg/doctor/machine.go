package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/quantity"
)

const (
	// wantFree holds some nights of results; imageFree a container image of 65 GB
	// with its import, 2.5 times its compressed size.
	wantFree  = 10 * quantity.GiB
	imageFree = 160 * quantity.GiB
	// wantShm is for NCCL and the engines' own queues.
	wantShm = 8 * quantity.GiB
	// wantMemlock is for the registered buffers of RDMA.
	wantMemlock = quantity.GiB
	// socketPath is the longest path of a Unix socket; raySocket is what Ray puts
	// behind its folder, engineSocket what vLLM does.
	socketPath   = 107
	raySocket    = len("/ray/session_2026-01-01_00-00-00_000000_1234567/sockets/plasma_store")
	engineSocket = len("/00000000-0000-0000-0000-000000000000")
	// portTop is above the ports that servers take unless a scenario says another.
	portTop = 20000
)

// probe runs the probe of this machine, in a process that may hang in our place.
func (d *Doctor) probe(ctx context.Context, dir string) (*Probe, error) {
	a := d.command(ctx, append(slices.Clone(d.Self), "--dir", dir)...)
	switch {
	case a.hung:
		return nil, fmt.Errorf("%s: no answer in %s", dir, d.limits.command)
	case a.err != nil:
		return nil, fmt.Errorf("%s: %s", dir, a.why())
	}
	return parseProbe(a.out)
}

// machine looks at this machine and its folders.
func (d *Doctor) machine(ctx context.Context) {
	p, err := d.probe(ctx, d.Dir)
	if err != nil {
		d.add("output folder", Bad, err.Error(),
			"the mount does not answer: ask the administrators, or set another output_path")
		return
	}
	d.local = p
	d.folder("output folder", p.Folder)
	if slices.Contains(localKinds, p.Folder.Kind) && !d.Job {
		d.add("output folder, shared", NotChecked,
			fmt.Sprintf("%s is %s, which other machines may not see", p.Folder.Path, p.Folder.Kind),
			"--job checks from a node")
	}
	d.free("space for results", p.Folder.Space, wantFree, "clean up, or set output_path to another file system")
	if s := d.System; s != nil && s.Launcher != config.Bare {
		if p, err := d.probe(ctx, s.InstallPath); err != nil {
			d.add("space for images", Bad, err.Error(), "set install_path to a folder that answers")
		} else {
			d.free("space for images", p.Folder.Space, imageFree,
				"an image of 65 GB needs 2.5 times its size while it is imported: clean up, or set install_path elsewhere")
		}
	}
	d.proxy("proxy variables", p)
	d.reader("GPU reader", p)
	if strings.HasPrefix(d.config["PropagateResourceLimits"], "ALL") &&
		!strings.Contains(d.config["PropagateResourceLimitsExcept"], "MEMLOCK") {
		d.memlock("locked memory, given to jobs", p,
			"ulimit -l unlimited here, or extra_srun_args = \"--propagate=NONE\"")
	}
}

// folder judges what run directories and leases need.
func (d *Doctor) folder(name string, f Folder) {
	seen := f.Path + " (" + f.Kind + ")"
	switch {
	case !f.Writable:
		d.add(name, Bad, cmp.Or(f.Explanation, f.Error), "set output_path to a writable folder")
	case !f.Exclusive || !f.Renames:
		d.add(name, Bad, seen+": "+cmp.Or(f.Explanation, "a file can be created twice"),
			"use another file system: two commands could submit the same run")
	case !f.HardLinks:
		d.add(name, Warn, seen+": no hard links",
			"exclusive creation is used instead, and a killed command may leave an empty file")
	default:
		d.add(name, OK, seen+": writable, exclusive creation, hard links, renames", "")
	}
}

func (d *Doctor) free(name string, s Space, want int64, do string) {
	switch {
	case s.Error != "":
		d.add(name, NotChecked, s.Path+": "+s.Error, "")
	case s.Free < want/100:
		d.add(name, Bad, quantity.Bytes(s.Free)+" free", do)
	case s.Free < want:
		d.add(name, Warn, quantity.Bytes(s.Free)+" free", do)
	default:
		d.add(name, OK, quantity.Bytes(s.Free)+" free", "")
	}
}

func (d *Doctor) proxy(name string, p *Probe) {
	if len(p.Proxy) == 0 {
		d.add(name, OK, "none", "")
		return
	}
	d.add(name, Warn, strings.Join(p.Proxy, " "),
		"traffic inside Ray and between engines may go to the proxy: unset these variables in prologue, or list the nodes in no_proxy")
}

func (d *Doctor) memlock(name string, p *Probe, do string) {
	n, err := strconv.ParseInt(p.Memlock, 10, 64)
	switch {
	case p.Memlock == "":
		d.add(name, NotChecked, "the limits cannot be read", "")
	case p.Memlock == "unlimited":
		d.add(name, OK, p.Memlock, "")
	case err != nil:
		d.add(name, NotChecked, fmt.Sprintf("the limit is %q", p.Memlock), "")
	case n < wantMemlock:
		d.add(name, Warn, quantity.Bytes(n), "RDMA needs more: "+do)
	default:
		d.add(name, OK, quantity.Bytes(n), "")
	}
}

// ports judges the range from which the kernel takes ports.
func (d *Doctor) ports(name string, p *Probe) {
	seen := fmt.Sprintf("outgoing connections use ports %d-%d", p.PortLow, p.PortHigh)
	switch {
	case p.PortHigh == 0:
		d.add(name, NotChecked, "the range cannot be read", "")
	case p.PortLow < portTop:
		d.add(name, Warn, seen,
			fmt.Sprintf("servers listen below %d: let net.ipv4.ip_local_port_range begin above; port slots inside the range are skipped", portTop))
	default:
		d.add(name, OK, seen, "")
	}
}

// temp judges where engines and Ray put their sockets.
func (d *Doctor) temp(name string, p *Probe) {
	length := len(p.Temp.Path)
	seen := fmt.Sprintf("%s (%s, %s free)", p.Temp.Path, p.Temp.Kind, quantity.Bytes(p.Temp.Free))
	do := "set TMPDIR in global_env_vars to a node-local folder with a short path: a socket's path holds 107 bytes"
	switch {
	case p.Temp.Error != "":
		d.add(name, Bad, p.Temp.Path+": "+p.Temp.Error, "set TMPDIR in global_env_vars to an existing folder")
	case length+engineSocket > socketPath:
		d.add(name, Bad, fmt.Sprintf("%s, %d bytes long", seen, length), do)
	case length+raySocket > socketPath:
		d.add(name, Warn, fmt.Sprintf("%s, %d bytes long", seen, length), "too long for Ray: "+do)
	case p.Temp.Kind == "nfs" || p.Temp.Kind == "lustre" || p.Temp.Kind == "gpfs":
		d.add(name, Warn, seen, "sockets and compile caches belong on the node: "+do)
	default:
		d.add(name, OK, seen, "")
	}
}

// reader judges who reads the GPUs: nvidia-smi has no counter of energy.
func (d *Doctor) reader(name string, p *Probe) {
	do := "put " + gpu.Program +
		" of the same release beside profllm: the energy of a run is then taken from the GPUs' own counters"
	switch {
	case p.NoNVML == gpu.ErrNoDriver.Error():
		d.add(name, OK, gpu.Program+" is installed, but this machine has no NVIDIA driver", "")
	case p.NoNVML != "" && (p.Reader != "" || config.CountGPUs(d.gpus) > 0):
		d.add(name, Warn, p.NoNVML, do)
	case p.NoNVML != "":
		d.add(name, NotChecked, "no GPU is known here; "+p.NoNVML, "")
	case p.Reader != "":
		d.add(name, OK, p.Reader, "")
	default:
		d.add(name, NotChecked, cmp.Or(p.GPUError, "the driver sees no GPU"), "")
	}
}

func (d *Doctor) nvidia(name string, p *Probe) {
	promised := config.CountGPUs(d.gpus)
	switch {
	case p.GPUError == gpu.ErrNoDriver.Error() && promised == 0:
		d.add(name, OK, "no NVIDIA driver, and Slurm lists no GPU", "")
	case p.GPUError == gpu.ErrNoDriver.Error():
		d.add(name, Warn, fmt.Sprintf("no NVIDIA driver, although Slurm lists %s", d.gpus),
			"the GPUs are of another vendor, or the driver is missing: the engine's log will tell")
	case p.GPUError != "":
		d.add(name, Bad, p.GPUError, "the driver or a GPU is broken: drain the node")
	case len(p.GPUs) == 0:
		d.add(name, Bad, "the driver sees no GPU", "the driver or a GPU is broken: drain the node")
	default:
		seen := p.GPUs[0]
		if len(p.GPUs) > 1 {
			seen = fmt.Sprintf("%d x %s", len(p.GPUs), seen)
		}
		d.add(name, OK, seen, "")
	}
}
