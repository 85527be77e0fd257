package plan

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/redact"
)

// NodesSetting is the key of settings that holds the number of nodes.
const NodesSetting = "NUM_NODES"

// LabelSetting is the key of what a client calls its result: a name, which changes no number, and so
// no setting.
const LabelSetting = "bench_cmd_args.label"

// EnvSetting begins the keys of settings that are variables.
const EnvSetting = "extra_env_vars."

// Settings is what a plan says was asked for one of its loads, by key as definition
// files spell it: NUM_NODES, cmd_args.…, bench_cmd_args.…, extra_env_vars.…
func (p *Plan) Settings(load *Load) map[string]string {
	s := map[string]string{NodesSetting: strconv.Itoa(p.Job.Nodes), "cmd_args.model": p.Config.Model}
	if p.Image != "" {
		s["cmd_args.docker_image_url"] = p.Image
	}
	for role, args := range p.Config.Server {
		Flatten(s, "cmd_args."+RoleTable(role), args)
	}
	for _, role := range p.Roles {
		if role.Engine && len(p.Roles) > 1 && role.Replica == 0 && !role.Group {
			s["cmd_args."+RoleTable(role.KindName())+".num_nodes"] = strconv.Itoa(role.Nodes.Count)
		}
	}
	Flatten(s, "bench_cmd_args", load.Benchmark)
	delete(s, LabelSetting)
	for _, v := range p.Env {
		s[EnvSetting+v.Name] = v.Value.String()
	}
	if p.CustomBash != "" {
		s["custom_bash"] = p.CustomBash
	}
	for _, v := range load.Values {
		if load.resolves(v) {
			continue
		}
		Flatten(s, SettingKey(v.Path), v.Value)
	}
	return s
}

// countKeys are arguments of the clients that can be "5x".
var countKeys = []string{"num_prompts", "request_count", "num_requests"}

// resolves reports whether the client got another value than the sweep chose: the number
// that num_prompts = "5x" makes.
func (l *Load) resolves(v Assignment) bool {
	_, isText := v.Value.(string)
	key, _ := strings.CutPrefix(v.Path, "bench_cmd_args.")
	key = strings.ReplaceAll(key, "-", "_")
	_, has := l.Benchmark[key]
	return isText && has && slices.Contains(countKeys, key)
}

// RoleTable is the name of a role's table: a single server's is [cmd_args.decode].
func RoleTable(role string) string {
	if role == "serve" {
		return "decode"
	}
	return role
}

// SettingKey completes a dimension's path, which leaves cmd_args out. CloudAI has AIPerf's options of AIDynamo below
// cmd_args; for profllm they are arguments of the client, as elsewhere.
func SettingKey(path string) string {
	head, _, _ := strings.Cut(path, ".")
	for _, client := range []string{"aiperf.args.", "genai_perf.args."} {
		if option, ok := strings.CutPrefix(path, client); ok {
			return "bench_cmd_args." + strings.ReplaceAll(option, "-", "_")
		}
	}
	if slices.Contains([]string{NodesSetting, "cmd_args", "bench_cmd_args", "extra_env_vars"}, head) {
		return path
	}
	return "cmd_args." + path
}

// Flatten adds every scalar below v under its dotted path, secrets left out.
func Flatten(into map[string]string, key string, v any) {
	last := key[strings.LastIndexByte(key, '.')+1:]
	m, ok := redact.Value(last, v).(map[string]any)
	if !ok {
		if v != nil {
			into[key] = redact.Setting(last, SettingText(v))
		}
		return
	}
	for k, x := range m {
		Flatten(into, key+"."+k, x)
	}
}

// SettingText writes a value as a person would: strings bare, numbers shortest.
func SettingText(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return string(data)
}
