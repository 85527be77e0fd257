package dynamo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// A change is an option that a version of Dynamo dropped.
type change struct {
	option string
	gone   string // the version without it; "": profllm writes what it stands for itself
	why    string // it can be left out; "" if it cannot
}

// changes are those of the frontend and of the workers, read from the released packages 1.3.1, 1.4.0
// and 1.6.1.
var changes = []change{
	{option: "--is-prefill-worker"}, {option: "--is-decode-worker"},
	{"--router-reset-states", statelessKV, "each run starts with a router that knows nothing"},
	{"--no-router-reset-states", statelessKV, "each run starts with a router that knows nothing"},
	{"--durable-kv-events", statelessKV, ""}, {"--router-durable-kv-events", statelessKV, ""},
}

// translated is a command for the version of the service: without options that this version
// dropped, if nothing is lost, and without those that profllm writes itself.
func (w *Workload) translated(command []string, pos source.Pos) ([]plan.Word, error) {
	command = slices.Clone(command)
	for _, x := range changes {
		switch {
		case !slices.Contains(command, x.option), x.gone != "" && w.service.before(x.gone):
			continue
		case x.gone != "" && x.why == "":
			return nil, w.gone(x.option, pos)
		}
		command = slices.DeleteFunc(command, func(word string) bool { return word == x.option })
		if x.gone != "" {
			w.note(w.table.Pos, "%s is left out: Dynamo %s has no such option, and %s", x.option, w.service.Version, x.why)
		}
	}
	return plan.Texts(command...), nil
}

// gone refuses an option that the version has dropped.
func (w *Workload) gone(option string, pos source.Pos) error {
	return source.Errorf(pos, "Dynamo %s has no option %s", w.service.Version, option).
		Hintf("remove it, or %s", setVersion)
}

// note tells something once.
func (w *Workload) note(pos source.Pos, format string, args ...any) {
	if text := fmt.Sprintf("%s: %s", pos, fmt.Sprintf(format, args...)); !slices.Contains(w.notes, text) {
		w.notes = append(w.notes, text)
	}
}

// withoutOption is a command without some options and their values.
func withoutOption(command []string, options ...string) []string {
	var list []string
	for i := 0; i < len(command); i++ {
		name, _, joined := strings.Cut(command[i], "=")
		switch {
		case !slices.Contains(options, name):
			list = append(list, command[i])
		case !joined:
			i++
		}
	}
	return list
}

// version is what the name of a release begins with.
var version = lazyregexp.New(`^\d+(\.\d+)*`)

// checkVersion refuses a version that cannot be compared, and says which was assumed.
func (w *Workload) checkVersion(c *source.Complaints) {
	s := &w.service
	if !version.MatchString(s.Version) {
		c.Add(source.Errorf(w.table.PosOf("version"), "dynamo.version %q is no version: it must begin with a number",
			s.Version).Hintf("write the version that is in the image: version = %q", newest))
		s.Version = newest
		return
	}
	image := imageVersion(w.cfg.DockerImageURL)
	switch {
	case !w.table.Has("version") && image == "" && s.Backend != "mocker":
		w.note(w.table.Pos, "the image says no version of Dynamo: the commands have the options of %s; set dynamo.version "+
			"if it is another", newest)
	case w.table.Has("version") && image != "" && image != version.FindString(s.Version):
		w.note(w.table.PosOf("version"), "dynamo.version is %s, but the tag of the image says %s: the commands have the "+
			"options of %s", s.Version, image, s.Version)
	case frontends().newer(s.Version):
		w.note(w.table.PosOf("version"), "profllm knows the options of Dynamo up to %s: those of %s are taken to be the same",
			newest, s.Version)
	}
}

// checkCommands refuses commands that cannot be divided, and options of workers that the plan must
// know and stand where it does not look.
func (w *Workload) checkCommands(c *source.Complaints) {
	for _, key := range []string{"ingress_cmd", "etcd_cmd", "nats_cmd"} {
		text, _ := w.table.Get(key).Text()
		_, err := words(text, w.table.PosOf(key), "program")
		c.Add(err)
	}
	ingress, _ := words(w.service.Ingress, w.table.PosOf("ingress_cmd"), "program")
	w.checkModule(ingress, "ingress_cmd", w.table.PosOf("ingress_cmd"), "dynamo.frontend", c)
	w.checkFrontend(c)
	for _, r := range []*role{&w.prefill, &w.decode} {
		command, err := words(r.Cmd, r.pos("cmd"), "program")
		c.Add(err)
		w.checkModule(command, r.label()+".cmd", r.pos("cmd"), w.backend.module, c)
		w.checkWords(r, "cmd", command, c)
		w.checkWords(r, "extra_args", r.extraWords, c)
		for _, x := range changes {
			key := strings.ReplaceAll(strings.TrimPrefix(x.option, "--"), "-", "_")
			if x.gone != "" && isOn(r.args.Get(key)) && !w.service.before(x.gone) {
				c.Add(w.gone(x.option, r.args.PosOf(key)))
			}
		}
	}
}

// checkModule refuses a command that starts another of Dynamo's programs than the plan is made for.
// Programs of others are their users' own matter.
func (w *Workload) checkModule(command []string, key string, pos source.Pos, want string, c *source.Complaints) {
	i := slices.Index(command, "-m") + 1
	if i == 0 || i == len(command) || command[i] == want {
		return
	}
	others := []string{"dynamo.frontend", "dynamo.trtllm"}
	for _, b := range backends {
		others = append(others, b.module)
	}
	switch got := command[i]; {
	case source.Nearest(got, []string{want}) != "":
		c.Add(source.Errorf(pos, "%s starts %s", key, got).Hintf("did you mean %s?", want))
	case slices.Contains(others, got):
		c.Add(source.Errorf(pos, "%s starts %s, but %s is needed with backend %q", key, got, want, w.service.Backend).
			Hintf("remove the key for the default, or set another backend"))
	}
}

// checkWords refuses options in a command of a role that the plan must know or sets itself.
func (w *Workload) checkWords(r *role, key string, list []string, c *source.Complaints) {
	refuse := func(name, format string, args ...any) {
		c.Add(source.Errorf(r.pos(key), "%s.%s has %s, which decides about the role", r.label(), key, name).
			Hintf(format, args...))
	}
	for _, word := range list {
		name, _, _ := strings.Cut(word, "=")
		option := strings.ReplaceAll(strings.TrimPrefix(name, "--"), "-", "_")
		switch hint, planned := w.backend.planned[option]; {
		case !strings.HasPrefix(name, "-"):
		case name == "--is-prefill-worker", name == "--is-decode-worker": // translated leaves it out
			if !r.agrees(option, &source.Value{Any: true}) && (option != "is_decode_worker" || r.kind != aggregated) {
				refuse(name, "remove it: [cmd_args.dynamo.%s] says what these workers are", r.label())
			}
		case strings.HasPrefix(name, "--") && planned:
			refuse(name, "%s", hint)
		case w.owned(name):
			refuse(name, "write it in [cmd_args.dynamo.%s.args], or in dynamo.model", r.label())
		}
	}
}

// shortSizes are the one-letter spellings of parallel sizes that vLLM has.
var shortSizes = []string{"-tp", "-pp", "-dp"}

// owned reports whether an option says what the plan must know: the model, the sizes, ports, the
// role.
func (w *Workload) owned(option string) bool {
	name := strings.ReplaceAll(strings.TrimPrefix(option, "--"), "-", "_")
	b := w.backend
	if slices.Contains(shortSizes, option) {
		return true
	}
	return strings.HasPrefix(option, "--") && (slices.Contains(b.model, option) || name != "" &&
		(name == b.bootstrap || name == b.port) || slices.Contains(slices.Concat(b.tp, b.pp, b.dp), name))
}

// noEffect notes keys that are read and do nothing here.
func (w *Workload) noEffect() {
	const counted, own = "profllm counts the workers that registered", "profllm has files and names of its own"
	aiperf, genai := spelled(w.cfg.AIPerf, nil), spelled(w.cfg.GenAIPerf, nil)
	for _, x := range []struct {
		table *source.Table
		key   string
		why   string
	}{
		{w.table, "endpoint", "each client says the path itself"},
		{w.table, "workspace_path", "commands begin in the run's folder"},
		{w.prefill.table, "worker_initialized_regex", counted}, {w.decode.table, "worker_initialized_regex", counted},
		{aiperf, "health_check_between_phases", "after each phase profllm looks whether every process still listens"},
		{aiperf, "artifact_dir_name", own}, {aiperf, "report_name", own}, {aiperf, "script", own}, {aiperf, "repo", own},
		{aiperf, "name", own}, {genai, "artifact_dir_name", own}, {genai, "report_name", own}, {genai, "script", own},
		{genai, "repo", own}, {genai, "name", own},
	} {
		if x.table.Has(x.key) {
			w.note(x.table.PosOf(x.key), "%s has no effect: %s", x.key, x.why)
		}
	}
	for _, key := range []string{"script", "repo", "success_marker", "failure_marker"} {
		if w.written.Has(key) {
			w.note(w.written.PosOf(key), "%s has no effect: profllm plans the service itself, and judges the run by its "+
				"results", key)
		}
	}
	if w.cfg.StartupImage != nil && w.cfg.StartupCmd == nil {
		w.note(w.args.PosOf("startup_cmd_docker_image"), "startup_cmd_docker_image has no effect without startup_cmd")
	}
	if w.cfg.StorageDir != nil && !w.stores() {
		w.note(w.args.PosOf("storage_cache_dir"), "storage_cache_dir has no effect without LMCache or KVBM")
	}
	w.noEffectOfNames()
	if w.prefill.kind != w.decode.kind && w.decode.kind != aggregated && w.backend.noGPU {
		for _, r := range []*role{&w.prefill, &w.decode} {
			if r.multi {
				w.note(r.pos("multiple_workers_per_node"), "multiple_workers_per_node has no effect for the mocker, which has no "+
					"GPU: set workers_per_node")
			}
		}
	}
}

// noEffectOfNames notes models that workers name and that dynamo.model replaces, and variables that
// the plan sets.
func (w *Workload) noEffectOfNames() {
	for _, r := range []*role{&w.prefill, &w.decode} {
		for _, key := range modelKeys {
			if text, _ := r.args.Get(key).Text(); text != "" && text != w.service.Model {
				w.note(r.args.PosOf(key), "%s has no effect: every process serves dynamo.model, %s", key, w.service.Model)
			}
		}
	}
	for _, name := range plannedVariables {
		if w.env.Has(name) && w.plans(name) {
			why := "the plan gives each process its own"
			if key := variableKeys[name]; key != "" {
				why = "the plan sets it; write dynamo." + key
			}
			w.note(w.env.PosOf(name), "%s has no effect: %s", name, why)
		}
	}
}

// plannedVariables are those that every process gets by itself.
var plannedVariables = []string{"DYN_SYSTEM_PORT", "DYN_SYSTEM_ENABLED", "VLLM_NIXL_SIDE_CHANNEL_PORT",
	"VLLM_NIXL_SIDE_CHANNEL_HOST", "DYN_VLLM_KV_EVENT_PORT", "DYN_DISCOVERY_BACKEND", "DYN_STORE_KV",
	"DYN_REQUEST_PLANE", "DYN_EVENT_PLANE", "DYN_FILE_KV", "DYN_HTTP_PORT",
	"DYN_KVBM_LEADER_ZMQ_PUB_PORT", "DYN_KVBM_LEADER_ZMQ_ACK_PORT", "DYN_KVBM_DISK_CACHE_DIR", "DYN_KVBM_METRICS_PORT",
	cuFileVariable, "ETCD_ENDPOINTS", "NATS_SERVER", "DYN_FILE_KV"}

// variableKeys are keys of the service that say what such a variable would.
var variableKeys = map[string]string{"DYN_DISCOVERY_BACKEND": "discovery", "DYN_STORE_KV": "discovery",
	"DYN_REQUEST_PLANE": "request_plane", "DYN_EVENT_PLANE": "event_plane", "DYN_HTTP_PORT": "port"}

// plans reports whether this test's plan sets such a variable, which a test without KVBM or caches
// may not need.
func (w *Workload) plans(name string) bool {
	switch name {
	case cuFileVariable:
		return w.stores()
	case "DYN_KVBM_DISK_CACHE_DIR":
		return w.hasKVBM()
	case "DYN_FILE_KV":
		return w.service.Discovery != etcd
	case "DYN_KVBM_METRICS_PORT":
		return w.hasKVBM() && w.kvbmMeasured()
	}
	return true
}

// notYet are complaints about tests that can be read, and cannot run as they are.
func (w *Workload) notYet() (list []*source.Error) {
	for _, r := range []*role{&w.prefill, &w.decode} {
		_, pos, times := w.said(r, transferConfig)
		if times > 0 && slices.Contains(r.connectors, "kvbm") && !w.connects(r, kvbmConnector) {
			list = append(list, source.Errorf(r.connectorPos(w), "%s: connector names kvbm, but kv_transfer_config (%s), which "+
				"wins, does not: KVBM would not run", r.label(), pos).
				Hintf("remove kv_transfer_config, or write KVBM's connector there"))
		}
	}
	return list
}

// NotRunnable says why the test cannot run although it can be read, "" if it can.
func (w *Workload) NotRunnable() string {
	var why []string
	for _, e := range w.notYet() {
		why = append(why, e.Msg)
	}
	return strings.Join(why, "; ")
}
