package dynamo

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
)

// connectors are the names by which Dynamo before 1.0 knew what moves KV blocks, and what they are
// for vLLM.
var connectors = map[string]map[string]any{
	"nixl":    {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
	"lmcache": {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"},
	"kvbm": {"kv_connector": "DynamoConnector", "kv_role": "kv_both",
		"kv_connector_module_path": "kvbm.vllm_integration.connector"},
	"none": nil,
}

// connectorNames are those of a value: a list, or a text with commas or blanks.
func connectorNames(v *source.Value, c *source.Complaints) []string {
	if v == nil {
		return nil
	}
	var list []string
	add := func(v *source.Value) {
		text, ok := v.Text()
		if !ok {
			c.Add(source.Errorf(v.Pos, "connector must be a text, not %s", v.Describe()).Hintf(`write connector = "nixl"`))
		}
		list = append(list, strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	if all, ok := v.Any.([]*source.Value); ok {
		for _, e := range all {
			add(e)
		}
	} else {
		add(v)
	}
	for _, name := range list {
		if _, known := connectors[name]; !known {
			c.Add(source.Errorf(v.Pos, "unknown connector %q", name).Hintf("%s", source.Suggest(name, names(connectors))))
		}
	}
	return list
}

// connectorOption is how workers of vLLM before 1.0 are told their connectors. Later ones refuse it,
// and are told in vLLM's words instead.
const connectorOption = "--connector"

// spokenConnectors are the connectors that words of a command name, and the words without them. Of
// several options the last counts. found is false where no word names any.
func spokenConnectors(command []string) (list, rest []string, found bool) {
	for i := 0; i < len(command); i++ {
		name, value, joined := strings.Cut(command[i], "=")
		if name != connectorOption {
			rest = append(rest, command[i])
			continue
		}
		found, list = true, []string{}
		if joined {
			list = append(list, value)
			continue
		}
		for i+1 < len(command) && !strings.HasPrefix(command[i+1], "-") {
			i++
			list = append(list, command[i])
		}
	}
	return list, rest, found
}

// readConnectors reads what moves the blocks of a role: the last word of extra_args counts, then
// args, cmd, and the key of the whole service.
func (w *Workload) readConnectors(r *role, c *source.Complaints) {
	spoken := func(words []string, key string) (*source.Value, []string) {
		list, rest, found := spokenConnectors(words)
		if !found {
			return nil, words
		}
		if len(list) == 0 {
			c.Add(source.Errorf(r.pos(key), "%s.%s: %s names no connector", r.label(), key, connectorOption).
				Hintf("known: %s", strings.Join(names(connectors), ", ")))
		}
		return &source.Value{Pos: r.pos(key), Any: strings.Join(list, " ")}, rest
	}
	command, _ := words(r.Cmd, r.pos("cmd")) // checkCommands complains
	inCommand, _ := spoken(command, "cmd")
	inExtra, rest := spoken(literals(r.extra), "extra_args")
	if inExtra != nil {
		r.extra = plan.Texts(rest...)
	}
	for _, v := range []*source.Value{inExtra, r.args.Get("connector"), inCommand, w.service.Connector} {
		if r.connectors = connectorNames(v, c); r.connectors != nil {
			r.connectorAt = v.Pos
			return
		}
	}
}

// connectorVariable is what Dynamo's worker of vLLM reads where it has no option; since 1.0 it does
// not start with it.
const connectorVariable = "DYN_CONNECTOR"

// checkConnectors refuses connectors that the plan does not see.
func (w *Workload) checkConnectors(c *source.Complaints) {
	if w.service.Backend == "vllm" && w.env.Has(connectorVariable) {
		c.Add(source.Errorf(w.env.PosOf(connectorVariable), "%s names connectors, but the plan must know them",
			connectorVariable).Hintf("write connector in [cmd_args.dynamo] or in args of a role"))
	}
}

// workerCommand are the words of a worker's program, without what the plan says in its place.
func (w *Workload) workerCommand(r *role) ([]plan.Word, error) {
	argv, err := w.command(r.Cmd, r.pos("cmd"), "python3", "-m", w.backend.module)
	if _, rest, found := spokenConnectors(literals(argv)); found {
		argv = plan.Texts(rest...)
	}
	return argv, err
}

// checkJSON refuses a text in place of a table that is none.
func (r *role) checkJSON(c *source.Complaints) {
	for _, key := range []string{transferConfig, eventsConfig} {
		if text, ok := r.args.Get(key).Text(); ok && !json.Valid([]byte(text)) {
			c.Add(source.Errorf(r.args.PosOf(key), "%s.args.%s is no JSON", r.label(), key).
				Hintf("write a table: %s = { KEY = VALUE }", key))
		}
	}
}

// transfer are the options by which a worker of vLLM is told what moves its KV blocks: what the
// test says in vLLM's own words, else the connectors that it names, else NIXL for prefill, which
// needs one.
func (w *Workload) transfer(r *role) []plan.Word {
	_, _, said := w.said(r, transferConfig)
	if w.service.Backend != "vllm" || said > 0 {
		if len(r.connectors) > 0 {
			why := "it is an option of vLLM's worker"
			if said > 0 {
				why = "kv_transfer_config says it"
			}
			w.note(r.connectorAt, "%s: connector has no effect: %s", r.label(), why)
		}
		return nil
	}
	list := r.connectors
	switch {
	case w.service.before(modes):
		if len(list) == 0 {
			return nil
		}
		return append(plan.Texts("--connector"), plan.Texts(list...)...)
	case len(list) == 0 && r.kind != aggregated:
		list = []string{"nixl"}
	}
	list = slices.DeleteFunc(slices.Clone(list), func(name string) bool { return connectors[name] == nil })
	if len(list) == 0 {
		return nil
	}
	config := any(connectors[list[0]])
	if len(list) > 1 {
		var parts []any
		for _, name := range list {
			parts = append(parts, connectors[name])
		}
		config = map[string]any{"kv_connector": "PdConnector", "kv_role": "kv_both",
			"kv_connector_module_path":  "kvbm.vllm_integration.connector",
			"kv_connector_extra_config": map[string]any{"connectors": parts}}
	}
	text, _ := json.Marshal(config) // plain texts always encode
	return plan.Texts("--kv-transfer-config", string(text))
}

// transferConfig is vLLM's option with what moves its KV blocks.
const transferConfig = "kv_transfer_config"

// said is the value of an option in the words of a worker, where it stands, and how often. Of
// several the last counts: those of cmd come first, then args, then extra_args.
func (w *Workload) said(r *role, option string) (text string, pos source.Pos, times int) {
	find := func(list []string, key string) {
		for i, word := range list {
			name, value, joined := strings.Cut(word, "=")
			name = strings.ReplaceAll(name, "-", "_")
			if name != "__"+option && !strings.HasPrefix(name, "__"+option+".") {
				continue
			}
			if !joined && i+1 < len(list) {
				value = list[i+1]
			}
			text, pos, times = value, r.pos(key), times+1
		}
	}
	command, _ := words(r.Cmd, r.pos("cmd")) // checkCommands complains
	find(command, "cmd")
	if v := r.args.Get(option); v != nil {
		text, pos, times = plainText(v), v.Pos, times+1
	}
	find(literals(r.extra), "extra_args")
	return text, pos, times
}

// connects reports whether a role's workers move KV blocks by a connector, by vLLM's name for it:
// as the worker's own words say, else as the connectors that the test names.
func (w *Workload) connects(r *role, name string) bool {
	if text, _, times := w.said(r, transferConfig); times > 0 {
		return strings.Contains(text, name)
	}
	return slices.ContainsFunc(r.connectors, func(c string) bool {
		class, _ := connectors[c]["kv_connector"].(string)
		return strings.Contains(class, name)
	})
}

// plainText is a value as one text: a table as JSON.
func plainText(v *source.Value) string {
	if t, ok := v.Any.(*source.Table); ok {
		plain, _ := json.Marshal(t.Plain()) // plain values always encode
		return string(plain)
	}
	return serving.Scalar(v)
}

// literals are words whose text the plan knows.
func literals(list []plan.Word) []string {
	texts := make([]string, len(list))
	for i, word := range list {
		texts[i], _ = word.Literal()
	}
	return texts
}

// hasOption reports whether an option is among words.
func hasOption(list []plan.Word, option string) bool {
	return slices.ContainsFunc(list, func(w plan.Word) bool {
		text, _ := w.Literal()
		return text == option || strings.HasPrefix(text, option+"=")
	})
}
