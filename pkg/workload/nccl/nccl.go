// Package nccl turns an NcclTest test into a step that runs one program of
// nccl-tests (https://github.com/NVIDIA/nccl-tests) over every GPU of the job.
package nccl

import (
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// Config is [cmd_args] of an NcclTest test; every other key is an option of the
// program.
type Config struct {
	DockerImageURL string `toml:"docker_image_url"` // Image: host#org/name:tag, or a path to a .sqsh file.
	// The program, such as all_gather_perf_mpi; default all_reduce_perf_mpi.
	SubtestName string `toml:"subtest_name"`
	NThreads    *int   `toml:"nthreads"` // Threads of each task; default 1.
	NGPUs       *int   `toml:"ngpus"`    // GPUs of each thread; default 1.

	// Use the alltoallv traffic that an earlier MoEBenchmark wrote; read, but refused when the
	// test is planned.
	UseMatrix bool `toml:"use_deepep_matrix"`
	// Where the container sees that file; read, without effect.
	MatrixPath string `toml:"alltoallv_matrix_container_path"`
	// CloudAI's threshold for other workloads; read, without effect.
	MinBusBW *float64 `toml:"min_busbw"`
}

const defaultSubtest = "all_reduce_perf_mpi"

// alltoallv is started by its path, without the _mpi of its name, as CloudAI starts it.
const alltoallv, alltoallvProgram = "alltoallv_perf_mpi", "/opt/nccl-tests/build/alltoallv_perf"

// collectives name the programs, with _perf_mpi or _perf behind them.
var collectives = []string{
	"all_reduce", "all_gather", "alltoall", "alltoallv", "broadcast", "gather", "hypercube", "reduce", "reduce_scatter",
	"scatter", "sendrecv", "bisection",
}

// defaults are the options that CloudAI always gives, in its order, so that the
// numbers do not depend on what a version of nccl-tests thinks best.
var defaults = []struct{ key, value string }{
	{"nthreads", "1"}, {"ngpus", "1"}, {"minbytes", "32M"}, {"maxbytes", "32M"}, {"stepbytes", "1M"}, {"op", "sum"},
	{"datatype", "float"}, {"root", "0"},
	{"iters", "20"}, {"warmup_iters", "5"}, {"agg_iters", "1"}, {"average", "1"}, {"parallel_init", "0"},
	{"check", "1"}, {"blocking", "0"}, {"cudagraph", "0"},
}

// Success is the line that a program of nccl-tests ends with.
const Success = `^# Avg bus bandwidth +: +[0-9]`

// mpi is how ranks find each other where the site does not say: CloudAI's default.
const mpi = "pmix"

var optionName = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_]*$`)

// Workload is a decoded NcclTest test.
type Workload struct {
	image  string
	argv   []plan.Word
	args   *source.Table
	gpus   int // of each task
	testID string
	matrix bool
	notes  []string
}

// New decodes the test's cmd_args. needImage is false where steps run without a
// container.
func New(t scenario.Test, needImage bool) (plan.Workload, error) {
	var c source.Complaints
	var cfg Config
	known := source.NewTable(t.CmdArgs.Pos)
	for _, k := range source.Fields(cfg) {
		if v := t.CmdArgs.Get(k); v != nil {
			known.Set(k, v)
		}
	}
	c.Add(source.Decode(known, &cfg))
	w := Workload{image: cfg.DockerImageURL, args: t.CmdArgs, gpus: 1, testID: t.ID, matrix: cfg.UseMatrix}
	for _, key := range []string{"alltoallv_matrix_container_path", "min_busbw"} {
		if t.CmdArgs.Has(key) {
			w.notes = append(w.notes, t.CmdArgs.PosOf(key).String()+": "+key+" has no effect on an NcclTest test")
		}
	}
	if cfg.DockerImageURL == "" && needImage {
		c.Add(source.Errorf(t.CmdArgs.Pos, "cmd_args.docker_image_url is required").
			Hintf("name the image, or set launcher = \"bare\" to run without a container"))
	}
	for key, n := range map[string]*int{"nthreads": cfg.NThreads, "ngpus": cfg.NGPUs} {
		if n == nil {
			continue
		}
		if *n < 1 {
			c.Addf(t.CmdArgs.PosOf(key), "cmd_args.%s is %d, must be 1 or more", key, *n)
		}
		w.gpus *= max(*n, 1)
	}
	program := program(cfg.SubtestName, t.CmdArgs, &c)
	w.argv = append(plan.Texts(program), options(t.CmdArgs, &c)...)
	w.argv = append(w.argv, extra(t.ExtraCmdArgs, &c)...)
	return w, c.Err()
}

func program(name string, args *source.Table, c *source.Complaints) string {
	if name == "" {
		return defaultSubtest
	}
	base, isMPI := strings.CutSuffix(name, "_perf_mpi")
	if !isMPI {
		base = strings.TrimSuffix(name, "_perf")
	}
	if base == name || !slices.Contains(collectives, base) {
		var names []string
		for _, n := range collectives {
			names = append(names, n+"_perf_mpi")
		}
		c.Add(source.Errorf(args.PosOf("subtest_name"), "unknown subtest_name %q", name).
			Hintf("%s", source.Suggest(name, names)))
	}
	if name == alltoallv {
		return alltoallvProgram
	}
	return name
}

// options writes the defaults, overridden, and then what else the test says.
func options(args *source.Table, c *source.Complaints) []plan.Word {
	var argv []plan.Word
	own := source.Fields(Config{})
	for _, d := range defaults {
		own = append(own, d.key)
		value := d.value
		if v := args.Get(d.key); v != nil {
			value = word(d.key, v, c)
		}
		argv = append(argv, plan.Text("--"+d.key), plan.Text(value))
	}
	rest := args.Without(own...)
	for _, key := range rest.Keys() {
		if !optionName.MatchString(key) {
			c.Addf(rest.KeyPos(key), "cmd_args.%q is not an option of nccl-tests", key)
			continue
		}
		argv = append(argv, option(key, rest.Get(key), c)...)
	}
	return argv
}

// option writes an option that CloudAI does not know: true and "" make it a bare
// switch, false leaves it out.
func option(key string, v *source.Value, c *source.Complaints) []plan.Word {
	name := "--" + key
	if len(key) == 1 {
		name = "-" + key
	}
	on, isBool := v.Any.(bool)
	s, isText := v.Text()
	switch {
	case slices.Contains(numbers, key) || !isBool && !(isText && s == ""):
		return plan.Texts(name, word(key, v, c))
	case isBool && !on:
		return nil
	}
	return plan.Texts(name)
}

// numbers are options with a number, for which CloudAI takes true as 1 and false as 0.
var numbers = []string{"root", "iters", "warmup_iters", "agg_iters", "average", "parallel_init", "check", "blocking",
	"cudagraph", "stepfactor"}

func word(key string, v *source.Value, c *source.Complaints) string {
	s, ok := v.Word()
	_, isList := v.Any.([]*source.Value)
	switch {
	case isList:
		c.Add(source.Errorf(v.Pos, "cmd_args.%s is a list, but one value is needed", key).Hintf("write one value"))
	case !ok:
		c.Addf(v.Pos, "cmd_args.%s must be one value, not a %s", key, v.Kind())
	case v.Kind() == "boolean" && slices.Contains(numbers, key):
		return map[string]string{"true": "1", "false": "0"}[s]
	case s == "" || v.Kind() == "boolean":
		c.Add(source.Errorf(v.Pos, "cmd_args.%s is %q, but this option of nccl-tests needs a value", key, s).
			Hintf("write the value, or remove the key"))
	}
	return s
}

// extra writes extra_cmd_args: a key is an option as it stands.
func extra(t *source.Table, c *source.Complaints) []plan.Word {
	var argv []plan.Word
	for _, key := range t.Keys() {
		value, ok := t.Get(key).Text()
		if !ok {
			c.Add(source.Errorf(t.PosOf(key), "extra_cmd_args.%s must be a string, not %s", key, t.Get(key).Describe()).
				Hintf("write %q = \"%v\"", key, t.Get(key).Plain()))
		}
		argv = append(argv, plan.Text(key))
		if value != "" {
			argv = append(argv, plan.Text(value))
		}
	}
	return argv
}

// NotRunnable says why the test cannot be planned, "" if it can.
func (w Workload) NotRunnable() string {
	if w.matrix {
		return "use_deepep_matrix takes the file nccl_matrix.txt of an earlier MoEBenchmark, which is not supported yet"
	}
	return ""
}

// Serve implements plan.Workload: ntasks_per_node tasks on each node, or as many
// as its GPUs are enough for.
func (w Workload) Serve(cl plan.Cluster) (plan.Service, error) {
	if why := w.NotRunnable(); why != "" {
		return plan.Service{}, source.Errorf(w.args.PosOf("use_deepep_matrix"), "test %q: %s", w.testID, why).
			Hintf("set use_deepep_matrix = false; for a file that exists, mount it with extra_container_mounts and name it in extra_env_vars.ALLTOALLV_MATRIX_FILE")
	}
	gpus := cl.GPUsPerNode
	if cl.VisibleGPUs != nil {
		gpus = len(cl.VisibleGPUs)
	}
	tasks := cl.TasksPerNode
	if tasks == 0 {
		tasks = max(gpus/w.gpus, 1)
	}
	if gpus > 0 && tasks*w.gpus > gpus {
		key := "ngpus"
		if !w.args.Has(key) {
			key = "nthreads"
		}
		return plan.Service{},
			source.Errorf(w.args.PosOf(key),
				"test %q: %s per node with %s each (nthreads x ngpus) need %s, but a node has %d", w.testID,
				quantity.Count(tasks, "task"), quantity.Count(w.gpus, "GPU"), quantity.Count(tasks*w.gpus, "GPU"),
				gpus).
				Hintf("lower ngpus or nthreads, or ntasks_per_node in the system file")
	}
	fallback := ""
	if tasks*cl.Nodes > 1 {
		fallback = mpi // without it every task would measure itself alone
	}
	return plan.Service{
		Image: w.image, Config: map[string]any{"nccl": w.args.Plain()}, Notes: w.notes,
		Steps: []plan.Step{{
			Name: "nccl", Nodes: cl.All(), TasksPerNode: tasks, Container: true, Env: cl.Visible(),
			Argv: cl.Program(w.argv),
			Srun: cl.MPIOptions(fallback), Log: "logs/nccl-%t.log", Success: Success,
		}},
	}, nil
}
