// Package config is the site: the cluster that jobs run on, as CloudAI's system
// file describes it, plus the few keys that CloudAI lacks.
//
// It decodes a system file and can write one from what Slurm says. It asks
// Slurm nothing itself and knows nothing of tests.
package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/source"
)

// System is a system file with scheduler "slurm", "kubernetes" or "standalone". Keys marked (profllm)
// are not known to CloudAI.
type System struct {
	Name string `toml:"name,required"` // Display name of the cluster.
	// "slurm", "kubernetes", or "standalone": this machine, without a scheduler (profllm run).
	Scheduler string `toml:"scheduler,required"`

	InstallPath string `toml:"install_path,required"` // Root of caches: images, git clones, models.
	OutputPath  string `toml:"output_path,required"`  // Parent of the result directories.
	// Hugging Face home on the nodes; default <install_path>/huggingface.
	HFHomePath string `toml:"hf_home_path"`

	// --partition of every job that names none; required with Slurm.
	DefaultPartition string      `toml:"default_partition"`
	Partitions       []Partition `toml:"partitions"`   // Partitions and their node groups.
	Account          string      `toml:"account"`      // --account.
	QOS              string      `toml:"qos"`          // --qos (profllm).
	Reservation      string      `toml:"reservation"`  // --reservation (profllm).
	Constraint       string      `toml:"constraint"`   // --constraint (profllm).
	Distribution     string      `toml:"distribution"` // --distribution.
	// srun --mpi of benchmarks whose ranks find each other; serving steps use none.
	MPI string `toml:"mpi"`

	// GPUs of one node; default for a standalone system: those that this machine has.
	GPUsPerNode   int `toml:"gpus_per_node"`
	NTasksPerNode int `toml:"ntasks_per_node"` // --ntasks-per-node of the job.
	// USD for an hour of one GPU, from which records and figures have costs (profllm); default: costs
	// are not known.
	GPUHourUSD *float64 `toml:"gpu_hour_usd"`
	// Write --gres (profllm); default: true when gpus_per_node is set.
	SupportsGPUDirectives *bool `toml:"supports_gpu_directives"`
	// CloudAI's internal name of supports_gpu_directives.
	SupportsGPUCache *bool `toml:"supports_gpu_directives_cache"`

	GlobalEnvVars *source.Table `toml:"global_env_vars"` // Environment of every job.
	// "efa": variables for Amazon's network, which those of the site and of a test replace
	// (profllm); default: none.
	Network string `toml:"network"`
	// Interface for NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME and TP_SOCKET_IFNAME in jobs of several
	// nodes: a name, or "auto" for the one by which nodes reach each other (profllm); default: each
	// library chooses.
	SocketInterface string `toml:"socket_interface"`
	// Variables of the submitting shell that jobs get besides the usual ones: a list of names,
	// or "ALL" (profllm).
	Export Export `toml:"export"`

	ExtraSrunArgs   Words    `toml:"extra_srun_args"`   // Options of every srun: one string, split as a shell would.
	ExtraSbatchArgs []string `toml:"extra_sbatch_args"` // One #SBATCH line each.

	// Import images to .sqsh files below install_path.
	CacheDockerImagesLocally bool `toml:"cache_docker_images_locally"`
	ContainerMountHome       bool `toml:"container_mount_home"` // false: --no-container-mount-home.

	// Folder on each node's own disk for what engines compile, by user, image and GPU
	// (profllm); default: where each engine keeps it.
	CompileCache string `toml:"compile_cache"`

	// Options of docker run, podman run, apptainer exec or enroot start, after profllm's own
	// (profllm).
	ContainerArgs Words `toml:"container_args"`

	// false: do not pass the RDMA devices of a node (/dev/infiniband/uverbs*, rdma_cm, /dev/gdrdrv)
	// to its servers' containers with docker and podman (profllm); default true.
	ContainerRDMA *bool `toml:"container_rdma"`
	// "unconfined" (no seccomp filter) or "privileged" for the containers of servers with docker
	// and podman (profllm); default: what the runtime does.
	ContainerSecurity string `toml:"container_security"`

	// "pyxis", "enroot", "apptainer", "docker", "podman" or "bare" (profllm); default pyxis
	// when a test names an image, else bare.
	Launcher string `toml:"launcher"`
	Binary   string `toml:"binary"`   // Path of profllm on the nodes (profllm); default: the running program.
	Prologue string `toml:"prologue"` // Shell text run at the start of each job (profllm), e.g. "module load cuda".

	// CloudAI's polling interval, seconds; read, without effect.
	MonitorInterval  int           `toml:"monitor_interval"`
	StatusRetryPause int           `toml:"status_retry_pause_seconds"`    // As monitor_interval.
	ExtraTransient   []string      `toml:"extra_transient_status_errors"` // As monitor_interval.
	DataRepository   *source.Table `toml:"data_repository"`               // Used by CloudAI's NeMo report only.
	Reports          *source.Table `toml:"reports"`                       // Per-report settings.

	// Kubernetes only: the kubeconfig; default: the one that kubectl finds.
	KubeConfigPath string `toml:"kube_config_path"`
	// Kubernetes only, required there: the namespace of everything that a run creates.
	DefaultNamespace string      `toml:"default_namespace"`
	UseHostNetwork   *bool       `toml:"use_host_network"` // CloudAI's key of Kubernetes; not supported.
	Kubernetes       *Kubernetes `toml:"kubernetes"`       // What else Kubernetes needs to know (profllm).

	Preflight  *Preflight  `toml:"preflight"`  // Limits of the node checks before servers start (profllm).
	Signatures []Signature `toml:"signatures"` // Patterns of log lines for failures of this site (profllm).

	kubePos source.Pos

	Pos      source.Pos `toml:"-"`
	Source   []byte     `toml:"-"` // the file itself
	Warnings []string   `toml:"-"` // keys that were accepted and have no effect
}

// Partition is one partition and the groups of nodes the site named in it.
type Partition struct {
	Name   string  `toml:"name,required"` // Slurm's name of the partition.
	Groups []Group `toml:"groups"`        // Named sets of its nodes.
}

// Group is a named set of nodes, as host lists.
type Group struct {
	Name  string   `toml:"name,required"` // Name of the group.
	Nodes []string `toml:"nodes"`         // Host lists, such as "node[01-16]".
}

// UnmarshalSource reads a partition, and refuses nodes that stand beside its
// groups, as CloudAI once had them.
func (p *Partition) UnmarshalSource(v *source.Value) error {
	t, ok := v.Any.(*source.Table)
	if !ok {
		return source.Errorf(v.Pos, "a partition must be a table, not %s", v.Describe()).Hintf("write [[partitions]]")
	}
	var c source.Complaints
	if t.Has("nodes") {
		c.Add(source.Errorf(t.PosOf("nodes"), "nodes are not allowed directly in a partition").
			Hintf("put them into a group: below [[partitions.groups]], write name = \"all\" and nodes = [\"node[01-16]\"]"))
		t = t.Without("nodes")
	}
	type plain Partition
	c.Add(source.Decode(t, (*plain)(p)))
	seen := map[string]bool{}
	for i, g := range p.Groups {
		if seen[g.Name] && g.Name != "" {
			c.Addf(t.ElementPos("groups", i), "partition %q has two groups named %q", p.Name, g.Name)
		}
		seen[g.Name] = true
	}
	return c.Err()
}

// UnmarshalSource reads a group, and checks its host lists.
func (g *Group) UnmarshalSource(v *source.Value) error {
	t, ok := v.Any.(*source.Table)
	if !ok {
		return source.Errorf(v.Pos, "a group must be a table, not %s", v.Describe()).
			Hintf("write [[partitions.groups]]")
	}
	var c source.Complaints
	type plain Group
	c.Add(source.Decode(t, (*plain)(g)))
	if strings.ContainsAny(g.Name, ": \t\n") {
		c.Addf(t.PosOf("name"), "group name %q cannot be used in PARTITION:GROUP:COUNT", g.Name)
	}
	for i, list := range g.Nodes {
		if _, err := hostlist.Expand(list); err != nil {
			c.Addf(t.ElementPos("nodes", i), "group %q: %v", g.Name, err)
		}
	}
	return c.Err()
}

// Words is a command-line fragment: a string split as a POSIX shell splits it,
// without any expansion, or a list of ready words.
type Words []string

// UnmarshalSource reads a string or a list of strings.
func (w *Words) UnmarshalSource(v *source.Value) error {
	switch x := v.Any.(type) {
	case string:
		words, err := SplitWords(x)
		if err != nil {
			return source.Errorf(v.Pos, "%v", err)
		}
		*w = words
	case []*source.Value:
		for _, e := range x {
			s, ok := e.Any.(string)
			if !ok {
				return source.Errorf(e.Pos, "every argument must be a string, not %s", e.Kind())
			}
			*w = append(*w, s)
		}
	default:
		return source.Errorf(v.Pos, "arguments must be a string or a list of strings, not %s", v.Kind())
	}
	return nil
}

// Parse reads a system file. All complaints are returned together.
func Parse(file string, data []byte) (*System, error) {
	t, err := source.Parse(file, data)
	if err != nil {
		return nil, err
	}
	s := &System{Pos: t.Pos, Source: data}
	if v := t.Get("scheduler"); v != nil && v.Any != slurm && v.Any != standalone && v.Any != kubernetes {
		return nil, refuseScheduler(v)
	}
	var c source.Complaints
	c.Add(source.Decode(t, s))
	c.Add(s.check(t))
	_, err = ParseReports(s.Reports)
	c.Add(err)
	return s, c.Err()
}

// The schedulers.
const slurm, standalone = "slurm", "standalone"

// Standalone reports whether the system is one machine without a scheduler.
func (s *System) Standalone() bool { return s.Scheduler == standalone }

// refuseScheduler says what else a system file of another scheduler is good for. Its other keys
// describe that scheduler, so only a word within two edits of a known one gets the advice to write
// that.
func refuseScheduler(v *source.Value) error {
	err := source.Errorf(v.Pos, "scheduler %s is not supported", v.Shown())
	word, ok := v.Text()
	if near := source.Nearest(word, []string{slurm, kubernetes, standalone}); ok && near != "" {
		return err.Hintf("write scheduler = %q", near)
	}
	if !ok || word == "" {
		return err.Hintf("write scheduler = %q", slurm)
	}
	return err.Hintf("profllm submits to Slurm or Kubernetes (scheduler = %q), or runs on one machine (scheduler = %q): name such a "+
		"system file; profllm rehearse SCENARIO tries a scenario without a cluster", kubernetes, standalone)
}

// idle are the keys without effect, and what uses them in CloudAI.
var idle = [...]struct{ key, user string }{
	{"monitor_interval", "CloudAI's polling"}, {"status_retry_pause_seconds", "CloudAI's polling"},
	{"extra_transient_status_errors", "CloudAI's polling"}, {"data_repository", "CloudAI's NeMo report"},
}

func (s *System) check(t *source.Table) error {
	var c source.Complaints
	if s.Scheduler == slurm && !t.Has("default_partition") {
		c.Addf(t.Pos, "default_partition is required")
	}
	c.Add(s.checkScheduler(t))
	if s.GPUsPerNode < 0 {
		c.Addf(t.PosOf("gpus_per_node"), "gpus_per_node is %d, must be 0 or more", s.GPUsPerNode)
	}
	if v := s.GPUHourUSD; v != nil && !(*v >= 0 && *v <= 1e6) {
		c.Addf(t.PosOf("gpu_hour_usd"), "gpu_hour_usd is %g, must be 0 to 1000000", *v)
	}
	seen := map[string]bool{}
	for i, p := range s.Partitions {
		if seen[p.Name] && p.Name != "" {
			c.Addf(t.ElementPos("partitions", i), "two partitions are named %q", p.Name)
		}
		seen[p.Name] = true
	}
	if len(s.Partitions) > 0 && s.DefaultPartition != "" && s.partition(s.DefaultPartition) == nil {
		var names []string
		for _, p := range s.Partitions {
			if p.Name != "" {
				names = append(names, p.Name)
			}
		}
		c.Add(source.Errorf(t.PosOf("default_partition"), "default_partition %q is not among the partitions",
			s.DefaultPartition).
			Hintf("%s", source.Suggest(s.DefaultPartition, names)))
	}
	c.Add(checkLauncher(s.Launcher, t.PosOf("launcher")))
	if s.ContainerSecurity != "" && !slices.Contains(securities, s.ContainerSecurity) {
		c.Add(source.Errorf(t.PosOf("container_security"), "unknown container_security %q", s.ContainerSecurity).
			Hintf("%s", source.Suggest(s.ContainerSecurity, securities)))
	}
	c.Add(CheckNetwork(s.Network, t.PosOf("network")))
	if s.SocketInterface != "" && !interfaceName.MatchString(s.SocketInterface) {
		c.Add(source.Errorf(t.PosOf("socket_interface"), "socket_interface %q is not the name of one interface",
			s.SocketInterface).Hintf("write socket_interface = %q; lists and exclusions are NCCL's alone: set "+
			"NCCL_SOCKET_IFNAME in global_env_vars", AutoInterface))
	}
	for _, dir := range []struct{ key, path string }{{"install_path", s.InstallPath}, {"output_path", s.OutputPath},
		{"hf_home_path", s.HFHomePath}} {
		c.Add(checkPath(t.PosOf(dir.key), dir.key, dir.path, s.Scheduler == slurm))
	}
	if s.CompileCache != "" && !cachePath.MatchString(s.CompileCache) {
		c.Add(source.Errorf(t.PosOf("compile_cache"),
			"compile_cache %q must be an absolute path of letters, digits and . _ - below /", s.CompileCache).
			Hintf("write compile_cache = \"/tmp/profllm-cache\""))
	}
	for _, k := range idle {
		if t.Has(k.key) {
			s.Warnings = append(s.Warnings,
				fmt.Sprintf("%s: %s has no effect: only %s uses it", t.PosOf(k.key), k.key, k.user))
		}
	}
	return c.Err()
}

// checkPath refuses a path that no shell expands, and an output_path that no #SBATCH line takes (directive).
func checkPath(pos source.Pos, key, path string, directive bool) error {
	switch {
	case path == "~" || source.OfHome(path):
		return source.Errorf(pos, "%s is %q, but ~ is not expanded", key, path).Hintf("write the whole path")
	case strings.Contains(path, "$"):
		return source.Errorf(pos, "%s is %q, but variables are not expanded", key, path).Hintf("write the whole path")
	case key == "output_path" && directive && !directory.MatchString(path):
		return source.Errorf(pos, "%s is %q, which no #SBATCH line takes", key, path).
			Hintf("use letters, digits and _ . , : = + / @ %% - [ ] & | ( ) * ! only")
	}
	return nil
}

// directory is a path that may stand in an #SBATCH line, see pkg/render.
var directory = lazyregexp.New(`^[A-Za-z0-9_.,:=+/@%&|()*!\[\]-]*$`)

// cachePath is what goes into a script and a mount as it stands.
var cachePath = lazyregexp.New(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+/?$`)

// interfaceName is a name that Linux takes for an interface (IFNAMSIZ) and a word of a script.
var interfaceName = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}$`)

// AutoInterface is the interface by which a node reaches the other nodes of its job.
const AutoInterface = "auto"

// Values of network.
const (
	EFA       = "efa"
	NoNetwork = "none"
)

var networks = []string{EFA, NoNetwork}

// CheckNetwork refuses an unknown preset; "" leaves the choice to another place.
func CheckNetwork(name string, pos source.Pos) error {
	if name == "" || slices.Contains(networks, name) {
		return nil
	}
	return source.Errorf(pos, "unknown network %q", name).Hintf("%s", source.Suggest(name, networks))
}

// Values of container_security.
const (
	Unconfined = "unconfined"
	Privileged = "privileged"
)

var securities = []string{Unconfined, Privileged}

// RDMA reports whether containers get the node's devices of RDMA.
func (s *System) RDMA() bool { return s.ContainerRDMA == nil || *s.ContainerRDMA }

// Bare is the launcher without containers.
const Bare = "bare"

// Launchers are the values of every key and flag named launcher.
var Launchers = []string{"pyxis", "enroot", "apptainer", "docker", "podman", Bare}

// Programs are the launchers that are a program on the PATH of the machine on which they run. They are in the order
// in which a site without pyxis tries them. pyxis is a plugin of srun.
var Programs = []string{"enroot", "apptainer", "podman", "docker"}

// checkLauncher refuses an unknown name; "" leaves the choice to another place.
func checkLauncher(name string, pos source.Pos) error {
	if name == "" || slices.Contains(Launchers, name) {
		return nil
	}
	return source.Errorf(pos, "unknown launcher %q", name).Hintf("%s", source.Suggest(name, Launchers))
}

func (s *System) partition(name string) *Partition {
	for i := range s.Partitions {
		if s.Partitions[i].Name == name {
			return &s.Partitions[i]
		}
	}
	return nil
}

// GPUDirectives says whether jobs ask for GPUs with --gres.
func (s *System) GPUDirectives() bool {
	switch {
	case s.SupportsGPUDirectives != nil:
		return *s.SupportsGPUDirectives
	case s.SupportsGPUCache != nil:
		return *s.SupportsGPUCache
	}
	return s.GPUsPerNode > 0
}

// FromSlurm describes a cluster from what Slurm says: the output of
// `sinfo -h -o "%P|%G|%D|%N"` and of `scontrol show config`.
func FromSlurm(sinfo, scontrol string) (*System, error) {
	s := &System{Scheduler: "slurm", Name: "cluster", OutputPath: "results", InstallPath: "install"}
	gres := false
	for _, line := range strings.Split(scontrol, "\n") {
		key, value, _ := strings.Cut(line, "=")
		switch strings.TrimSpace(key) {
		case "ClusterName":
			s.Name = strings.TrimSpace(value)
		case "GresTypes":
			gres = strings.Contains(value, "gpu")
		}
	}
	for _, line := range strings.Split(sinfo, "\n") {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 4 {
			continue
		}
		name, isDefault := strings.CutSuffix(f[0], "*")
		if s.partition(name) == nil {
			s.Partitions = append(s.Partitions, Partition{Name: name})
		}
		p := s.partition(name)
		p.Groups = append(p.Groups, Group{Name: "nodes" + strconv.Itoa(len(p.Groups)+1), Nodes: []string{f[3]}})
		if isDefault || s.DefaultPartition == "" {
			s.DefaultPartition = name
			s.GPUsPerNode = CountGPUs(f[1])
		}
	}
	if s.DefaultPartition == "" {
		return nil, source.Errorf(source.Pos{File: "sinfo"}, "no partition in %q", strings.TrimSpace(sinfo))
	}
	s.SupportsGPUDirectives = &gres
	return s, nil
}

// CountGPUs reads the GPU count of a GRES text such as "gpu:a100:8(S:0-1),nic:2".
func CountGPUs(gres string) int {
	total := 0
	for _, item := range strings.Split(gres, ",") {
		item, _, _ = strings.Cut(item, "(")
		f := strings.Split(item, ":")
		if f[0] != "gpu" {
			continue
		}
		if n, err := strconv.Atoi(f[len(f)-1]); err == nil {
			total += n
		}
	}
	return total
}

// launcherLine sets the launcher, or shows the default.
func (s *System) launcherLine() string {
	set := "launcher = " + strconv.Quote(s.Launcher)
	switch s.Launcher {
	case "":
		return "# launcher = \"pyxis\"   # or " + strings.Join(Launchers[1:], ", ")
	case Bare:
		return set + "   # found neither pyxis nor a container program: the engine must be installed on the nodes"
	}
	return set + "   # Slurm has no pyxis; check that the nodes have " + s.Launcher
}

// TOML writes s as a system file with the keys a person would edit first.
func (s *System) TOML() string {
	var b strings.Builder
	q := strconv.Quote
	b.WriteString("# Written from Slurm's answers. Check paths, account and launcher.\n")
	b.WriteString("name = " + q(s.Name) + "\nscheduler = \"slurm\"\n\n")
	b.WriteString("output_path = " + q(s.OutputPath) + "   # result directories; must be visible on every node\n")
	b.WriteString("install_path = " + q(s.InstallPath) + "   # images, repositories, models\n\n")
	b.WriteString("default_partition = " + q(s.DefaultPartition) + "\n")
	b.WriteString("gpus_per_node = " + strconv.Itoa(s.GPUsPerNode) + "\n")
	b.WriteString("supports_gpu_directives = " + strconv.FormatBool(s.GPUDirectives()) +
		"   # Slurm knows the GRES \"gpu\"\n")
	b.WriteString("# account = \"...\"\n" + s.launcherLine() + "\n")
	for _, p := range s.Partitions {
		b.WriteString("\n[[partitions]]\nname = " + q(p.Name) + "\n")
		for _, g := range p.Groups {
			b.WriteString("\n  [[partitions.groups]]\n  name = " + q(g.Name) + "\n  nodes = [" + q(strings.Join(g.Nodes,
				",")) + "]\n")
		}
	}
	return b.String()
}
