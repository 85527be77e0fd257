package plan

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// Staged is the file that an image was imported to.
type Staged struct {
	Path   string // absolute
	Digest string // of the file, "sha256:…"; "" when it is not known
	Source string // the reference it was imported from, with the registry's digest if known
}

// Input is everything a plan is made from. The same Input gives the same bytes.
type Input struct {
	System    *config.System
	Scenario  string
	Test      scenario.Test
	Limit     time.Duration // of the job, 0: none
	Iteration int

	Inventory Inventory       // states of the site's nodes; nil: nobody asked Slurm
	Taken     map[string]bool // hosts that earlier runs of the scenario have; a node group uses them last

	Staged       Staged // replaces the workload's image, if it has a path
	Workload     Workload
	Loads        []LoadInput // one or more
	APICheck     []string    // names of the checks of the API before the first load
	PreTest      []Hook
	PostTest     []Hook
	After        []After
	Launcher     Launcher
	LauncherName string
	NoImage      bool // the launcher is bare because the test has no image

	Step      int
	RunID     string
	Version   string
	Created   time.Time
	Dir       string // absolute
	Binary    string // absolute
	WorkDir   string // what relative paths of the site file are relative to
	Simulated bool
}

// LoadInput is a Load before its commands are made.
type LoadInput struct {
	Name      string
	RunID     string
	Dir       string // absolute
	Cache     string
	Keeps     bool   // without Cache: a warm prefix cache was asked for
	Prompts   string // the same for loads that send the same prompts
	Pos       source.Pos
	Step      int
	Values    []Assignment
	Repeat    *Repeat
	Clients   []Client
	Client    string
	Benchmark map[string]any
	Expect    Expect
	Beside    bool // its client reads the folders beside the run's

	StopOnFailure bool
}

// begin is a plan of which only that is known which the definitions say outright.
func begin(in Input) *Plan {
	return &Plan{
		Schema: Schema, RunID: in.RunID, Version: in.Version, Created: in.Created.UTC(),
		Scenario: in.Scenario, Test: in.Test.ID, Name: in.Test.Name, Iteration: in.Iteration, Step: in.Step,
		Workload: in.Test.Template, Dir: in.Dir, Binary: in.Binary, Simulated: in.Simulated,
		Launcher: in.LauncherName, Prologue: in.System.Prologue, PreTest: in.PreTest, PostTest: in.PostTest,
		Preflight: in.Test.Preflight.Over(in.System.Preflight), Signatures: Signatures(in.System),
		Accept: in.Test.Accept,
	}
}

// Make plans one run. Every complaint is returned, with positions.
func Make(in Input) (*Plan, error) {
	p := begin(in)
	if k := in.System.Kube(); k != nil {
		return p.onKubernetes(in, k)
	}
	var c source.Complaints

	c.Add(p.allocate(in))
	visible, secrets, err := p.environment(in)
	c.Add(err)
	var service Service
	if c.Add(p.roomForServers(in)); c.Err() == nil {
		service, err = in.Workload.Serve(Cluster{
			Nodes: p.Job.Nodes - in.Test.ClientNodes, GPUsPerNode: in.System.GPUsPerNode, TasksPerNode: in.System.NTasksPerNode,
			MPI:         in.System.MPI,
			VisibleGPUs: visible, Shared: in.System.Standalone(), Dir: in.Dir, RunID: in.RunID,
			Simulated: in.Simulated,
		})
		c.Add(err)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if err := p.clientNodes(in, &service); err != nil {
		return nil, err
	}
	p.take(in, service, visible)
	if every := in.Test.Telemetry.Interval(); every > 0 && (p.GPUs() > 0 || p.Job.GPUsPerNode > 0) {
		p.Telemetry = &Telemetry{Seconds(every)}
	}
	for _, l := range in.Loads {
		load, err := p.load(l, service)
		c.Add(err)
		p.Loads = append(p.Loads, load)
	}
	c.Add(p.beside(in))
	c.Add(sentAgain(in, service))
	c.Add(p.resets(in, service))
	c.Add(p.checkAPI(in, service))
	c.Add(p.trace(in, service))
	c.Add(p.profile(in, service))
	c.Add(p.fillMarks(in))
	c.Add(p.customBash(in.Test.CustomBash))
	c.Add(p.give(secrets))
	p.noteSecretsInCommands(in.Test.Pos)
	c.Add(p.check(in))
	if c.Err() == nil {
		c.Add(p.launch(in))
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return p, nil
}

// clientNodes gives the client nodes of its own, on which no server runs.
func (p *Plan) clientNodes(in Input, service *Service) error {
	n := in.Test.ClientNodes
	if n <= 0 {
		return nil
	}
	service.ClientNodes = Slice{Offset: p.Job.Nodes - n, Count: n}
	host := service.ClientHost
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		return source.Errorf(in.Test.PosOf("client_nodes"),
			"no server runs on the nodes of the client, but bench_host is %s", host).
			Hintf("remove bench_host: the client then uses the address of the server's node")
	}
	return nil
}

// take takes over what the workload serves, and what its roles need of the job.
func (p *Plan) take(in Input, service Service, visible []int) {
	p.Image, p.Roles, p.Ports = service.Image, service.Roles, service.Ports
	p.SimulatedEngine, p.Setup, p.Files = service.SimulatedEngine, service.Setup, service.Files
	p.Mounts = service.Mounts // mount adds the others
	if in.System.Standalone() {
		p.takeGPUs(visible)
		if len(p.Roles) == 0 && service.GPUs > 0 {
			p.Job.GPUsPerNode = min(p.Job.GPUsPerNode, service.GPUs)
		}
	}
	p.Config = Config{Model: service.Model, Engine: service.EngineVersion, Release: service.Release,
		OwnOptions: service.OwnOptions, Server: service.Config}
	p.Notes = append(p.Notes, service.Notes...)
	for i := range service.Steps { // Slurm gives a job that asks for no tasks one processor on each node
		if n := service.Steps[i].TasksPerNode; n > 1 {
			p.Job.NTasksPerNode = max(p.Job.NTasksPerNode, n)
		}
	}
}

// roomForServers checks that the nodes of the job suffice for the clients that are to be alone.
func (p *Plan) roomForServers(in Input) error {
	n, pos := in.Test.ClientNodes, in.Test.PosOf("client_nodes")
	switch {
	case n < 0:
		return source.Errorf(pos, "client_nodes is %d, must be 0 or more", n)
	case n > 0 && p.Job.Nodes > 0 && n >= p.Job.Nodes:
		return source.Errorf(pos, "client_nodes is %d, but the test has %s: none is left for the servers", n,
			quantity.Count(p.Job.Nodes, "node")).
			Hintf("set num_nodes to the nodes of the servers and of the client together")
	}
	return nil
}

// load makes the commands of one load.
func (p *Plan) load(in LoadInput, service Service) (Load, error) {
	var c source.Complaints
	l := Load{
		Name: in.Name, RunID: in.RunID, Dir: in.Dir, Cache: in.Cache, Step: in.Step, Values: in.Values,
		Repeat: in.Repeat,
		Expect: in.Expect, Client: in.Client, Benchmark: in.Benchmark,
		StopOnFailure: in.StopOnFailure,
	}
	l.Expect.Disaggregated, l.Expect.GPUs = service.Disaggregated, p.GPUs()+service.GPUs*p.Job.Nodes
	if service.Client != "" {
		l.Client, l.Benchmark = service.Client, service.Benchmark
	}
	if in.Keeps {
		l.Expect.SharedInput = nil // how much of a prompt the cache holds is what is asked
	}
	for _, step := range service.Steps {
		step.Ends = true
		if r := step.Result; r != nil {
			step.Argv = append(slices.Clone(step.Argv), Texts(r.Option, path.Join(l.Dir, "raw", r.Name))...)
			step.Log = p.below(l.Dir, step.Log)
		}
		l.Clients = append(l.Clients, step)
	}
	host := service.host()
	for _, client := range in.Clients {
		step, err := client.Command(Target{
			Host: host, Port: Word{PortNumber(service.Endpoint.Port)}, Model: service.Model, Served: service.Served,
			Nodes: Slice{Offset: service.ClientNodes.Offset, Count: 1}, All: service.ClientNodes,
			Dir: path.Join(p.seen(l.Dir), "raw"), Disaggregated: service.Disaggregated,
			GPUs: l.Expect.GPUs, Simulated: p.Simulated, MetricsURLs: p.metricsURLs(service),
		})
		c.Add(err)
		step.Log = p.below(l.Dir, step.Log)
		l.Clients = append(l.Clients, step)
	}
	return l, c.Err()
}

// metricsURLs are the pages of the servers' counters: where clients send requests, then each
// engine, none twice.
func (p *Plan) metricsURLs(service Service) []Word {
	if service.MetricsURLs != nil {
		return service.MetricsURLs
	}
	page := func(host, port Word) Word { return Concat("http://", host, ":", port, "/metrics") }
	urls := []Word{page(service.host(), Word{PortNumber(service.Endpoint.Port)})}
	for _, r := range p.Roles {
		url := page(Word{Addr(r.Name)}, Word{PortNumber(r.Health.Port)})
		same := slices.ContainsFunc(urls, func(w Word) bool { return slices.Equal(w, url) })
		if r.Engine && r.Health.Port != "" && !same {
			urls = append(urls, url)
		}
	}
	return urls
}

// below is a file of a load as its steps name it, below the directory of the run.
func (p *Plan) below(dir, file string) string {
	if rel, err := filepath.Rel(p.Dir, dir); err == nil {
		return path.Join(rel, file)
	}
	return file
}

// resets prepares the engines for loads that begin with an empty prefix cache.
func (p *Plan) resets(in Input, service Service) error {
	asked := false
	for _, l := range p.Loads {
		asked = asked || l.Cache == CacheReset
	}
	if !asked {
		return nil
	}
	if service.Cache.Path == "" {
		return source.Errorf(in.Test.Pos, "the prefix cache of a %s cannot be reset between loads", p.Workload).
			Hintf("write cache = \"keep\", or share_server = false in [Tests.sweep]")
	}
	p.CachePath, p.CacheMore = service.Cache.Path, service.Cache.More
	for i := range p.Roles {
		if r := &p.Roles[i]; r.Engine {
			r.Step.Env = append(r.Step.Env, service.Cache.Env...)
		}
	}
	return nil
}

// allocate fills Job: what the scheduler is asked for.
func (p *Plan) allocate(in Input) error {
	var c source.Complaints
	t, sys := &in.Test, in.System
	nodes, err := t.Nodes()
	c.Add(err)
	chosen, err := ResolveNodes(tableOf(t), t.NodeLists, t.ExcludeNodes, sys, in.Inventory, in.Taken)
	c.Add(err)
	if len(t.NodeLists) > 0 {
		nodes = len(chosen.Hosts)
	}
	p.Job = Job{
		Name: jobName(t.Name) + "." + p.RunID, Comment: "profllm:" + p.RunID, Nodes: nodes, NodeList: chosen.Hosts,
		Partition: cmp.Or(t.Slurm.Partition, sys.DefaultPartition), Account: cmp.Or(t.Slurm.Account, sys.Account),
		QOS: cmp.Or(t.Slurm.QOS, sys.QOS), Reservation: cmp.Or(t.Slurm.Reservation, sys.Reservation),
		Constraint: cmp.Or(t.Slurm.Constraint, sys.Constraint), Distribution: sys.Distribution,
		Exclusive: t.Slurm.Exclusive, NTasksPerNode: sys.NTasksPerNode,
		TimeLimit: Seconds(in.Limit), Grace: Seconds(grace(in.Limit)),
		SbatchArgs: append(append([]string(nil), sys.ExtraSbatchArgs...), t.Slurm.SbatchArgs...),
		SrunArgs: append(append(append([]string(nil), sys.ExtraSrunArgs...), t.ExtraSrunArgs...),
			t.Slurm.SrunArgs...),
		After:  in.After,
		Export: union(slices.Clone([]string(sys.Export)), t.Slurm.Export),
	}
	if len(chosen.Hosts) == 0 {
		p.Job.Exclude = excludeLists(t.ExcludeNodes)
	}
	if sys.GPUDirectives() {
		p.Job.GPUsPerNode = sys.GPUsPerNode
	}
	p.GPUHourUSD = sys.GPUHourUSD
	p.Notes = append(append(p.Notes, sys.Warnings...), chosen.Notes...)
	return c.Err()
}

// takeGPUs asks for what roles use and no more, on a machine that several jobs share: for so
// many GPUs, or for those that the test names.
func (p *Plan) takeGPUs(visible []int) {
	if len(p.Roles) == 0 || p.Job.GPUsPerNode == 0 {
		return
	}
	named := visible != nil
	used := map[int]bool{}
	for _, r := range p.Roles {
		named = named || r.IDs.Key != ""
		for _, id := range r.GPUs {
			used[id] = true
		}
	}
	p.Job.GPUsPerNode = len(used)
	if named {
		p.Job.GPUIDs = slices.Sorted(maps.Keys(used))
	}
}

// tableOf is the table of a test, for positions.
func tableOf(t *scenario.Test) *source.Table {
	if t.Table == nil {
		return source.NewTable(t.Pos)
	}
	return t.Table
}

// jobName replaces by a dash what a job's name should not hold. The job is found
// again by its name, and squeue and sacct split their --name at commas.
func jobName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("._=+@-", r) || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, name)
}

// grace is how long before the limit a job is told to end: 30 s for its own
// teardown, and 60 s because Slurm may send the signal that much too early
// (sbatch(1), --signal). Under a short limit that would cost the run itself, so
// there Slurm's own TERM at the limit has to do.
func grace(limit time.Duration) time.Duration {
	if limit < 10*time.Minute {
		return 0
	}
	return 90 * time.Second
}

// environment merges the site's and the test's variables: the site's places
// stay, the test's values win. CUDA_VISIBLE_DEVICES is taken out, because Slurm
// replaces it in every step; the steps set their own. So are secrets, which are
// the steps' own and never the job's.
func (p *Plan) environment(in Input) (visible []int, secrets []asked, err error) {
	var c source.Complaints
	merged := source.NewTable(source.Pos{})
	c.Add(in.network(merged))
	for _, name := range in.System.GlobalEnvVars.Keys() {
		merged.Set(name, siteValue(in.System.GlobalEnvVars.Get(name)))
	}
	for _, name := range in.Test.Env.Keys() {
		merged.Set(name, in.Test.Env.Get(name)) // whole: { file = … } over { env = … } leaves no env
	}
	for _, name := range merged.Keys() {
		v := merged.Get(name)
		if !validName(name) {
			c.Add(source.Errorf(v.Pos, "%q cannot name an environment variable", name).
				Hintf("use letters, digits and _, not starting with a digit"))
			continue
		}
		word, ref, err := envWord(name, v)
		c.Add(err)
		if err != nil {
			continue
		}
		s, literal := word.Literal()
		literal = literal && word != nil
		switch {
		case name == "CUDA_VISIBLE_DEVICES":
			if !literal {
				c.Add(source.Errorf(v.Pos, "CUDA_VISIBLE_DEVICES must be known before the job runs").
					Hintf("write the ids, such as \"0-3\""))
			} else if strings.TrimSpace(s) != "" {
				if visible, err = ParseGPUs(s); err != nil {
					c.Add(source.Errorf(v.Pos, "CUDA_VISIBLE_DEVICES: %v", err).Hintf("write the ids, such as \"0-3\""))
				}
			}
			continue
		case word == nil:
			secrets = append(secrets,
				asked{Secret{Name: name, Env: ref.Env, File: absolute(ref.File, in.WorkDir)}, ref.For, v.Pos})
			continue
		case literal && shellText.MatchString(mark.ReplaceAllString(s, "")):
			p.Notes = append(p.Notes,
				fmt.Sprintf("%s: %s is passed unchanged; in CloudAI, the shell would expand it (to expand it, write { shell = %q })", v.Pos, name, s))
		case literal && (redact.Setting(name, s) != s):
			p.Notes = append(p.Notes,
				fmt.Sprintf("%s: the value of %s looks like a secret, but the plan, the script and the kept definitions contain it; write { env = %q } or { file = … }", v.Pos, name, name))
		case namesSecret(ref.Shell):
			p.Notes = append(p.Notes,
				fmt.Sprintf("%s: shell text puts the value into the environment of the whole job; for a secret, write { env = … } or { file = … }", v.Pos))
		}
		p.Env = append(p.Env, Var{Name: name, Value: word})
	}
	return visible, secrets, c.Err()
}

// siteValue is a number or a boolean of a site file as CloudAI exports it, the latter
// as Python spells it. A test's variables are strings for CloudAI too.
func siteValue(v *source.Value) *source.Value {
	switch x := v.Any.(type) {
	case int64, float64:
		s, _ := v.Word()
		return &source.Value{Pos: v.Pos, Any: s}
	case bool:
		if x {
			return &source.Value{Pos: v.Pos, Any: "True"}
		}
		return &source.Value{Pos: v.Pos, Any: "False"}
	case *source.Table:
		if x.Has("default") {
			return siteValue(x.Get("default"))
		}
	}
	return v
}

// shellText finds what a shell would expand inside double quotes.
var shellText = lazyregexp.New("[`]|\\$[A-Za-z_({]")

// envWord reads a value: a string, { shell = … }, or a secret, for which the word
// is nil.
func envWord(name string, v *source.Value) (Word, reference, error) {
	switch x := v.Any.(type) {
	case string:
		return Text(x), reference{}, nil
	case *source.Table:
		if x.Has("default") {
			return envWord(name, x.Get("default"))
		}
		ref, err := readReference(name, v, x)
		if err != nil || ref.Shell == "" {
			return nil, ref, err
		}
		return Word{{Shell: ref.Shell}}, ref, nil
	case []*source.Value:
		return nil, reference{}, source.Errorf(v.Pos, "%s is a list, but one value is needed", name)
	}
	return nil, reference{}, source.Errorf(v.Pos, "%s must be a string, not %s", name, v.Describe()).
		Hintf("write %s = \"%v\"", name, v.Plain())
}

func validName(s string) bool {
	for i, r := range s {
		if r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}
