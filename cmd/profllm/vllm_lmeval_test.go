package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// lmEval returns the path of lm-eval's program, which make test-vllm installs. Without it, the test is
// skipped.
func lmEval(t *testing.T) string {
	t.Helper()
	program := os.Getenv("LM_EVAL")
	if program == "" {
		if os.Getenv("PROFLLM_REQUIRE_VLLM") == "1" {
			t.Fatal("LM_EVAL is not set")
		}
		t.Skip("no lm-eval (make test-vllm, or LM_EVAL=PATH of its program lm_eval)")
	}
	return program
}

// The scenario of the page about accuracy, with lm-eval, questions in local files and the real engine
// on this machine; and the same with a wrong name of the model, whose cause is the server's reason.
//
// covers: PL-I3
func TestVLLMHarness(t *testing.T) {
	dir, home, program := t.TempDir(), vllmHome(t), lmEval(t)
	site, err := os.ReadFile("../../examples/vllm-lab/site.toml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "site.toml"), []byte(strings.ReplaceAll(string(site), "@LAB@", home)), 0o644))
	arithmetic(t, dir, 40)
	page, err := os.ReadFile("../../docs/how-to/accuracy.md")
	require.NoError(t, err)
	text := ""
	for _, m := range pageFile.FindAllStringSubmatch(string(page), -1) {
		if m[1] == "own-questions.toml" {
			text = m[2]
		}
	}
	engine := "model = \"" + filepath.Join(home, "tiny") + `"
serve_wait_seconds = 400
decode = { load_format = "dummy", dtype = "float32", enforce_eager = "", max_model_len = 2048, max_num_seqs = 16, distributed_executor_backend = "uni" }
`
	for old, changed := range map[string]string{
		"extra_container_mounts = [\"/data/gsm8k:/data/gsm8k:ro\"]\n":                  "",
		"docker_image_url = \"registry.example.org/team/vllm-with-lm-eval:v0.32.0\"\n": engine,
		"entrypoint = \"lm_eval\"": "entrypoint = \"" + program + "\"",
		"/data/gsm8k/":             dir + "/",
		"max_gen_toks: 256":        "max_gen_toks: 16",
	} {
		require.Contains(t, text, old)
		text = strings.ReplaceAll(text, old, changed)
	}
	_, test, ok := strings.Cut(text, "[[Tests]]\n")
	require.True(t, ok)
	wrong := strings.NewReplacer("own-questions", "wrong-model", "model={model}", "model=nobody").Replace(test)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text+"\n[[Tests]]\n"+wrong), 0o644))

	o := profllm(t, dir, nil, "run", "--system", "site.toml", "s.toml")
	require.Equal(t, exitJobFailed, o.code, "because of the wrong model")
	results := resultsByTest(t, dir)
	require.Len(t, results, 2)
	requireHarness(t, results["own-questions/0"])
	failed := results["wrong-model/0"].Failure
	require.Equal(t, "client-model-name", failed.Cause, failed.Line)
	require.Equal(t, "eval", failed.Role)
	require.Contains(t, failed.Line, "The model `nobody` does not exist")
}

// requireHarness holds the record of lm-eval against what it was asked.
func requireHarness(t *testing.T, r *result.Result) {
	t.Helper()
	require.Equal(t, result.Completed, r.Status, r.Validity.Words)
	require.True(t, r.Validity.Valid, r.Validity.Words)
	a := r.Accuracy
	require.Equal(t, []string{"lm-eval", "gsm8k_local", "exact_match", "flexible-extract"},
		[]string{a.Program, a.Task, a.Metric, a.Filter})
	require.Equal(t, []int{40, 40, 5}, []int{*a.Questions, *a.TaskQuestions, *a.Shots})
	require.GreaterOrEqual(t, a.Value, 0.0)
	require.NotNil(t, a.Stderr)
	require.Equal(t, "strict-match", a.Others[0].Filter)
	require.Equal(t, 40, a.Answers.Questions, "of the samples beside the result")
	require.Equal(t, result.Pass, r.Validity.Check("accuracy-missing").Outcome)
}
