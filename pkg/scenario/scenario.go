// Package scenario is what the user asks for: the tests of a scenario file,
// each merged with the test file it refers to.
//
// It decides nothing about nodes or commands: packages planner, plan and workload/… do.
// It reads only the bytes it is given.
//
//	s, err := scenario.Load(file, testFiles, hookFiles) // every complaint at once
package scenario

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/source"
)

// File is a definition file: its name, for positions, and its bytes.
type File struct {
	Name string
	Data []byte

	// Table is what stands in the data, of a scenario that was written in another form; nil: it is read.
	Table *source.Table

	// Below is the folder of a test file relative to the tests folder, "" for the tests
	// folder itself. CloudAI reads only the latter; a file below it is a test that a
	// scenario may name, and disturbs no other scenario.
	Below string
}

// Scenario is one scenario file with its tests merged and checked.
type Scenario struct {
	Name     string
	File     string
	Tests    []Test
	PreTest  []Test // hooks before each test: all must succeed
	PostTest []Test // hooks after each test
	GoOn     bool   // job_status_check = false: what follows a failed run is run nevertheless
	Reports  *source.Table
	Warnings []string // keys without effect, and values that Slurm would read otherwise, with positions
}

// All lists every test, hooks included.
func (s *Scenario) All() []Test { return slices.Concat(s.PreTest, s.Tests, s.PostTest) }

// NodeGroups reports whether a test asks for nodes of a group, which only Slurm
// can choose well.
func (s *Scenario) NodeGroups() bool {
	for _, t := range s.Tests {
		for _, item := range t.NodeLists {
			if strings.Contains(item, ":") {
				return true
			}
		}
	}
	return false
}

// Limit is the time limit of the job of a test, its hooks included; 0: none.
func (s *Scenario) Limit(t Test) time.Duration {
	sum := t.Duration()
	if sum == 0 {
		return 0
	}
	for _, hooks := range [][]Test{s.PreTest, s.PostTest} {
		for _, h := range hooks {
			sum += h.Duration()
		}
	}
	return sum
}

// Test is one [[Tests]] entry: what the scenario says over what its test file says.
type Test struct {
	entry
	definition
	Pos   source.Pos    // of the [[Tests]] header
	Table *source.Table // the merged keys, from which sweeps make variants
}

// entry holds the keys that only a scenario has.
type entry struct {
	ID       string `toml:"id,required"` // Unique in the scenario; the name of its result directory.
	TestName string `toml:"test_name"`   // The test file to build on, by its name.
	// Nodes of the job; default 1. A list is a dimension of a sweep.
	NumNodes *source.Value `toml:"num_nodes"`
	// Host lists, or PARTITION:GROUP:COUNT (a number or max_avail); replaces num_nodes.
	NodeLists    []string `toml:"nodes"`
	ExcludeNodes []string `toml:"exclude_nodes"` // Host lists never to use.
	Iterations   int      `toml:"iterations"`    // Repetitions, each a job of its own; default 1.
	// Times each load is measured on one server start, or a table that sets when to stop
	// (profllm); default 1.
	Repeat Repeat `toml:"repeat"`
	// Limit of the job, in a sweep for each of its points: "30m", "HH:MM:SS", "D-HH:MM:SS".
	TimeLimit     Limit        `toml:"time_limit"`
	Weight        int          `toml:"weight"`          // CloudAI's weight; read, without effect.
	Sol           *float64     `toml:"sol"`             // CloudAI's reference value; read, without effect.
	IdealPerf     *float64     `toml:"ideal_perf"`      // For CloudAI's graders; read, without effect.
	Dependencies  []Dependency `toml:"dependencies"`    // Order between tests.
	ExtraSrunArgs config.Words `toml:"extra_srun_args"` // Options of every srun of this test.
	Slurm         Slurm        `toml:"slurm"`           // Per-test Slurm options (profllm).
	Launcher      string       `toml:"launcher"`        // As in the system file (profllm); default: the site's.
	// Preset of variables for a network, as in the system file, or "none" (profllm); default: the
	// site's.
	Network string `toml:"network"`
	// "vllm", "sglang", "profllm", "aiperf" or "genai-perf" (profllm): who measures; default the
	// engine's own.
	Client string `toml:"client"`
	// Command that starts AIPerf or GenAI-Perf, such as /opt/aiperf/bin/aiperf (profllm); default
	// aiperf or genai-perf.
	ClientProgram config.Words `toml:"client_program"`
	// Last nodes of the job, on which only the load client runs; more than one need client =
	// "profllm" (profllm). Default 0: the client runs on the first node, beside a server.
	ClientNodes int     `toml:"client_nodes"`
	Phases      []Phase `toml:"phases"` // Several loads on one server start, in order (profllm).
	Sweep       Sweep   `toml:"sweep"`  // How the points of a sweep are run (profllm).
	// Shell text that runs behind the clients of each load, where they run (profllm); a failure makes
	// the load fail.
	AfterLoad string `toml:"after_load"`
	// Shell text that runs before the client of each load, in its container, such as what installs the
	// client (profllm); a failure makes the load fail.
	BeforeLoad string `toml:"before_load"`
	// true: the first load that fails is the last of the job (profllm); default: the others run.
	StopOnFailure bool `toml:"stop_on_failure"`

	// Search for the highest load within limits, on one server start (profllm).
	Search *Search `toml:"search"`
	// Limits of the node checks before servers start, over the site's (profllm).
	Preflight *config.Preflight `toml:"preflight"`
	Telemetry Telemetry         `toml:"telemetry"` // How the nodes and their GPUs are sampled (profllm).
	// Checks of the API once the servers are ready, as `profllm check` makes them; a failure ends
	// the job: true, or a list of their names or numbers (profllm); default: none.
	APICheck APICheck `toml:"api_check"`
	// Thresholds of the checks that judge the results (profllm); [all of them](thresholds.md).
	Accept Accept `toml:"accept"`
}

// Phase is [[Tests.phases]]: one load on the server of the test, with a result
// and a verdict of its own.
type Phase struct {
	// Unique in the test; the name of its result directory. Required without suite; with it, the
	// beginning of the names of its loads.
	Name string `toml:"name"`
	// A suite of loads in place of one: its name, or those of several suites, groups and runs,
	// separated by commas; `profllm bench suite --list` lists them.
	Suite string `toml:"suite"`
	// true: a suite keeps the prompt counts of the scripts it is taken from; default: at least five
	// times max_concurrency.
	Parity    bool          `toml:"parity"`
	BenchArgs *source.Table `toml:"bench_cmd_args"` // The benchmark's arguments, over the test's and the suite's.
	// "keep" or "reset": the prefix cache before this load; required if an earlier phase sends
	// the same prompts, else default keep. The loads of a suite: default reset.
	Cache string `toml:"cache"`
	// Run the semantic evaluation in this phase; default: in the last one.
	Eval       *bool   `toml:"eval"`
	BeforeLoad *string `toml:"before_load"` // In place of the test's.
	AfterLoad  *string `toml:"after_load"`  // In place of the test's.
	// In place of the test's.
	ClientProgram config.Words `toml:"client_program"`
	// In place of the test's: whether this load is the last if it fails.
	StopOnFailure *bool `toml:"stop_on_failure"`

	Pos  source.Pos `toml:"-"`
	keys *source.Table
}

// Sweep is [Tests.sweep]: how the points of a sweep are run.
type Sweep struct {
	// "array" (a job array), "jobs" (a job each) or "single" (one allocation); default array.
	Mode        string `toml:"mode"`
	MaxParallel int    `toml:"max_parallel"` // Tasks of the array that run at once; default: no limit.
	// Points that differ only in the client's arguments share one server start; default true.
	ShareServer *bool `toml:"share_server"`
	// "reset" or "keep": the prefix cache between points on one server; default reset.
	Cache string `toml:"cache"`

	// Lists of keys whose values go together, the first with the first: [["max_concurrency",
	// "num_prompts"]]; default: every combination.
	Zip *source.Value `toml:"zip"`
}

// definition holds the keys that a test file has and a scenario may override.
type definition struct {
	Name        string `toml:"name"`        // Unique name of the test file.
	Description string `toml:"description"` // Shown in reports.
	// The workload: vllm, sglang, or one that serves nothing, such as NcclTest.
	Template  string        `toml:"test_template_name"`
	CmdArgs   *source.Table `toml:"cmd_args"`               // The workload's arguments.
	BenchArgs *source.Table `toml:"bench_cmd_args"`         // The benchmark's arguments.
	EvalArgs  *source.Table `toml:"semantic_eval_cmd_args"` // If present, run the semantic evaluation.
	Env       *source.Table `toml:"extra_env_vars"`         // Environment of the job, over global_env_vars.
	// Texts that the job writes into its run directory, by file name; ${path:NAME} is the path,
	// the same on every node and in every container (profllm).
	Files *source.Table `toml:"files"`
	// Processes beside the servers, such as a cache server, by name (profllm).
	Helpers   *source.Table `toml:"helpers"`
	Mounts    []string      `toml:"extra_container_mounts"` // SRC:DST mounts of the containers.
	GitRepos  []GitRepo     `toml:"git_repos"`              // Repositories mounted into the containers.
	ProxyRepo *GitRepo      `toml:"proxy_script_repo"`      // The repository that holds the proxy script.
	// Options of every server, over the role's own table; CloudAI's vLLM workload ignores them.
	ExtraCmdArgs *source.Table `toml:"extra_cmd_args"`
	// Shell text before every command: one text, or a table from regular expression to text,
	// whose first match counts.
	CustomBash *source.Value `toml:"custom_bash"`
	Nsys       *source.Table `toml:"nsys"`      // Nsight Systems around every server.
	Viz        *source.Table `toml:"viztracer"` // VizTracer around every server (profllm).
	// PyTorch's profiler inside of every vLLM server, started before and stopped after each load
	// (profllm).
	Torch *source.Table `toml:"torch_profiler"`

	Constraints *source.Table `toml:"constraints"` // What the sizes of AIDynamo's workers must keep to.

	// CloudAI's AIDynamo only; read, without effect: profllm plans the service itself, and judges runs
	// by their results.
	Script        *source.Value `toml:"script"`
	Repo          *source.Value `toml:"repo"`           // As script.
	SuccessMarker *source.Value `toml:"success_marker"` // As script.
	FailureMarker *source.Value `toml:"failure_marker"` // As script.

	// Paths below cmd_args whose lists are values, not dimensions of a sweep.
	DSEExcluded *source.Value `toml:"dse_excluded_args"`
	// Who chooses the points: grid_search, random or tpe; default grid_search.
	Agent      string `toml:"agent"`
	AgentSteps int    `toml:"agent_steps"` // Points that random and tpe may try.
	// Metrics of the observation, in order; default: the throughput.
	AgentMetrics []string `toml:"agent_metrics"`
	// Turns the observation into a reward; default: the metric decides whether more or less is
	// better.
	AgentReward string `toml:"agent_reward_function"`
	// Settings of the agent: random_seed, start_action, rewards.
	AgentConfig *source.Table `toml:"agent_config"`
	// Arguments drawn at random for each point, with weights.
	EnvParams      *source.Table `toml:"env_params"`
	Predictor      *source.Table `toml:"predictor"`       // For CloudAI; read, without effect.
	TrainingReport *source.Table `toml:"training_report"` // For CloudAI; read, without effect.
}

// Slurm is [Tests.slurm]: what CloudAI can only say for the whole site.
type Slurm struct {
	Partition   string       `toml:"partition"`   // --partition.
	Account     string       `toml:"account"`     // --account.
	QOS         string       `toml:"qos"`         // --qos.
	Reservation string       `toml:"reservation"` // --reservation.
	Constraint  string       `toml:"constraint"`  // --constraint.
	Exclusive   bool         `toml:"exclusive"`   // --exclusive.
	SbatchArgs  []string     `toml:"sbatch_args"` // One #SBATCH line each.
	SrunArgs    config.Words `toml:"srun_args"`   // Options of every srun.

	// Variables of the submitting shell that the job gets besides the usual ones: a list of
	// names, or "ALL".
	Export config.Export `toml:"export"`
}

// Dependency orders two tests.
type Dependency struct {
	Type string `toml:"type,required"` // start_post_comp, start_post_init or end_post_comp.
	ID   string `toml:"id,required"`   // The other test.
}

// GitRepo is a repository at a commit.
type GitRepo struct {
	URL            string `toml:"url,required"`    // Where it is cloned from.
	Commit         string `toml:"commit,required"` // Hash, tag or branch.
	InitSubmodules bool   `toml:"init_submodules"` // Clone submodules as well.
	MountAs        string `toml:"mount_as"`        // Path in the container; default /git/<directory>.
	InstalledPath  string `toml:"installed_path"`  // CloudAI's internal field; read, without effect.
}

var pathElement = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.+=@-]*$`)

// head holds the keys of a scenario itself.
type head struct {
	Name    string        `toml:"name,required"`    // Names the result directory and the reports.
	Check   *bool         `toml:"job_status_check"` // false: run what follows a failed run; default true.
	Tests   *source.Value `toml:"Tests,required"`   // One or more tables, written [[Tests]].
	Pre     string        `toml:"pre_test"`         // Hook scenario run before each test, inside its job.
	Post    string        `toml:"post_test"`        // Hook scenario run after each test.
	Reports *source.Table `toml:"reports"`          // Per-report settings, over the site's.
	Sol     string        `toml:"sol_path"`         // For CloudAI; read, without effect.
}

// testFiles are the test files that a scenario may refer to, by the name they give
// themselves.
type testFiles struct {
	own    map[string]*source.Table   // of the tests folder itself: these come first
	below  map[string][]*source.Table // of its subfolders
	unread source.Complaints          // files in subfolders that are no TOML
}

// definitions parses test files. As in CloudAI every file of the tests folder must be
// sound, and no two may have the same name.
func definitions(tests []File, c *source.Complaints) *testFiles {
	defs := &testFiles{own: map[string]*source.Table{}, below: map[string][]*source.Table{}}
	for _, f := range tests {
		t, err := source.Parse(f.Name, f.Data)
		if f.Below != "" {
			defs.unread.Add(err)
			if err == nil && kind(t) == "test" {
				name, _ := t.Get("name").Text()
				defs.below[name] = append(defs.below[name], t)
			}
			continue
		}
		c.Add(err)
		if err != nil {
			continue
		}
		name, _ := t.Get("name").Text()
		if first := defs.own[name]; first != nil {
			c.Addf(t.PosOf("name"), "test name %q is taken (%s)", name, first.PosOf("name"))
			continue
		}
		defs.own[name] = t
	}
	return defs
}

// find returns the test file of that name, nil after a complaint.
func (d *testFiles) find(v *source.Value, c *source.Complaints) *source.Table {
	name, _ := v.Any.(string)
	if t := d.own[name]; t != nil {
		return t
	}
	switch list := d.below[name]; len(list) {
	case 0:
		c.Add(source.Errorf(v.Pos, "no test file has the name %q", name).Hintf("%s", d.near(name)))
		c.Add(d.unread.Err())
		return nil
	case 1:
		return list[0]
	default:
		places, templates := make([]string, len(list)), make([]string, len(list))
		for i, t := range list {
			places[i] = t.PosOf("name").String()
			templates[i], _ = t.Get("test_template_name").Text()
		}
		at := source.Errorf(v.Pos, "%d test files are named %q: %s", len(list), name, strings.Join(places, ", ")).
			Hintf("choose one by its folder, such as --tests-dir %s", path.Dir(filepath.ToSlash(list[0].Pos.File)))
		c.Add(&AmbiguousError{At: at, Templates: templates})
		return nil
	}
}

// An AmbiguousError says that several test files have the name that a scenario refers to.
type AmbiguousError struct {
	At        *source.Error
	Templates []string // of the test files: their workloads
}

func (e *AmbiguousError) Error() string { return e.At.Error() }

// Unwrap leads to the position and the hint.
func (e *AmbiguousError) Unwrap() error { return e.At }

// near says which test file may have been meant, and where test files were looked for.
func (d *testFiles) near(name string) string {
	var names []string
	dir := ""
	for own, list := range d.all() {
		for _, t := range list {
			if strings.TrimSuffix(filepath.Base(t.Pos.File), ".toml") == strings.TrimSuffix(name, ".toml") &&
				own != "" {
				return fmt.Sprintf("the file %s has name = %q; write test_name = %q", t.Pos.File, own, own)
			}
			if at := filepath.Dir(t.Pos.File); dir == "" || len(at) < len(dir) || len(at) == len(dir) && at < dir {
				dir = at
			}
		}
		names = append(names, own)
	}
	if len(names) == 0 {
		return "no test files were found: put them into the folder tests beside the scenario, or name their folder with --tests-dir"
	}
	return source.Suggest(name, names) + "; test files are read from " + dir + " (--tests-dir names another folder)"
}

// all are the test files of the folder and of its subfolders by name.
func (d *testFiles) all() map[string][]*source.Table {
	all := maps.Clone(d.below)
	for name, t := range d.own {
		all[name] = append([]*source.Table{t}, all[name]...)
	}
	return all
}

// Load reads a scenario, the test files it may refer to, and its hooks.
func Load(file File, tests []File, hooks HookFiles) (*Scenario, error) {
	var c source.Complaints
	top, err := file.Table, error(nil)
	if top == nil {
		top, err = source.Parse(file.Name, file.Data)
	}
	c.Add(err)
	defs := definitions(tests, &c)
	if top == nil {
		return nil, c.Err()
	}
	if err := Mistaken(top, "scenario"); err != nil {
		return nil, err
	}
	s := &Scenario{File: file.Name}
	var head head
	c.Add(source.Decode(top, &head))
	s.Name, s.Reports = head.Name, head.Reports
	_, err = config.ParseReports(head.Reports)
	c.Add(err)
	if head.Name != "" && !pathElement.MatchString(head.Name) {
		c.Add(source.Errorf(top.PosOf("name"), "scenario name %q cannot name a directory", head.Name).
			Hintf("use letters, digits and _ . - + = @"))
	}
	s.PreTest = hooks.load(top.Get("pre_test"), head.Pre, &c)
	s.PostTest = hooks.load(top.Get("post_test"), head.Post, &c)
	s.GoOn = head.Check != nil && !*head.Check
	s.load(head.Tests, defs, &c)
	return s, c.Err()
}

func (s *Scenario) load(list *source.Value, defs *testFiles, c *source.Complaints) {
	if list == nil {
		return
	}
	entries, ok := list.Any.([]*source.Value)
	if !ok || len(entries) == 0 {
		c.Addf(list.Pos, "Tests must be a list of tables, written [[Tests]]")
		return
	}
	seen := map[string]source.Pos{}
	for _, e := range entries {
		t, ok := e.Any.(*source.Table)
		if !ok {
			c.Addf(e.Pos, "Tests must be a list of tables, written [[Tests]]")
			continue
		}
		test := loadTest(t, e.Pos, defs, c)
		if note := limitNote(t.Get("time_limit")); note != "" {
			s.Warnings = append(s.Warnings, note)
		}
		if first, ok := seen[test.ID]; ok && test.ID != "" {
			c.Addf(t.PosOf("id"), "test id %q is taken (%s)", test.ID, first)
		}
		seen[test.ID] = t.PosOf("id")
		s.Tests = append(s.Tests, test)
	}
	s.checkOrder(c)
}

func loadTest(over *source.Table, pos source.Pos, defs *testFiles, c *source.Complaints) Test {
	merged := over
	if v := over.Get("test_name"); v != nil {
		base := defs.find(v, c)
		if base != nil {
			checkDefinition(base, c)
		}
		if over.Has("test_template_name") {
			c.Addf(over.PosOf("test_template_name"),
				"test_template_name is not allowed with test_name: the test file sets it")
		}
		merged = source.Merge(base, over)
		merged.Pos = over.Pos
	}
	t := Test{Pos: pos, Table: merged}
	c.Add(source.Decode(merged, &t))
	for _, key := range []string{"cmd_args", "bench_cmd_args", "semantic_eval_cmd_args", "extra_env_vars", "extra_container_mounts",
		"extra_cmd_args", "files"} {
		checkHome(key, merged.Get(key), c)
	}
	t.checkDynamoOnly(c)
	t.checkPhases(c)
	if t.Search != nil {
		t.Search.check(merged.Table("search"), c)
	}
	switch {
	case t.ID == "":
	case !pathElement.MatchString(t.ID):
		c.Add(source.Errorf(over.PosOf("id"), "test id %q cannot name a directory", t.ID).
			Hintf("use letters, digits and _ . - + = @, not starting with a dot or dash"))
	case slices.Contains(scenarioNames, t.ID) || fileName.MatchString(t.ID):
		c.Addf(over.PosOf("id"), "test id %q is reserved: every scenario directory has a file or folder of this name",
			t.ID)
	}
	if !over.Has("test_name") && t.Template == "" {
		c.Add(source.Errorf(pos, "test %q has neither test_name nor test_template_name", t.ID).
			Hintf("name a test file with test_name, or write test_template_name = \"vllm\" here"))
	}
	if t.Name == "" {
		t.Name = t.ID
	}
	if t.CmdArgs == nil {
		t.CmdArgs = source.NewTable(pos)
	}
	if over.Has("iterations") && t.Iterations < 1 {
		c.Addf(over.PosOf("iterations"), "iterations is %d, must be 1 or more", t.Iterations)
	}
	if t.Iterations > maxIterations {
		c.Add(source.Errorf(over.PosOf("iterations"), "iterations is %d, must be %d or fewer: each is a job of its own", t.Iterations,
			maxIterations).Hintf("repeat = N measures the same servers several times"))
	}
	t.Iterations = max(t.Iterations, 1)
	return t
}

// checkDefinition refuses keys that belong to a scenario in a test file, and
// missing ones, at the place where the test file stands.
func checkDefinition(t *source.Table, c *source.Complaints) {
	for _, key := range []string{"name", "test_template_name", "cmd_args"} {
		if !t.Has(key) {
			c.Addf(t.Pos, "%s is required in a test file", key)
		}
	}
	for _, key := range source.Fields(entry{}) {
		if t.Has(key) {
			c.Addf(t.PosOf(key), "%s is allowed in [[Tests]] of a scenario only, not in a test file", key)
		}
	}
}

// Variant is t with other merged keys: a point of its sweep.
func (t Test) Variant(table *source.Table) (Test, error) {
	v := Test{Pos: t.Pos, Table: table}
	into := any(&v)
	if t.ID == "" { // a test file by itself has no entry in a scenario
		into = &v.definition
	}
	err := source.Decode(table, into)
	if err == nil {
		err = v.expandSuites()
	}
	v.Name, v.Iterations = t.Name, t.Iterations
	if v.CmdArgs == nil {
		v.CmdArgs = source.NewTable(t.Pos)
	}
	return v, err
}

// PosOf is where a key of the test stands, else where the test does.
func (t *Test) PosOf(key string) source.Pos {
	if t.Table.Has(key) {
		return t.Table.PosOf(key)
	}
	return t.Pos
}

// maxIterations is above what anybody waits for.
const maxIterations = 10_000

// maxNodes is above what any cluster has.
const maxNodes = 1 << 16

// Nodes returns num_nodes, 1 when it is absent, as CloudAI reads it.
func (t *Test) Nodes() (int, error) {
	v := t.NumNodes
	if v == nil {
		return 1, nil
	}
	if _, ok := v.Any.([]*source.Value); ok {
		return 0, source.Errorf(v.Pos, "num_nodes is a list, but one number is needed")
	}
	n, ok := v.Int()
	if !ok || n < 1 || n > maxNodes {
		return 0, source.Errorf(v.Pos, "num_nodes must be a number of nodes, 1 to %d, not %s", maxNodes, v.Shown()).
			Hintf("%s", v.Integer("num_nodes = "))
	}
	return int(n), nil
}

// Duration returns the time limit, 0 for none.
func (t *Test) Duration() time.Duration { return time.Duration(t.TimeLimit) }

// Directory is the name of the clone below install_path, as CloudAI spells it.
func (r GitRepo) Directory() string {
	name := r.URL[strings.LastIndexByte(r.URL, '/')+1:]
	return strings.TrimSuffix(name, ".git") + "__" + strings.ReplaceAll(r.Commit, "/", "_")
}

// MountPoint is where containers see the clone.
func (r GitRepo) MountPoint() string {
	if r.MountAs != "" {
		return r.MountAs
	}
	return "/git/" + r.Directory()
}

// LoadTest checks a test file on its own.
func LoadTest(f File) (*Test, error) {
	var c source.Complaints
	t, err := source.Parse(f.Name, f.Data)
	if err != nil {
		return nil, err
	}
	checkDefinition(t, &c)
	test := Test{Pos: t.Pos, Table: t}
	c.Add(source.Decode(t, &test.definition))
	test.checkDynamoOnly(&c)
	return &test, c.Err()
}

// dynamoTemplate is the template whose tests have keys that no other has, and dynamoOnly are those.
const dynamoTemplate = "AIDynamo"

var dynamoOnly = []string{"script", "repo", "success_marker", "failure_marker"}

// checkDynamoOnly refuses keys of AIDynamo in tests of others.
func (t *Test) checkDynamoOnly(c *source.Complaints) {
	for _, key := range dynamoOnly {
		if t.Table.Has(key) && t.Template != dynamoTemplate {
			c.Add(source.Errorf(t.Table.KeyPos(key), "unknown key %q in a test of %s: only %s has it", key, t.Template,
				dynamoTemplate).Hintf("remove it"))
		}
	}
}
