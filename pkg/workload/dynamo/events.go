package dynamo

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
)

// eventsConfig is the option by which vLLM and SGLang publish what their caches hold.
const eventsConfig = "kv_events_config"

// wantsEvents reports whether the router chooses workers by what they publish of their caches
// (dynamo/common/configuration/groups/kv_router_args.py of 1.6.1). Options win over variables.
func (w *Workload) wantsEvents() bool {
	mode, _ := w.env.Get("DYN_ROUTER_MODE").Text()
	events := !w.isFalse("DYN_ROUTER_USE_KV_EVENTS")
	command, _ := words(w.service.Ingress, w.table.PosOf("ingress_cmd")) // checkCommands complains
	for i, word := range command {
		name, value, joined := strings.Cut(word, "=")
		switch name {
		case "--router-mode":
			if !joined && i+1 < len(command) {
				value = command[i+1]
			}
			mode = value
		case "--router-kv-events", "--kv-events":
			events = true
		case "--no-router-kv-events", "--no-kv-events", "--load-aware":
			events = false
		}
	}
	return mode == "kv" && events
}

// isFalse reports whether a variable of the test switches something off.
func (w *Workload) isFalse(name string) bool {
	v := w.env.Get(name)
	if v == nil {
		return false
	}
	text, _ := v.Text()
	on, isBool := v.Bool()
	return isBool && !on || slices.Contains([]string{"0", "false", "no", "off"}, strings.ToLower(text))
}

// silence says why a role's workers publish nothing of their caches, and what to do; "" if they do.
func (w *Workload) silence(r *role) (why, mend string) {
	config, _, said := w.said(r, eventsConfig)
	var events struct {
		Publisher string `json:"publisher"`
		Enable    bool   `json:"enable_kv_cache_events"`
	}
	readable := json.Unmarshal([]byte(config), &events) == nil
	const publish = "set kv_events_config = { publisher = \"zmq\", topic = \"kv-events\", endpoint = \"tcp://*:PORT\" } in " +
		"args, whose PORT is that of the first worker of a node"
	switch {
	case w.backend.module == sglang.module && w.switched(r, "disable_radix_cache", true):
		return "disable_radix_cache leaves them none", "remove it"
	case w.backend.module == sglang.module && said == 0 && w.service.before(modes):
		return "SGLang publishes nothing without kv_events_config", publish
	case w.backend.module == sglang.module && said > 0 && readable && slices.Contains([]string{"", "null"}, events.Publisher):
		return "kv_events_config names no publisher", publish
	case w.backend.module == sglang.module:
	case w.switched(r, "enable_prefix_caching", false):
		return "enable_prefix_caching is off", "remove it"
	case w.service.Backend == "vllm" && said > 0 && readable && !events.Enable:
		return "kv_events_config does not set enable_kv_cache_events", "remove kv_events_config: profllm then writes it"
	}
	return "", ""
}

// fixedPort is the port of an endpoint in the text of kv_events_config.
var fixedPort = lazyregexp.New(`("endpoint"\s*:\s*"tcp://[^"]*:)(\d+)"`)

// eventPorts are the words of a worker, in which the port of its events is its own: the one that the
// test writes is a base, as two workers of a node cannot share it.
func (w *Workload) eventPorts(s *plan.Service, one instance, argv []plan.Word) []plan.Word {
	const option = "--kv-events-config"
	argv = slices.Clone(argv)
	for i := range argv {
		text, _ := argv[i].Literal()
		before, _ := argv[max(i, 1)-1].Literal()
		at := fixedPort.FindStringSubmatchIndex(text)
		if at == nil || before != option && !strings.HasPrefix(text, option+"=") {
			continue
		}
		base, err := strconv.Atoi(text[at[4]:at[5]])
		if err != nil || !usable(base) {
			continue
		}
		port := one.port(one.name+"_events", base, w.ranks(one.role))
		if known := slices.IndexFunc(s.Ports, func(p plan.Port) bool { return p.Name == port.Name }); known >= 0 {
			s.Ports[known] = port
		} else {
			s.Ports = append(s.Ports, port)
		}
		argv[i] = plan.Concat(text[:at[4]], plan.PortNumber(port.Name), text[at[5]:])
	}
	return argv
}

// switched reports whether a role's workers have a flag on, or off, among all their words.
func (w *Workload) switched(r *role, flag string, on bool) bool {
	command, _ := words(r.Cmd, r.pos("cmd")) // checkCommands complains
	option := strings.ReplaceAll(flag, "_", "-")
	state := ""
	say := func(name string) {
		switch name {
		case "--" + option:
			state = "on"
		case "--no-" + option:
			state = "off"
		}
	}
	for _, word := range slices.Concat(command, literals(w.options(r)), literals(r.extra)) {
		say(word)
	}
	return on && state == "on" || !on && state == "off"
}

// noteEvents notes a router that waits for events that nobody publishes: it takes every cache for
// empty, and says so in one line of its log (seen in 1.6.1: kv_event_publisher_disabled).
func (w *Workload) noteEvents() {
	if !w.wantsEvents() {
		return
	}
	for _, r := range []*role{&w.prefill, &w.decode} {
		if r.nodes == 0 || r.kind == decodeRole {
			continue
		}
		if why, mend := w.silence(r); why != "" {
			w.note(r.pos("args"), "the KV router waits for events of caches, but no worker of %s publishes any (%s), so that "+
				"it takes every cache for empty; %s, or add --no-router-kv-events to ingress_cmd", r.label(), why, mend)
		}
	}
}

// events is the option by which a worker of vLLM or SGLang publishes what its cache holds, for a
// router that asks. Since 1.0 nothing else makes it do so.
func (w *Workload) events(one instance) []plan.Word {
	r := one.role
	_, _, said := w.said(r, eventsConfig)
	if why, _ := w.silence(r); why != "" || w.backend.noGPU || w.service.before(modes) || r.kind == decodeRole ||
		said > 0 || !w.wantsEvents() {
		return nil
	}
	end := `"}` // SGLang has no such member
	if w.service.Backend == "vllm" {
		end = `","enable_kv_cache_events":true}`
	}
	return []plan.Word{plan.Text("--kv-events-config"), plan.Concat(`{"publisher":"zmq","topic":"kv-events",`+
		`"endpoint":"tcp://*:`, plan.PortNumber(one.name+"_events"), end)}
}

// sglangEvents are the ports at which a worker of SGLang publishes: one for each rank of data
// parallelism.
func (w *Workload) sglangEvents(s *plan.Service, one instance) {
	if w.backend.module != sglang.module || w.events(one) == nil {
		return
	}
	s.Ports = append(s.Ports, one.port(one.name+"_events", w.bases.Events, w.ranks(one.role)))
}

// ranks is how many ranks of data parallelism a worker has, each of which publishes at a port of
// its own. Those of DP attention share the GPUs of TP, so that the sizes of the role do not say it.
func (w *Workload) ranks(r *role) int {
	n := r.dp
	for _, key := range w.backend.dp {
		if x, ok := intOf(r.args.Get(key)); ok {
			n = max(x, 1)
		}
	}
	return n
}
