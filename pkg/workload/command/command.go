// Package command turns tests of benchmarks that are one command line into a
// step: ucc_perftest of UCC (https://github.com/openucx/ucc) and fio
// (https://fio.readthedocs.io).
package command

import (
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// Workload is a decoded test: one command on every node.
type Workload struct {
	name    string
	image   string
	argv    []plan.Word
	tasks   int    // on each node; 0: the site's ntasks_per_node
	mpi     string // how ranks find each other where the site does not say, "" if they need not
	success string
	args    *source.Table
	notes   []string
	lacks   string // why it cannot be planned, for a test that can be read
	refusal error  // of a plan, which says so
}

// NotRunnable says why the test cannot be planned, "" if it can.
func (w Workload) NotRunnable() string { return w.lacks }

// Serve implements plan.Workload.
func (w Workload) Serve(cl plan.Cluster) (plan.Service, error) {
	if w.refusal != nil {
		return plan.Service{}, w.refusal
	}
	step := plan.Step{
		Name: w.name, Nodes: cl.All(), TasksPerNode: w.tasks, Container: w.image != "", Env: cl.Visible(),
		Argv: cl.Program(w.argv), Log: "logs/" + w.name + "-%t.log", Success: w.success,
	}
	if w.tasks == 0 {
		step.TasksPerNode = cl.TasksPerNode
	}
	if w.mpi != "" && step.Tasks() > 1 {
		step.Srun = cl.MPIOptions(w.mpi)
	}
	return plan.Service{Image: w.image, Config: map[string]any{w.name: w.args.Plain()}, Notes: w.notes,
		Steps: []plan.Step{step}}, nil
}

// UCCConfig is [cmd_args] of a UCCTest test.
type UCCConfig struct {
	// Image with HPC-X: host#org/name:tag, or a path to a .sqsh file.
	DockerImageURL string        `toml:"docker_image_url"`
	Collective     string        `toml:"collective"` // -c; default alltoall.
	Begin          *source.Value `toml:"b"`          // -b, least count of elements; default 1.
	End            *source.Value `toml:"e"`          // -e, greatest count; default 8M.
	Gen            string        `toml:"gen"`        // --gen, pattern of the counts; default none.

	// Use the counts that an earlier MoEBenchmark wrote; read, without effect beside gen, else
	// refused when the test is planned.
	UseMatrix bool `toml:"use_deepep_matrix"`
}

// uccPerftest is where HPC-X puts it in NVIDIA's images.
const uccPerftest = "/opt/hpcx/ucc/bin/ucc_perftest"

var uccCollectives = []string{
	"allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "barrier", "bcast", "gather", "gatherv", "reduce",
	"reduce_scatter", "reduce_scatterv",
	"scatter", "scatterv", "memcpy", "reducedt", "reducedt_strided",
}

// NewUCC decodes a UCCTest test. needImage is false where steps run without a
// container.
func NewUCC(t scenario.Test, needImage bool) (plan.Workload, error) {
	var c source.Complaints
	cfg := UCCConfig{Collective: "alltoall"}
	c.Add(source.Decode(t.CmdArgs, &cfg))
	if cfg.DockerImageURL == "" && needImage {
		c.Add(source.Errorf(t.CmdArgs.Pos, "cmd_args.docker_image_url is required").
			Hintf("name the image, or set launcher = \"bare\" to run without a container"))
	}
	if t.CmdArgs.Has("collective") && !slices.Contains(uccCollectives, cfg.Collective) {
		c.Add(source.Errorf(t.CmdArgs.PosOf("collective"), "unknown collective %q", cfg.Collective).
			Hintf("%s", source.Suggest(cfg.Collective, uccCollectives)))
	}
	argv := plan.Texts(uccPerftest, "-c", cfg.Collective, "-b", scalar("b", cfg.Begin, "1", &c), "-e",
		scalar("e", cfg.End, "8M", &c), "-m", "cuda", "-F")
	if cfg.Gen != "" {
		argv = append(argv, plan.Texts("--gen", cfg.Gen)...)
	}
	for _, key := range t.ExtraCmdArgs.Keys() {
		value, ok := t.ExtraCmdArgs.Get(key).Text()
		if !ok {
			c.Addf(t.ExtraCmdArgs.PosOf(key), "extra_cmd_args.%s must be a string", key)
		}
		if value != "" {
			key += "=" + value
		}
		argv = append(argv, plan.Text(key))
	}
	w := Workload{name: "ucc", image: cfg.DockerImageURL, argv: argv, mpi: "pmix", args: t.CmdArgs}
	switch pos := t.CmdArgs.PosOf("use_deepep_matrix"); {
	case !cfg.UseMatrix:
	case cfg.Gen != "":
		w.notes = append(w.notes, pos.String()+": use_deepep_matrix has no effect, because gen sets the counts")
	default:
		w.lacks = "use_deepep_matrix takes the file ucc_matrix.txt of an earlier MoEBenchmark, which is not supported yet"
		w.refusal = source.Errorf(pos, "test %q: %s", t.ID, w.lacks).
			Hintf("set gen; for a file that exists, mount it with extra_container_mounts and write gen = \"file:name=PATH\"")
	}
	return w, c.Err()
}

func scalar(key string, v *source.Value, fallback string, c *source.Complaints) string {
	if v == nil {
		return fallback
	}
	s, ok := v.Word()
	if !ok {
		c.Add(source.Errorf(v.Pos, "cmd_args.%s must be one value, not a %s", key, v.Kind()).Hintf("write one value"))
	}
	return s
}

// FioConfig is [cmd_args] of a Fio test.
type FioConfig struct {
	DockerImageURL  string        `toml:"docker_image_url"`   // Image with fio; default: fio of the node.
	FioBinary       string        `toml:"fio_binary"`         // The program; default fio.
	JobFile         string        `toml:"job_file"`           // A job file of fio, passed after the options.
	Args            *source.Table `toml:"args"`               // Options of fio, without dashes.
	NumTasksPerNode *int          `toml:"num_tasks_per_node"` // Runs of fio on each node at once; default 1.
	MetricOperation string        `toml:"metric_operation"`   // Of CloudAI's report; read, without effect.
	MetricName      string        `toml:"metric_name"`        // As metric_operation.
	MetricAggregate string        `toml:"metric_aggregate"`   // As metric_operation.
}

// fioSuccess is what fio says of each group of jobs.
const fioSuccess = `IOPS=.*BW=|BW=.*IOPS=`

// NewFio decodes a Fio test. No image is needed anywhere.
func NewFio(t scenario.Test, _ bool) (plan.Workload, error) {
	var c source.Complaints
	cfg := FioConfig{FioBinary: "fio"}
	c.Add(source.Decode(t.CmdArgs, &cfg))
	w := Workload{name: "fio", image: cfg.DockerImageURL, tasks: 1, success: fioSuccess, args: t.CmdArgs}
	if cfg.NumTasksPerNode != nil {
		w.tasks = *cfg.NumTasksPerNode
	}
	if w.tasks < 1 {
		c.Addf(t.CmdArgs.PosOf("num_tasks_per_node"), "cmd_args.num_tasks_per_node is %d, must be 1 or more", w.tasks)
	}
	if cfg.FioBinary == "" {
		c.Addf(t.CmdArgs.PosOf("fio_binary"), "cmd_args.fio_binary is empty")
	}
	if len(cfg.Args.Keys()) == 0 && cfg.JobFile == "" {
		c.Add(source.Errorf(t.CmdArgs.Pos, "fio has nothing to do: neither cmd_args.args nor cmd_args.job_file is set").
			Hintf("write fio's options in [cmd_args.args]"))
	}
	for _, key := range t.ExtraCmdArgs.Keys() {
		c.Add(source.Errorf(t.ExtraCmdArgs.PosOf(key), "extra_cmd_args.%s has no effect on a Fio test", key).
			Hintf("write it in [cmd_args.args]"))
	}
	for _, key := range []string{"metric_operation", "metric_name", "metric_aggregate"} {
		if t.CmdArgs.Has(key) {
			w.notes = append(w.notes, t.CmdArgs.PosOf(key).
				String()+": "+key+" has no effect: profllm reads no metric from fio's report")
		}
	}
	w.argv = plan.Texts(cfg.FioBinary)
	for _, key := range cfg.Args.Keys() {
		w.argv = append(w.argv, fioOption(key, cfg.Args.Get(key), &c)...)
	}
	if cfg.JobFile != "" {
		w.argv = append(w.argv, plan.Text(cfg.JobFile))
	}
	return w, c.Err()
}

var fioName = lazyregexp.New(`^-{0,2}[A-Za-z][A-Za-z0-9_-]*$`)

// fioOption writes --key=value: true is a bare option, false none; the elements
// of a list stand behind commas, and each value of a table is an option of its own.
func fioOption(key string, v *source.Value, c *source.Complaints) []plan.Word {
	if !fioName.MatchString(key) {
		c.Addf(v.Pos, "cmd_args.args: %q is not an option of fio", key)
		return nil
	}
	name := key
	if !strings.HasPrefix(name, "-") {
		name = "--" + name
	}
	switch x := v.Any.(type) {
	case bool:
		if x {
			return plan.Texts(name)
		}
		return nil
	case *source.Table:
		var argv []plan.Word
		for _, k := range x.Keys() {
			argv = append(argv, fioOption(key, x.Get(k), c)...)
		}
		return argv
	case []*source.Value:
		var items []string
		for _, e := range x {
			s, ok := e.Word()
			if !ok {
				c.Addf(e.Pos, "cmd_args.args.%s: each element must be one value, not a %s", key, e.Kind())
			}
			items = append(items, s)
		}
		return plan.Texts(name + "=" + strings.Join(items, ","))
	}
	s, _ := v.Word()
	return plan.Texts(name + "=" + s)
}
