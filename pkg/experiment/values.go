package experiment

import (
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// configKey is the key of a record below which an experiment stands. recordKeys are the record's others.
const configKey = "config"

var recordKeys = []string{"run_id", "timestamp", "duration", "results", "system", "profiling", "status"}

// unwrapped is the experiment of a record, or of a file that has it below config, as records do.
func unwrapped(t *source.Table, c *source.Complaints) *source.Table {
	config := t.Table(configKey)
	if config == nil || !config.Has(serverKey) && !config.Has(benchmarkKey) {
		return t
	}
	out := t.Without(append([]string{configKey}, recordKeys...)...)
	for _, key := range config.Keys() {
		if out.Has(key) {
			c.Addf(config.KeyPos(key), "%s stands twice, first at %s", key, out.PosOf(key))
			continue
		}
		out.Set(key, config.Get(key))
	}
	return out
}

// withoutNulls puts the meaning of null into the place of each: no limit of the requests in flight, and None for an
// option of vLLM. Elsewhere null is refused, because a key that is left out has a default.
func withoutNulls(t *source.Table, c *source.Complaints) *source.Table {
	engine, ok := t.Get(engineKey).Text()
	return nullsOf("", t, !ok || engine == "vllm", c)
}

// nullsOf does so for a table, whose keys follow path.
func nullsOf(path string, t *source.Table, isVLLM bool, c *source.Complaints) *source.Table {
	out := t.Without()
	for _, key := range t.Keys() {
		v := t.Get(key)
		name := path + key
		table, isTable := v.Any.(*source.Table)
		switch {
		case isTable:
			out.Set(key, &source.Value{Pos: v.Pos, Any: nullsOf(name+".", table, isVLLM, c)})
		case !isNull(v):
		case path == benchmarkKey+"." && strings.ReplaceAll(key, "-", "_") == "max_concurrency":
			out.Set(key, &source.Value{Pos: v.Pos, Any: "none"})
		case isVLLM && isOption(path, key):
			out.Set(key, &source.Value{Pos: v.Pos, Any: "None"})
		default:
			c.Add(source.Errorf(v.Pos, "%s is null", name).
				Hintf("remove it for its default, or write a value, such as {} for a table"))
			out = out.Without(key)
		}
	}
	return out
}

// isOption reports whether a key is an option of the engine.
func isOption(path, key string) bool {
	switch path {
	case serverKey + ".":
		return !slices.Contains(ServedKeys, key)
	case serverKey + ".decode.", serverKey + ".prefill.":
		return true
	}
	return false
}

// ClientDefaults are the defaults of `vllm bench serve` and `profllm bench serve`. The defaults of a test are
// CloudAI's instead. Random marks lengths of random prompts.
var ClientDefaults = []struct {
	Key    string
	Value  any
	Random bool
}{
	{"num_prompts", int64(1000), false}, {"random_input_len", int64(1024), true}, {"random_output_len", int64(128), true},
	{"max_concurrency", "none", false},
}

// withOwnDefaults adds ClientDefaults to an experiment with one of these clients.
func withOwnDefaults(t *source.Table) *source.Table {
	bench := t.Table(benchmarkKey)
	client, named := t.Get("client").Text()
	engine, _ := t.Get(engineKey).Text()
	if bench == nil && t.Has(benchmarkKey) || named && client != "vllm" && client != "profllm" || engine != "" && engine != "vllm" ||
		t.Has("phases") || t.Has("search") {
		return t
	}
	pos := t.Pos
	if bench == nil {
		bench = source.NewTable(pos)
	} else {
		bench, pos = bench.Without(), bench.Pos
	}
	dataset, ok := bench.Get("dataset_name").Text()
	random := !ok || strings.HasPrefix(dataset, "random")
	for _, d := range ClientDefaults {
		if (random || !d.Random) && !bench.Has(d.Key) && !bench.Has(strings.ReplaceAll(d.Key, "_", "-")) {
			bench.Set(d.Key, &source.Value{Pos: pos, Any: d.Value})
		}
	}
	out := t.Without()
	out.Set(benchmarkKey, &source.Value{Pos: pos, Any: bench})
	return out
}
