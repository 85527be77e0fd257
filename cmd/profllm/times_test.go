package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What stands still, goes back, comes in lumps or too slowly is found in a rehearsal of
// it, with and without the single requests; what passes of it is too little to tell.
//
// covers: PL-V8, PL-V10, PL-V14, PL-V22, PL-V36
func TestRehearsedTimes(t *testing.T) {
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	const closed, open = "max_concurrency = 8\nnum_prompts = 80", "max_concurrency = 100\nnum_prompts = 100\nrequest_rate = 25"
	cases := []struct {
		word, faults, load string
		details            bool
	}{
		{"stalled", "serve:stall=2500ms@100ms", closed, true},
		{"stalled", "serve:stall=6s@100ms", closed, false},
		{"", "serve:stall=500ms@100ms", closed, true},
		{"times-impossible", "client:step=-200ms@1s", closed, true},
		{"times-impossible", "client:step=-9s@1s", closed, true}, // to before the load began
		{"stalled", "client:step=40s@1s", closed, true},
		{"stalled", "client:step=40s@1s", closed, false},
		{"sends-lumped", "client:freeze=2500ms@1s", open, true},
		{"stalled", "client:freeze=8s@1s", open, false},
		{"itl-bundled", "serve:burst=8", closed, true},
		{"itl-bundled", "serve:burst=8", closed, false},
		{"itl-bundled", "serve:bundle=8", closed, true},
		{"itl-bundled", "serve:bundle=8", closed, false},
		{"load-not-reached", "client:pace=0.85", open, true},
		{"load-not-reached", "client:pace=0.85", open, false},
		{"", "", open, true},
	}
	dir := t.TempDir()
	var text strings.Builder
	text.WriteString("name = \"times\"\n")
	for i, c := range cases {
		fmt.Fprintf(&text, "[[Tests]]\nid = \"t%d\"\ntest_template_name = \"vllm\"\n[Tests.extra_env_vars]\nPROFLLM_SIM_FAULTS = %q\n", i, c.faults)
		fmt.Fprintf(&text, "[Tests.bench_cmd_args]\n%s\nrandom_output_len = 40\n", c.load)
		if c.details {
			text.WriteString("save_detailed = true\n")
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text.String()), 0o644))
	profllm(t, dir, []string{"PROFLLM_SIM_ITL=5ms"}, "rehearse", "s.toml", "--output-dir", "results")
	seen := 0
	for d, p := range runs(t, dir) {
		var i int
		_, err := fmt.Sscanf(p.Test, "t%d", &i)
		require.NoError(t, err)
		seen++
		c, v := cases[i], readResult(t, d).Validity
		if c.word != "" {
			require.Contains(t, v.Words, c.word, "%+v: %+v", c, v.Check(c.word))
			continue
		}
		for _, word := range []string{"stalled", "times-impossible", "sends-lumped", "itl-bundled", "load-not-reached",
			"summary-differs", "coarse-clock"} {
			require.NotContains(t, v.Words, word, "%+v: %+v", c, v.Check(word))
		}
	}
	require.Equal(t, len(cases), seen)
}
