package arguments

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Conflict is a combination of options with which `vllm serve` does not start, or, as a
// warning, does not do what it is meant to.
type Conflict struct {
	Options []string // which stand against each other, the one to change first
	Text    string
	Warning bool
}

// Conflicts lists the combinations in a command line that do not work, whatever the model and the
// GPUs. args are what Parse returned.
func Conflicts(args []string) (list []Conflict) {
	s := settingsOf(args)
	for _, rule := range rules {
		if text := rule.broken(s); text != "" {
			list = append(list, Conflict{rule.options, text, rule.warning})
		}
	}
	return list
}

// Startable says why no engine starts with what Parse returned, nil if none of the rules does.
func Startable(parsed []string) error {
	_, err := startable(parsed)
	return err
}

// startable parts the conflicts into warnings and errors.
func startable(parsed []string) (warnings []string, err error) {
	for _, c := range Conflicts(parsed) {
		if c.Warning {
			warnings = append(warnings, c.Text)
		} else {
			err = errors.Join(err, errors.New(c.Text))
		}
	}
	return warnings, err
}

// A rule says when options stand against each other.
type rule struct {
	options []string
	broken  func(s settings) string // what is wrong, "" if nothing is
	warning bool
}

// rules are checked in vLLM when it makes its configuration (vllm/config/parallel.py and
// scheduler.py, vllm/engine/arg_utils.py, vllm/entrypoints/cli/serve.py, 0.32). The real engine is asked about
// each of them (TestVLLMConflicts), but for warnings.
var rules = []rule{
	{options: []string{"--decode-context-parallel-size", "--tensor-parallel-size"}, broken: func(s settings) string {
		tp, dcp := s.int("--tensor-parallel-size", 1), s.int("--decode-context-parallel-size", 1)
		if s.int("--prefill-context-parallel-size", 1) > 1 || tp%dcp == 0 {
			return ""
		}
		return fmt.Sprintf("tensor_parallel_size %d is not divisible by decode_context_parallel_size %d", tp, dcp)
	}},
	{options: []string{"--enable-eplb", "--enable-expert-parallel"}, broken: func(s settings) string {
		return when(s.on("--enable-eplb") && !s.on("--enable-expert-parallel"), "enable_eplb needs enable_expert_parallel")
	}},
	{options: []string{"--enable-eplb", "--tensor-parallel-size", "--data-parallel-size"}, broken: func(s settings) string {
		return when(s.on("--enable-eplb") && s.ranks() == 1, "enable_eplb needs more than one GPU: a larger tensor_parallel_size or data_parallel_size")
	}},
	{options: []string{"--eplb-config", "--num-redundant-experts", "--enable-eplb"}, broken: func(s settings) string {
		n := s.int("--eplb-config.num_redundant_experts", s.int("--num-redundant-experts", 0))
		return when(n > 0 && !s.on("--enable-eplb"), "num_redundant_experts is %d, but enable_eplb is off", n)
	}},
	{options: []string{"--enable-expert-parallel", "--pipeline-parallel-size"}, warning: true, broken: func(s settings) string {
		pp := s.int("--pipeline-parallel-size", 1)
		return when(s.on("--enable-expert-parallel") && pp > 1,
			"enable_expert_parallel with pipeline_parallel_size %d: experts are spread within a stage only; data_parallel_size is the usual choice", pp)
	}},
	{options: []string{"--nnodes", "--data-parallel-backend"}, broken: func(s settings) string {
		return when(s.int("--nnodes", 1) > 1 && s.text("--data-parallel-backend", "mp") != "mp", "nnodes above 1 needs data_parallel_backend = \"mp\"")
	}},
	{options: []string{"--nnodes", "--distributed-executor-backend"}, broken: func(s settings) string {
		return when(s.int("--nnodes", 1) > 1 && s.text("--distributed-executor-backend", "") == "ray", "nnodes above 1 does not go with distributed_executor_backend = \"ray\"")
	}},
	{options: []string{"--nnodes", "--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size"}, broken: func(s settings) string {
		nodes, world := s.int("--nnodes", 1), s.ranks()*s.int("--pipeline-parallel-size", 1)
		return when(nodes > 1 && world%nodes != 0, "nnodes %d does not divide the %d GPUs of TP x PP x DP", nodes, world)
	}},
	{options: []string{"--node-rank", "--nnodes"}, broken: func(s settings) string {
		rank, nodes := s.int("--node-rank", 0), s.int("--nnodes", 1)
		return when(nodes > 1 && rank >= nodes, "node_rank %d is not below nnodes %d", rank, nodes)
	}},
	{options: []string{"--data-parallel-hybrid-lb", "--data-parallel-external-lb"}, broken: func(s settings) string {
		return when(s.on("--data-parallel-hybrid-lb") && s.on("--data-parallel-external-lb"), "data_parallel_hybrid_lb and data_parallel_external_lb exclude each other")
	}},
	{options: []string{"--data-parallel-external-lb", "--data-parallel-size"}, broken: func(s settings) string {
		return when(s.on("--data-parallel-external-lb") && s.int("--data-parallel-size", 1) <= 1, "data_parallel_external_lb needs a data_parallel_size above 1")
	}},
	{options: []string{"--data-parallel-hybrid-lb", "--data-parallel-size-local"}, broken: func(s settings) string {
		return when(s.on("--data-parallel-hybrid-lb") && !s.has("--data-parallel-size-local") && !s.on("--headless"), "data_parallel_hybrid_lb needs data_parallel_size_local")
	}},
	{options: []string{"--data-parallel-hybrid-lb", "--headless"}, broken: func(s settings) string {
		return when(s.on("--data-parallel-hybrid-lb") && s.on("--headless"), "data_parallel_hybrid_lb does not go with headless")
	}},
	{options: []string{"--data-parallel-size-local", "--data-parallel-size"}, broken: func(s settings) string {
		local, all := s.int("--data-parallel-size-local", 1), s.int("--data-parallel-size", 1)
		return when(local > all, "data_parallel_size_local %d is above data_parallel_size %d", local, all)
	}},
	{options: []string{"--data-parallel-size-local", "--data-parallel-external-lb", "--data-parallel-rank"}, broken: func(s settings) string {
		external := s.on("--data-parallel-external-lb") || s.has("--data-parallel-rank")
		local := s.int("--data-parallel-size-local", 1)
		return when(external && local != 1, "data_parallel_size_local is %d, but with data_parallel_external_lb or data_parallel_rank it must be 1", local)
	}},
	{options: []string{"--data-parallel-size-local", "--headless"}, broken: func(s settings) string {
		return when(s.on("--headless") && s.int("--data-parallel-size-local", 1) == 0, "data_parallel_size_local is 0, but a headless process runs engines only")
	}},
	{options: []string{"--data-parallel-rank", "--data-parallel-size"}, broken: func(s settings) string {
		rank, all := s.int("--data-parallel-rank", 0), s.int("--data-parallel-size", 1)
		return when(all > 1 && rank >= all, "data_parallel_rank %d is not below data_parallel_size %d", rank, all)
	}},
	{options: []string{"--api-server-count", "--headless"}, broken: func(s settings) string {
		return when(s.on("--headless") && s.int("--api-server-count", 0) > 0, "headless starts no API server: api_server_count does not go with it")
	}},
	{options: []string{"--max-num-batched-tokens", "--max-num-seqs"}, broken: func(s settings) string {
		tokens, seqs := s.int("--max-num-batched-tokens", 0), s.int("--max-num-seqs", 0)
		return when(s.has("--max-num-batched-tokens") && tokens < seqs, "max_num_batched_tokens %d is below max_num_seqs %d", tokens, seqs)
	}},
	{options: []string{"--max-num-batched-tokens", "--max-model-len", "--enable-chunked-prefill"}, broken: func(s settings) string {
		tokens, length := s.int("--max-num-batched-tokens", 0), s.int("--max-model-len", 0)
		off := s.has("--no-enable-chunked-prefill")
		return when(off && s.has("--max-num-batched-tokens") && tokens < length,
			"without chunked prefill, max_num_batched_tokens %d must not be below max_model_len %d", tokens, length)
	}},
	{options: []string{"--max-num-active-seqs", "--max-num-seqs"}, broken: func(s settings) string {
		active, seqs := s.int("--max-num-active-seqs", 0), s.int("--max-num-seqs", 0)
		return when(s.has("--max-num-seqs") && active > seqs, "max_num_active_seqs %d is above max_num_seqs %d", active, seqs)
	}},
	{options: []string{"--long-prefill-token-threshold", "--max-model-len"}, broken: func(s settings) string {
		threshold, length := s.int("--long-prefill-token-threshold", 0), s.int("--max-model-len", 0)
		return when(length > 0 && threshold > length, "long_prefill_token_threshold %d is above max_model_len %d", threshold, length)
	}},
	{options: []string{"--enable-auto-tool-choice", "--tool-call-parser"}, broken: func(s settings) string {
		return when(s.on("--enable-auto-tool-choice") && !s.has("--tool-call-parser"), "enable_auto_tool_choice needs tool_call_parser")
	}},
	{options: []string{"--enable-log-outputs", "--enable-log-requests"}, broken: func(s settings) string {
		return when(s.on("--enable-log-outputs") && !s.on("--enable-log-requests"), "enable_log_outputs needs enable_log_requests")
	}},
	{options: []string{"--numa-bind-nodes", "--numa-bind-cpus", "--numa-bind"}, broken: func(s settings) string {
		return when((s.has("--numa-bind-nodes") || s.has("--numa-bind-cpus")) && !s.on("--numa-bind"), "numa_bind_nodes and numa_bind_cpus need numa_bind")
	}},
}

func when(broken bool, format string, args ...any) string {
	if !broken {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// settings are the last value of each option of a command line, by the name under which Parse
// returns it; of JSON objects also each member, as --x.member.
type settings map[string]string

func settingsOf(args []string) settings {
	s := settings{}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		if !strings.HasPrefix(name, "--") {
			continue
		}
		if positive, no := strings.CutPrefix(name, "--no-"); no {
			delete(s, "--"+positive)
		} else {
			delete(s, "--no-"+strings.TrimPrefix(name, "--"))
		}
		s[name] = value
		var object map[string]any
		if strings.HasPrefix(value, "{") && json.Unmarshal([]byte(value), &object) == nil {
			for member, v := range object {
				s[name+"."+member] = fmt.Sprint(v)
			}
		}
	}
	return s
}

func (s settings) has(name string) bool { _, ok := s[name]; return ok }
func (s settings) on(name string) bool  { return s.has(name) }

func (s settings) text(name, unset string) string {
	if v, ok := s[name]; ok {
		return v
	}
	return unset
}

// int is a number with or without a unit, unset where there is none.
func (s settings) int(name string, unset int) int {
	v, ok := s[name]
	if !ok {
		return unset
	}
	v = strings.ReplaceAll(strings.TrimSpace(v), "_", "")
	scale := 1.0
	if v != "" {
		if unit, ok := units[v[len(v)-1]]; ok {
			v, scale = v[:len(v)-1], unit
		}
	}
	n, err := strconv.ParseFloat(v, 64)
	if err != nil {
		return unset
	}
	return int(n * scale)
}

var units = map[byte]float64{'k': 1e3, 'm': 1e6, 'g': 1e9, 't': 1e12, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40}

// ranks are the GPUs of an engine over which experts can be spread.
func (s settings) ranks() int {
	return s.int("--tensor-parallel-size", 1) * s.int("--data-parallel-size", 1) * s.int("--prefill-context-parallel-size", 1)
}
