package records

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/source"
)

// asPlanned takes from the plan what the record does not say.
func (r *Run) asPlanned(o owner) {
	p, load := o.plan.Plan, o.load
	r.Place = slices.IndexFunc(p.Loads, func(l plan.Load) bool { return l.Dir == load.Dir })
	r.Case = Case{Scenario: p.Scenario + side(p), Test: p.Test, Iteration: p.Iteration}
	r.Job, r.gpus = o.dir, p.Job.Nodes*p.Job.GPUsPerNode
	name := load.Name // [<step>][.<phase>][.r<repeat>]
	if load.Repeat != nil {
		r.Case.Repeat = load.Repeat.Index + 1
		name = strings.TrimSuffix(strings.TrimSuffix(name, fmt.Sprintf("r%d", r.Case.Repeat)), ".")
	}
	if r.Case.Phase = name; p.Step > 0 || len(load.Values) > 0 {
		r.Case.Step, r.Series = max(p.Step, 1), filepath.Dir(o.dir)
		head, rest, _ := strings.Cut(name, ".")
		if n, err := strconv.Atoi(head); err == nil {
			r.Case.Step, r.Case.Phase = n, rest
		}
	}
	if r.Result != nil && len(r.Result.Config.Settings) > 0 {
		r.Settings = r.Result.Config.Settings // the plan's, without secrets
	} else {
		r.Settings = p.Settings(load)
	}
	r.chosen(load.Values)
}

// chosen takes what a sweep chose for the run.
func (r *Run) chosen(values []plan.Assignment) {
	for _, v := range values {
		key := plan.SettingKey(v.Path)
		text, ok := r.Settings[key] // num_prompts = "5x" is a number there
		if !ok {
			text = plan.SettingText(v.Value)
		}
		r.Values = append(r.Values, Setting{key, text})
		if v.Zip > 0 {
			if r.Zips == nil {
				r.Zips = map[string]int{}
			}
			r.Zips[key] = v.Zip
		}
	}
	r.Case.Point = JoinShort(r.Values)
}

// asRecorded takes from CloudAI's test-run.toml, or else from the record, what
// a plan would say.
func (r *Run) asRecorded() {
	if r.foreign() {
		return
	}
	r.Settings = map[string]string{}
	if r.Result == nil {
		return
	}
	if scenario, test, ok := strings.Cut(r.Result.Suite, "/"); ok && test == r.Case.Test {
		r.Case.Scenario = scenario
	}
	if x := r.Result.Repeats; x != nil {
		r.Case.Repeat = x.Index + 1
	}
	if r.Result.Placement != nil {
		r.Settings[plan.NodesSetting] = strconv.Itoa(len(r.Result.Placement.Nodes))
	}
	c := r.Result.Config
	if len(c.Settings) > 0 {
		r.Settings = c.Settings
		return
	}
	r.Pieced = true
	for k, v := range c.Server {
		if k == "model" {
			plan.Flatten(r.Settings, "cmd_args.model", v)
			continue
		}
		plan.Flatten(r.Settings, "cmd_args.decode."+k, v)
	}
	for _, x := range c.Roles {
		plan.Flatten(r.Settings, "cmd_args."+plan.RoleTable(x.Role), x.Server)
	}
	benchmarkSettings(r.Settings, c.Benchmark)
}

func benchmarkSettings(s map[string]string, b result.Benchmark) {
	data, err := json.Marshal(b)
	if err != nil {
		return
	}
	var m map[string]any
	if json.Unmarshal(data, &m) == nil {
		plan.Flatten(s, "bench_cmd_args", m)
	}
}

// foreign reads test-run.toml; false if there is none that can be read.
func (r *Run) foreign() bool {
	file := filepath.Join(r.Dir, foreignFile)
	data, err := regular.ReadFile(file)
	if err != nil {
		return false
	}
	t, err := source.Parse(file, data)
	if err != nil {
		return false
	}
	r.Settings = map[string]string{}
	if name, ok := t.Get("name").Text(); ok {
		r.Case.Test = name
	}
	for key, into := range map[string]*int{"current_iteration": &r.Case.Iteration, "step": &r.Case.Step} {
		if v := t.Get(key); v != nil {
			if n, ok := v.Int(); ok {
				*into = int(n)
			}
		}
	}
	if v := t.Get("nnodes"); v != nil {
		plan.Flatten(r.Settings, plan.NodesSetting, v.Plain())
	}
	def := t.Table("test_definition")
	for _, key := range []string{"cmd_args", "bench_cmd_args", "extra_env_vars"} {
		if sub := def.Table(key); sub != nil {
			plan.Flatten(r.Settings, key, sub.Plain())
		}
	}
	return true
}
