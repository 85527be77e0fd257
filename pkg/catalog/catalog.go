// Package catalog lists every adapter and turns a test into plans. It is the one
// place that sees all of them; nothing registers itself.
package catalog

import (
	"github.com/profllm/profllm/pkg/bench/gsm8k"
	benchsglang "github.com/profllm/profllm/pkg/bench/sglang"
	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/launcher/bare"
	"github.com/profllm/profllm/pkg/launcher/pyxis"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/workload/sglang"
	"github.com/profllm/profllm/pkg/workload/vllm"
)

// Entry is an adapter by the name that files use.
type Entry[New any] struct {
	Name string
	New  New
}

// The engines that a client measures, by the name of their workload.
const (
	vllmName   = "vllm"
	sglangName = "sglang"
)

// Workloads are the values of test_template_name.
var Workloads = []Entry[func(scenario.Test, bool) (plan.Workload, error)]{
	{vllmName, vllm.New}, {sglangName, sglang.New},
}

// Launchers are the values of launcher.
var Launchers = []Entry[func() plan.Launcher]{
	{"pyxis", pyxis.New}, {"bare", bare.New},
}

func find[New any](list []Entry[New], name string) (New, []string, bool) {
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

// loadClient is a client and what a plan says of it.
type loadClient interface {
	plan.Client
	Name() string
	Options() map[string]any
	Expect() plan.Expect
}

// newClient makes the client that the test names, or the one of its engine.
func newClient(t scenario.Test) (loadClient, error) {
	if t.Client == sglangName || t.Client == "" && t.Template == sglangName {
		module, _ := t.CmdArgs.Get("bench_module").Text()
		return benchsglang.New(t.Pos, t.BenchArgs, module)
	}
	return vllmserve.New(t.Client, t.Pos, t.BenchArgs)
}

// launcherName decides: the rehearsal and the command line, the test, the site,
// and else pyxis for a test that names an image.
func launcherName(t scenario.Test, sys *config.System, o Options) string {
	switch {
	case o.Simulated:
		return "bare"
	case o.Launcher != "":
		return o.Launcher
	case t.Launcher != "":
		return t.Launcher
	case sys.Launcher != "":
		return sys.Launcher
	case t.CmdArgs.Has("docker_image_url"):
		return "pyxis"
	}
	return "bare"
}

// Benches read what load clients left in a run directory: ours in raw/ and
// logs/, CloudAI's beside. SGLang's come first: its console table looks like
// vLLM's, which is read where there is no file.
var Benches = []collect.Parser{
	benchsglang.Parser{File: "raw/" + benchsglang.DefaultFile}, benchsglang.Parser{},
	vllmserve.Parser{File: "raw/vllm-bench.json", Log: "logs/bench-0.log"}, vllmserve.Parser{},
}

// Evals read the accuracy, likewise.
var Evals = []collect.Parser{
	gsm8k.Parser{File: "raw/vllm-gsm8k.json", Log: "logs/eval-0.log"}, gsm8k.Parser{},
	gsm8k.Parser{Log: "sglang-semantic-eval.log"},
}
