package dynamo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// A change is an option that a version of Dynamo dropped.
type change struct {
	option string
	gone   string // the version without it; "": profllm writes what it stands for itself
	why    string // it can be left out; "" if it cannot
}

// changes are those of the frontend and of the workers, read from the released packages 1.1.1 and 1.6.1.
var changes = []change{
	{option: "--is-prefill-worker"}, {option: "--is-decode-worker"},
	{"--router-reset-states", statelessKV, "each run starts with a router that knows nothing"},
	{"--durable-kv-events", statelessKV, ""},
}

// translated is a command for the version of the service: without options that this version dropped, if nothing is
// lost, and without those that profllm writes itself.
func (w *Workload) translated(command []string, pos source.Pos) ([]plan.Word, error) {
	command = slices.Clone(command)
	for _, x := range changes {
		switch {
		case !slices.Contains(command, x.option), x.gone != "" && w.service.before(x.gone):
			continue
		case x.gone != "" && x.why == "":
			return nil, source.Errorf(pos, "Dynamo %s has no option %s", w.service.Version, x.option).
				Hintf("remove it, or set dynamo.version to that of the image")
		}
		command = slices.DeleteFunc(command, func(word string) bool { return word == x.option })
		if x.gone != "" {
			w.note(w.table.Pos, "%s is left out: Dynamo %s has no such option, and %s", x.option, w.service.Version, x.why)
		}
	}
	return plan.Texts(command...), nil
}

// note tells something once.
func (w *Workload) note(pos source.Pos, format string, args ...any) {
	if text := fmt.Sprintf("%s: %s", pos, fmt.Sprintf(format, args...)); !slices.Contains(w.notes, text) {
		w.notes = append(w.notes, text)
	}
}

// withoutOption is a command without an option and its value.
func withoutOption(command []string, option string) []string {
	var list []string
	for i := 0; i < len(command); i++ {
		switch {
		case command[i] == option:
			i++
		case strings.HasPrefix(command[i], option+"="):
		default:
			list = append(list, command[i])
		}
	}
	return list
}

// noEffect notes keys that are read and do nothing here.
func (w *Workload) noEffect() {
	for _, x := range []struct {
		table *source.Table
		key   string
		why   string
	}{
		{w.table, "endpoint", "each client says the path itself"},
		{w.prefill.table, "worker_initialized_regex", "profllm counts the workers that registered"},
		{w.decode.table, "worker_initialized_regex", "profllm counts the workers that registered"},
	} {
		if x.table.Has(x.key) {
			w.note(x.table.PosOf(x.key), "%s has no effect: %s", x.key, x.why)
		}
	}
}

// notYet are complaints about what CloudAI does and profllm does not do yet. Such a test can be read, and cannot run.
func (w *Workload) notYet() (list []*source.Error) {
	for _, r := range []struct {
		name string
		*role
	}{{"prefill_worker", &w.prefill}, {"decode_worker", &w.decode}} {
		if r.Hosts != nil && *r.Hosts != "" {
			list = append(list, source.Errorf(r.pos("nodes"), "%s.nodes is not supported yet", r.name).
				Hintf("remove it; nodes of the test names hosts, of which decode has the first"))
		}
	}
	if text := w.cfg.StartupCmd; text != nil && strings.Contains(*text, "CLOUDAI_RUNTIME_FILE") {
		list = append(list, source.Errorf(w.args.PosOf("startup_cmd"),
			"startup_cmd writes CLOUDAI_RUNTIME_FILE, whose replacements are not supported yet").
			Hintf("write the files that the servers read in [Tests.files]"))
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
