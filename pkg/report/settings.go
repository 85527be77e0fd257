package report

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/source"
)

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
	r.pieced = true
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

// shortened are settings with keys as short as they can be.
func shortened(list []Setting) []Setting {
	keys := make([]string, len(list))
	for i, s := range list {
		keys[i] = s.Key
	}
	out := make([]Setting, len(list))
	for i, key := range plan.ShortKeys(keys) {
		out[i] = Setting{key, list[i].Value}
	}
	return out
}

// joinedShort writes settings with keys as short as they can be.
func joinedShort(list []Setting) string { return joined(shortened(list)) }

// lookup returns a setting by its key, by its key without cmd_args, or, for a
// table, all of it.
func lookup(settings map[string]string, key string) (string, bool) {
	for _, k := range []string{key, "cmd_args." + key} {
		if v, ok := settings[k]; ok {
			return v, true
		}
		var parts []string
		for _, have := range slices.Sorted(maps.Keys(settings)) {
			if rest, ok := strings.CutPrefix(have, k+"."); ok {
				parts = append(parts, rest+"="+settings[have])
			}
		}
		if parts != nil {
			return strings.Join(parts, " "), true
		}
	}
	return "", false
}

// differing lists the keys whose values are not the same in all runs, sorted.
// A run without a key differs from one that has it.
func differing(runs []*Run) []string {
	list := make([]map[string]string, len(runs))
	for i, r := range runs {
		list[i] = r.Settings
	}
	return plan.DifferingKeys(list)
}

// UnknownKeys complains about keys that no run has, so that a typing error does
// not look like one group.
func UnknownKeys(runs []Run, keys []string) error {
	var c source.Complaints
	for _, key := range keys {
		known := map[string]bool{}
		found := false
		for _, r := range runs {
			if _, ok := lookup(r.Settings, key); ok {
				found = true
				break
			}
			for k := range r.Settings {
				known[k] = true
				known[strings.TrimPrefix(k, "cmd_args.")] = true
			}
		}
		if !found {
			c.Add(source.Errorf(source.Pos{File: "group_by"}, "no run has the key %q", key).
				Hintf("%s", source.Suggest(key, slices.Sorted(maps.Keys(known)))))
		}
	}
	return c.Err()
}
