package dynamo

import (
	_ "embed"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

//go:embed frontend.txt
var frontendText string

// A lifetime is the first and the last of the known releases that have something, "" for the oldest
// and the newest.
type lifetime struct{ first, last string }

// A frontendOption is an option of the frontend.
type frontendOption struct {
	lifetime
	kind   string              // flag, text, int or float
	values map[string]lifetime // that it takes; empty: any
}

// knownFrontend is what frontend.txt says.
type knownFrontend struct {
	releases []string // oldest first
	options  map[string]*frontendOption
}

var frontends = sync.OnceValue(func() knownFrontend { return parseFrontend(frontendText) })

// parseFrontend reads the format of frontend.txt.
func parseFrontend(text string) knownFrontend {
	k := knownFrontend{options: map[string]*frontendOption{}}
	dash := func(first, last string) lifetime {
		return lifetime{first: strings.Trim(first, "-"), last: strings.Trim(last, "-")}
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "releases":
			k.releases = words[1:]
		case len(words) >= 4:
			o := &frontendOption{kind: words[1], lifetime: dash(words[2], words[3]),
				values: map[string]lifetime{}}
			for _, word := range words[4:] {
				value, rest, limited := strings.Cut(word, "@")
				first, last, _ := strings.Cut(rest, "@")
				if o.values[value] = (lifetime{}); limited {
					o.values[value] = dash(first, last)
				}
			}
			k.options[words[0]] = o
		}
	}
	return k
}

// newer reports whether a version is above every known release, so that nobody knows its options.
func (k knownFrontend) newer(version string) bool {
	return arguments.Before(k.releases[len(k.releases)-1], version)
}

// lacks says why a version is known not to have something, "" if it may have it. Between the last
// release without it and the first with it nothing is known.
func (k knownFrontend) lacks(s lifetime, version string) string {
	if i := slices.Index(k.releases, s.first); i > 0 && !arguments.Before(k.releases[i-1], version) {
		return "it came with " + s.first + " or shortly before"
	}
	if i := slices.Index(k.releases, s.last); i >= 0 && i+1 < len(k.releases) &&
		!arguments.Before(version, k.releases[i+1]) {
		return s.last + " was the last known to have it"
	}
	return ""
}

// frontendPlanned are options of the frontend that the plan sets, and what to write instead.
var frontendPlanned = map[string]string{
	"--http-port": "on Slurm, dynamo.port sets the port", "--discovery-backend": writeDiscovery, "--store-kv": writeDiscovery,
	"--request-plane": "write dynamo.request_plane", "--event-plane": "write dynamo.event_plane",
}

const (
	writeDiscovery = "write dynamo.discovery"
	setVersion     = "set dynamo.version to that of the image"
)

// frontendWords are the words of a command behind the module of the frontend, nil if another
// program is called.
func frontendWords(command []string) []string {
	i := slices.Index(command, "dynamo.frontend")
	if i < 0 {
		return nil
	}
	return command[i+1:]
}

// checkFrontend refuses options of the frontend that its version does not have, values that they do
// not take, and options that the plan sets.
func (w *Workload) checkFrontend(c *source.Complaints) {
	list, err := words(w.service.Ingress, w.table.PosOf("ingress_cmd"), "program")
	if err != nil {
		return // checkCommands complains
	}
	list = frontendWords(list)
	known, pos, version := frontends(), w.table.PosOf("ingress_cmd"), w.service.Version
	others := slices.ContainsFunc(list, func(word string) bool { // then the rest goes to the engine's own parser
		return strings.HasPrefix(word, "--dyn-chat-processor")
	})
	passes := others || known.newer(version) || arguments.Before(version, known.releases[0]) // an option that nobody knows
	loose := passes                                                                          // a word may be its value
	for i := 0; i < len(list); i++ {
		name, value, joined := strings.Cut(list[i], "=")
		if !strings.HasPrefix(name, "-") {
			if !loose {
				c.Add(source.Errorf(pos, "ingress_cmd: %q belongs to no option", list[i]).
					Hintf("remove it, or write its option before it"))
			}
			continue
		}
		o := known.options[name]
		loose = o == nil
		hasValue := o != nil && o.kind != "flag" && (joined || i+1 < len(list))
		if hasValue && !joined {
			i++
			value = list[i]
		}
		if hint := frontendPlanned[name]; hint != "" {
			c.Add(source.Errorf(pos, "ingress_cmd has %s, which the plan sets", name).Hintf("remove it; %s", hint))
			continue
		}
		if arguments.Before(version, known.releases[0]) || dropped(name) || w.unchecked(name) {
			continue // nobody knows, or translated leaves it out or refuses it
		}
		switch {
		case o == nil && passes:
		case o == nil:
			c.Add(unknownFrontend(pos, name, version))
		default:
			c.Add(w.checkFrontendValue(name, o, value, hasValue, joined))
		}
	}
}

// unchecked reports whether an option goes to the frontend as it is.
func (w *Workload) unchecked(option string) bool {
	name := strings.ReplaceAll(strings.TrimPrefix(option, "--"), "-", "_")
	return slices.Contains(serving.Names(w.cfg.Unchecked), name)
}

// dropped reports whether translated knows an option.
func dropped(option string) bool {
	return slices.ContainsFunc(changes, func(x change) bool { return x.option == option })
}

// unknownFrontend refuses an option that no known release has.
func unknownFrontend(pos source.Pos, name, version string) error {
	e := source.Errorf(pos, "ingress_cmd: the frontend of Dynamo %s has no option %s", version, name)
	if near := source.Nearest(name, slices.Sorted(maps.Keys(frontends().options))); near != "" {
		return e.Hintf("did you mean %s?", near)
	}
	return e.Hintf("remove it, or %s; if your release has it, add it to cmd_args.unchecked_options", setVersion)
}

// checkFrontendValue refuses an option that the version lacks, or a value that it does not take.
func (w *Workload) checkFrontendValue(name string, o *frontendOption, value string, given, joined bool) error {
	known, pos, version := frontends(), w.table.PosOf("ingress_cmd"), w.service.Version
	if why := known.lacks(o.lifetime, version); why != "" {
		return source.Errorf(pos, "ingress_cmd: the frontend of Dynamo %s has no option %s: %s", version, name, why).
			Hintf("remove it, or %s", setVersion)
	}
	var err error
	switch {
	case o.kind == "flag" && joined:
		return source.Errorf(pos, "ingress_cmd: %s is a flag, which takes no value", name).Hintf("write %s alone", name)
	case o.kind == "flag":
		return nil
	case !given:
		return source.Errorf(pos, "ingress_cmd: %s has no value", name).Hintf("write the value behind it, or remove it")
	case o.kind == "int" && value != "None":
		_, err = strconv.Atoi(value)
	case o.kind == "float" && value != "None":
		_, err = strconv.ParseFloat(value, 64)
	}
	if err != nil {
		return source.Errorf(pos, "ingress_cmd: %s is %q, must be a number", name, value).
			Hintf("write %s with a number behind it", name)
	}
	s, taken := o.values[value]
	switch {
	case len(o.values) == 0 || !taken && known.newer(version):
		return nil
	case !taken:
		return source.Errorf(pos, "ingress_cmd: %s does not take %q", name, value).
			Hintf("%s", source.Suggest(value, known.taken(o, version)))
	case known.lacks(s, version) != "":
		return source.Errorf(pos, "ingress_cmd: the frontend of Dynamo %s has no %s %s: %s", version, name, value,
			known.lacks(s, version)).Hintf("%s", source.Suggest(value, known.taken(o, version)))
	}
	return nil
}

// taken are the values that an option takes in a version.
func (k knownFrontend) taken(o *frontendOption, version string) (list []string) {
	for _, value := range slices.Sorted(maps.Keys(o.values)) {
		if k.lacks(o.values[value], version) == "" {
			list = append(list, value)
		}
	}
	return list
}

// frontendFlag reports whether the frontend is told a flag, or else its variable is on. Of a flag
// and what turns it off the last counts.
func (w *Workload) frontendFlag(variable string, on bool, flags ...string) bool {
	if text, ok := w.env.Get(variable).Text(); ok {
		on = slices.Contains([]string{"1", "true", "yes", "on"}, strings.ToLower(text))
	}
	list, _ := words(w.service.Ingress, source.Pos{}, "program")
	for _, word := range list {
		switch {
		case slices.Contains(flags, word):
			on = true
		case slices.Contains(flags, strings.Replace(word, "--no-", "--", 1)):
			on = false
		}
	}
	return on
}

// durable reports whether events are kept, which only NATS does.
func (w *Workload) durable() bool {
	told := w.frontendFlag("DYN_ROUTER_DURABLE_KV_EVENTS", false, "--router-durable-kv-events", "--durable-kv-events")
	for _, r := range []*role{&w.prefill, &w.decode} {
		told = told || r.nodes > 0 && (isOn(r.args.Get("durable_kv_events")) || hasOption(r.extra, "--durable-kv-events"))
	}
	return told && w.service.before(statelessKV)
}
