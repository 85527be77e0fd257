package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/tier"
)

// A planted run is a rehearsal in which one thing is wrong, or only unusual.
type planted struct {
	part   string // server, engine, proxy, client, evaluation, node, job or file
	what   string // for the page: what is wrong or unusual
	shape  string // a key of shapes; default: one
	faults string // PROFLLM_SIM_FAULTS
	env    keys   // of the job
	test   keys   // of the test
	load   keys   // of bench_cmd_args, over the defaults
	accept keys   // thresholds
	beside string // shell text that runs beside the load, see besideBlock
	after  func(t *testing.T, dir string)
	words  []string // checks that must fail; an honest run fails no other
	alone  bool     // and no other check fails, but for those of chance
	look   func(t *testing.T, dir string, r *result.Result)
	says   string // instead of words: what collect says of a run that gets no record
}

type keys map[string]string // TOML values by key

// shapes are the services that are rehearsed.
var shapes = map[string]string{
	"one":      "num_nodes = 1\n",
	"pd":       "num_nodes = 2\ncmd_args.prefill = {}\ncmd_args.decode = {}\n",
	"replicas": "num_nodes = 5\ncmd_args.prefill.replicas = 2\ncmd_args.decode.replicas = 3\n",
	"ray":      "num_nodes = 2\ncmd_args.decode.tensor_parallel_size = 8\n",
	"eval":     "num_nodes = 1\nsemantic_eval_cmd_args = {}\n",
	"gpus":     "num_nodes = 1\ntelemetry.interval_s = 0.1\n",
	"gpus pd":  "num_nodes = 2\ntelemetry.interval_s = 0.1\ncmd_args.prefill = {}\ncmd_args.decode = {}\n",
	"sglang":   "num_nodes = 1\n",
}

// besideBlock runs the text in PLANT beside the load. signal SIG ROLE waits for the client,
// lets it work for a moment and sends a signal to the processes of a role of this job; load
// ARGUMENTS is another client of the same server.
const besideBlock = `{{define "before_client"}}
pids() { grep -slzx "SLURM_JOB_ID=$SLURM_JOB_ID" /proc/[0-9]*/environ | xargs -r grep -slzx "PROFLLM_ROLE=$1" | tr -dc '0-9\n'; }
signal() {
  while [[ -z $(pids client) ]] && kill -0 $$; do sleep 0.05; done
  sleep 0.3
  kill "-$1" $(pids "$2")
}
load() { "$PROFLLM" bench serve --model Qwen/Qwen3-0.6B --base-url "http://$SERVE_ADDR:$SERVE_PORT" "$@"; }
[[ -z ${PLANT:-} ]] || eval "$PLANT" >beside.log 2>&1 &
{{end}}
{{define "epilogue"}}
[[ -z ${PLANT_END:-} ]] || eval "$PLANT_END"
{{end}}`

// definition is the [[Tests]] entry.
func (p planted) definition(id string) string {
	var b strings.Builder
	shape := shapes[p.shape]
	if p.shape == "" {
		shape = shapes["one"]
	}
	template := `"vllm"`
	if p.shape == "sglang" {
		template = `"sglang"`
	}
	fmt.Fprintf(&b, "[[Tests]]\nid = %q\ntest_template_name = %s\ntime_limit = \"5m\"\n%s", id, template, shape)
	writeKeys(&b, "", keys{}, p.test)
	load := keys{"max_concurrency": "8", "num_prompts": "48", "random_input_len": "64", "random_output_len": "20",
		"save_detailed": "true"}
	if p.shape == "sglang" {
		load = keys{"max_concurrency": "8", "num_prompts": "48", "random_input": "64", "random_output": "20"}
	}
	writeKeys(&b, "bench_cmd_args", load, p.load)
	writeKeys(&b, "accept", keys{}, p.accept)
	env := keys{"PROFLLM_SIM_FAULTS": fmt.Sprintf("%q", p.faults), "PLANT": fmt.Sprintf("%q", p.beside)}
	if strings.HasPrefix(p.shape, "gpus") {
		env["PROFLLM_SIM_GPUS"], env["PROFLLM_SIM_ITL"] = `"5"`, `"30ms"`
	}
	writeKeys(&b, "extra_env_vars", env, p.env)
	return b.String()
}

// writeKeys writes a table in one line each, the second map over the first; an empty value
// leaves a key out.
func writeKeys(b *strings.Builder, table string, first, second keys) {
	all := maps.Clone(first)
	maps.Copy(all, second)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if all[k] == "" || all[k] == `""` {
			continue
		}
		if table != "" {
			fmt.Fprintf(b, "%s.", table)
		}
		fmt.Fprintf(b, "%s = %s\n", k, all[k])
	}
}

// plantedSim is the pace of the simulated engine: fast, and slow enough for its own jitter not
// to show.
var plantedSim = []string{"PROFLLM_SIM_TTFT=20ms", "PROFLLM_SIM_ITL=5ms", "PROFLLM_SIM_STARTUP=50ms"}

// sides is how many scenarios are rehearsed at once: the runs wait for their engines most of
// the time.
const sides = 3

// rehearsePlanted rehearses every run, those of one definition once, damages what they left or a copy of it, collects,
// and returns the run directories by the index of the run, and what collect said.
func rehearsePlanted(t *testing.T, dir string, all []planted) (dirs []string, said string) {
	t.Helper()
	dirs = make([]string, len(all))
	templates := filepath.Join(dir, "templates", "slurm")
	require.NoError(t, os.MkdirAll(templates, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(templates, "planted.block.tmpl"), []byte(besideBlock), 0o644))
	first := map[string]int{} // the first run of a definition
	var todo []int
	for i, p := range all {
		if _, known := first[p.definition("")]; !known {
			first[p.definition("")] = i
			todo = append(todo, i)
		}
	}
	for try := 0; len(todo) > 0 && try < 3; try++ {
		name := fmt.Sprintf("s%d", try)
		rehearseSides(t, dir, name, all, todo)
		for d, p := range runs(t, dir) {
			if !strings.Contains(d, "/"+name+"_") {
				continue
			}
			var i int
			_, err := fmt.Sscanf(p.Test, "t%d", &i)
			require.NoError(t, err)
			dirs[i] = d
		}
		todo = slices.DeleteFunc(todo, func(i int) bool { return !portTaken(t, dirs[i]) })
	}
	for i, p := range all {
		if from := first[p.definition("")]; from != i {
			dirs[i] = copyRun(t, dirs[from], filepath.Join(dir, "results", fmt.Sprintf("copy%d", i)))
		}
	}
	require.NotContains(t, dirs, "", "every run was rehearsed")
	for i, p := range all {
		if p.after != nil {
			require.NoError(t, os.Remove(filepath.Join(dirs[i], run.ResultFile)))
			p.after(t, dirs[i])
		}
	}
	o := profllm(t, dir, nil, "collect", "results")
	return dirs, o.stdout + o.stderr
}

// copyRun copies a run as the only one of a scenario directory, and returns its place there.
func copyRun(t *testing.T, from, root string) string {
	t.Helper()
	at := run.Root(from)
	below, err := filepath.Rel(at, from)
	require.NoError(t, err)
	copyAll(t, from, filepath.Join(root, below))
	copyAll(t, filepath.Join(at, run.DefinitionDir), filepath.Join(root, run.DefinitionDir))
	copyAll(t, filepath.Join(at, run.ScenarioFile), filepath.Join(root, run.ScenarioFile))
	edit(t, filepath.Join(root, run.ScenarioFile), func(m map[string]any) {
		m["runs"], m["units"] = []string{below}, []string{below}
	})
	return filepath.Join(root, below)
}

// rehearseSides rehearses the runs of these indices, several scenarios at once.
func rehearseSides(t *testing.T, dir, name string, all []planted, todo []int) {
	t.Helper()
	var wg sync.WaitGroup
	for side := range min(sides, len(todo)) {
		var text strings.Builder
		fmt.Fprintf(&text, "name = \"%s_%d\"\n", name, side)
		for k := side; k < len(todo); k += sides {
			text.WriteString(all[todo[k]].definition(fmt.Sprintf("t%d", todo[k])))
		}
		file := fmt.Sprintf("%s_%d.toml", name, side)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text.String()), 0o644))
		wg.Go(func() {
			rehearsalSlots.take()
			defer rehearsalSlots.give()
			out, err := command(dir, plantedSim, "rehearse", file, "--speed", "1", "--templates", "templates",
				"--output-dir", "results").CombinedOutput()
			t.Logf("rehearse %s: %v\n%s", file, err, out)
		})
	}
	wg.Wait()
}

// portTaken reports whether a run failed because another process of this machine took its port
// meanwhile.
func portTaken(t *testing.T, dir string) bool {
	t.Helper()
	if dir == "" {
		return false
	}
	r := readResult(t, dir)
	return r.Failure != nil && strings.HasPrefix(r.Failure.Cause, "port")
}

// chance are words that are true of every rehearsal, and those of times that a busy machine
// makes true of any.
var chance = []string{"simulated", "n-too-small", "client-bound", "cold-start", "not-steady", "load-not-reached",
	"itl-bundled", "stalled", "sends-lumped"}

// Every planted fault is found by the checks that the page names; no run with one is valid.
// Where the fault spoils one metric only, that metric is withheld.
//
// covers: PL-V7, PL-V11, PL-V15, PL-V17, PL-V18, PL-V20, PL-V22, PL-V23, PL-V25, PL-V34, PL-V36
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	dir := t.TempDir()
	some, alike := unlike(plantedFaults)
	for _, p := range alike {
		t.Run(p.part+"/"+p.what, func(t *testing.T) { tier.NeedsWhole(t) })
	}
	dirs, said := rehearsePlanted(t, dir, some)
	for i, p := range some {
		t.Run(p.part+"/"+p.what, func(t *testing.T) {
			if p.says != "" {
				require.NoFileExists(t, filepath.Join(dirs[i], run.ResultFile))
				require.Contains(t, said, p.says)
				return
			}
			at := dirs[i]
			for try := 0; try < 2 && hidden(t, at, p); try++ {
				again, _ := rehearsePlanted(t, t.TempDir(), []planted{p})
				at = again[0]
			}
			r := readResult(t, at)
			v := r.Validity
			require.Subset(t, v.Words, p.words, "%s", failed(v))
			if p.alone {
				require.Empty(t, besides(v, p.words), failed(v))
			}
			for _, word := range p.words {
				if severityOf(t, v, word) == result.Withheld {
					require.NotEmpty(t, v.Withheld)
				} else {
					require.NotEqual(t, result.VerdictValid, v.Verdict)
				}
			}
			if p.look != nil {
				p.look(t, at, r)
			}
		})
	}
}

// hidden reports whether a run lacks the word for a trend, which the noise of a busy machine hides.
func hidden(t *testing.T, dir string, p planted) bool {
	t.Helper()
	const trend = "not-steady"
	return slices.Contains(p.words, trend) && !slices.Contains(readResult(t, dir).Validity.Words, trend)
}

// No honest run is invalid, however unusual, and a word is said of it only where the page says so.
//
// covers: PL-V36
func TestHonestVariations(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	left := honestVariations
	for try := 0; len(left) > 0; try++ {
		dirs, _ := rehearsePlanted(t, t.TempDir(), left)
		var again []planted
		for i, p := range left {
			r := readResult(t, dirs[i])
			v := r.Validity
			if try < 2 && slices.ContainsFunc(v.Words, func(w string) bool { return slices.Contains(busy, w) && !slices.Contains(p.words, w) }) {
				again = append(again, p)
				continue
			}
			t.Run(p.part+"/"+p.what, func(t *testing.T) {
				require.True(t, v.Valid, failed(v))
				require.Empty(t, besides(v, p.words), failed(v))
				if p.look != nil {
					p.look(t, dirs[i], r)
				}
			})
		}
		left = again
	}
}

// unlike parts faults: those that need a rehearsal of their own and are found by the same checks as an earlier one are
// alike, unless everything is to be tried.
func unlike(all []planted) (some, alike []planted) {
	seen := map[string]bool{}
	for _, p := range all {
		words := strings.Join(p.words, " ")
		if p.after == nil && p.look == nil && p.says == "" && seen[words] && !tier.Whole() {
			alike = append(alike, p)
			continue
		}
		if p.after == nil {
			seen[words] = true
		}
		some = append(some, p)
	}
	return some, alike
}

// busy are words that the times of a run may earn on a busy machine.
var busy = []string{"client-bound", "no-steady-state"}

// besides are the checks that failed besides some, and besides those of chance.
func besides(v *result.Validity, words []string) []string {
	return slices.DeleteFunc(slices.Clone(v.Words),
		func(w string) bool { return slices.Contains(chance, w) || slices.Contains(words, w) })
}

// failed lists the failed checks with their reasons.
func failed(v *result.Validity) string {
	var b strings.Builder
	for _, c := range v.Checks {
		if c.Outcome == result.Fail {
			fmt.Fprintf(&b, "%s (%s): %s\n", c.Word, c.Severity, c.Detail)
		}
	}
	return b.String()
}

func severityOf(t *testing.T, v *result.Validity, word string) result.Severity {
	t.Helper()
	i := slices.IndexFunc(v.Checks, func(c result.Check) bool { return c.Word == word && c.Outcome == result.Fail })
	require.GreaterOrEqual(t, i, 0, "no check says %s: %s", word, failed(v))
	return v.Checks[i].Severity
}

// plantedPage is the page of the simulated engine: its settings, and all planted runs.
func plantedPage() string {
	var b strings.Builder
	b.WriteString(generated + simulatorPage)
	b.WriteString("## Settings\n\nAll are environment variables, and all are optional. Set them in the shell that runs profllm, or in `extra_env_vars` of a\n" +
		"test, which wins. An unknown `PROFLLM_SIM_…` variable is refused. Records have both under `config.settings`, as\n" +
		"`extra_env_vars.PROFLLM_SIM_…`, except for defaults and the shell's `PROFLLM_SIM_SEED`. Comparisons treat them as every other setting.\n\n| variable | default | meaning |\n|---|---|---|\n")
	for _, k := range knobs.Knobs {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Name, inCode(strings.Fields(k.Default)), k.Meaning)
	}
	b.WriteString(faultsPage)
	b.WriteString("| fault | acts on | meaning |\n|---|---|---|\n")
	for _, f := range knobs.Faults {
		name, meaning := f.Name, f.Meaning
		if f.Value != "" {
			name += "=" + f.Value
		}
		if f.Timed {
			meaning += " (timed)"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, strings.Join(f.On, ", "), meaning)
	}
	b.WriteString("\n# Faults that the tests plant\n\n" +
		"The tests plant the faults below in rehearsals. A test fails if a run with a fault is judged valid, or if a named check does not\n" +
		"fail. [Verdicts](../explanation/validity.md) explains the checks.\n\n")
	fmt.Fprintf(&b, "## %d faults\n\n| where | what is wrong | checks that fail |\n|---|---|---|\n", len(plantedFaults))
	for _, p := range plantedFaults {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.part, p.what, foundBy(p))
	}
	fmt.Fprintf(&b, "\n## %d honest variations\n\nNone of these runs is judged invalid, and no check fails but those named and those of times (%s), which a busy machine can fail.\n\n| where | what is unusual | checks that may fail |\n|---|---|---|\n", len(honestVariations), inCode(chance[2:]))
	for _, p := range honestVariations {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.part, p.what, foundBy(p))
	}
	return b.String()
}

const simulatorPage = `# The simulated engine

This page lists every setting of the simulated engine, the faults that it can plant, and the checks that find them. A rehearsal runs the real
plan, script, proxy, load client, parsers and judgement with a simulated engine, which computes nothing.

## Speed

` + "`profllm rehearse` prints the expected duration first. `--speed N` divides all times of the simulated engine by N: TTFT, ITL, start-up\n" +
	"and the times of faults. Request rates are multiplied by N, and goodput limits are divided by N, so that the load keeps its shape. Without\n" +
	"`--speed`, a rehearsal that takes less than a minute runs at speed 1, and a longer one at the speed at which it takes about a minute.\n" +
	"If a planted fault is timed (see below), the default is 1, because checks such as `stalled` have limits in seconds.\n" +
	"A confirmation with `--rehearse` runs at speed 1 unless `--speed` says otherwise: this machine's own delays would hide small differences.\n\n" +
	"The client measures real time, so **every latency in the record is about N times smaller than the setting**, and every rate N times\n" +
	"larger. The speed is in `plan.json` (`rehearsal`), in the record (`simulated_speed`) and in every table (`simulated 20x`). Runs of different\n" +
	"speeds are never compared or put into one series. Not divided: the text of `Sleep` tests and hooks, the interval of GPU samples, and what\n" +
	"profllm and this machine need themselves, about 1.5 s for each run. [Decision](../explanation/decisions/simulated-speed.md)\n\n" +
	"A role of a rehearsal gets 60 s beyond its simulated start-up to become ready, or its own limit if that is shorter. So a rehearsal with\n" +
	"`never-ready` ends by itself. A rehearsal with `hang` on a server does not: press Ctrl-C.\n\n"

const faultsPage = "\n## Faults\n\n`PROFLLM_SIM_FAULTS` plants faults:\n\n" + "```" + `
PROFLLM_SIM_FAULTS = group { ";" group }
group              = role ":" fault { "," fault }
fault              = name [ "=" value ]
` + "```" + "\n\nA role is the name of a role of the test (`serve`, `prefill`, `decode`, `prefill_0`), `*` for every server, `client` for the load client, or\n" +
	"`gpu` for the simulated GPUs. A role that no test of the scenario has is refused, as is an unknown fault, and a fault that does not act on\n" +
	"the role. So is a fault without effect: `exit` in a role where nothing dies, a fault of GPUs without `PROFLLM_SIM_GPUS`, a fault of KV\n" +
	"transfers without prefill and decode. For example, `PROFLLM_SIM_FAULTS='decode:die-after=2s;client:pace=0.9'`.\n\n" +
	"With prefill and decode, the proxy asks prefill for one token in one piece and reads only `kv_transfer_params` of its answer. So faults of\n" +
	"later tokens, streams, usage and finish reasons have no effect in prefill and are refused there. `no-params` acts on prefill only and\n" +
	"`recompute` on decode only. `miscount` in prefill changes prefill's own counters, which no check compares.\n\n"

func foundBy(p planted) string {
	if p.says != "" {
		return fmt.Sprintf("no record: `%s`", p.says)
	}
	return inCode(p.words)
}

func inCode(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "`" + strings.Join(words, "`, `") + "`"
}
