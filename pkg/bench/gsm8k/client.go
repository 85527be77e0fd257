package gsm8k

import (
	"cmp"
	"path"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// Config is [semantic_eval_cmd_args]. An empty table runs the evaluation with
// the defaults.
type Config struct {
	// Program and leading arguments; default the engine's GSM8K script: vLLM's in the image, or
	// sglang.test.run_eval.
	Entrypoint *string `toml:"entrypoint"`
	// Further arguments with placeholders {host} {port} {url} {model} {output_path}
	// {result_dir} {artifact_dir}.
	CLI *string `toml:"cli"`
	// Folder with GSM8K's train.jsonl and test.jsonl, which every node sees: profllm itself
	// evaluates, without Python (profllm).
	Data *string `toml:"data"`
}

// Defaults of CloudAI.
const (
	defaultEntrypoint = "python3 /opt/vllm/tests/evals/gsm8k/gsm8k_eval.py"
	defaultCLI        = "--host {host} --port {port} --num-questions 200 --save-results {output_path}/vllm-gsm8k.json"
)

// ownEntrypoint is that of profllm itself, without the program.
const ownEntrypoint = "eval gsm8k"

// The same for SGLang, whose script takes a host without a scheme.
const (
	sglangEntrypoint = "python3 -m sglang.test.run_eval"
	sglangCLI        = "--host {host} --port {port} --eval-name gsm8k --num-examples 200 --num-threads 128 --model {model}"
)

// Eval is a decoded evaluation: a plan.Client.
type Eval struct {
	words  []string
	scheme string // of {host}
	own    bool   // profllm itself evaluates
}

// New decodes the table. Both texts are split into words as a shell splits
// them, but nothing in them is expanded by a shell.
func New(t *source.Table) (*Eval, error) {
	return decode(t, defaultEntrypoint, defaultCLI, "http://")
}

// NewSGLang is New with the defaults for SGLang; {host} is a bare host.
func NewSGLang(t *source.Table) (*Eval, error) {
	return decode(t, sglangEntrypoint, sglangCLI, "")
}

func decode(t *source.Table, entrypoint, cli, scheme string) (*Eval, error) {
	var cfg Config
	var c source.Complaints
	c.Add(source.Decode(t, &cfg))
	e := &Eval{scheme: scheme}
	if cfg.Data != nil {
		e.own, entrypoint, cli = true, ownEntrypoint, defaultCLI
		if cfg.Entrypoint != nil {
			c.Add(source.Errorf(t.PosOf("entrypoint"), "semantic_eval_cmd_args.entrypoint: with data, profllm itself evaluates").
				Hintf("remove entrypoint or data; lm_eval reads your questions by a task file in [Tests.files]"))
		}
		if !path.IsAbs(*cfg.Data) {
			c.Addf(t.PosOf("data"), "semantic_eval_cmd_args.data is %q, must be an absolute path", *cfg.Data)
		}
	}
	for _, part := range []struct {
		key  string
		text *string
		def  string
	}{{"entrypoint", cfg.Entrypoint, entrypoint}, {"cli", cfg.CLI, cli}} {
		text := part.def
		if part.text != nil {
			text = *part.text
		}
		words, err := config.SplitWords(text)
		if err != nil {
			c.Addf(t.PosOf(part.key), "semantic_eval_cmd_args.%s: %v", part.key, err)
		}
		e.words = append(e.words, words...)
	}
	pos := t.PosOf("cli")
	if cfg.CLI == nil {
		pos = t.PosOf("entrypoint")
	}
	checkCount(pos, e.words, &c)
	if cfg.Data != nil {
		e.words = append(e.words, "--data", *cfg.Data)
	}
	if len(e.words) == 0 && c.Err() == nil {
		c.Addf(t.Pos, "semantic_eval_cmd_args has no program")
	}
	return e, c.Err()
}

// artifactDir is a folder of an evaluation alone, below that of the client's results.
const artifactDir = "accuracy"

var placeholder = lazyregexp.New(`\{(host|port|url|model|output_path|result_dir|artifact_dir)\}`)

// Command implements plan.Client.
func (e *Eval) Command(t plan.Target) (plan.Step, error) {
	values := map[string]plan.Word{
		"{host}": plan.Concat(e.scheme, t.Host), "{port}": t.Port, "{url}": plan.Concat("http://", t.Host, ":", t.Port),
		"{model}": plan.Text(cmp.Or(t.Served, t.Model)), "{output_path}": plan.Text(t.Dir), "{result_dir}": plan.Text(t.Dir),
		"{artifact_dir}": plan.Text(path.Join(t.Dir, artifactDir)),
	}
	argv := make([]plan.Word, len(e.words))
	for i, text := range e.words {
		var w plan.Word
		last := 0
		for _, at := range placeholder.FindAllStringIndex(text, -1) {
			w = append(plan.Concat(w, text[last:at[0]]), values[text[at[0]:at[1]]]...)
			last = at[1]
		}
		argv[i] = plan.Concat(w, text[last:])
	}
	if e.own {
		argv = append([]plan.Word{plan.Self()}, argv...)
	}
	return plan.Step{Name: plan.EvalStep, Nodes: t.Nodes, Env: clientEnv, Container: !e.own, Argv: argv,
		Log: "logs/eval-%t.log"}, nil
}

// clientEnv tells the command which part it plays, as every role is told.
var clientEnv = []plan.Var{{Name: plan.RoleVar, Value: plan.Text("client")}}
