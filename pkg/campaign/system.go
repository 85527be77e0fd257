package campaign

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"

	"github.com/profllm/profllm/conf"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// noSystem is a hint for a command that knows no cluster.
const noSystem = "name a system file with --system FILE; on a login node, or with SLURM_CONF set, profllm init " +
	"writes one; without a cluster, profllm slurm dry-run --simulate plans for simulated nodes"

// System reads the system file, or asks Slurm. A simulation falls back to the built-in
// site of simulated nodes.
func (c *Client) System(ctx context.Context, file string, simulate bool) (*config.System, error) {
	if file != "" {
		data, err := definition.ReadFile("system", file)
		if err != nil {
			return nil, as(Usage, fmt.Errorf("system file (--system or $PROFLLM_SYSTEM): %w", err))
		}
		sys, err := ParseSystem(file, data)
		return sys, as(Definition, err)
	}
	if simulate {
		sys, err := config.Parse("conf/local.toml", conf.Local)
		return sys, as(Definition, err)
	}
	sys, err := c.AskSlurm(ctx)
	if sys != nil {
		sys.Source = []byte(sys.TOML())
	}
	if err != nil {
		return nil, as(Usage, fmt.Errorf("there is no system file, and Slurm does not answer: %w\n\thint: %s", err,
			noSystem))
	}
	return sys, nil
}

// ParseSystem reads a system file, and checks its signatures like the built-in ones.
func ParseSystem(file string, data []byte) (*config.System, error) {
	if t, err := source.Parse(file, data); err == nil {
		if err := scenario.Mistaken(t, "system"); err != nil {
			return nil, err
		}
	}
	sys, err := config.Parse(file, data)
	if err != nil {
		return nil, err
	}
	if own := plan.Signatures(sys); len(own) > 0 {
		_, err = collect.Causes(own)
	}
	return sys, err
}

// AskSlurm makes a system from Slurm's configuration.
func (c *Client) AskSlurm(ctx context.Context) (*config.System, error) {
	sinfo, scontrol, err := c.Slurm().Describe(ctx)
	if err != nil {
		return nil, err
	}
	return config.FromSlurm(sinfo, scontrol)
}

// NewSystem makes a system for a file that a person will edit: that of AskSlurm and, if srun has
// no pyxis, a launcher whose program is on this machine, or bare.
func (c *Client) NewSystem(ctx context.Context) (*config.System, error) {
	sys, err := c.AskSlurm(ctx)
	if err != nil {
		return nil, err
	}
	if pyxis, err := c.Slurm().HasPyxis(ctx); err != nil || pyxis {
		return sys, nil // the default, also where srun cannot tell
	}
	sys.Launcher = cmp.Or(containerProgram(), config.Bare)
	return sys, nil
}

// containerProgram is the first launcher that is a program on this machine, "" for none.
func containerProgram() string {
	for _, name := range config.Programs {
		if _, err := exec.LookPath(name); err == nil {
			return name
		}
	}
	return ""
}

// SystemOf reads the system file of a lock file, or the one that is named.
func (c *Client) SystemOf(ctx context.Context, d *definition.Files, file string,
	simulate bool) (*config.System, error) {
	if d.Lock == nil || d.System == nil {
		return c.System(ctx, file, simulate)
	}
	if file != "" {
		c.note("the lock file's own system file is used, not %s", c.relative(file))
	}
	sys, err := ParseSystem(path.Dir(d.Top.Name)+"/"+run.SystemCopy, d.System)
	return sys, as(Definition, err)
}

// gpusLine is where a system file says how many GPUs its nodes have.
var gpusLine = lazyregexp.New(`(?m)^[ \t]*gpus_per_node[ \t]*=.*$`)

// withGPUsPerNode is the system with other nodes, as the options say. Its source says so too: it
// is kept with the results.
func (f Options) withGPUsPerNode(sys *config.System) (*config.System, error) {
	if f.GPUsPerNode == 0 {
		return sys, nil
	}
	line := fmt.Sprintf("gpus_per_node = %d # --gpus-per-node", f.GPUsPerNode)
	text := gpusLine.ReplaceAll(sys.Source, []byte(line))
	if bytes.Equal(text, sys.Source) {
		text = append([]byte(line+"\n"), text...)
	}
	sys, err := ParseSystem(cmp.Or(f.System, "conf/local.toml"), text)
	return sys, as(Definition, err)
}

// planSystem is the system that a plan is made for.
func (c *Client) planSystem(ctx context.Context, d *definition.Files, f Options, held *Held) (*config.System, error) {
	here := f.Here && held == nil
	if here && f.System == "" && d.System == nil {
		sys, err := config.Parse("conf/standalone.toml", conf.Standalone)
		if err != nil {
			return nil, as(Definition, err)
		}
		return c.here(ctx, sys)
	}
	if f.Kube && f.System == "" && d.System == nil {
		return nil, as(Usage, errors.New("there is no system file\n\thint: name one with scheduler = \"kubernetes\" (--system FILE or $PROFLLM_SYSTEM)"))
	}
	sys, err := c.SystemOf(ctx, d, f.System, f.Simulate)
	if err == nil && f.Kube {
		err = (&Planned{Kubernetes: sys.Kube() != nil}).ForKubernetes()
	}
	if err != nil {
		return nil, err
	}
	if here || sys.Standalone() && !f.Simulate {
		return c.here(ctx, sys)
	}
	return f.withGPUsPerNode(sys)
}

// here is a system as it is on this machine alone: no scheduler, and the GPUs that are here.
func (c *Client) here(ctx context.Context, sys *config.System) (*config.System, error) {
	if err := c.onOwnNode(); err != nil {
		return nil, as(Usage, err)
	}
	own := *sys
	sys = &own
	if sys.Launcher == pyxis {
		if sys.Launcher = containerProgram(); sys.Launcher == "" {
			return nil, as(Definition, fmt.Errorf("%s: launcher = %q is a plugin of Slurm, and this machine has none of %s\n\thint: write launcher = %q if vllm is installed here, or install one of these",
				sys.Pos.File, pyxis, strings.Join(config.Programs, ", "), config.Bare))
		}
	}
	if !sys.Standalone() || sys.GPUsPerNode == 0 {
		within, done := context.WithTimeout(ctx, gpu.Patience)
		list, err := gpu.Beside(c.Executable).List(within)
		done()
		if err != nil && !errors.Is(err, gpu.ErrNoDriver) {
			return nil, fmt.Errorf("the GPUs of this machine: %w", err)
		}
		sys.GPUsPerNode = len(list.Devices)
	}
	yes := true
	sys.Scheduler, sys.SupportsGPUDirectives = "standalone", &yes
	return sys, nil
}

// onOwnNode refuses a shell that holds an allocation of Slurm on other machines, such as that of
// salloc on a login node: what it runs would run beside the allocation.
func (c *Client) onOwnNode() error {
	job, list := c.env("SLURM_JOB_ID"), c.env("SLURM_JOB_NODELIST")
	nodes, err := hostlist.Expand(list)
	if job == "" || err != nil || len(nodes) == 0 {
		return nil
	}
	own, err := c.isNode(nodes)
	if err != nil || own {
		return err
	}
	host, _ := os.Hostname()
	short, _, _ := strings.Cut(host, ".")
	return fmt.Errorf("this shell holds job %s on %s, and %s is none of its nodes\n\thint: srun --jobid=%s --overlap --nodes=1 --pty bash opens a shell there",
		job, list, short, job)
}

const pyxis = "pyxis"

// fits refuses tests that need more nodes than there are to be.
func (c *Client) fits(plans []*plan.Plan, f Options, held *Held) error {
	for _, p := range plans {
		if held != nil {
			if err := held.fits(p); err != nil {
				return err
			}
		}
		if held == nil && f.Here && p.Job.Nodes > 1 {
			return as(Definition, fmt.Errorf("test %s needs %s, and this machine is one\n\thint: profllm slurm submit SCENARIO runs it on a cluster, profllm rehearse SCENARIO with simulated nodes",
				p.Test, quantity.Count(p.Job.Nodes, "node")))
		}
		if f.Nodes > 0 && p.Job.Nodes > f.Nodes {
			return as(Definition,
				fmt.Errorf("test %s needs %s, and --nodes says %d", p.Test, quantity.Count(p.Job.Nodes, "node"),
					f.Nodes))
		}
	}
	return nil
}

// fileOf is the file that a system was read from.
func fileOf(sys *config.System) scenario.File {
	return scenario.File{Name: sys.Pos.File, Data: sys.Source}
}
