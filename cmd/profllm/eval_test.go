package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/lease"
)

// arithmetic writes files in the form of GSM8K's, with questions that the simulated engine answers.
func arithmetic(t *testing.T, dir string, questions int) {
	t.Helper()
	for name, n := range map[string]int{"train.jsonl": 5, "test.jsonl": questions} {
		var b strings.Builder
		for i := range n {
			a, c := 100+i*7%900, 10+i*3%80
			fmt.Fprintf(&b, `{"question": "Question %d: what is %d plus %d?", "answer": "It is.\n#### %d"}`+"\n", i, a, c, a+c)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(b.String()), 0o644))
	}
}

// The evaluation asks a running server, keeps every answer, and leaves a file that is read as that of
// vLLM's script, with which questions were right.
func TestEvalGSM8K(t *testing.T) {
	t.Parallel()
	address, env := fastServer(t)
	dir := t.TempDir()
	call := func(args ...string) outcome {
		t.Helper()
		host, port, _ := strings.Cut(address, ":")
		return profllm(t, dir, append(env, "TMPDIR="+dir, "HOME="+dir),
			append([]string{"eval", "gsm8k", "--host", host, "--port", port}, args...)...)
	}
	got := call()
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "train.jsonl and test.jsonl are not in "+dir)
	arithmetic(t, dir, 300) // where vLLM's script keeps them
	if file := filepath.Join(dir, "test.jsonl"); os.Chown(file, 12345, -1) == nil {
		got = call("--num-questions", "240")
		require.Equal(t, exitUsage, got.code)
		require.Contains(t, got.stderr, "is not used: "+file+" belongs to user 12345")
		require.NoError(t, os.Chown(file, os.Getuid(), -1))
	}
	got = call("--num-questions", "240", "--save-results", "one/vllm-gsm8k.json")
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Regexp(t, `(?m)^Accuracy: 0\.\d{3}\nInvalid responses: 0\.000$`, got.stdout)
	require.Contains(t, got.stderr, "the engine is simulated")

	params := resultKeys(t, filepath.Join(dir, "one/vllm-gsm8k.json"))["request_params"].(map[string]any)
	require.Equal(t, "tiny", params["served_model"])
	require.NotContains(t, params, "model", "completions name none")
	answers := filepath.Join(dir, "one/vllm-gsm8k.answers.jsonl")
	kept := readText(t, answers)
	require.NoError(t, os.WriteFile(answers, []byte(strings.Replace(kept, `"served_model":"tiny"`, `"served_model":"big"`, 1)), 0o644))
	got = call("--num-questions", "240", "--save-results", "one/vllm-gsm8k.json")
	require.Equal(t, exitUsage, got.code, got.stderr)
	require.Contains(t, got.stderr, `the answers are of another evaluation: its model is "big", not "tiny"`)
	require.NoError(t, os.WriteFile(answers, []byte(kept), 0o644))

	for i := range 2 {
		got = call("--num-questions", "240", "--use-chat-completions", "--shard", fmt.Sprintf("%d/2", i+1),
			"--save-results", fmt.Sprintf("part%d.json", i))
		require.Equal(t, exitOK, got.code, got.stderr)
	}
	got = profllm(t, dir, nil, "eval", "merge", "part0.answers.jsonl", "--save-results", "two/vllm-gsm8k.json")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "120 of 240 questions have an answer")
	got = profllm(t, dir, nil, "eval", "merge", "part0.answers.jsonl", "part1.answers.jsonl", "--save-results",
		"two/vllm-gsm8k.json")
	require.Equal(t, exitOK, got.code, got.stderr)

	require.Equal(t, exitOK, profllm(t, dir, nil, "collect", "one", "two").code)
	one, two := readResult(t, filepath.Join(dir, "one")), readResult(t, filepath.Join(dir, "two"))
	require.True(t, one.Simulated)
	require.Equal(t, 240, *one.Accuracy.Questions)
	require.Equal(t, "profllm eval gsm8k", one.Accuracy.Program)
	_, _, paired := one.Accuracy.Answers.Against(two.Accuracy.Answers)
	require.True(t, paired, "both asked the same questions")

	got = call("--num-questions", "240", "--save-results", "one/vllm-gsm8k.json")
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stderr, "240 of them answered before")
	held, err := lease.Acquire(filepath.Join(dir, "one/.vllm-gsm8k.answers.jsonl.lease"), lease.Options{Now: time.Now})
	require.NoError(t, err)
	got = call("--num-questions", "240", "--save-results", "one/vllm-gsm8k.json")
	require.Equal(t, exitUsage, got.code, "another command writes the answers")
	require.Contains(t, got.stderr, fmt.Sprintf("one/vllm-gsm8k.answers.jsonl is in use: process %d on ", os.Getpid()))
	require.NoError(t, held.Release())
	got = call("--num-questions", "239", "--save-results", "one/vllm-gsm8k.json")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "the answers are of another evaluation")
}

// A scenario evaluates without Python where it names the folder of the questions; a rehearsal asks
// generated ones.
func TestScenarioWithOwnEvaluation(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a rehearsal")
	}
	dir := t.TempDir()
	text := `name = "own"
[[Tests]]
id = "a"
test_template_name = "vllm"
client = "profllm"
  [Tests.bench_cmd_args]
  num_prompts = 10
  max_concurrency = 2
  [Tests.semantic_eval_cmd_args]
  data = "/data/gsm8k"
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
	got := profllm(t, dir, nil, "rehearse", "s.toml", "--speed", "100", "--output-dir", "out")
	require.NotEqual(t, exitJobFailed, got.code, got.stderr)
	r := readResult(t, filepath.Join(onlyFolder(t, filepath.Join(dir, "out")), "a/0"))
	require.Equal(t, 200, *r.Accuracy.Questions)
	require.InDelta(t, 0.75, r.Accuracy.Value, 0.15)
	require.True(t, r.Simulated)
	last := r.Provenance.Commands[len(r.Provenance.Commands)-1].Argv
	require.Contains(t, strings.Join(last, " "), "eval gsm8k --host http://")
}
