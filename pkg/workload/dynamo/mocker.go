package dynamo

import (
	"cmp"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/shell"
	"github.com/profllm/profllm/pkg/source"
)

// MockerTemplate is the value of test_template_name of CloudAI's tests of the mocker alone. They
// are those of Template with other names.
const MockerTemplate = "DynamoMocker"

// NewMocker is New for a test of the mocker alone.
func NewMocker(t scenario.Test, needImage bool) (plan.Workload, error) {
	t, err := fromMocker(t)
	if err != nil {
		return nil, err
	}
	return New(t, needImage)
}

// PreparedMocker is Prepared for a test of the mocker alone.
func PreparedMocker(t scenario.Test) (scenario.Test, error) {
	same, err := fromMocker(t)
	if err != nil {
		return t, err
	}
	prepared, err := Prepared(same)
	prepared.CmdArgs = t.CmdArgs // it is read again when the workload is made
	if !t.Table.Has("num_nodes") && !t.Table.Has("nodes") {
		prepared.NumNodes = &source.Value{Pos: t.CmdArgs.Pos, Any: int64(1 + t.ClientNodes)}
	}
	return prepared, err
}

// mocker is [cmd_args] of such a test. Keys of its tables that are not here are options of the
// programs.
type mocker struct {
	Image     *string       `toml:"docker_image_url"` // Image of every process; default: none, with launcher "bare".
	Model     *string       `toml:"model_path"`       // Hugging Face id or path; default Qwen/Qwen3-0.6B.
	NATS      *string       `toml:"nats_cmd"`         // Read, without effect where nothing needs NATS.
	Engine    *source.Table `toml:"engine"`           // Options of the mocker.
	Worker    *source.Table `toml:"worker"`
	Frontend  *source.Table `toml:"frontend"`
	Tool      *string       `toml:"benchmark_tool"` // aiperf or genai_perf; default aiperf.
	AIPerf    *source.Table `toml:"aiperf"`
	GenAIPerf *source.Table `toml:"genai_perf"`
	Wait      *source.Value `toml:"serve_wait_seconds"` // Time to become ready, s (profllm); default 1800.
	Unchecked *source.Value `toml:"unchecked_options"`  // As in AIDynamo (profllm).
}

// mockerWorker is [cmd_args.worker].
type mockerWorker struct {
	Mode    *string       `toml:"disaggregation_mode"` // none or prefill_decode.
	Workers *source.Value `toml:"num_workers"`         // Workers that one process stands for, without prefill.
	Prefill *source.Table `toml:"prefill_worker"`
	Decode  *source.Table `toml:"decode_worker"`
}

// builder makes the tables of a test of Template.
type builder struct {
	pos        source.Pos
	complaints source.Complaints
}

func (b *builder) table() *source.Table { return source.NewTable(b.pos) }

// set puts a value into a table, if there is one.
func set(t *source.Table, key string, v *source.Value) {
	if v != nil {
		t.Set(key, v)
	}
}

func (b *builder) value(x any) *source.Value { return &source.Value{Pos: b.pos, Any: x} }

// fromMocker is a test of the mocker alone as one of Template.
func fromMocker(t scenario.Test) (scenario.Test, error) {
	b := &builder{pos: t.CmdArgs.Pos}
	var m mocker
	decode(t.CmdArgs, &m, &b.complaints)
	service := b.table()
	service.Set("backend", b.value("mocker"))
	args := t.CmdArgs
	set(service, "model", args.Get("model_path"))
	set(service, "nats_cmd", args.Get("nats_cmd"))
	set(service, "serve_wait_seconds", m.Wait)
	b.workers(service, &m)
	b.frontend(service, spelled(m.Frontend, &b.complaints))

	out := b.table()
	set(out, "docker_image_url", args.Get("docker_image_url"))
	set(out, "unchecked_options", m.Unchecked)
	out.Set("dynamo", b.value(service))
	name, table := "aiperf", m.AIPerf
	if m.Tool != nil && *m.Tool == "genai_perf" {
		name, table = "genai_perf", m.GenAIPerf
	} else if m.Tool != nil && *m.Tool != "aiperf" {
		b.complaints.Add(source.Errorf(args.PosOf("benchmark_tool"), "unknown benchmark_tool %q", *m.Tool).
			Hintf("%s", source.Suggest(*m.Tool, []string{"aiperf", "genai_perf"})))
	}
	out.Set("workloads", b.value(strings.ReplaceAll(name, "_", "-")))
	out.Set(name, b.value(b.tool(spelled(table, &b.complaints))))
	t.CmdArgs = out
	return t, b.complaints.Err()
}

// workers are the roles: as many processes of each as num_nodes says, all on one node.
func (b *builder) workers(service *source.Table, m *mocker) {
	var w mockerWorker
	plain := spelled(m.Worker, &b.complaints)
	known := source.Fields(w)
	options := plain.Without(known...)
	plain = plain.Without(options.Keys()...)
	b.complaints.Add(source.Decode(plain, &w))
	mode := *cmp.Or(w.Mode, new("none"))
	if mode != "none" && mode != "prefill_decode" {
		b.complaints.Add(source.Errorf(plain.PosOf("disaggregation_mode"), "unknown disaggregation_mode %q", mode).
			Hintf("%s", source.Suggest(mode, []string{"none", "prefill_decode"})))
	}
	engine := source.Merge(spelled(m.Engine, &b.complaints), options)
	prefill := b.worker(w.Prefill, engine)
	decode := b.worker(w.Decode, engine)
	if mode == "none" {
		prefill = b.table()
		prefill.Set("num_nodes", b.value(int64(0)))
		decode.Set("workers_per_node", b.value(int64(1)))
		set(decode.Table("args"), "num_workers", w.Workers)
	}
	service.Set("prefill_worker", b.value(prefill))
	service.Set("decode_worker", b.value(decode))
}

// worker is one role with the options of every mocker below its own.
func (b *builder) worker(t, engine *source.Table) *source.Table {
	plain := spelled(t, &b.complaints)
	out := plain.Without("num_nodes", "args")
	set(out, "workers_per_node", plain.Get("num_nodes"))
	out.Set("num_nodes", b.value(int64(1)))
	out.Set("args", b.value(source.Merge(engine, spelled(plain.Table("args"), &b.complaints)).Without()))
	return out
}

// routerModes are CloudAI's names of router modes, and Dynamo's.
var routerModes = map[string]string{"round_robin": "round-robin", "kv_router": "kv"}

// frontend is its command, with the keys of its table as options.
func (b *builder) frontend(service, t *source.Table) {
	set(service, "port", t.Get("http_port"))
	mode := "round_robin"
	if v := t.Get("router_mode"); v != nil {
		mode, _ = v.Text()
	}
	if routerModes[mode] == "" {
		b.complaints.Add(source.Errorf(t.PosOf("router_mode"), "unknown router_mode %q", mode).
			Hintf("%s", source.Suggest(mode, names(routerModes))))
	}
	words := []string{defaultIngress, "--router-mode", routerModes[mode]}
	for _, w := range serving.Options(t.Without("http_port", "router_mode"), serving.Negatable) {
		text, _ := w.Literal()
		words = append(words, shell.Quote(text))
	}
	service.Set("ingress_cmd", &source.Value{Pos: t.Pos, Any: strings.Join(words, " ")})
}

// tool is the client: its own keys, and every other as an option.
func (b *builder) tool(t *source.Table) *source.Table {
	out, args := b.table(), b.table()
	names := map[string]string{"input_tokens": "synthetic_input_tokens_mean", "output_tokens": "output_tokens_mean"}
	concurrency := "concurrency"
	if mode, _ := t.Get("replay_mode").Text(); mode == "online" {
		concurrency = "request_rate"
	} else if mode != "" && mode != "offline" {
		b.complaints.Add(source.Errorf(t.PosOf("replay_mode"), "unknown replay_mode %q", mode).
			Hintf("%s", source.Suggest(mode, []string{"offline", "online"})))
	}
	names["replay_concurrency"] = concurrency
	for _, d := range []struct {
		key   string
		value int64
	}{{"input_tokens", 5000}, {"output_tokens", 500}, {"request_count", 1000}, {"replay_concurrency", 100}} {
		if !t.Has(d.key) {
			args.Set(cmp.Or(names[d.key], d.key), b.value(d.value))
		}
	}
	for _, key := range t.Keys() {
		switch v := t.Get(key); {
		case key == "replay_mode":
		case key == "cmd":
			text, _ := v.Text()
			out.Set("cmd", &source.Value{Pos: v.Pos, Any: text + " profile"})
		case slices.Contains([]string{"extra_args", "args"}, key):
			out.Set(key, v)
		default:
			args.Set(cmp.Or(names[key], key), v)
		}
	}
	if !out.Has("args") {
		out.Set("args", b.value(args))
	}
	return out
}
