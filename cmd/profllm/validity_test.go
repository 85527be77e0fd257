package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each simulated run trips exactly one check, or misses it narrowly. That the
// engine is simulated and that so few requests have no p99 is said of all; that the
// client was slowed down, that its first requests were, or that the pace was not steady,
// may be said of any on a busy machine, and is then the truth.
//
// covers: PL-V7, PL-V11, PL-V15, PL-V17, PL-V18, PL-V20, PL-V22, PL-V23, PL-V36
func TestRehearsedVerdicts(t *testing.T) {
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	// Another client asks the same server while the benchmark runs.
	const foreign = `{{define "before_client"}}
"$PROFLLM" bench serve --model Qwen/Qwen3-0.6B --base-url "http://$SERVE_ADDR:$SERVE_PORT" --num-prompts $FOREIGN --random-input-len 8 --random-output-len 1 >foreign.log 2>&1 &
{{end}}`
	cases := []struct {
		word, faults string
		prompts      int
		foreign      int
	}{
		{"", "", 40, 0},
		{"token-books", "miscount=1.06", 40, 0},
		{"", "miscount=1.01", 40, 0},
		{"cache-warm", "warm=0.2", 40, 0},
		{"", "warm=0.03", 40, 0},
		{"no-steady-state", "", 39, 0},
		{"preempted-requests", "preempt=0.3", 40, 0},
		{"corrupt-output", "corrupt=0.3", 40, 0},
		{"", "corrupt=0.000001", 40, 0},
		{"foreign-load", "", 40, 10},
		{"", "", 40, 1},
		{"cold-start", "cold=8", 80, 0},
		{"", "cold=2", 80, 0},
		{"not-steady", "slowing=2ms", 80, 0},
		{"", "slowing=20us", 80, 0},
	}
	dir := t.TempDir()
	var text strings.Builder
	text.WriteString("name = \"verdicts\"\n")
	for i, c := range cases {
		fmt.Fprintf(&text, "[[Tests]]\nid = \"t%d\"\ntest_template_name = \"vllm\"\n[Tests.extra_env_vars]\nPROFLLM_SIM_FAULTS = %q\nFOREIGN = \"%d\"\n", i, also("serve:", c.faults), c.foreign)
		fmt.Fprintf(&text, "[Tests.bench_cmd_args]\nmax_concurrency = 8\nnum_prompts = %d\nrandom_output_len = 20\nsave_detailed = true\n", c.prompts)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text.String()), 0o644))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "templates", "slurm"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "templates", "slurm", "foreign.block.tmpl"),
		[]byte(strings.ReplaceAll(foreign, "$FOREIGN", `"$FOREIGN"`)), 0o644))
	profllm(t, dir, []string{"PROFLLM_SIM_ITL=5ms"}, "rehearse", "s.toml", "--templates", "templates", "--output-dir",
		"results")
	seen := 0
	for d, p := range runs(t, dir) {
		var i int
		_, err := fmt.Sscanf(p.Test, "t%d", &i)
		require.NoError(t, err)
		seen++
		v := readResult(t, d).Validity
		words := slices.DeleteFunc(slices.Clone(v.Words), func(w string) bool {
			return slices.Contains(chance, w) && cases[i].word != w
		})
		want := []string{cases[i].word}
		if cases[i].word == "" {
			want = []string{}
		}
		require.Equal(t, want, append([]string{}, words...), "%+v", cases[i])
	}
	require.Equal(t, len(cases), seen)
}

// also puts a prefix before a text that is not empty.
func also(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
