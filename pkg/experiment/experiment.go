// Package experiment reads the description of one experiment, which is the short form of a
// scenario with one test: what the server is started with, what the client asks of it. The file
// is TOML, YAML or JSON.
//
//	t, err := experiment.Parse("tiny.yaml", data)
//	if err == nil && experiment.Is(t) {
//		scenario, err := experiment.Scenario(t)
//		…
//	}
//
// Positions in complaints about the scenario are those of the experiment's file.
package experiment

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/profllm/profllm/pkg/source"
)

// The keys of an experiment that a test has under another name. Every other key is that of
// a test: client, repeat, time_limit, accept, …
const (
	serverKey     = "server"     // options of the engine, and of how it is served
	benchmarkKey  = "benchmark"  // options of the load client
	evaluationKey = "evaluation" // options of the evaluation, {} for its defaults
	suiteKey      = "suite"      // names the results of several experiments that belong together
	engineKey     = "engine"     // vllm or sglang
	imageKey      = "image"      // of the container
	envKey        = "env"        // variables of the server and the client
	nameKey       = "name"
)

var ownKeys = []string{serverKey, benchmarkKey, evaluationKey, suiteKey, engineKey, imageKey, envKey, nameKey}

// testKeys are the keys of a test that stand for those of an experiment.
var testKeys = map[string]string{
	benchmarkKey: "bench_cmd_args", evaluationKey: "semantic_eval_cmd_args", envKey: "extra_env_vars",
}

// Renamed are the keys of a test that an experiment has under another name, which it must use.
func Renamed() map[string]string {
	m := map[string]string{"id": nameKey, "test_template_name": engineKey, "cmd_args": serverKey}
	for own, test := range testKeys {
		m[test] = own
	}
	return m
}

// ServedKeys are those of [server] that say how the engine is served. The others are its options.
var ServedKeys = []string{"model", "port", "host", "bench_host", "healthcheck", "serve_healthcheck", "engine_version",
	"unchecked_options", "serve_wait_seconds", "serve_poll_seconds", "prefill", "decode", "proxy_healthcheck",
	"proxy_script", "serve_module", "router_module", "router", "bench_module", "build"}

// readers are the forms beside TOML, by the extension of the file.
var readers = map[string]func(name string, data []byte) (*source.Table, error){
	".yaml": parseYAML, ".yml": parseYAML, ".json": parseJSON,
}

// OnlyExperiments reports whether files of such a name can be nothing else.
func OnlyExperiments(name string) bool { return readers[strings.ToLower(filepath.Ext(name))] != nil }

// Parse reads a file by its name: YAML, JSON or else TOML.
func Parse(name string, data []byte) (*source.Table, error) {
	if read := readers[strings.ToLower(filepath.Ext(name))]; read != nil {
		return read(name, data)
	}
	return source.Parse(name, data)
}

// null is the value that JSON and YAML have and TOML has not: somebody wrote that there is none. It is not as
// good as nothing, for which most keys have a default.
type null struct{}

func (null) String() string { return "null" }

func isNull(v *source.Value) bool {
	_, is := v.Any.(null)
	return is
}

// document is what a whole file says.
func document(v *source.Value, pos source.Pos) (*source.Table, error) {
	if t, ok := v.Any.(*source.Table); ok {
		t.Pos = pos
		return t, nil
	}
	what := "null"
	if !isNull(v) {
		what = v.Describe()
	}
	return nil, source.Errorf(pos, "an experiment must be a table of keys, not %s", what)
}

// Is reports whether a file describes an experiment.
func Is(t *source.Table) bool {
	return OnlyExperiments(t.Pos.File) || !t.Has("Tests") && !t.Has("scheduler") && (t.Has(serverKey) || t.Has(benchmarkKey))
}

// Scenario is the scenario that runs an experiment.
func Scenario(t *source.Table) (*source.Table, error) {
	var c source.Complaints
	t = withOwnDefaults(withoutNulls(unwrapped(t, &c), &c))
	file := filepath.Base(t.Pos.File)
	name := text(t, nameKey, strings.TrimSuffix(file, filepath.Ext(file)), &c)
	test, args := source.NewTable(t.Pos), source.NewTable(t.PosOf(serverKey))
	set := func(to *source.Table, key, from string, value any) {
		to.Set(key, &source.Value{Pos: t.PosOf(from), Any: value})
	}
	set(test, "id", nameKey, name)
	set(test, "name", nameKey, name)
	set(test, "description", "description", text(t, "description", "experiment "+name, &c))
	set(test, "test_template_name", engineKey, text(t, engineKey, "vllm", &c))
	if t.Has(imageKey) {
		set(args, "docker_image_url", imageKey, text(t, imageKey, "", &c))
	}
	serve(t, args, &c)
	set(test, "cmd_args", serverKey, args)
	for test, own := range Renamed() {
		if t.Has(test) {
			c.Add(source.Errorf(t.KeyPos(test), "%s is a key of tests in a scenario", test).Hintf("in an experiment, write %s", own))
		}
	}
	for _, key := range t.Without(nameKey, "description", engineKey, imageKey, serverKey, suiteKey).Keys() {
		test.Set(cmp.Or(testKeys[key], key), t.Get(key))
	}
	for _, key := range t.Keys() {
		if near := source.Nearest(key, ownKeys); near != "" && near != key {
			c.Add(source.Errorf(t.KeyPos(key), "unknown key %q", key).Hintf("did you mean %q?", near))
			test = test.Without(key)
		}
	}
	top := source.NewTable(t.Pos)
	set(top, "name", suiteKey, text(t, suiteKey, name, &c))
	set(top, "Tests", nameKey, []*source.Value{{Pos: t.Pos, Any: test}})
	return top, c.Err()
}

// serve divides [server] between the options of the engine and how it is served.
func serve(t, args *source.Table, c *source.Complaints) {
	v := t.Get(serverKey)
	if v == nil {
		return
	}
	server, ok := v.Any.(*source.Table)
	if !ok {
		c.Addf(v.Pos, "server must be a table of the engine's options, not %s", v.Describe())
		return
	}
	engine := server.Without(ServedKeys...)
	for _, key := range ServedKeys {
		if server.Has(key) {
			args.Set(key, server.Get(key))
		}
	}
	switch decode := server.Get("decode"); {
	case len(engine.Keys()) == 0:
	case server.Has("prefill"):
		c.Add(source.Errorf(engine.KeyPos(engine.Keys()[0]), "server.%s: with prefill, each role has its own options",
			engine.Keys()[0]).Hintf("move it to server.prefill, server.decode, or both"))
	case decode != nil:
		c.Add(source.Errorf(engine.KeyPos(engine.Keys()[0]), "server.%s stands beside server.decode", engine.Keys()[0]).
			Hintf("move it to server.decode"))
	default:
		args.Set("decode", &source.Value{Pos: v.Pos, Any: engine})
	}
}

// text is the value of a key that must be a text.
func text(t *source.Table, key, otherwise string, c *source.Complaints) string {
	v := t.Get(key)
	if v == nil {
		return otherwise
	}
	s, ok := v.Text()
	if !ok {
		c.Addf(v.Pos, "%s must be a text, not %s", key, v.Describe())
	}
	return s
}

// TOML is a scenario as its file.
func TOML(scenario *source.Table) ([]byte, error) {
	var b bytes.Buffer
	enc := toml.NewEncoder(&b)
	enc.Indent = ""
	err := enc.Encode(scenario.Plain())
	if err == nil && !utf8.Valid(b.Bytes()) {
		err = fmt.Errorf("%s is not text in UTF-8", scenario.Pos.File)
	}
	return b.Bytes(), err
}
