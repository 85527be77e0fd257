package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
	shellwords "github.com/profllm/profllm/pkg/shell"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

const sweepData = "../../pkg/vllmsweep/testdata"

// sweepCommands are the commands of record.sh.
func sweepCommands(t *testing.T) []string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(sweepData, "record.sh"))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(strings.ReplaceAll(string(script), "\\\n", " "), " --serve-cmd ")
	words, err := shellwords.PythonWords(rest)
	require.NoError(t, err)
	return []string{"--serve-cmd", words[0], "--bench-cmd", words[2]}
}

// The commands of a sweep are those of `vllm bench sweep serve`, as vLLM 0.32.0 printed them.
//
// covers: SWP-2, SWP-5
func TestSweepCommands(t *testing.T) {
	t.Parallel()
	recorded, err := os.ReadFile(filepath.Join(sweepData, "dry-run.txt"))
	require.NoError(t, err)
	sameCommands(t, string(recorded))
}

// The same of the vLLM that is installed.
func TestVLLMSweepCommands(t *testing.T) {
	home := vllmHome(t)
	cmd := exec.Command("./record.sh")
	cmd.Dir = sweepData
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(home, "venv/bin")+":"+os.Getenv("PATH"), "HF_HUB_OFFLINE=1")
	out, err := cmd.Output()
	require.NoError(t, err)
	sameCommands(t, string(out))
}

// sameCommands compares what vLLM says that it would run with what profllm says.
func sameCommands(t *testing.T, vllms string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"serve.json", "bench.json"} {
		data, err := os.ReadFile(filepath.Join(sweepData, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	args := append([]string{"bench", "sweep", "serve", "--simulate", "--dry-run", "--num-runs", "2", "-e", "recorded",
		"--serve-params", "serve.json", "--bench-params", "bench.json"}, sweepCommands(t)...)
	o := profllm(t, dir, nil, args...)
	require.Equal(t, exitOK, o.code, o.stderr)
	require.NoDirExists(t, filepath.Join(dir, "results"))
	require.Contains(t, o.stderr, "sweep: 40 runs of 20 points on 5 servers")
	var theirs []map[string]string
	for line := range strings.Lines(vllms) {
		if _, list, ok := strings.Cut(line, " command: "); ok && !strings.Contains(list, "'run=1.json'") {
			theirs = append(theirs, optionsOf(t, pythonWords(t, list)))
		}
	}
	var ours []map[string]string
	for line := range strings.Lines(o.stdout) {
		_, text, ok := strings.Cut(line, ": ")
		require.True(t, ok, line)
		words, err := shellwords.PythonWords(text)
		require.NoError(t, err)
		ours = append(ours, optionsOf(t, words))
	}
	require.Len(t, theirs, 5+20)
	require.Equal(t, theirs, ours)
}

// pythonWords reads a list of texts as Python prints it.
func pythonWords(t *testing.T, list string) []string {
	t.Helper()
	list = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(list), "["), "]")
	words, err := shellwords.PythonWords(regexp.MustCompile(`(['"]), `).ReplaceAllString(list, "$1 "))
	require.NoError(t, err)
	return words
}

// differs are the options in which commands of profllm differ from those of vLLM, as
// docs/how-to/sweeps.md says.
var differs = []string{"host", "port", "base_url", "result_dir", "result_filename", "metric_percentiles", "temperature"}

// optionsOf are the options of a command by their names, the last of each; the model is "".
func optionsOf(t *testing.T, words []string) map[string]string {
	t.Helper()
	program, words := arguments.Serve, words[2:]
	if words[0] == "serve" {
		program, words = arguments.BenchServe, words[1:]
	}
	var known []string
	for i := 0; i < len(words); i++ {
		if slices.Contains([]string{"--port", "--base-url"}, words[i]) {
			i++ // a place of profllm, which no parser takes
			continue
		}
		known = append(known, words[i])
	}
	release, err := program.One("0.32.0")
	require.NoError(t, err)
	parsed, err := release.Parse(known)
	require.NoError(t, err)
	m := map[string]string{}
	for i, word := range parsed {
		name, value, _ := strings.Cut(word, "=")
		if i == 0 && program == arguments.Serve {
			name, value = "", word
		}
		if key := arguments.Key(name); strings.HasPrefix(key, "no_") {
			m[strings.TrimPrefix(key, "no_")] = "false"
		} else if m[key] = value; value == "" {
			m[key] = "true"
		}
	}
	maps.DeleteFunc(m, func(key, _ string) bool { return slices.Contains(differs, key) })
	return m
}

// A sweep of two servers with two loads each, of which one fails: the folder is that of vLLM's
// command, the failure is recorded, and the sweep goes on. What is missing is measured again.
//
// covers: SWP-4, SWP-6, SWP-7, SWP-8, SWP-12
func TestBenchSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("serve.json", `[{"_benchmark_name": "s8", "max_num_seqs": 8}, {"max_num_seqs": 4}]`)
	write("bench.json", `{"one": {"max_concurrency": 1, "num_prompts": 20}, "lost": {"endpoint": "/nowhere/completions", "num_prompts": 2}}`)
	args := []string{"bench", "sweep", "serve", "--simulate", "--client", "profllm", "--num-runs", "2", "-e", "e",
		"--serve-params", "serve.json", "--bench-params", "bench.json", "--serve-cmd", "vllm serve m --max-model-len 512",
		"--bench-cmd", "vllm bench serve --model m --random-input-len 8 --random-output-len 4"}
	o := profllm(t, dir, machine(t, 1), args...)
	require.Equal(t, exitJobFailed, o.code)
	require.Contains(t, o.stderr, "results: results/e, 4 runs, 4 failed (run=N.failure.json)")
	e := filepath.Join(dir, "results/e")
	for _, server := range []string{"s8", "max_num_seqs=4"} {
		for _, n := range []string{"0", "1"} {
			var r map[string]any
			require.NoError(t, run.ReadJSON(filepath.Join(e, "SERVE--"+server+"-BENCH--one", "run="+n+".json"), &r))
			require.EqualValues(t, 20, r["completed"])
			require.EqualValues(t, 1, r["max_concurrency"])
			require.Equal(t, "one", r["_benchmark_name"])
			require.Equal(t, n, fmt.Sprint(r["run_number"]))
			require.Equal(t, "true", r["simulated"])
			lost := filepath.Join(e, "SERVE--"+server+"-BENCH--lost", "run="+n)
			require.NoFileExists(t, lost+".json")
			require.NoError(t, run.ReadJSON(lost+".failure.json", &r))
			require.NotEmpty(t, r["error"])
			require.Equal(t, map[string]any{"_benchmark_name": "lost", "endpoint": "/nowhere/completions", "num_prompts": 2.}, r["bench_overrides"])
		}
	}
	require.FileExists(t, filepath.Join(e, "SERVE--s8-BENCH--one/summary.json"))
	require.NoFileExists(t, filepath.Join(e, "SERVE--s8-BENCH--lost/summary.json"))
	rows := readText(t, filepath.Join(e, "summary.csv"))
	require.Equal(t, 5, strings.Count(rows, "\n"))
	require.FileExists(t, filepath.Join(e, "scenario.toml"))

	o = profllm(t, dir, nil, args...)
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "results/e is there already")
	o = profllm(t, dir, nil, append(args, "--resume", "--dry-run")...)
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Contains(t, o.stderr, "sweep: 4 runs of 2 points on 2 servers; 4 more runs have results")

	// One run of what works is gone, and the other load is left out: one run is measured.
	kept := readText(t, filepath.Join(e, "SERVE--s8-BENCH--one/run=0.json"))
	require.NoError(t, os.Remove(filepath.Join(e, "SERVE--s8-BENCH--one/run=1.json")))
	require.NoError(t, os.RemoveAll(filepath.Join(e, "profllm")))
	write("bench.json", `{"one": {"max_concurrency": 1, "num_prompts": 20}}`)
	o = profllm(t, dir, machine(t, 1), append(args, "--resume")...)
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Contains(t, o.stderr, "sweep: 1 run of 1 point on 1 server; 3 more runs have results")
	require.Equal(t, kept, readText(t, filepath.Join(e, "SERVE--s8-BENCH--one/run=0.json")))
	require.FileExists(t, filepath.Join(e, "SERVE--s8-BENCH--one/run=1.json"))
	rows = readText(t, filepath.Join(e, "summary.csv"))
	write("bench.json", `{"one": {"max_concurrency": 2, "num_prompts": 20}}`)
	o = profllm(t, dir, nil, append(args, "--resume")...)
	require.Equal(t, exitUsage, o.code, "nothing is missing, but the results are of another concurrency")
	require.Contains(t, o.stderr, "the point SERVE--s8-BENCH--one had other parameters when the sweep was begun")
	require.True(t, rows == readText(t, filepath.Join(e, "summary.csv")), "the summary is as it was")
	write("bench.json", `{"one": {"max_concurrency": 1, "num_prompts": 20}}`)
	o = profllm(t, dir, nil, append(args, "--resume", "--warmup-num-prompts", "3")...)
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "the sweep was begun with another --warmup-num-prompts")
	o = profllm(t, dir, nil, append(args, "--resume")...)
	require.Equal(t, exitOK, o.code, "nothing is missing, and results are kept")

	// The files are those of vLLM's command to whoever reads these.
	o = profllm(t, dir, nil, "import", "results/e/SERVE--s8-BENCH--one", "results/e/SERVE--max_num_seqs=4-BENCH--one",
		"--output-dir", "adopted")
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Contains(t, o.stdout+o.stderr, "SERVE--s8-BENCH--one/1")
}

// Whatever cannot work is refused before a server starts, where it stands.
//
// covers: SWP-3, SWP-9, SWP-10, SWP-11
func TestBenchSweepRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("serve.json", "[{\"max_num_seqz\": 8},\n {\"max_num_seqs\": \"many\"}]")
	write("bench.json", "[{\"max_concurency\": 1},\n {\"request_rate\": \"inf\", \"max_concurrency\": 2.5}]")
	sweep := func(args ...string) outcome {
		return profllm(t, dir, machine(t, 1), append([]string{"bench", "sweep", "serve", "--simulate", "--dry-run"}, args...)...)
	}
	files := []string{"--serve-params", "serve.json", "--bench-params", "bench.json"}
	o := sweep(append(files, "--model", "m")...)
	require.Equal(t, exitDefinition, o.code)
	require.Contains(t, o.stderr, "serve.json:1:19: max_num_seqz is an option of `vllm serve` in no release")
	require.Contains(t, o.stderr, "did you mean \"max_num_seqs\"?")
	require.Contains(t, o.stderr, "bench.json:1:21: max_concurency is an option of `vllm bench serve` in no release")
	write("serve.json", `[{"max_num_seqs": "many"}]`)
	write("bench.json", `[{"request_rate": "inf", "max_concurrency": 2.5}]`)
	o = sweep(append(files, "--model", "m")...)
	require.Equal(t, exitDefinition, o.code)
	require.Contains(t, o.stderr, "argument --max-num-seqs: invalid int value: 'many'")
	require.Contains(t, o.stderr, "argument --max-concurrency: invalid int value: '2.5'")
	write("serve.json", `[{"max_num_seqs": 4, "max_model_len": 1000}]`)
	write("bench.json", `[{"request_rate": "inf"}, {"random_input_len": 32, "request_rate": 2.0}]`)
	o = sweep(append(files, "--model", "m")...)
	require.Equal(t, exitDefinition, o.code)
	require.Contains(t, o.stderr, "bench.json:1:2: requests of 1024 + 128 tokens are longer than the server takes (max_model_len 1000")
	write("bench.json", `[{"num_prompts": 90, "random_input_len": 32, "request_rate": 2.0}]`)
	o = sweep(append(files, "--model", "m")...)
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Contains(t, o.stderr, "sweep: 3 runs of 1 point on 1 server, at least 2 min by the request rate")
	require.Contains(t, o.stdout, "vllm serve m --host 0.0.0.0 --max-num-seqs 4 --max-model-len 1000")
	require.Contains(t, o.stdout, "--num-prompts 90")
	require.NotContains(t, o.stdout, "--max-concurrency", "the load has no limit but its rate")
	require.Contains(t, o.stdout, "--request-rate 2 ")
	o = sweep("--serve-cmd", "python -m server", "--bench-cmd", "vllm bench serve --port 81")
	require.Equal(t, exitDefinition, o.code)
	require.Contains(t, o.stderr, `"python -m server" is not a command of the form vllm serve …`)
}

// Starts of the engine, and the levels of a load, write the folders that vLLM's commands do.
func TestBenchSweepOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "serve.json"), []byte(`[{"enforce_eager": true}]`), 0o644))
	o := profllm(t, dir, machine(t, 1), "bench", "sweep", "startup", "--startup-cmd", "vllm bench startup --model m --num-iters-cold 1",
		"--serve-params", "serve.json", "-e", "starts", "--simulate")
	require.Equal(t, exitOK, o.code, o.stderr)
	var r map[string]any
	require.NoError(t, run.ReadJSON(filepath.Join(dir, "results/starts/SERVE--enforce_eager=True/run=0.json"), &r))
	require.Equal(t, true, r["enforce_eager"])
	require.NotZero(t, r["avg_cold_startup_time"])

	require.NoError(t, os.WriteFile(filepath.Join(dir, "bench.json"), []byte(`{"a": {"num_prompts": 20}}`), 0o644))
	o = profllm(t, dir, machine(t, 1), "bench", "sweep", "serve_workload", "--serve-cmd", "vllm serve m", "--bench-cmd",
		"vllm bench serve --model m --random-input-len 8 --random-output-len 4", "--bench-params", "bench.json", "-e", "levels",
		"--num-runs", "1", "--workload-var", "max_concurrency", "--workload-iters", "3", "--client", "profllm", "--simulate")
	require.Equal(t, exitOK, o.code, o.stderr)
	levels, err := filepath.Glob(filepath.Join(dir, "results/levels/BENCH--a-WL--max_concurrency=*/run=0.json"))
	require.NoError(t, err)
	require.Len(t, levels, 3, "one at a time, all at once, and one level between")
	require.Equal(t, 4, strings.Count(readText(t, filepath.Join(dir, "results/levels/summary.csv")), "\n"))
}
