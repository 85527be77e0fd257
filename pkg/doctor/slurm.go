package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/quantity"
)

// lookPath finds a program on the PATH of the commands' environment; "" if it is
// not there.
func (d *Doctor) lookPath(name string) string {
	for _, kv := range slices.Backward(d.Environ) {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			if path, err := exec.LookPath(filepath.Join(cmp.Or(dir, "."), name)); err == nil {
				return path
			}
		}
		break
	}
	return ""
}

// required are the programs that profllm calls, the last two where they are.
var required = []string{"sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun", "sacct"}

// oldest is the first release of Slurm that profllm knows.
const oldest = 21.08

var version = lazyregexp.New(`(\d\d\.\d\d)(?:\.\d+\S*)?`)

// programs reports whether Slurm can be asked at all.
func (d *Doctor) programs(ctx context.Context) bool {
	var missing []string
	for _, p := range required {
		if d.lookPath(p) == "" {
			missing = append(missing, p)
		}
	}
	switch {
	case len(missing) == 0:
	case len(missing) == 1 && missing[0] == "sacct":
	default:
		d.add("Slurm programs", Bad, "not on PATH: "+strings.Join(missing, " "),
			"run profllm on a login node, or load Slurm's module")
		return false
	}
	a := d.command(ctx, "sinfo", "--version")
	m := version.FindStringSubmatch(a.out)
	if a.err != nil || m == nil {
		d.add("Slurm programs", Bad, "sinfo --version: "+cmp.Or(oneLine(a.out), a.why()),
			"run profllm on a login node, or set SLURM_CONF")
		return false
	}
	release, _ := strconv.ParseFloat(m[1], 64)
	switch {
	case release < oldest:
		d.add("Slurm programs", Warn, oneLine(a.out), fmt.Sprintf("profllm supports Slurm %.2f and later", oldest))
	case len(missing) > 0:
		d.add("Slurm programs", Warn, oneLine(a.out)+", no sacct",
			"collect while squeue lists the jobs: see accounting")
	default:
		d.add("Slurm programs", OK, oneLine(a.out), "")
	}
	return true
}

// controller asks for the controllers, and how long a plain question takes.
func (d *Doctor) controller(ctx context.Context) {
	ping := d.command(ctx, "scontrol", "ping")
	up, all := parsePing(ping.out)
	if up == 0 {
		d.add("controller", Bad, cmp.Or(strings.Join(all, ", "), ping.why()),
			"ask the administrators: no job can be submitted now")
		return
	}
	queue := d.command(ctx, "squeue", "-h", "-a", "-o", "%i|%T")
	seen := fmt.Sprintf("%s; squeue lists %s in %s", strings.Join(all, ", "),
		quantity.Count(len(strings.Fields(queue.out)), "job"), seconds(queue.took))
	switch {
	case queue.err != nil:
		d.add("controller", Bad, strings.Join(all, ", ")+"; "+queue.why(),
			"ask the administrators; profllm calls a job unknown while squeue fails")
	case max(ping.took, queue.took) > slow:
		d.add("controller", Warn, seen, "the controller is slow: do not poll in short intervals")
	case up < len(all):
		d.add("controller", Warn, seen, "tell the administrators that one controller is down")
	default:
		d.add("controller", OK, seen, "")
	}
}

var pingLine = lazyregexp.New(`(?m)^Slurmctld\(([^)]*)\) at (\S+) is (UP|DOWN)`)

// parsePing reads `scontrol ping` (21.08 to 25.11).
func parsePing(out string) (up int, all []string) {
	for _, m := range pingLine.FindAllStringSubmatch(out, -1) {
		if m[3] == "UP" {
			up++
		}
		all = append(all, fmt.Sprintf("%s %s %s", m[1], m[2], m[3]))
	}
	return up, all
}

// parseConfig reads `scontrol show config`.
func parseConfig(out string) map[string]string {
	c := map[string]string{}
	for line := range strings.Lines(out) {
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); ok && key != "" && !strings.Contains(key, " ") {
			c[key] = strings.TrimSpace(value)
		}
	}
	return c
}

// number reads the number a value begins with, such as "300 sec".
func number(value string) (int, bool) {
	digits := value[:len(value)-len(strings.TrimLeft(value, "0123456789"))]
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

// settings looks at what of Slurm's configuration changes what profllm can do.
func (d *Doctor) settings(ctx context.Context) {
	a := d.command(ctx, "scontrol", "show", "config")
	d.config = parseConfig(a.out)
	if a.err != nil || len(d.config) == 0 {
		d.add("Slurm settings", Bad, "scontrol show config: "+a.why(), "ask the administrators")
		return
	}
	d.atLeast("MinJobAge", 60, "s",
		"squeue forgets a job this long after its end: collect more often, or enable accounting")
	d.atLeast("MaxArraySize", 2, "", "job arrays are switched off: a sweep is one job for each point")
	d.atLeast("KillWait", 20, "s", "KILL follows TERM after this time: set time limits that jobs do not reach")
	switch t := d.config["ProctrackType"]; t {
	case "proctrack/cgroup":
		d.add("ProctrackType", OK, t, "")
	case "":
		d.add("ProctrackType", NotChecked, "Slurm does not report it", "")
	default:
		d.add("ProctrackType", Warn, t,
			"it loses track of daemons, which may then hold GPUs after a job: use proctrack/cgroup")
	}
	if t := d.config["SelectType"]; t != "" {
		d.add("SelectType", OK, strings.TrimSpace(t+" "+d.config["SelectTypeParameters"]), "")
	}
}

// atLeast compares a number of the configuration.
func (d *Doctor) atLeast(key string, least int, unit, do string) {
	n, ok := number(d.config[key])
	seen := strings.TrimSpace(fmt.Sprintf("%d %s", n, unit))
	switch {
	case !ok:
		d.add(key, NotChecked, fmt.Sprintf("Slurm says %q", d.config[key]), "")
	case n < least:
		d.add(key, Warn, seen, do)
	default:
		d.add(key, OK, seen, "")
	}
}

// usable are the node states in which a job may start now or later.
var usable = []string{"idle", "mixed", "allocated", "completing", "planned", "reserved"}

// partition is what sinfo says of one.
type partition struct {
	name    string
	initial bool // the default one
	up      bool
	nodes   int
	usable  int
	gres    string // of the first nodes
	other   []string
}

const sinfoFormat = "%P|%a|%D|%T|%G"

// parsePartitions reads `sinfo -h -o sinfoFormat`. Lines that do not fit are left
// out: site plugins print others.
func parsePartitions(out string) []*partition {
	var list []*partition
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 5 {
			continue
		}
		n, err := strconv.Atoi(f[2])
		if err != nil || n < 0 {
			continue
		}
		name, initial := strings.CutSuffix(f[0], "*")
		i := slices.IndexFunc(list, func(p *partition) bool { return p.name == name })
		if i < 0 {
			i = len(list)
			list = append(list, &partition{name: name, gres: f[4]})
		}
		p := list[i]
		p.initial, p.up = initial, f[1] == "up"
		p.nodes += n
		state := strings.ToLower(strings.TrimRight(f[3], "+~#!%$@^-"))
		if slices.Contains(usable, state) {
			p.usable += n
		} else if n > 0 {
			p.other = append(p.other, fmt.Sprintf("%d %s", n, f[3]))
		}
	}
	return list
}

func (d *Doctor) partitions(ctx context.Context) {
	a := d.command(ctx, "sinfo", "-h", "-o", sinfoFormat)
	list := parsePartitions(a.out)
	if a.err != nil || len(list) == 0 {
		why := "no partition"
		if a.err != nil {
			why = a.why()
		}
		d.add("partitions", Bad, "sinfo: "+why, "ask the administrators")
		return
	}
	if d.Partition == "" {
		d.Partition = list[0].name
		for _, p := range list {
			if p.initial {
				d.Partition = p.name
			}
		}
	}
	found := false
	for _, p := range list {
		found = found || p.name == d.Partition
		d.partition(p)
	}
	if !found {
		names := make([]string, len(list))
		for i, p := range list {
			names[i] = p.name
		}
		d.add("partition "+d.Partition, Bad, "Slurm knows only "+strings.Join(names, " "),
			"name another one with --partition, or default_partition in the system file")
		return
	}
	d.sharing(ctx)
}

// partition judges one; only that of the jobs can be bad.
func (d *Doctor) partition(p *partition) {
	seen := fmt.Sprintf("%d of %s usable", p.usable, quantity.Count(p.nodes, "node"))
	if len(p.other) > 0 {
		seen += ", " + strings.Join(p.other, ", ")
	}
	status, do := OK, ""
	switch {
	case !p.up:
		status, seen, do = Bad, "closed, "+seen, "no job starts there"
	case p.usable == 0:
		status, do = Bad, "no job starts there"
	case len(p.other) > 0:
		status, do = Warn, "sinfo -R shows why nodes are unavailable"
	}
	if p.name == d.Partition {
		d.gpus = p.gres
	} else if status == Bad {
		status = Warn
	}
	d.add("partition "+p.name, status, seen, do)
}

var oversubscribe = lazyregexp.New(`\bOverSubscribe=(\S+)`)

// sharing looks at whether other jobs may run on the same cores and GPUs.
func (d *Doctor) sharing(ctx context.Context) {
	a := d.command(ctx, "scontrol", "show", "partition", d.Partition, "-o")
	m := oversubscribe.FindStringSubmatch(a.out)
	switch {
	case a.err != nil:
		d.add("sharing of nodes", NotChecked, a.why(), "")
	case m == nil:
		d.add("sharing of nodes", NotChecked, "Slurm does not report it", "")
	case strings.HasPrefix(m[1], "YES"), strings.HasPrefix(m[1], "FORCE"):
		d.add("sharing of nodes", Warn, "OverSubscribe="+m[1],
			"other jobs may disturb the numbers: extra_sbatch_args = [\"--exclusive\"]")
	default:
		d.add("sharing of nodes", OK, "OverSubscribe="+m[1], "")
	}
}

// gres compares what Slurm and the system file say of GPUs.
func (d *Doctor) gres() {
	if len(d.config) == 0 {
		return
	}
	known := strings.Contains(d.config["GresTypes"], "gpu")
	have := config.CountGPUs(d.gpus)
	seen := fmt.Sprintf("GresTypes=%s, partition %s has %s", cmp.Or(d.config["GresTypes"], "(none)"), d.Partition,
		cmp.Or(d.gpus, "none"))
	want, asks := 0, false
	if d.System != nil {
		want, asks = d.System.GPUsPerNode, d.System.GPUDirectives()
	}
	switch {
	case asks && !known:
		d.add("GPUs in Slurm", Bad, seen,
			"jobs ask for --gres=gpu, which Slurm does not know: supports_gpu_directives = false")
	case asks && want > have:
		d.add("GPUs in Slurm", Bad, seen, fmt.Sprintf("the system file says gpus_per_node = %d", want))
	case known && want > 0 && want < have:
		d.add("GPUs in Slurm", Warn, seen, fmt.Sprintf("the system file says gpus_per_node = %d", want))
	case !known || have == 0:
		d.add("GPUs in Slurm", Warn, seen, "Slurm does not separate jobs by GPU: use whole nodes")
	default:
		d.add("GPUs in Slurm", OK, seen, "")
	}
}

// accounting asks sacct, because the setting alone does not say that the
// database answers.
func (d *Doctor) accounting(ctx context.Context) {
	kind := d.config["AccountingStorageType"]
	a := d.command(ctx, "sacct", "-n", "-X", "-P", "-S", "now-1hours", "-o", "JobID")
	switch {
	case a.err == nil && !a.hung:
		d.add("accounting", OK, fmt.Sprintf("%s, sacct answers in %s", cmp.Or(kind, "on"), seconds(a.took)), "")
	case strings.Contains(a.errors, "accounting storage is disabled"):
		d.add("accounting", Warn, "off",
			fmt.Sprintf("collect within MinJobAge (%s) of a job's end; after that only the run's sentinel tells the result", cmp.Or(d.config["MinJobAge"], "300 sec")))
	default:
		d.add("accounting", Warn, a.why(),
			"while sacct fails, job states come from squeue and the runs' sentinels only")
	}
}
