package arguments

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// parser answers for every line, a JSON list of arguments, what the parser of the program says of
// them: "ok", or its error. Of options with limits it also makes the engine's configuration,
// which is where vLLM looks at these.
const parser = `
import contextlib, io, json, sys
sys.argv = ["vllm", "serve"]
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

from vllm.benchmarks.serve import add_cli_args

if sys.stdin.readline() == "vllm serve\n":
    p = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
else:
    p = FlexibleArgumentParser(prog="vllm bench serve")
    add_cli_args(p)

class Started(Exception):
    pass

def start(*args, **kwargs):
    if args and hasattr(args[0], "model_tag"):
        AsyncEngineArgs.from_cli_args(args[0]).create_engine_config()
    raise Started

from vllm.config import ModelConfig
from vllm.entrypoints.cli import serve
from vllm.platforms import current_platform
cuda, moe = type(current_platform).is_cuda_alike, ModelConfig.is_moe
serve.run_server = serve.run_multi_api_server = serve.run_dp_supervisor = start
serve.CoreEngineProcManager = serve.MultiprocExecutor = start

class Refused(Exception):
    pass

def error(message):
    raise Refused(message)

p.error = error
print(json.dumps({o: list(a.option_strings) for a in p._actions for o in a.option_strings}))
for line in sys.stdin:
    words = json.loads(line)
    # Two rules are looked at on GPUs, or for a mixture of experts, only.
    type(current_platform).is_cuda_alike = (lambda self: True) if "--enable-eplb" in words["args"] else cuda
    ModelConfig.is_moe = True if "--data-parallel-rank" in words["args"] else moe
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            args = p.parse_args(words["args"])
            if words["limit"]:
                args.model = args.model_tag
                AsyncEngineArgs.from_cli_args(args).create_engine_config()
            if words["start"]:
                serve.ServeSubcommand().validate(args)
                serve.ServeSubcommand.cmd(args)
        print("ok")
    except Started:
        print("ok")
    except Refused as e:
        print(str(e).replace(chr(10), " "))
    except (SystemExit, Exception) as e:
        text = str(e).replace(chr(10), " ")
        print("ok" if words["limit"] and "nput should be" not in text else "error " + text[:300])
`

// A try is a command line for both parsers.
type try struct {
	Args  []string `json:"args"`
	Limit bool     `json:"limit"` // it is about the limit of a number
	Start bool     `json:"start"` // it is about options that stand against each other
}

// The parsers of the real vLLM 0.32.0 agree: on which options there are, and on which values of
// each they take and refuse, word for word.
//
// covers: CFG-1, CFG-2, CFG-3, LIB-5, VLM-1, LBEN-2
func TestVLLMOptions(t *testing.T) {
	home := realVLLM(t)
	for _, p := range programs {
		t.Run(p.Name, func(t *testing.T) { compareParsers(t, home, p) })
	}
}

func compareParsers(t *testing.T, home string, p *Program) {
	r, err := p.One("0.32.0")
	require.NoError(t, err)
	tries := triesOf(r, filepath.Join(home, "tiny"))
	said, options := askParser(t, home, p, tries)
	for name := range options {
		if _, ok := r.names[name]; !ok && name != "--help" && name != "-h" && (p == Serve || name != "--config") {
			t.Errorf("the parser has %s", name)
		}
	}
	for name := range r.names {
		if options[name] == nil {
			t.Errorf("the parser lacks %s", name)
		}
	}
	right, wrong := 0, 0
	for i, x := range tries {
		words := "ok"
		_, err := r.Parse(x.Args)
		if err != nil {
			_, words, _ = strings.Cut(err.Error(), "error: ")
		}
		switch {
		case words == "ok":
			right++
		default:
			wrong++
		}
		if !agree(said[i], words) {
			t.Errorf("%q:\n vLLM says %s\n we say    %s", x.Args, said[i], words)
		}
	}
	t.Logf("%d command lines taken and %d refused by both", right, wrong)
}

// agree compares what vLLM says with what we say. Whatever vLLM says of JSON and of numbers beyond
// a limit, we say shorter.
func agree(vllm, ours string) bool {
	switch {
	case vllm == "ok" || ours == "ok":
		return vllm == ours
	case strings.Contains(ours, "invalid json value"), strings.Contains(ours, "input should be"):
		return true
	}
	vllm = strings.NewReplacer("invalid loads value", "invalid json value").Replace(vllm)
	if strings.HasPrefix(ours, "argument --speed-bench-dataset-subset: invalid choice") {
		return sortedWords(vllm) == sortedWords(ours) // its choices are a set of Python
	}
	return address.ReplaceAllString(vllm, "") == ours
}

func sortedWords(s string) string {
	words := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" ,()", r) })
	slices.Sort(words)
	return strings.Join(words, " ")
}

var address = regexp.MustCompile(` at 0x[0-9a-f]+`)

// triesOf makes right and wrong values of each option, and mistakes in names.
func triesOf(r *Release, model string) []try {
	groups := map[string]string{}
	for _, o := range r.program.Options() {
		groups[o.Name] = o.Group
	}
	var tries []try
	add := func(limit bool, words ...string) {
		if r.program.model {
			words = append([]string{model}, words...)
		}
		tries = append(tries, try{Args: words, Limit: limit})
	}
	for _, o := range r.options {
		name := o.names[0]
		if slices.Contains(unheard[r.program], name) {
			continue
		}
		right, wrong := valuesOf(o)
		switch o.Values {
		case "0":
			add(false, name)
			add(false, name+"=1")
			if len(o.names) == 1 {
				add(false, "--no-"+strings.TrimPrefix(name, "--"))
			}
			continue
		case "+", "*":
			add(false, name)
		case "":
			add(false, name)
			add(false, name, "x y", "z")
		}
		for _, v := range append(right, wrong...) {
			add(false, name+"="+v)
		}
		for _, bound := range []*float64{o.Min, o.Above, o.Max, o.Below} {
			if bound != nil && !slices.Contains(unused, groups[name]) {
				for _, d := range []float64{-1, 0, 1} {
					add(true, name+"="+strconv.FormatFloat(*bound+d, 'f', -1, 64))
				}
			}
		}
	}
	for _, line := range mistakes[r.program] {
		add(false, strings.Fields(line)...)
	}
	return tries
}

// unheard are options that are not compared: the model is there; a file is read; choices depend on
// the build; Python's own parser decides.
var unheard = map[*Program][]string{
	Serve:      {"--model", "--config", "--all2all-backend", "--mm-processor-device"},
	BenchServe: {"--random-mm-bucket-config"},
}

var mistakes = map[*Program][]string{
	Serve: {"--tensor-paralel-size 2", "--swap-space 4", "--guided-decoding-backend auto", "--max 4", "-tp two", "-n2", "-O3",
		"--max_num_seqs 8", "--compilation-config.mode 3", "-cc.mode=3", "--no-headless", "--enforce-eager true", "extra words",
		"--seed.x 1", "--dtype.x=y"},
	BenchServe: {"--num-prompt 3", "--random 3", "--extra_body.a.b 3", "--extra-body.a=x", "--seed.x 1", "--ignore-eos.x 1", "--backend.x=y",
		"--metadata a=b c=d --seed 1", "--lora-modules a b", "--top-k=1.5", "--no-self-timed", "--no-seed", "--dataset-path",
		"--endpoint-type openai", "word", "--seed -1", "-n2", "--sonnet-input-len 4"},
}

// unused are groups whose limits vLLM looks at only for a model with images or with adapters.
var unused = []string{"MultiModalConfig", "LoRAConfig"}

// valuesOf are values that an option takes, and that it does not.
func valuesOf(o option) (right, wrong []string) {
	switch o.Type {
	case "int":
		right, wrong = []string{"64", " 64 "}, []string{"lots", "1.5", "1e3", "0x10"}
	case "float":
		right, wrong = []string{"0.5", "1e-1"}, []string{"much", "1,5"}
	case "human_readable_int":
		right, wrong = []string{"64", "2k", "25.6k", "1M"}, []string{"lots", "2q", "1.5K"}
	case "human_readable_int_or_auto":
		right, wrong = []string{"64", "2k", "auto"}, []string{"lots", "2q"}
	case "json":
		right, wrong = []string{"{}"}, []string{"{", "{'a': 1}"}
	default:
		right = []string{"x=y"}
	}
	if o.Choices != nil {
		right, wrong = slices.Clone(o.Choices), append(wrong, "nothing-such")
		if o.Type == "int" {
			wrong = []string{"3", "lots"}
		}
	}
	if o.Optional {
		right = append(right, "None")
	}
	return right, wrong
}

func askParser(t *testing.T, home string, p *Program, tries []try) (said []string, options map[string][]string) {
	t.Helper()
	var in, log bytes.Buffer
	in.WriteString(p.Name + "\n")
	for _, x := range tries {
		require.NoError(t, json.NewEncoder(&in).Encode(x))
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(home, "venv/bin/python"), "-c", parser)
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "VLLM_LOGGING_LEVEL=ERROR")
	cmd.Stdin, cmd.Stderr = &in, &log
	out, err := cmd.Output()
	require.NoError(t, err, log.String())
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for !strings.HasPrefix(lines[0], "{") { // what vLLM logs on the way
		lines = lines[1:]
	}
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &options))
	require.Len(t, lines[1:], len(tries))
	return lines[1:], options
}

// realVLLM is the folder of an installed vLLM; without one, the test is skipped.
func realVLLM(t *testing.T) string {
	t.Helper()
	home := os.Getenv("VLLM_LAB")
	if home == "" {
		require.NotEqual(t, "1", os.Getenv("PROFLLM_REQUIRE_VLLM"), "VLLM_LAB is not set")
		t.Skip("no real vLLM (make test-vllm)")
	}
	return home
}
