package dynamo

import (
	"cmp"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/shell"
	"github.com/profllm/profllm/pkg/source"
)

// Prepared is a test in profllm's own words: what measures it, with which loads, and as many nodes
// as its roles have if it names none. CloudAI has all of that in cmd_args.
func Prepared(t scenario.Test) (scenario.Test, error) {
	w, err := read(t, false)
	if err != nil {
		return t, err
	}
	var c source.Complaints
	switch {
	case w.hosted():
		w.askHosts(&t, &c)
	case !t.Table.Has("num_nodes") && !t.Table.Has("nodes") && w.Nodes() > 0:
		t.NumNodes = &source.Value{Pos: w.decode.pos("num_nodes"), Any: int64(w.Nodes() + t.ClientNodes)}
	}
	l := loads{test: &t, complaints: &c}
	if w.cfg.Accuracy != nil {
		l.accuracy(w.cfg.Accuracy, w.service.Endpoint)
	}
	if t.Sweep.ShareServer == nil && t.Sweep.Cache != "keep" {
		t.Sweep.ShareServer = new(false) // its caches cannot be emptied between two loads
	}
	if t.BenchArgs != nil || t.Client != "" && !slices.Contains(names(clientsOf), t.Client) {
		if w.cfg.Phases != nil {
			c.Add(source.Errorf(t.CmdArgs.PosOf("aiperf_phases"), "aiperf_phases are loads of AIPerf, but client or "+
				"bench_cmd_args of the test say who measures").Hintf("write [[Tests.phases]], or remove them"))
		}
		return t, c.Err() // said in profllm's own words
	}
	l.prepare(&w.cfg, w.backend.noGPU)
	return t, c.Err()
}

// tool is [cmd_args.aiperf] or [cmd_args.genai_perf], and what a phase has of its own.
type tool struct {
	Cmd      *string       `toml:"cmd"`        // Command; default aiperf profile.
	Args     *source.Table `toml:"args"`       // Options of the client.
	Extra    *source.Value `toml:"extra_args"` // Text behind them.
	Setup    *string       `toml:"setup_cmd"`  // Shell text before each load, in the client's container.
	Between  *string       `toml:"between_phase_cmd"`
	Continue *bool         `toml:"continue_on_phase_failure"`

	// Read, without effect.
	Health   *bool         `toml:"health_check_between_phases"`
	Artifact *string       `toml:"artifact_dir_name"`
	Report   *string       `toml:"report_name"`
	Name     *string       `toml:"name"`
	Script   *string       `toml:"script"`
	Repo     *source.Table `toml:"repo"`
}

// clientsOf are the values of workloads, and the clients that they name.
var clientsOf = map[string]string{
	"aiperf": "aiperf", "aiperf.sh": "aiperf", "genai-perf": "genai-perf", "genai_perf.sh": "genai-perf",
}

// loads puts the loads of cmd_args where profllm has them.
type loads struct {
	test       *scenario.Test
	complaints *source.Complaints
}

// serverCounts has AIPerf count tokens by the server's usage. Of the mocker's answers, whose words
// are made up, its own count is another.
const serverCounts = "use_server_token_count"

func (l *loads) prepare(cfg *Config, simulated bool) {
	name := l.client(cfg)
	table, key, idle, idleKey := cfg.AIPerf, "aiperf", cfg.GenAIPerf, "genai_perf"
	if name == "genai-perf" {
		table, key, idle, idleKey = idle, idleKey, table, key
	}
	base := l.tool(table, key)
	l.tool(idle, idleKey) // which measures nothing, but is read
	l.test.Client, l.test.BenchArgs = name, base.arguments(l.complaints)
	if name == "aiperf" && simulated && !l.test.BenchArgs.Has(serverCounts) {
		l.test.BenchArgs.Set(serverCounts, &source.Value{Pos: l.test.Pos, Any: true})
	}
	if base.Cmd != nil {
		l.test.ClientProgram = l.program(*base.Cmd, table.PosOf("cmd"))
	}
	if base.Setup != nil {
		l.test.BeforeLoad = *base.Setup
	}
	if !l.test.Table.Has("stop_on_failure") {
		l.test.StopOnFailure = base.Continue == nil || !*base.Continue
	}
	switch {
	case cfg.Phases != nil && len(l.test.Phases) > 0:
		l.complaints.Add(source.Errorf(cfg.Phases.Pos, "the test has aiperf_phases and phases").Hintf("remove one of them"))
	case cfg.Phases != nil:
		l.phases(cfg.Phases, base)
	}
}

// client is who measures: the only one that workloads names, or the first of the two.
func (l *loads) client(cfg *Config) string {
	if l.test.Client != "" {
		return l.test.Client
	}
	if cfg.Workloads == nil {
		return "aiperf"
	}
	pos := l.test.CmdArgs.PosOf("workloads")
	var named []string
	for word := range strings.SplitSeq(*cfg.Workloads, ",") {
		word = strings.TrimSpace(word)
		client := clientsOf[word]
		if client == "" {
			l.complaints.Add(source.Errorf(pos, "workloads: unknown client %q", word).
				Hintf("%s", source.Suggest(word, names(clientsOf))))
			return "aiperf"
		}
		if !slices.Contains(named, client) {
			named = append(named, client)
		}
	}
	if len(named) > 1 {
		l.complaints.Add(source.Errorf(pos, "workloads names two clients, but a test has one").
			Hintf("write a test for each"))
	}
	return named[0]
}

// tool decodes a table of a client.
func (l *loads) tool(t *source.Table, key string) tool {
	var x tool
	if t == nil {
		return x
	}
	plain := spelled(t, l.complaints)
	known := source.Fields(x)
	for _, k := range plain.Keys() {
		if !slices.Contains(known, k) {
			near := source.Nearest(k, known)
			if near != "" {
				near = "did you mean " + near + "? "
			}
			l.complaints.Add(source.Errorf(plain.PosOf(k), "cmd_args.%s.%s is no key of profllm, and goes nowhere", key, k).
				Hintf("%san option of the client stands in [cmd_args.%s.args]; keys here: %s", near, key,
					strings.Join(known, ", ")))
			plain = plain.Without(k)
		}
	}
	l.complaints.Add(source.Decode(plain, &x))
	return x
}

// arguments are the options of a client, with underscores in their names, and the words behind
// them.
func (x *tool) arguments(c *source.Complaints) *source.Table {
	args := spelled(x.Args, c)
	if x.Extra != nil {
		args.Set("extra_args", x.Extra)
	}
	return args
}

// program is a client's command without the verb, which the client adds.
func (l *loads) program(cmd string, pos source.Pos) config.Words {
	if cmd == "" {
		return nil
	}
	list, err := shell.Words(cmd)
	switch {
	case err == nil && len(list) == 0,
		len(list) > 0 && (strings.HasPrefix(list[0], "-") || strings.Contains(list[0], "=")):
		l.complaints.Add(source.Errorf(pos, "the command %q has no program", cmd).
			Hintf("begin with the program; variables stand in extra_env_vars"))
	case err != nil:
		l.complaints.Add(source.Errorf(pos, "the command %q: %v", cmd, err).
			Hintf("put each word with blanks or quotes between '…'"))
	}
	n := slices.Index(list, "profile")
	if n < 0 {
		return list
	}
	if n < len(list)-1 {
		l.complaints.Add(source.Errorf(pos, "the command %q has options behind profile", cmd).
			Hintf("end it with profile, and write options in args or extra_args"))
	}
	return list[:n]
}

// noTables refuses something else in place of the phases.
func (l *loads) noTables(pos source.Pos) {
	l.complaints.Add(source.Errorf(pos, "cmd_args.aiperf_phases must be a list of tables").
		Hintf("write [[cmd_args.aiperf_phases]] above each, with double brackets"))
}

// phases puts aiperf_phases in the place of the phases of a test. The command between two stands
// behind each but the last.
func (l *loads) phases(v *source.Value, base tool) {
	list, ok := v.Any.([]*source.Value)
	if !ok {
		l.noTables(v.Pos)
		return
	}
	seen := map[string]bool{}
	for i, e := range list {
		t, ok := e.Any.(*source.Table)
		if !ok {
			l.noTables(e.Pos)
			return
		}
		name, _ := t.Get("name").Text()
		if name == "" || seen[name] {
			l.complaints.Add(source.Errorf(t.PosOf("name"), "cmd_args.aiperf_phases: the name %q is missing or taken", name).
				Hintf("give each phase a name of its own"))
		} else {
			l.complaints.Add(scenario.PhaseName(name, t.PosOf("name")))
		}
		seen[name] = true
		own := l.tool(t.Without("name"), "aiperf_phases")
		phase := scenario.Phase{Name: name, BenchArgs: own.arguments(l.complaints), Cache: "keep", Pos: e.Pos,
			BeforeLoad: own.Setup}
		if own.Cmd != nil {
			phase.ClientProgram = l.program(*own.Cmd, t.PosOf("cmd"))
		}
		if own.Continue != nil {
			phase.StopOnFailure = new(!*own.Continue)
		}
		between := cmp.Or(own.Between, base.Between)
		if between != nil && i < len(list)-1 && *between != "true" {
			phase.AfterLoad = between
		}
		l.test.Phases = append(l.test.Phases, phase)
	}
}

// accuracy is [cmd_args.aiperf_accuracy].
type accuracy struct {
	Entrypoint *string `toml:"entrypoint"`   // Program and its first arguments; default aiperf profile.
	CLI        string  `toml:"cli,required"` // Further arguments, with placeholders in braces.
	Setup      *string `toml:"setup_cmd"`    // Shell text before it, in its container.

	// Read, without effect.
	Name     *string `toml:"name"`
	Artifact *string `toml:"artifact_dir_name"`
	Script   *string `toml:"script"`
}

// accuracyPlaceholders may stand in cli.
var accuracyPlaceholders = []string{"artifact_dir", "endpoint", "model", "result_dir", "url"}

// accuracy makes the program that asks for accuracy the evaluation of the test, behind its last
// load.
func (l *loads) accuracy(t *source.Table, endpoint string) {
	if l.test.EvalArgs != nil {
		l.complaints.Add(source.Errorf(t.Pos, "the test has aiperf_accuracy and semantic_eval_cmd_args").
			Hintf("remove one of them"))
		return
	}
	var a accuracy
	decode(t, &a, l.complaints)
	var unknown []string
	cli := placeholder.ReplaceAllStringFunc(a.CLI, func(m string) string {
		switch name := strings.Trim(m, "{}"); {
		case name == "endpoint":
			return cmp.Or(endpoint, defaultEndpoint)
		case name != "" && !slices.Contains(accuracyPlaceholders, name):
			unknown = append(unknown, name)
		}
		return m
	})
	if slices.Sort(unknown); len(unknown) > 0 {
		l.complaints.Add(source.Errorf(t.PosOf("cli"), "aiperf_accuracy.cli has unknown placeholders: %s",
			strings.Join(slices.Compact(unknown), ", ")).Hintf("known: %s", strings.Join(accuracyPlaceholders, ", ")))
	}
	entry := *cmp.Or(a.Entrypoint, new("aiperf profile"))
	if a.Setup != nil && *a.Setup != "" {
		entry = "bash -c " + shell.Quote("{ "+*a.Setup+"\n} || exit; exec \"$@\"") + " accuracy " + entry
	}
	eval := source.NewTable(t.Pos)
	eval.Set("entrypoint", &source.Value{Pos: t.PosOf("entrypoint"), Any: entry})
	eval.Set("cli", &source.Value{Pos: t.PosOf("cli"), Any: strings.TrimSpace(cli)})
	l.test.EvalArgs = eval
}
