package aiperf

import (
	"cmp"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/shell"
	"github.com/profllm/profllm/pkg/source"
)

// Names of the clients, for a definition and for the record. GenAI is the predecessor, which NVIDIA
// no longer develops.
const (
	Name  = "aiperf"
	GenAI = "genai-perf"
)

// Keys of a load that are profllm's, or that it completes.
const (
	extraArgs     = "extra_args"     // words behind all others
	serverMetrics = "server_metrics" // also true, false and auto
	gpuTelemetry  = "gpu_telemetry"
	auto          = "auto"
)

// Load is a decoded benchmark: a plan.Client, and what its result is judged
// against.
type Load struct {
	client  string
	program []string      // the command before "profile"
	args    *source.Table // of the definition, without those below
	extra   []string
	metrics *source.Value // server_metrics, nil: not asked for
}

// A Client says who measures.
type Client struct {
	Name      string   // Name or GenAI
	Program   []string // the command; nil: the program of that name
	Unchecked []string // options that pass, with underscores
}

// New decodes [bench_cmd_args]. Every key is an option of the client, with underscores or hyphens,
// except extra_args.
func New(c Client, pos source.Pos, t *source.Table) (*Load, error) {
	if t == nil {
		t = source.NewTable(pos)
	}
	l := &Load{client: c.Name, program: c.Program}
	if len(l.program) == 0 {
		l.program = []string{c.Name}
	}
	l.args = t.Without(extraArgs, dashed(extraArgs))
	var all source.Complaints
	var err error
	l.extra, err = extraWords(t)
	all.Add(err)
	if c.Name == GenAI {
		all.Add(checkGenAI(l.args))
	} else {
		all.Add(l.takeExtra(t.PosOf(Spelled(t, extraArgs))))
		all.Add(l.takeMetrics())
		all.Add(checkOptions(l.args, c.Unchecked))
	}
	all.Add(l.checkNumbers())
	return l, all.Err()
}

// extraWords are the words of extra_args: a text, divided as a shell does.
func extraWords(t *source.Table) ([]string, error) {
	v := t.Get(extraArgs)
	if hyphen := t.Get(dashed(extraArgs)); v == nil {
		v = hyphen
	} else if hyphen != nil {
		return nil, source.Errorf(t.KeyPos(dashed(extraArgs)), "bench_cmd_args.extra-args is extra_args again").
			Hintf("remove one of them")
	}
	if v == nil {
		return nil, nil
	}
	text, ok := v.Text()
	if !ok {
		return nil, source.Errorf(v.Pos, "bench_cmd_args.extra_args is %s, must be a text", v.Shown()).
			Hintf(`write extra_args = "--name value"`)
	}
	words, err := shell.Words(text)
	if err != nil {
		return nil, source.Errorf(v.Pos, "bench_cmd_args.extra_args: %v", err)
	}
	return words, nil
}

// shortNames are options of one letter that profllm sets.
var shortNames = map[string]string{"-m": "model", "-u": "url", "-f": "config"}

// takeExtra makes options of those words of extra_args that are options of AIPerf: they say how large the load is as
// well as those of the table.
func (l *Load) takeExtra(pos source.Pos) error {
	var c source.Complaints
	var rest []string
	words := l.extra
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if short := shortNames[word]; short != "" {
			word = "--" + short
		}
		name, value, given := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		o := options()[strings.ReplaceAll(name, "-", "_")]
		if o == nil || !strings.HasPrefix(word, "--") {
			rest = append(rest, word)
			continue
		}
		if l.get(name) != nil {
			c.Add(source.Errorf(pos, "bench_cmd_args.extra_args: --%s is a key of bench_cmd_args too", name).
				Hintf("remove one of them"))
		}
		var v any = true
		switch {
		case given:
			v = value
		case o.form == several || o.form == each:
			n := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "--") })
			if n < 0 {
				n = len(words)
			}
			var list []*source.Value
			for _, w := range words[:n] {
				list = append(list, &source.Value{Pos: pos, Any: w})
			}
			v, words = list, words[n:]
		case o.form == oneWord && len(words) > 0:
			v, words = words[0], words[1:]
		case o.form == oneWord:
			c.Addf(pos, "bench_cmd_args.extra_args: --%s has no value", name)
		}
		l.args.Set(strings.ReplaceAll(name, "-", "_"), &source.Value{Pos: pos, Any: v})
	}
	l.extra = rest
	return c.Err()
}

// takeMetrics takes server_metrics, which has words of profllm's, out of the options.
func (l *Load) takeMetrics() error {
	l.metrics = l.get(serverMetrics)
	if l.metrics == nil {
		return nil
	}
	if no := l.get("no_server_metrics"); no != nil && no.Any != false && l.metrics.Any != false {
		return source.Errorf(no.Pos, "bench_cmd_args has server_metrics and no_server_metrics").
			Hintf("remove one of them")
	}
	if l.args.Has(serverMetrics) && l.args.Has(dashed(serverMetrics)) {
		return nil // checkOptions complains
	}
	l.args = l.args.Without(serverMetrics, dashed(serverMetrics))
	return nil
}

// get is an option under any of its names, or nil.
func (l *Load) get(names ...string) *source.Value {
	for _, key := range l.args.Keys() {
		for _, name := range names {
			if canonical(key) == canonical(name) {
				return l.args.Get(key)
			}
		}
	}
	return nil
}

// Spelled is the key under which a table has an option, or the option's name.
func Spelled(t *source.Table, name string) string {
	if t != nil {
		for _, key := range t.Keys() {
			if canonical(key) == canonical(name) {
				return key
			}
		}
	}
	return name
}

// Name is who measures, for the record.
func (l *Load) Name() string { return l.client }

// Options is the load as plain data, for the record. Options have one spelling there.
func (l *Load) Options() map[string]any {
	m := map[string]any{"endpoint_type": "chat", "streaming": true}
	for key, v := range l.args.Plain() {
		m[strings.ReplaceAll(key, "-", "_")] = v
	}
	if l.metrics != nil {
		m[serverMetrics] = l.metrics.Plain()
	}
	if n := l.defaultCount(); n > 0 {
		m["request_count"] = n
	}
	if len(l.extra) > 0 {
		m[extraArgs] = strings.Join(l.extra, " ")
	}
	return m
}

// Command implements plan.Client.
func (l *Load) Command(t plan.Target) (plan.Step, error) {
	program := l.program
	if t.Simulated {
		program = []string{l.client}
	}
	argv := plan.Texts(append(slices.Clone(program), "profile")...)
	if l.client == GenAI {
		argv = append(argv, l.genAI(t)...)
	} else {
		argv = append(argv, l.aiperf(t)...)
	}
	argv = append(argv, plan.Texts(l.extra...)...)
	return plan.Step{Name: "bench", Nodes: t.Nodes, Env: clientEnv, Container: true, Argv: argv,
		Log: "logs/bench-%t.log"}, nil
}

// aiperf are the options: where to measure, then the user's in the order of the file, then what
// profllm sets in a job.
func (l *Load) aiperf(t plan.Target) []plan.Word {
	argv := l.model(t)
	argv = append(argv, l.endpoint()...)
	argv = append(argv, plan.Text("--url"), plan.Concat("http://", t.Host, ":", t.Port))
	argv = append(argv, l.users("no_server_metrics")...)
	if n := l.defaultCount(); n > 0 {
		argv = append(argv, plan.Texts("--request-count", decimal(n))...)
	}
	argv = append(argv, plan.Texts("--artifact-dir", t.Dir)...)
	argv = append(argv, l.serverMetrics(t)...)
	if l.get(gpuTelemetry) == nil && !l.on("no_gpu_telemetry") {
		argv = append(argv, plan.Text("--no-gpu-telemetry"))
	}
	return append(argv, plan.Texts("--ui", "none")...)
}

// model is what requests call the model, and whose tokenizer counts, if that does not follow.
func (l *Load) model(t plan.Target) []plan.Word {
	argv := plan.Texts("--model", cmp.Or(t.Served, t.Model))
	if t.Served != "" && l.get("tokenizer") == nil {
		argv = append(argv, plan.Texts("--tokenizer", t.Model)...)
	}
	return argv
}

// endpoint is what is asked: a stream of a chat, unless the user says otherwise.
func (l *Load) endpoint() []plan.Word {
	kind := "chat"
	if v := l.get("endpoint_type"); v != nil {
		kind = plainText(v)
	}
	argv := plan.Texts("--endpoint-type", kind)
	if l.streams() {
		argv = append(argv, plan.Text("--streaming"))
	}
	return argv
}

func (l *Load) streams() bool {
	v := l.get("streaming")
	return v == nil || v.Any != false
}

// users are the user's options, without those that have a place of their own.
func (l *Load) users(without ...string) []plan.Word {
	without = append(without, "endpoint_type", "streaming")
	var argv []plan.Word
	for _, key := range l.args.Keys() {
		if !slices.Contains(without, canonical(key)) {
			argv = append(argv, words(key, l.args.Get(key))...)
		}
	}
	return argv
}

// serverMetrics is whether AIPerf reads the servers' counters, and which: profllm reads them
// itself, and a second reader can disturb the measurement.
func (l *Load) serverMetrics(t plan.Target) []plan.Word {
	v := l.metrics
	text, _ := v.Text()
	switch {
	case v == nil || v.Any == false:
		return plan.Texts("--no-server-metrics")
	case v.Any == true:
		return plan.Texts("--server-metrics")
	case text == auto:
		return append(plan.Texts("--server-metrics"), t.MetricsURLs...)
	}
	return words(serverMetrics, v)
}

// on reports whether a flag is given.
func (l *Load) on(name string) bool {
	v := l.get(name)
	return v != nil && v.Any != false
}

func dashed(key string) string { return strings.ReplaceAll(key, "_", "-") }

// clientEnv tells the command which part it plays, as every role is told.
var clientEnv = []plan.Var{{Name: plan.RoleVar, Value: plan.Text("client")}}
