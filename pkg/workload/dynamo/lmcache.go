package dynamo

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// placeholderNames may stand in values of LMCache's file, in braces.
var placeholderNames = []string{"frontend_ip", "frontend_node", "results_dir", "storage_cache_dir"}

// placeholder is a name in braces, or a brace that is written twice.
var placeholder = lazyregexp.New(`\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// unknownPlaceholders are those of all texts below a table, in order, once each.
func unknownPlaceholders(t *source.Table) []string {
	var list []string
	texts(&source.Value{Any: t}, func(text string) {
		for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
			if m[1] != "" && !slices.Contains(placeholderNames, m[1]) {
				list = append(list, m[1])
			}
		}
	})
	slices.Sort(list)
	return slices.Compact(list)
}

// texts visits every text of a value.
func texts(v *source.Value, visit func(string)) {
	switch x := v.Any.(type) {
	case string:
		visit(x)
	case []*source.Value:
		for _, e := range x {
			texts(e, visit)
		}
	case *source.Table:
		for _, key := range x.Keys() {
			texts(x.Get(key), visit)
		}
	}
}

// placeholders are what the names of placeholders stand for, with marks in place of what only the
// job knows.
func (w *Workload) placeholders(cl plan.Cluster) map[string]string {
	return map[string]string{
		"frontend_node": "${addr:" + frontend + "}", "frontend_ip": "${addr:" + frontend + "}",
		"results_dir": cl.Dir, "storage_cache_dir": w.storage(cl, "lmcache"),
	}
}

// ownLMCache reports whether workers read a file of LMCache that the user wrote.
func (w *Workload) ownLMCache() bool {
	text, _ := w.env.Get(lmcacheVariable).Text()
	return w.cfg.LMCache == nil && text != ""
}

// hasLMCache reports whether there is a file of LMCache.
func (w *Workload) hasLMCache() bool { return w.cfg.LMCache != nil || w.ownLMCache() }

// filled are the words by which a worker's command has the placeholders of such a file filled in,
// in a copy on its node: nobody else sees the file, which may be in the image.
func (w *Workload) filled(cl plan.Cluster) []plan.Word {
	if !w.ownLMCache() {
		return nil
	}
	argv, values := plan.Texts("--fill", lmcacheVariable), w.placeholders(cl)
	for _, name := range placeholderNames {
		argv = append(argv, plan.Texts("--value", name+"="+values[name])...)
	}
	return argv
}

// noteUnread notes a file of LMCache that no worker reads: LMCacheMPConnector, too, reads none, since
// `lmcache server` has its settings.
func (w *Workload) noteUnread(pos source.Pos, what string) {
	reads := func(r *role) bool {
		backend, _, _ := w.said(r, "kv_offloading_backend") // of old releases inside of the engine
		return w.connects(r, "LMCacheConnector") || backend == "lmcache"
	}
	if w.service.Backend != "vllm" || reads(&w.prefill) || reads(&w.decode) {
		return
	}
	if w.connects(&w.prefill, "LMCacheMP") || w.connects(&w.decode, "LMCacheMP") {
		w.note(pos, "no worker reads the file of %s: LMCacheMPConnector asks `lmcache server`, whose options say the same",
			what)
		return
	}
	w.note(pos, "no worker reads the file of %s: name a connector of LMCache in kv_transfer_config, or set "+
		"connector = \"lmcache\"", what)
}

// lmcache is LMCache's file: the table as YAML, in the order of the file, with marks in place of
// what only the job knows.
func (w *Workload) lmcache(cl plan.Cluster) (string, error) {
	values := w.placeholders(cl)
	node := yamlNode(&source.Value{Any: w.cfg.LMCache}, func(text string) string {
		return placeholder.ReplaceAllStringFunc(text, func(m string) string {
			switch m {
			case "{{":
				return "{"
			case "}}":
				return "}"
			}
			return cmp.Or(values[m[1:len(m)-1]], m)
		})
	})
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return "", fmt.Errorf("lmcache: %w", err)
	}
	return out.String(), nil
}

// yamlNode is a value for the YAML library, with its keys in order.
func yamlNode(v *source.Value, fill func(string) string) *yaml.Node {
	n := &yaml.Node{}
	switch x := v.Any.(type) {
	case *source.Table:
		n.Kind = yaml.MappingNode
		for _, key := range x.Keys() {
			name := &yaml.Node{}
			name.SetString(key)
			n.Content = append(n.Content, name, yamlNode(x.Get(key), fill))
		}
	case []*source.Value:
		n.Kind = yaml.SequenceNode
		for _, e := range x {
			n.Content = append(n.Content, yamlNode(e, fill))
		}
	case string:
		_ = n.Encode(fill(x)) // a text always encodes, quoted where it would read as another type
	case float64:
		_ = n.Encode(x)
		if x == math.Trunc(x) && !strings.ContainsAny(n.Value, ".eInN") {
			n.Value += ".0" // else it would be read as an integer
		}
	default:
		_ = n.Encode(x)
	}
	return n
}
