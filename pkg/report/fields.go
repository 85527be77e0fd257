package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// The groups of fields, in the order in which they are shown; the flags of a role
// have one each, behind the engine.
const (
	groupLoad      = "load"
	groupEngine    = "engine"
	groupFlags     = "flags of "
	groupEnv       = "environment"
	groupPlacement = "placement"
	groupHardware  = "hardware"
	groupSoftware  = "software"
	groupValidity  = "validity"
)

func groupsOf(a, b fields) []string {
	have := map[string]bool{}
	for _, m := range []fields{a, b} {
		for k, fields := range m {
			have[k] = len(fields) > 0 || have[k]
		}
	}
	order := []string{
		groupLoad, groupEngine, groupFlags, groupEnv, groupPlacement, groupHardware, groupSoftware, groupValidity,
	}
	rank := func(name string) int {
		if strings.HasPrefix(name, groupFlags) {
			name = groupFlags // of any role
		}
		return slices.Index(order, name)
	}
	return slices.SortedFunc(func(yield func(string) bool) {
		for k, ok := range have {
			if ok && !yield(k) {
				return
			}
		}
	}, func(x, y string) int { return cmp.Or(rank(x)-rank(y), strings.Compare(x, y)) })
}

// fields is all that is known of a run but its numbers, times and ids: group → name →
// value.
type fields map[string]map[string]string

func (f fields) set(group, name, value string) {
	if value == "" {
		return
	}
	if f[group] == nil {
		f[group] = map[string]string{}
	}
	f[group][name] = value
}

func fieldsOf(r *records.Run) fields {
	f := fields{}
	for k, v := range r.Settings {
		group, name := settingGroup(k)
		f.set(group, name, v)
	}
	f.set(groupLoad, "client", r.Result.Config.Benchmark.Kind)
	f.addValidity(r.Result)
	f.addPlacement(r.Result)
	f.addHardware(r.Result.System)
	f.addSoftware(r.Result.Provenance)
	if v := r.Result.MetricsVersion; v > 0 {
		f.set(groupSoftware, "metrics_version", fmt.Sprint(v))
	}
	if r.Result.Simulated {
		f.set(groupEngine, "simulated", "yes")
		if speed := r.Result.SimulatedSpeed; speed > 1 {
			f.set(groupEngine, "simulated speed", fmt.Sprintf("%dx", speed))
		}
	}
	if p := r.Result.Profiling; p != nil && p.Enabled {
		f.set(groupEngine, "profiled", "yes")
	}
	return f
}

func (f fields) addValidity(r *result.Result) {
	f.set(groupValidity, "status", string(r.Status))
	if v := r.Validity; v != nil {
		f.set(groupValidity, "verdict", string(v.Verdict))
		f.set(groupValidity, "own thresholds", strings.Join(v.Set, "; "))
		for _, c := range v.Checks {
			f.set(groupValidity, c.Word, string(c.Outcome))
		}
	}
	if x := r.Failure; x != nil {
		f.set(groupValidity, "cause", x.Cause)
	}
}

func (f fields) addPlacement(r *result.Result) {
	if p := r.Placement; p != nil {
		f.set(groupPlacement, "nodes", hostlist.Format(p.Nodes))
		f.set(groupPlacement, "topology", p.Topology())
	}
	if s := r.Slurm; s != nil {
		f.set(groupPlacement, "partition", s.Partition)
		f.set(groupPlacement, "account", s.Account)
	}
}

func (f fields) addHardware(s *result.System) {
	if s == nil {
		return
	}
	all := scalars(s.HardwareInfo)
	for k, v := range all {
		f.set(groupHardware, k, v)
	}
	for _, n := range s.Nodes { // what they have in common is said once
		for k, v := range scalars(n) {
			if all[k] == "" && k != "host" {
				f.set(groupHardware, n.Host+" "+k, v)
			}
		}
	}
}

// whereabouts matches variables that say where a process is.
var whereabouts = lazyregexp.New(`_(HOST|IP|PORT|ADDR|ADDRESS)$`)

// addSoftware adds what ran.
func (f fields) addSoftware(p *result.Provenance) {
	if p == nil {
		return
	}
	for name, value := range map[string]string{
		"engine": p.Engine, "version": p.EngineVersion, "installed": p.EngineInstalled,
		"image": p.Image, "image digest": p.ImageDigest,
		"model revision": p.ModelRevision, "tokenizer digest": p.TokenizerDigest,
	} {
		f.set(groupEngine, name, value)
	}
	f.set(groupSoftware, "profllm", p.Profllm)
	f.set(groupSoftware, "launcher", p.Launcher)
	f.set(groupSoftware, "definitions", p.Git)
	for _, c := range p.Repositories {
		f.set(groupSoftware, c.URL, c.Commit)
	}
	for _, x := range p.Packages {
		f.set(groupSoftware, strings.TrimSpace(strings.Join([]string{x.Name, x.Role, x.Node}, " ")), x.Version)
	}
	for _, e := range p.Environment {
		for name, value := range e.Vars {
			if whereabouts.MatchString(name) {
				continue // differs between any two runs
			}
			words := slices.DeleteFunc([]string{e.Role, e.Node, name}, func(s string) bool { return s == "" })
			f.set(groupEnv, strings.Join(words, " "), value)
		}
	}
}

// settingGroup is the group of a setting, and its name there.
func settingGroup(key string) (group, name string) {
	head, rest, _ := strings.Cut(key, ".")
	switch {
	case key == plan.NodesSetting:
		return groupPlacement, key
	case key == result.ModelSetting:
		return groupEngine, "model"
	case key == result.ImageSetting:
		return groupEngine, "image as asked"
	case head == "bench_cmd_args":
		return groupLoad, rest
	case head == "extra_env_vars":
		return groupEnv, rest
	case head == "cmd_args":
		if role, option, ok := strings.Cut(rest, "."); ok {
			return groupFlags + role, option
		}
		return groupEngine, rest
	}
	return groupEngine, key
}

// scalars are the fields of a flat object by their names in JSON.
func scalars(v any) map[string]string {
	out := map[string]string{}
	data, err := json.Marshal(v)
	if err != nil {
		return out
	}
	var m map[string]any
	if json.Unmarshal(data, &m) == nil {
		for k, x := range m {
			out[k] = plan.SettingText(x)
		}
	}
	return out
}
