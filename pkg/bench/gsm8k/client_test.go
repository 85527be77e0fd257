package gsm8k_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/bench/gsm8k"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

func command(t *testing.T, text string) ([]string, error) {
	t.Helper()
	table, err := source.Parse("t.toml", []byte(text))
	require.NoError(t, err)
	eval, err := gsm8k.New(table)
	if err != nil {
		return nil, err
	}
	step, err := eval.Command(plan.Target{Host: plan.Word{plan.Addr("proxy")},
		Port: plan.Word{plan.PortNumber("proxy")}, Model: "org/a b;touch x", Dir: "/run/raw"})
	require.NoError(t, err)
	require.True(t, step.Container)
	words := make([]string, len(step.Argv))
	for i, w := range step.Argv {
		words[i] = w.String()
	}
	return words, nil
}

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"defaults", "", []string{"python3", "/opt/vllm/tests/evals/gsm8k/gsm8k_eval.py", "--host", "http://${addr:proxy}", "--port", "${port:proxy}",
			"--num-questions", "200", "--save-results", "/run/raw/vllm-gsm8k.json"}},
		{"an empty cli", `cli = ""`, []string{"python3", "/opt/vllm/tests/evals/gsm8k/gsm8k_eval.py"}},
		{"every placeholder", "entrypoint = 'e'\ncli = '{url}/v1 {model} a{port}b {result_dir} {output_path} {unknown} {host}:{port}'",
			[]string{"e", "http://${addr:proxy}:${port:proxy}/v1", "org/a b;touch x", "a${port:proxy}b", "/run/raw",
				"/run/raw", "{unknown}", "http://${addr:proxy}:${port:proxy}"}},
		{"words as a shell splits them, unexpanded", `entrypoint = "e 'a b' \"c'd\" e\\ f"` + "\ncli = '''$(touch x) ; `x` $HOME * \"\" '''",
			[]string{"e", "a b", "c'd", "e f", "$(touch", "x)", ";", "`x`", "$HOME", "*", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := command(t, c.text)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// How many questions are asked is checked before a job waits for it, of programs whose options are
// known.
func TestNumberOfQuestions(t *testing.T) {
	for text, want := range map[string]string{
		"entrypoint = 'lm_eval'\ncli = '--tasks gsm8k --limit 0'":                  `t.toml:2:1: semantic_eval_cmd_args: --limit is "0", must be a number above 0`,
		"entrypoint = 'lm_eval'\ncli = '--limit=-5'":                               `--limit is "-5"`,
		"entrypoint = '/venv/bin/lm-eval run'\ncli = '-L many'":                    `-L is "many"`,
		"entrypoint = 'python3 -m lm_eval --limit nan'":                            `t.toml:1:1: semantic_eval_cmd_args: --limit is "nan"`,
		"entrypoint = 'lm_eval'\ncli = '--limit'":                                  "--limit has no value",
		"cli = '--num-questions 0'":                                                `--num-questions is "0", must be a number of questions, 1 or more`,
		"cli = '--num-questions=2.5'":                                              `--num-questions is "2.5"`,
		"data = '/data'\ncli = '--num-questions -1'":                               `--num-questions is "-1"`,
		"entrypoint = 'lm_eval'\ncli = '--limit 0.1'":                              "",
		"entrypoint = 'lm_eval'\ncli = '-L 100 --num-questions 0'":                 "",
		"entrypoint = 'lm_eval'\ncli = '--limit ${N}'":                             "",
		"cli = '--num-questions 20 --limit 0'":                                     "",
		"entrypoint = 'ask gsm8k_mine'\ncli = '--limit 0'":                         "",
		"entrypoint = 'bash -c lm_eval'\ncli = '--limit 0'":                        "",
		"entrypoint = 'mine'\ncli = '--limit 0 --num-questions 0 --tasks lm_eval'": "",
	} {
		_, err := command(t, text)
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, want, text)
	}
}

// SGLang's script builds the URL itself.
func TestSGLang(t *testing.T) {
	eval, err := gsm8k.NewSGLang(source.NewTable(source.Pos{}))
	require.NoError(t, err)
	step, err := eval.Command(plan.Target{Host: plan.Word{plan.Addr("serve")},
		Port: plan.Word{plan.PortNumber("serve")}, Model: "org/a", Dir: "/run/raw"})
	require.NoError(t, err)
	words := make([]string, len(step.Argv))
	for i, w := range step.Argv {
		words[i] = w.String()
	}
	require.Equal(t, []string{"python3", "-m", "sglang.test.run_eval", "--host", "${addr:serve}", "--port",
		"${port:serve}",
		"--eval-name", "gsm8k", "--num-examples", "200", "--num-threads", "128", "--model", "org/a"}, words)
}

func TestEvalRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`cli = "'"`:                    "t.toml:1:1: semantic_eval_cmd_args.cli: a quote is not closed",
		`entrypoint = "a\\"`:           "t.toml:1:1: semantic_eval_cmd_args.entrypoint: a quote is not closed",
		"entrypoint = ' '\ncli = '\t'": "semantic_eval_cmd_args has no program",
		"threshold = 1":                `t.toml:1:1: unknown key "threshold"`,
		"cli = 1":                      "cli must be a string, not the integer 1",
	} {
		_, err := command(t, text)
		require.ErrorContains(t, err, want, text)
	}
}
