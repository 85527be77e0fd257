// Package catalog lists every adapter: workloads, launchers, load clients, parsers. It
// is the one place that sees all of them; nothing registers itself.
package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/bench/aiperf"
	"github.com/profllm/profllm/pkg/bench/gsm8k"
	"github.com/profllm/profllm/pkg/bench/guidellm"
	"github.com/profllm/profllm/pkg/bench/inferenceperf"
	"github.com/profllm/profllm/pkg/bench/lmeval"
	benchsglang "github.com/profllm/profllm/pkg/bench/sglang"
	"github.com/profllm/profllm/pkg/bench/vllmoffline"
	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/launcher/apptainer"
	"github.com/profllm/profllm/pkg/launcher/bare"
	"github.com/profllm/profllm/pkg/launcher/docker"
	"github.com/profllm/profllm/pkg/launcher/enroot"
	"github.com/profllm/profllm/pkg/launcher/podman"
	"github.com/profllm/profllm/pkg/launcher/pyxis"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/bash"
	"github.com/profllm/profllm/pkg/workload/command"
	"github.com/profllm/profllm/pkg/workload/container"
	"github.com/profllm/profllm/pkg/workload/dynamo"
	"github.com/profllm/profllm/pkg/workload/nccl"
	"github.com/profllm/profllm/pkg/workload/offline"
	"github.com/profllm/profllm/pkg/workload/sglang"
	"github.com/profllm/profllm/pkg/workload/sleep"
	"github.com/profllm/profllm/pkg/workload/vllm"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// Entry is an adapter by the name that files use.
type Entry[New any] struct {
	Name string
	New  New
}

// The engines that a client measures, by the name of their workload.
const (
	VLLM   = "vllm"
	SGLang = "sglang"
)

// Workloads are the values of test_template_name that serve a model.
var Workloads = []Entry[func(scenario.Test, bool) (plan.Workload, error)]{
	{VLLM, vllm.New}, {SGLang, sglang.New}, {dynamo.Template, dynamo.New},
	{dynamo.MockerTemplate, dynamo.NewMocker},
}

// Tools are the values of test_template_name that run a command and serve
// nothing.
var Tools = []Entry[func(scenario.Test, bool) (plan.Workload, error)]{
	{"Sleep", sleep.New}, {"BashCmd", bash.New}, {"SlurmContainer", container.New}, {"NcclTest", nccl.New},
	{"UCCTest", command.NewUCC}, {"Fio", command.NewFio}, {offline.Name, offline.New},
}

// Known are CloudAI's values of test_template_name. A test with one that is
// neither a Workload nor a Tool can be read, and cannot be run.
var Known = []string{
	"AIDynamo", "Aiconfigurator", "BashCmd", "ChakraReplay", "DDLBTest", "DeepEP", "DynamoMocker", "Fio",
	"JaxToolboxGPT", "JaxToolboxGrok",
	"JaxToolboxNemotron", "MegatronBridge", "MegatronRun", "MoEBenchmark", "NIXLBench", "NIXLKVBench", "NcclTest",
	"NeMoLauncher", "NeMoRun", "NixlEP",
	"NixlPerftest", "OSUBench", "Sleep", "SlurmContainer", "TritonInference", "UCCTest", "sglang", "vllm",
}

// Launchers are the values of launcher, those of config.Launchers.
var Launchers = []Entry[func() plan.Launcher]{
	{"pyxis", pyxis.New}, {"enroot", enroot.New}, {"apptainer", apptainer.New}, {"docker", docker.New},
	{"podman", podman.New}, {config.Bare, bare.New},
}

// Find returns the adapter of that name, or the names that the list has.
func Find[New any](list []Entry[New], name string) (New, []string, bool) {
	var none New
	names := make([]string, len(list))
	for i, e := range list {
		if e.Name == name {
			return e.New, nil, true
		}
		names[i] = e.Name
	}
	return none, names, false
}

// Template checks a test's workload: it returns a note for one of CloudAI's that
// is not supported yet, and an error for one that nobody knows.
func Template(t *scenario.Test) (note string, err error) {
	names := Runnable()
	switch {
	case slices.Contains(names, t.Template):
		return "", nil
	case slices.Contains(Known, t.Template):
		return fmt.Sprintf("%s: test %q: the workload %s is not supported yet, so the test cannot run",
			t.PosOf("test_template_name"), cmp.Or(t.ID, t.Name), t.Template), nil
	default:
		return "", source.Errorf(t.PosOf("test_template_name"), "test %q: unknown workload %q", cmp.Or(t.ID, t.Name),
			t.Template).Hintf("%s", source.Suggest(t.Template, names))
	}
}

// Unsupported says why tests cannot run although they can be read, "" if they can.
func Unsupported(tests ...scenario.Test) string {
	var names []string
	for _, t := range tests {
		if !slices.Contains(Runnable(), t.Template) && slices.Contains(Known, t.Template) &&
			!slices.Contains(names, t.Template) {
			names = append(names, t.Template)
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return "the workload " + names[0] + " is not supported yet"
	}
	return "the workloads " + strings.Join(names[:len(names)-1],
		", ") + " and " + names[len(names)-1] + " are not supported yet"
}

// Prepared is a test as it is planned: one of Dynamo says in cmd_args what others say outside.
func Prepared(t scenario.Test) (scenario.Test, error) {
	switch t.Template {
	case dynamo.Template:
		return dynamo.Prepared(t)
	case dynamo.MockerTemplate:
		return dynamo.PreparedMocker(t)
	}
	return t, nil
}

// ForImage reports whether the shell text of a test was written for its image alone, so that a
// rehearsal runs none of it.
func ForImage(t scenario.Test) bool {
	return t.Template == dynamo.Template || t.Template == dynamo.MockerTemplate
}

// Runnable are the templates that can be planned.
func Runnable() []string {
	var names []string
	for _, e := range slices.Concat(Workloads, Tools) {
		names = append(names, e.Name)
	}
	return names
}

// LoadClient is a client and what a plan says of it.
type LoadClient interface {
	plan.Client
	Name() string
	Options() map[string]any
	Expect() plan.Expect
}

// BySGLang reports whether SGLang's own client measures the test.
func BySGLang(t scenario.Test) bool {
	return t.Client == SGLang || t.Client == "" && t.Template == SGLang
}

// ByVLLMs reports whether vLLM's client measures the test, or profllm's, which has its arguments.
func ByVLLMs(t scenario.Test) bool { return !BySGLang(t) && !ByAIPerf(t) }

// ByAIPerf reports whether AIPerf or its predecessor measures the test.
func ByAIPerf(t scenario.Test) bool { return t.Client == aiperf.Name || t.Client == aiperf.GenAI }

// NewClient makes the client that the test names, or the one of its engine.
func NewClient(t scenario.Test) (LoadClient, error) {
	switch {
	case ByAIPerf(t):
		unchecked, _ := t.CmdArgs.Get("unchecked_options").Text()
		return aiperf.New(aiperf.Client{Name: t.Client, Program: t.ClientProgram, Unchecked: serving.Names(unchecked)},
			t.Pos, t.BenchArgs)
	case len(t.ClientProgram) > 0:
		return nil, source.Errorf(t.PosOf("client_program"), "test %q: client_program is of client = %q only", t.ID,
			aiperf.Name).Hintf("remove it")
	case BySGLang(t):
		return benchsglang.New(t.Pos, t.BenchArgs, sglangClient(t))
	}
	l, err := vllmserve.New(t.Client, t.PosOf("client"), t.BenchArgs)
	if err != nil {
		return nil, err
	}
	l.Release, l.Program = VLLMRelease(t), BenchServe(t)
	return l, nil
}

// sglangClient is the module of SGLang's client that a test names, or that the version has which
// the test declares; "" for the name that every version so far has.
func sglangClient(t scenario.Test) string {
	module, _ := t.CmdArgs.Get("bench_module").Text()
	if module != "" || t.Template != SGLang {
		return module
	}
	version, _ := t.CmdArgs.Get("engine_version").Text()
	if image, _ := t.CmdArgs.Get("docker_image_url").Text(); version == "" {
		if tag := sglangImage.FindStringSubmatch(image); tag != nil {
			version = tag[1]
		}
	}
	if version == "" || arguments.Before(version, benchsglang.NewSince) {
		return ""
	}
	return benchsglang.NewModule
}

// sglangImage is an image of the SGLang project, whose tag is a version.
var sglangImage = lazyregexp.New(`(?:^|[/#+])sglang[:+]v?(\d+\.\d+\.\d+)`)

// VLLMRelease is the version that a test of vLLM declares, "" if it does not.
func VLLMRelease(t scenario.Test) string {
	if t.Template != VLLM {
		return ""
	}
	version, _ := t.CmdArgs.Get("engine_version").Text()
	image, _ := t.CmdArgs.Get("docker_image_url").Text()
	return arguments.Declared(version, image)
}

// BenchServe is vLLM's load client with the options of a test's build.
func BenchServe(t scenario.Test) *arguments.Program {
	if t.Template != VLLM {
		return arguments.BenchServe
	}
	b, _ := vllm.ReadBuild(t.CmdArgs) // the workload complains
	return arguments.BenchServe.With(b.Bench)
}

// NewEval makes the client that measures accuracy.
func NewEval(t scenario.Test, simulated bool) (plan.Client, error) {
	if simulated && t.Template == dynamo.Template {
		t.EvalArgs = dynamo.Rehearsed(t)
	}
	if t.Template == SGLang {
		return gsm8k.NewSGLang(t.EvalArgs)
	}
	return gsm8k.New(t.EvalArgs)
}

// Model is what a test serves that does not name it in cmd_args.model; "" if it serves none.
func Model(t scenario.Test) string {
	if t.Template == dynamo.Template {
		return dynamo.Model(t)
	}
	return map[string]string{VLLM: vllm.DefaultModel, SGLang: sglang.DefaultModel}[t.Template]
}

// Benches read what load clients left in a run directory: ours in raw/ and
// logs/, CloudAI's beside. vLLM's come behind the others: its parser takes another
// JSON file that looks like a result, and a console table where there is none. The
// benchmarks without a server come last, a load that was served has the word. Of a
// client that a plan names only its own parsers are asked.
var Benches = []collect.Parser{
	collect.Of{Parser: benchsglang.Parser{File: "raw/" + benchsglang.DefaultFile}, Client: ofSGLang},
	collect.Of{Parser: benchsglang.Parser{}, Client: ofSGLang},
	collect.Of{Parser: aiperf.Parser{Dir: "raw"}, Client: ofAIPerf}, collect.Of{Parser: aiperf.Parser{}, Client: ofAIPerf},
	guidellm.Parser{Dir: "raw"}, guidellm.Parser{},
	inferenceperf.Parser{Dir: "raw"}, inferenceperf.Parser{},
	collect.Of{Parser: vllmserve.Parser{File: "raw/vllm-bench.json", Log: "logs/bench-0.log"}, Client: ofVLLM},
	collect.Of{Parser: vllmserve.Parser{}, Client: ofVLLM},
	collect.Of{Parser: vllmoffline.Parser{Dir: "raw", Logs: "logs"}, Client: ofOffline},
	collect.Of{Parser: vllmoffline.Parser{}, Client: ofOffline},
}

// ofOffline tells the benchmarks of vLLM without a server.
func ofOffline(client string) bool {
	return slices.Contains([]string{"vllm bench latency", "vllm bench throughput", "vllm bench startup",
		"vllm bench mm-processor", offline.OwnClient}, client)
}

// ofVLLM tells vLLM's client and profllm's own, which writes the same file, ofSGLang the
// modules of SGLang.
func ofVLLM(client string) bool   { return strings.HasSuffix(client, " bench serve") }
func ofSGLang(client string) bool { return strings.HasPrefix(client, "sglang.") }

// ofAIPerf tells AIPerf and GenAI-Perf.
func ofAIPerf(client string) bool { return client == aiperf.Name || client == aiperf.GenAI }

// Evals read the accuracy, likewise.
var Evals = []collect.Parser{
	gsm8k.Parser{File: "raw/vllm-gsm8k.json", Log: "logs/eval-0.log"}, gsm8k.Parser{},
	gsm8k.Parser{Log: "sglang-semantic-eval.log"},
	lmeval.Parser{Dir: "raw"}, lmeval.Parser{},
	aiperf.AccuracyParser{Dir: "raw/accuracy"}, aiperf.AccuracyParser{},
}
