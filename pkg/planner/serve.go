package planner

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// Serve asks for the servers of one test, without a client.
type Serve struct {
	Test string        // id; "" for the only test
	For  time.Duration // how long they stay up once they are ready; 0: until the job is told to end
}

// clientKeys are the keys of a test that say what clients do, and how often.
var clientKeys = []string{"bench_cmd_args", "semantic_eval_cmd_args", "client", "phases", "after_load",
	"repeat", "sweep",
	"iterations", "agent", "agent_steps", "agent_config", "agent_metrics", "agent_reward_function"}

// served is the scenario with the test alone whose servers are asked for, and without its clients.
func (w *Serve) served(s *scenario.Scenario) (*scenario.Scenario, error) {
	t, err := w.choose(s)
	if err != nil {
		return nil, err
	}
	if isTool(t.Template) {
		return nil, source.Errorf(t.PosOf("test_template_name"), "test %q: a %s test has no server", t.ID, t.Template)
	}
	swept := t.Table
	t.BenchArgs, t.EvalArgs, t.Client, t.Phases, t.Repeat = nil, nil, "", nil, scenario.Repeat{}
	t.AfterLoad, t.BeforeLoad = "", ""
	t.CmdArgs = t.CmdArgs.Without("aiperf", "genai_perf", "aiperf_phases", "aiperf_accuracy", "workloads")
	t.Sweep, t.Iterations, t.Dependencies = scenario.Sweep{}, 1, nil
	t.Table = t.Table.Without(clientKeys...)
	if err := oneServer(t, swept); err != nil {
		return nil, err
	}
	one := *s
	one.Tests = []scenario.Test{t}
	return &one, nil
}

// choose finds the test.
func (w *Serve) choose(s *scenario.Scenario) (scenario.Test, error) {
	var names []string
	for _, t := range s.Tests {
		if t.ID == w.Test || w.Test == "" && len(s.Tests) == 1 {
			return t, nil
		}
		names = append(names, t.ID)
	}
	if w.Test == "" {
		return scenario.Test{}, fmt.Errorf("%s has %s, but serve keeps the servers of one up\n\thint: --test %s",
			s.Name, quantity.Count(len(names), "test"), strings.Join(names, ", or --test "))
	}
	return scenario.Test{}, fmt.Errorf("%s has no test %q\n\thint: %s", s.Name, w.Test, source.Suggest(w.Test, names))
}

// oneServer refuses a sweep of the server. swept is the test as it is written.
func oneServer(t scenario.Test, swept *source.Table) error {
	s, err := Sweep(t)
	if err != nil || !s.Active() {
		return err
	}
	var lists []string
	pos := swept.Pos
	for i, d := range s.Dimensions {
		if lists = append(lists, d.Path); i == 0 {
			pos = d.Pos
		}
	}
	return source.Errorf(pos, "test %q is a sweep of its server, but serve keeps one server up", t.ID).
		Hintf("write one value for %s", strings.Join(lists, ", "))
}

// hold is a plan.Client that measures nothing: its step keeps a job going whose servers are ready.
type hold struct {
	dir  string
	time time.Duration
}

// Command implements plan.Client.
func (h hold) Command(t plan.Target) (plan.Step, error) {
	argv := slices.Concat([]plan.Word{plan.Self()}, plan.Texts("job", "hold", "--run", h.dir, "--url"),
		[]plan.Word{plan.Concat("http://", t.Host, ":", t.Port, "/v1")})
	if h.time > 0 {
		argv = append(argv, plan.Texts("--for", h.time.String())...)
	}
	log := path.Join("logs", plan.HoldStep+"-%t.log")
	return plan.Step{Name: plan.HoldStep, Nodes: t.Nodes, Argv: argv, Log: log}, nil
}

// after is a plan.Client that measures nothing: it runs shell text behind those that do.
type after struct{ text string }

// Command implements plan.Client.
func (a after) Command(t plan.Target) (plan.Step, error) {
	return plan.Step{Name: plan.AfterLoadStep, Nodes: t.Nodes, Container: true,
		Argv: plan.Texts("bash", "-c", a.text), Log: path.Join("logs", plan.AfterLoadStep+"-%t.log")}, nil
}

// begun is a client behind shell text that runs in the same container, and whose failure is the client's.
func begun(c plan.Client, text string) plan.Client {
	if text == "" {
		return c
	}
	return before{c, text}
}

type before struct {
	plan.Client
	text string
}

// Command implements plan.Client.
func (b before) Command(t plan.Target) (plan.Step, error) {
	s, err := b.Client.Command(t)
	s.Argv = append(plan.Texts("bash", "-c", "{ "+b.text+"\n} || exit; exec \"$@\"", s.Name), s.Argv...)
	return s, err
}
