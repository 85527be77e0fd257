package offline

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/sim/tool"
)

// standIns are modules of the names that the program imports. The engine answers each prompt with as
// many tokens as were asked for; every time is one that can be told from the others.
var standIns = map[string]string{
	"vllm/__init__.py": `
import json, os
from types import SimpleNamespace as Of
__version__ = "0.0"
calls = []
class SamplingParams:
    def __init__(self, **more): self.__dict__.update(more)
class LLM:
    def __init__(self, **more):
        calls.append({"engine": more})
        print("the engine is loaded")
        model = Of(get_vocab_size=lambda: 50000, max_model_len=40)
        self.llm_engine = Of(vllm_config=Of(model_config=model))
    def get_tokenizer(self):
        if file := os.environ.get("TOKENIZER"):
            from transformers import PreTrainedTokenizerFast
            return PreTrainedTokenizerFast(tokenizer_file=file)
        return Of(encode=lambda text: text.split())
    def start_profile(self): calls.append({"profile": "start"})
    def stop_profile(self): calls.append({"profile": "stop"})
    def generate(self, prompts, params, use_tqdm=True):
        calls.append({"prompts": prompts, "params": vars(params)})
        with open(os.environ["CALLS"], "w") as f: json.dump(calls, f)
        return [Of(prompt_token_ids=[1, 2, 3], outputs=[Of(token_ids=[7] * params.max_tokens)],
                   metrics=Of(queued_ts=10.0, scheduled_ts=10.5, first_token_ts=10.75, last_token_ts=12.75)
                   if not os.environ.get("OLD") else None) for _ in prompts]
`,
	"vllm/engine/__init__.py": "",
	"vllm/engine/arg_utils.py": `
class EngineArgs:
    @staticmethod
    def add_cli_args(p):
        for name, kind in (("model", str), ("seed", int), ("data-parallel-size", int)):
            p.add_argument("--" + name, type=kind, default=0 if name == "seed" else 1)
    @classmethod
    def from_cli_args(cls, args):
        e = cls()
        e.model, e.seed, e.data_parallel_size = args.model, args.seed, args.data_parallel_size
        return e
`,
	"vllm/utils/__init__.py":       "",
	"vllm/utils/argparse_utils.py": "from argparse import ArgumentParser as FlexibleArgumentParser\n",
	"torch/__init__.py":            "",
	"torch/distributed.py":         "def is_available(): return False\n",
	"viztracer.py": `
import vllm
class VizTracer:
    def __init__(self, output_file): self.file = output_file
    def __enter__(self): vllm.calls.append({"viztracer": self.file})
    def __exit__(self, *_): vllm.calls.append({"viztracer": "end"})
`,
}

// A call is one of the stand-in for the engine.
type call struct {
	Engine             map[string]any
	Prompts            []any
	Params             map[string]any
	Profile, VizTracer string
}

// columns are what the program writes.
type columns struct {
	TTFTFrom      string    `json:"ttft_from"`
	Requests      int       `json:"num_requests"`
	OutputLengths []int     `json:"output_lens"`
	Queue         []float64 `json:"queue_times"`
	TTFTs         []float64 `json:"ttfts"`
	Decode        []float64 `json:"decode_times"`
}

// ran runs the program beside the stand-ins.
func ran(t *testing.T, env []string, args ...string) (calls []call, got columns, err error) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: the embedded program was not run")
	}
	dir := t.TempDir()
	for name, text := range standIns {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	file, log := filepath.Join(dir, "out.json"), filepath.Join(dir, "calls.json")
	cmd := exec.Command(python, append([]string{"-c", Program, "--model", "m", "--output-json", file}, args...)...)
	cmd.Env = append(os.Environ(), append(env, "PYTHONPATH="+dir, "CALLS="+log, "PYTHONDONTWRITEBYTECODE=1")...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, got, fmt.Errorf("%w: %s", err, out)
	}
	t.Logf("%s", out)
	for name, into := range map[string]any{file: &got, log: &calls} {
		data, err := os.ReadFile(name)
		require.NoError(t, err, "%s", out)
		require.NoError(t, json.Unmarshal(data, into))
	}
	return calls, got, nil
}

// A TTFT leaves out the queue; the warm-up is a prompt of its own and is not counted; synthetic
// prompts differ from each other, follow from the seed, and are answered in full.
//
// covers: OFF-6, OFF-7, OFF-9
func TestProgram(t *testing.T) {
	require.Contains(t, Program[:len(tool.RequestsProgram)], tool.RequestsProgram, "a rehearsal tells it by that")
	calls, got, err := ran(t, nil, "--num-prompts", "20", "--input-len", "6", "--output-len", "9", "--max-tokens", "5", "--seed", "3")
	require.NoError(t, err)
	require.Equal(t, false, calls[0].Engine["disable_log_stats"], "else requests have no times")
	require.Equal(t, []int{1, 20}, []int{len(calls[1].Prompts), len(calls[2].Prompts)})
	require.NotContains(t, calls[2].Prompts, calls[1].Prompts[0], "the cache would know it")
	seen := map[string]bool{}
	for _, p := range calls[2].Prompts {
		text, err := json.Marshal(p)
		require.NoError(t, err)
		seen[string(text)] = true
		ids := p.(map[string]any)["prompt_token_ids"].([]any)
		require.Len(t, ids, 6)
		for _, id := range ids {
			require.GreaterOrEqual(t, id, 1000.0)
			require.LessOrEqual(t, id, 9999.0)
		}
	}
	require.Len(t, seen, 20, "all are distinct")
	require.Equal(t, map[string]any{"temperature": 0.0, "max_tokens": 9.0, "ignore_eos": true}, calls[2].Params)
	require.Equal(t, "scheduled", got.TTFTFrom)
	require.Equal(t, 20, got.Requests)
	require.Equal(t, []float64{0.5, 0.25, 2}, []float64{got.Queue[0], got.TTFTs[0], got.Decode[0]})
	require.Equal(t, 9, got.OutputLengths[0])

	again, _, err := ran(t, nil, "--num-prompts", "20", "--input-len", "6", "--output-len", "9", "--seed", "3")
	require.NoError(t, err)
	require.Equal(t, calls[2].Prompts, again[2].Prompts)
	other, _, err := ran(t, nil, "--num-prompts", "20", "--input-len", "6", "--output-len", "9", "--seed", "4")
	require.NoError(t, err)
	require.NotEqual(t, calls[2].Prompts, other[2].Prompts)
}

// Prompts come from a file, else they are stock; engines share them by turns.
func TestProgramPrompts(t *testing.T) {
	calls, _, err := ran(t, []string{"RANK=2", "WORLD_SIZE=4"}, "--num-prompts", "9", "--data-parallel-size", "2",
		"--max-tokens", "5", "--temperature", "0.5")
	require.NoError(t, err)
	require.Len(t, calls[2].Prompts, 4, "of the second engine of two: 1, 3, 5, 7")
	require.Equal(t, calls[2].Prompts[0], calls[2].Prompts[3], "six stock prompts, of which it has each second")
	require.Equal(t, map[string]any{"temperature": 0.5, "max_tokens": 5.0, "ignore_eos": false}, calls[2].Params)

	file := filepath.Join(t.TempDir(), "chats.json")
	require.NoError(t, os.WriteFile(file, []byte(`[{"conversations": [{"from": "gpt", "value": "x"}, {"from": "human", "value": "one"}]},
		{"conversations": []}, {"conversations": [{"from": "human", "value": "a b c d e f g h i j k"}]},
		{"conversations": [{"from": "human", "value": "two"}]}]`), 0o644))
	calls, _, err = ran(t, nil, "--num-prompts", "2", "--dataset-path", file, "--output-len", "30")
	require.NoError(t, err)
	require.Equal(t, []any{"one", "two"}, calls[2].Prompts, "11 + 30 tokens are more than the engine's 40")
	_, _, err = ran(t, nil, "--num-prompts", "3", "--dataset-path", file, "--output-len", "30")
	require.ErrorContains(t, err, "Prompts left out: 1, longer than 40 tokens")
	require.ErrorContains(t, err, "2 prompts fit 40 tokens with their answers, not 3")
	_, _, err = ran(t, nil, "--num-prompts", "4", "--dataset-path", file)
	require.ErrorContains(t, err, "has 3 prompts of people, not 4")
	require.NotContains(t, err.Error(), "the engine is loaded")
	_, _, err = ran(t, []string{"OLD=1"}, "--num-prompts", "1")
	require.Error(t, err, "a release without times")
}

// tokenizer is a tokenizer.json whose tokens are letters, with a token in front of every prompt.
const tokenizer = `{"version": "1.0", "truncation": null, "padding": null, "normalizer": null, "decoder": null,
	"added_tokens": [{"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
	"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": false},
	"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
		"pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
		"special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
	"model": {"type": "WordLevel", "vocab": {"<s>": 0, "a": 1, "?": 2}, "unk_token": "?"}}`

// The lengths by which prompts are left out are those of the library that vLLM takes its
// tokenizers from, with the tokens that it puts around a prompt.
func TestVLLMPromptsThatFit(t *testing.T) {
	home := os.Getenv("VLLM_LAB")
	if home == "" {
		require.NotEqual(t, "1", os.Getenv("PROFLLM_REQUIRE_VLLM"), "VLLM_LAB is not set")
		t.Skip("no real vLLM (make test-vllm)")
	}
	t.Setenv("PATH", filepath.Join(home, "venv/bin")+":"+os.Getenv("PATH"))
	dir := t.TempDir()
	file, chats := filepath.Join(dir, "tokenizer.json"), filepath.Join(dir, "chats.json")
	require.NoError(t, os.WriteFile(file, []byte(tokenizer), 0o644))
	require.NoError(t, os.WriteFile(chats, []byte(`[{"conversations": [{"from": "human", "value": "aaaaaaaaaa"}]},
		{"conversations": [{"from": "human", "value": "aaaaaaaaa"}]}]`), 0o644))
	env := []string{"TOKENIZER=" + file, "USE_TORCH=0", "HF_HUB_OFFLINE=1"}
	calls, _, err := ran(t, env, "--num-prompts", "1", "--dataset-path", chats, "--output-len", "30")
	require.NoError(t, err)
	require.Equal(t, []any{"aaaaaaaaa"}, calls[2].Prompts, "1 + 10 + 30 tokens are more than the engine's 40")
	_, _, err = ran(t, env, "--num-prompts", "2", "--dataset-path", chats, "--output-len", "30")
	require.ErrorContains(t, err, "Prompts left out: 1, longer than 40 tokens")
}

// Profilers are open during the measured requests only.
func TestProgramProfiles(t *testing.T) {
	calls, _, err := ran(t, nil, "--num-prompts", "1", "--profile", "--viztracer", "trace.json")
	require.NoError(t, err)
	require.Empty(t, calls[1].VizTracer+calls[1].Profile, "the warm-up")
	require.Equal(t, "trace.json", calls[2].VizTracer)
	require.Equal(t, "start", calls[3].Profile)
	require.NotEmpty(t, calls[4].Prompts)
}
