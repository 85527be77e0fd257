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

// withoutNulls puts what null means into the place of each null: no limit of the requests in flight, and None
// for an option of vLLM. Where it means nothing it is refused: what is not given has a default.
func withoutNulls(t *source.Table, c *source.Complaints) *source.Table {
	out := t.Without()
	for _, key := range t.Keys() {
		v := t.Get(key)
		table, _ := v.Any.(*source.Table)
		switch {
		case isNull(v):
			c.Add(source.Errorf(v.Pos, "%s is null", key).Hintf("remove it, or write a value, such as {} for the defaults of a table"))
			out = out.Without(key)
		case table != nil:
			out.Set(key, &source.Value{Pos: v.Pos, Any: tableWithoutNulls(t, key, key, table, c)})
		}
	}
	return out
}

func tableWithoutNulls(top *source.Table, section, path string, t *source.Table, c *source.Complaints) *source.Table {
	out := t.Without()
	for _, key := range t.Keys() {
		v, name := t.Get(key), path+"."+key
		table, _ := v.Any.(*source.Table)
		switch {
		case table != nil:
			out.Set(key, &source.Value{Pos: v.Pos, Any: tableWithoutNulls(top, section, name, table, c)})
		case !isNull(v):
		case section == benchmarkKey && strings.ReplaceAll(key, "-", "_") == "max_concurrency":
			out.Set(key, &source.Value{Pos: v.Pos, Any: "none"})
		case isOption(top, section, path, key):
			out.Set(key, &source.Value{Pos: v.Pos, Any: "None"})
		default:
			c.Add(source.Errorf(v.Pos, "%s is null", name).Hintf("remove it: then it has its default"))
			out = out.Without(key)
		}
	}
	return out
}

// isOption reports whether a key is an option of vllm serve, which takes None for those that may be absent.
func isOption(top *source.Table, section, path, key string) bool {
	if engine, ok := top.Get(engineKey).Text(); ok && engine != "vllm" || section != serverKey {
		return false
	}
	return path == serverKey && !slices.Contains(ServedKeys, key) || path == serverKey+".decode" || path == serverKey+".prefill"
}

// ClientDefaults are the defaults of `vllm bench serve` and of profllm's own client, where those of a test are
// CloudAI's. The lengths are those of random prompts.
var ClientDefaults = []struct {
	Key    string
	Value  any
	Random bool
}{
	{"num_prompts", int64(1000), false}, {"random_input_len", int64(1024), true}, {"random_output_len", int64(128), true},
	{"max_concurrency", "none", false},
}

// withOwnDefaults adds those of the client that an experiment names, if it is one of these.
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
