package planner

import (
	"cmp"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/catalog"
	ownclient "github.com/profllm/profllm/pkg/load"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/validity"
)

// inapplicable refuses keys of ours that are of no use to a test of this kind: whoever
// wrote them expects something that will not be. Where CloudAI has a key, its files
// load as they are.
func inapplicable(t scenario.Test) error {
	var c source.Complaints
	if !serves(t.Template) {
		if !isTool(t.Template) {
			return nil // workload refuses it
		}
		for _, key := range []string{"phases", "repeat", "accept"} {
			if t.Table.Has(key) {
				c.Add(source.Errorf(t.Table.KeyPos(key), "test %q: a %s test serves nothing, so %s has no effect", t.ID,
					t.Template, key).Hintf("remove it"))
			}
		}
		return c.Err()
	}
	if !catalog.ByVLLMs(t) {
		for _, p := range t.Phases {
			if p.Suite != "" {
				c.Add(source.Errorf(p.Pos, "test %q: suites have arguments of vLLM's client, but %s measures",
					t.ID, clientWords(t)).Hintf("set client = \"vllm\" or client = \"profllm\", or write the loads as phases"))
			}
		}
	}
	if t.EvalArgs == nil {
		for _, p := range t.Phases {
			if p.Eval != nil && *p.Eval {
				c.Add(source.Errorf(p.Pos, "test %q: phase %q has eval = true, but the test has no evaluation", t.ID,
					p.Name).Hintf("add [Tests.semantic_eval_cmd_args], or remove eval"))
			}
		}
		accept := t.Table.Table("accept")
		for _, x := range validity.Thresholds() {
			if slices.Contains(evalChecks, x.Check) && accept.Has(x.Key) {
				c.Add(source.Errorf(accept.PosOf(x.Key),
					"test %q: accept.%s is about an evaluation, but the test has none", t.ID, x.Key).
					Hintf("add [Tests.semantic_eval_cmd_args], or remove it"))
			}
		}
	}
	return c.Err()
}

// clientWords is who measures a test that vLLM's client and profllm's do not.
func clientWords(t scenario.Test) string {
	if catalog.ByAIPerf(t) {
		return t.Client
	}
	return "SGLang's client"
}

// evalChecks are those of an accuracy.
var evalChecks = []string{"accuracy-missing", "accuracy-invalid", "accuracy-subset"}

// notSwept refuses [Tests.sweep] of a test that has one point.
func notSwept(t scenario.Test) error {
	if len(t.Table.Table("sweep").Keys()) == 0 {
		return nil
	}
	return source.Errorf(t.Table.PosOf("sweep"), "test %q has [Tests.sweep], but no list, so it is not a sweep", t.ID).
		Hintf("write a list in place of a value, or remove the table")
}

// newClient makes the test's load client, if its arguments can work.
func newClient(t scenario.Test) (catalog.LoadClient, error) {
	if err := possibleRate(t.BenchArgs); err != nil {
		var c source.Complaints
		c.Add(err)
		_, err := catalog.NewClient(t)
		c.Add(err)
		return nil, c.Err()
	}
	if err := clientOptions(t); err != nil {
		return nil, err
	}
	return catalog.NewClient(t)
}

// possibleRate refuses a rate at which no client can send.
func possibleRate(args *source.Table) error {
	for _, key := range []string{"request_rate", "request-rate"} {
		v := args.Get(key)
		if v == nil {
			continue
		}
		if rate, ok := v.Float(); ok && !(rate > 0) {
			return source.Errorf(v.Pos, "bench_cmd_args.%s is %s, must be above 0", key, v.Shown()).
				Hintf("write requests per second, or \"inf\" to send all at once")
		}
	}
	return nil
}

// clientOptions refuses arguments that the client's own parser would refuse on the GPUs:
// those of profllm's client, and those of vLLM's in the test's release.
func clientOptions(t scenario.Test) error {
	switch {
	case t.BenchArgs == nil, catalog.BySGLang(t):
		return nil
	case t.Client == "profllm":
		return ownOptions(t)
	case t.Client != "" && t.Client != "vllm":
		return nil // vllmserve.New refuses it
	}
	program, release := catalog.BenchServe(t), catalog.VLLMRelease(t)
	if list, _ := program.At(release); release != "" && len(list) == 0 {
		return source.Errorf(t.BenchArgs.Pos, "vLLM %s has no `%s`, which came in %s", release, program.Name, program.Oldest().Version).
			Hintf("set client = \"profllm\"")
	}
	unchecked, _ := t.CmdArgs.Get("unchecked_options").Text()
	return vllmserve.CheckArguments(t.BenchArgs, program, release, serving.Names(unchecked)...)
}

// ownOptions refuses arguments that profllm's own client does not know or would refuse.
func ownOptions(t scenario.Test) error {
	known := ownclient.OptionNames()
	var c source.Complaints
	for _, key := range t.BenchArgs.Keys() {
		name := strings.ReplaceAll(key, "-", "_")
		if !slices.Contains(known, name) {
			c.Add(source.Errorf(t.BenchArgs.KeyPos(key), "bench_cmd_args.%s is not an argument of client %q", key,
				t.Client).Hintf("%s", cmp.Or(vllmserve.OfVLLM(key), source.Suggest(name, known))))
		}
	}
	if c.Err() == nil {
		c.Add(vllmserve.CheckOwnArguments(t.BenchArgs))
	}
	return c.Err()
}

// clientNodes checks that the client of a test can use the nodes that it has to itself.
func clientNodes(t scenario.Test) error {
	if t.ClientNodes > 1 && t.Client != "profllm" {
		return source.Errorf(t.PosOf("client_nodes"), "test %q: client_nodes is %d, but this load client is one process",
			t.ID, t.ClientNodes).Hintf("set client = \"profllm\", or client_nodes = 1")
	}
	if t.ClientNodes > 1 && t.Search != nil {
		return source.Errorf(t.PosOf("client_nodes"), "test %q: client_nodes is %d, but the client of a search is one process",
			t.ID, t.ClientNodes).Hintf("set client_nodes = 1")
	}
	return nil
}
