package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
)

// What else happens to a server of the real vLLM while a client measures it: its
// cache has the prompts already, somebody else asks it, it is killed.
//
// covers: PL-V3, PL-V4, PL-V11, PL-V19, PL-V20
func TestVLLMVerdicts(t *testing.T) {
	dir, _ := vllmLab(t)
	const load = `"$PROFLLM" bench serve --model "$MODEL" --base-url "http://$SERVE_ADDR:$SERVE_PORT" --temperature 0 --random-input-len 300`
	const blocks = `{{define "before_client"}}
case $CASE in
warm) ` + load + ` --random-output-len 1 --num-prompts 12 >before.log 2>&1 ;;
foreign) ` + load + ` --seed 7 --random-output-len 8 --num-prompts 8 --max-concurrency 1 >before.log 2>&1 & ;;
killed) (sleep 4; scancel --signal=KILL "$(squeue --steps --noheader --job="$SLURM_JOB_ID" --Format=stepid:30,stepname:30 | awk '$2 == "serve" {print $1}')") & ;;
esac
{{end}}`
	cases := []struct{ name, more string }{
		{"warm", "num_prompts = 24"},
		{"foreign", "num_prompts = 24"},
		{"killed", "num_prompts = 400\nmax_concurrency = 4"},
	}
	model := "/tiny"
	var text strings.Builder
	text.WriteString("name = \"verdicts\"\n")
	for _, c := range cases {
		fmt.Fprintf(&text, "[[Tests]]\nid = %q\ntest_name = \"vllm-cpu\"\nnodes = [\"node1\"]\ntime_limit = \"9m\"\nclient = \"profllm\"\nslurm = { exclusive = true }\n", c.name)
		fmt.Fprintf(&text, "extra_env_vars = { CASE = %q, MODEL = %q }\n[Tests.bench_cmd_args]\n%s\n", c.name,
			os.Getenv("VLLM_LAB")+model, c.more)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "verdicts.toml"), []byte(text.String()), 0o644))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "templates", "slurm"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "templates", "slurm", "verdicts.block.tmpl"), []byte(blocks),
		0o644))

	o := profllm(t, dir, nil, "slurm", "submit", "--system", "site.toml", "verdicts.toml", "--templates", "templates",
		"--wait")
	require.Equal(t, exitJobFailed, o.code, "because of the server that is killed")
	seen := map[string]*result.Result{}
	for d, p := range runs(t, dir) {
		seen[p.Test] = readResult(t, d)
		t.Logf("%-8s %s %v", p.Test, seen[p.Test].Validity.Verdict, seen[p.Test].Validity.Words)
		for _, c := range seen[p.Test].Validity.Checks {
			if c.Outcome == result.Fail {
				t.Logf("         %s: %s", c.Word, c.Detail)
			}
		}
	}
	require.Len(t, seen, len(cases))

	warm := seen["warm"].Validity
	require.Equal(t, result.VerdictInvalid, warm.Verdict)
	require.Equal(t, "cache-warm", warm.Words[0], "not that the job failed: it did for this")

	// Two clients at once are no broken run, and no baseline either.
	foreign := seen["foreign"].Validity
	require.NotEqual(t, result.VerdictValid, foreign.Verdict)
	require.Contains(t, foreign.Words, "foreign-load")
	require.NotContains(t, foreign.Words, "cache-warm")

	killed := seen["killed"]
	require.Equal(t, result.VerdictInvalid, killed.Validity.Verdict)
	require.Contains(t, killed.Validity.Words, "role-died")
	require.Equal(t, "serve", killed.Failure.Role)
	require.NotEqual(t, "COMPLETED", killed.Slurm.State)
}

// Five runs of a server that takes one request at a time beside five of one that
// takes sixteen, eight requests under way: a difference. Five more of the second
// beside the first five: none. Every run has a server start of its own, and the
// three are started in turn, so that what the machine does meanwhile is in all.
//
// covers: PL-Q4, PL-Q5, PL-Q15
func TestVLLMCompare(t *testing.T) {
	dir, _ := vllmLab(t)
	scenario := func(name string, seqs int) string {
		file := filepath.Join(dir, name+".toml")
		require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `name = %q
[[Tests]]
id = "seqs"
test_name = "vllm-cpu"
nodes = ["node1"]
time_limit = "9m"
client = "profllm"
slurm = { exclusive = true }
[Tests.cmd_args.decode]
max_num_seqs = %d
[Tests.bench_cmd_args]
random_input_len = 32
random_output_len = 16
max_concurrency = 8
num_prompts = 64
`, name, seqs), 0o644))
		return file
	}
	sides := []struct{ name, file string }{
		{"one", scenario("one", 1)}, {"sixteen", scenario("sixteen", 16)}, {"again", scenario("again", 16)},
	}
	for range 5 {
		for _, s := range sides {
			o := profllm(t, dir, nil, "slurm", "submit", "--system", "site.toml", s.file, "--output-dir",
				filepath.Join(dir, s.name), "--wait")
			require.Equal(t, exitOK, o.code, o.stderr)
		}
	}
	judge := func(first, second string, code int) map[string]report.Outcome {
		o := profllm(t, dir, nil, "compare", first, second, "--output", "json")
		require.Equal(t, code, o.code, o.stderr)
		var c struct {
			Judgements []report.Judgement `json:"judgements"`
		}
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &c))
		require.Len(t, c.Judgements, 1)
		verdicts := map[string]report.Outcome{}
		for _, m := range c.Judgements[0].Metrics {
			verdicts[m.Key] = m.Verdict
			shift, p := math.NaN(), math.NaN()
			if m.Percent != nil && m.AdjustedP != nil {
				shift, p = *m.Percent, *m.AdjustedP
			}
			t.Logf("%s against %s: %-22s %d v %d: %+7.1f %%, p %.4f: %s", second, first, m.Key, m.First.N, m.Second.N,
				shift, p, m.Verdict)
		}
		return verdicts
	}
	// The queue goes away; tokens of eight at once take longer each, which is a
	// regression of theirs, and compare says so.
	more := judge("one", "sixteen", exitInvalid)
	require.Equal(t, report.Improved, more["output_throughput"])
	require.Equal(t, report.Improved, more["median_ttft_ms"])
	require.Equal(t, report.Regressed, more["median_tpot_ms"])
	for key, verdict := range judge("sixteen", "again", exitOK) {
		require.NotContains(t, []report.Outcome{report.Improved, report.Regressed}, verdict, key)
	}
}
