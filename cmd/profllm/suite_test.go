package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/suite"
	"github.com/profllm/profllm/pkg/suite/measure"
)

// A scenario measures every suite on one start of the server, and each record has the values of
// its run, the endpoint among them.
//
// covers: BEN-3
func TestScenarioOfSuites(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a rehearsal")
	}
	dir := t.TempDir()
	scenario := `name = "suites"
[[Tests]]
id = "all"
test_template_name = "vllm"
  [Tests.cmd_args]
  docker_image_url = "vllm/vllm-openai:v0.11.0"
  [[Tests.phases]]
  suite = "throughput, prefill, decode, latency, concurrency, longctx, sweep"
  bench_cmd_args = { num_prompts = 4 }
  [[Tests.phases]]
  suite = "sharegpt, sonnet"
  bench_cmd_args = { num_prompts = 4, dataset_path = "/data/any" }
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(scenario), 0o644))
	got := profllm(t, dir, nil, "rehearse", "s.toml", "--speed", "1000", "--output-dir", "out")
	require.NotEqual(t, exitJobFailed, got.code, got.stderr)
	roots, err := filepath.Glob(filepath.Join(dir, "out", "*"))
	require.NoError(t, err)
	require.Len(t, roots, 1)
	runs, _ := suite.Expand([]string{suite.Bench, suite.Sweep})
	require.Len(t, runs, 54)
	for _, r := range runs {
		record := readResult(t, filepath.Join(roots[0], "all/0", r.Name))
		require.Equal(t, 4, *record.Results.CompletedRequests, r.Name)
		s := record.Config.Settings
		for key, v := range r.Arguments(source.Pos{}, suite.Parity).Without("num_prompts").Plain() {
			require.Equal(t, fmt.Sprint(v), s["bench_cmd_args."+key], "%s %s", r.Name, key)
		}
		require.Equal(t, "openai-chat", s["bench_cmd_args.backend"])
		require.Equal(t, "/v1/chat/completions", s["bench_cmd_args.endpoint"])
		require.Equal(t, "42", s["bench_cmd_args.seed"])
		require.Regexp(t, "--label "+r.Suite+"[^ ]*-n4 ", strings.Join(record.Provenance.Commands[1].Argv, " "))
	}
}

// fastServer is a simulated server whose time passes faster, in an environment of clients.
func fastServer(t *testing.T) (address string, env []string) {
	t.Helper()
	port := freePort(t)
	env = []string{"PROFLLM_SIM_SPEED=1000"}
	return startServer(t, port, command(t.TempDir(), env, "sim", "vllm", "serve", "/models/tiny",
		"--served-model-name", "tiny", "--host", "127.0.0.1", "--port", port)), env
}

// onlyFolder is the only folder of a measurement.
func onlyFolder(t *testing.T, dir string) string {
	t.Helper()
	roots, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, roots, 1)
	return roots[0]
}

// resultKeys are the keys of a result file.
func resultKeys(t *testing.T, file string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	keys := map[string]any{}
	require.NoError(t, json.Unmarshal(data, &keys))
	return keys
}

// A suite measures a server that is up, by default with profllm's client. Each run has a file named
// by its suite and parameters, and a record that reports read; a measurement is continued where it
// ended.
//
// covers: BEN-2, BEN-3, BEN-4, BEN-9, BEN-11, BEN-14, BEN-16, SWP-4
func TestBenchSuite(t *testing.T) {
	t.Parallel()
	address, env := fastServer(t)
	dir := t.TempDir()
	call := func(args ...string) outcome {
		t.Helper()
		return profllm(t, dir, env, append([]string{"bench", "suite"}, args...)...)
	}
	got := call("latency-short,concurency,prefil", "--base-url", address)
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "unknown suite \"concurency\"\n\thint: did you mean \"concurrency\"?")
	require.Contains(t, got.stderr, "unknown suite \"prefil\"")
	require.NoDirExists(t, filepath.Join(dir, "results"), "nothing was measured")
	got = call("latency", "--base-url", address, "--", "--random-input-len", "4")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "--random-input-len would make the runs of suite latency the same")

	flags := []string{"--", "--num-prompts", "8", "--goodput", "ttft:100000", "tpot:100000", "--profile", "--burstiness=2.5"}
	got = call(append([]string{"latency-short,concurrency-4", "--base-url", address, "--name", "day", "--output", "json"},
		flags...)...)
	require.Equal(t, exitOK, got.code, got.stderr)
	requireDocumented(t, "Suites", got)
	d := readDocument[document.Suites](t, got)
	require.Equal(t, "tiny", d.Model)
	require.Len(t, d.Runs, 2)
	require.Len(t, d.Results, 2)
	root := onlyFolder(t, filepath.Join(dir, "results"))
	require.Regexp(t, `/day_[-0-9]{10}_[-0-9]{8}$`, root)

	keys := resultKeys(t, filepath.Join(root, "concurrency-4/raw/concurrency-in512-out256-rateinf-c4-n8.json"))
	for key, want := range map[string]any{
		"label": "concurrency-in512-out256-rateinf-c4-n8", "scenario": "day", "suite": "concurrency",
		"run": "concurrency-4", "endpoint": "/v1/chat/completions", "backend": "openai-chat", "max_concurrency": 4.0,
		"num_prompts": 8.0, "simulated": "true", "burstiness": 2.5, "completed": 8.0,
	} {
		require.Equal(t, want, keys[key], key)
	}
	for _, family := range []string{"ttft", "tpot", "itl", "e2el"} {
		for _, p := range []string{"p50", "p90", "p95", "p99"} {
			require.Contains(t, keys, p+"_"+family+"_ms")
		}
	}
	require.Positive(t, keys["request_goodput"])
	log, err := os.ReadFile(filepath.Join(root, "concurrency-4/logs/bench-0.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "start profiler", "the flag reached the client; the simulated server has no profiler")
	record := readResult(t, filepath.Join(root, "latency-short"))
	require.True(t, record.Simulated)
	require.Equal(t, "day/latency-short", record.Suite)
	require.Equal(t, "/v1/chat/completions", record.Config.Benchmark.Endpoint)
	require.Equal(t, 128, *record.Config.Benchmark.InputTokens)
	require.Equal(t, "2.5", record.Config.Settings["bench_cmd_args.burstiness"])
	require.Equal(t, "42", record.Config.Settings["bench_cmd_args.seed"])
	var parameters []map[string]any
	data, err := os.ReadFile(filepath.Join(root, "bench_params.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &parameters))
	require.Equal(t, "concurrency-4", parameters[1]["_benchmark_name"])
	require.Equal(t, 4.0, parameters[1]["max_concurrency"])
	require.NotContains(t, parameters[0], "max_concurrency")

	got = call(append([]string{"latency-short,concurrency-4,throughput", "--base-url", address, "--name", "day", "--resume",
		root}, flags...)...)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stderr, "1/3 latency-in128-out128-rate1-n8: kept")
	require.Contains(t, got.stderr, "3/3 throughput-in512-out256-rateinf-n8: measured")
	held, err := lease.Acquire(filepath.Join(root, ".lease"), lease.Options{Now: time.Now})
	require.NoError(t, err)
	got = call(append([]string{"latency-short", "--base-url", address, "--name", "day", "--resume", root}, flags...)...)
	require.Equal(t, exitUsage, got.code, "another command measures into the folder")
	require.Contains(t, got.stderr, fmt.Sprintf(" is in use: process %d on ", os.Getpid()))
	require.NoError(t, held.Release())
	got = call(append([]string{"latency-short", "--base-url", address, "--name", "day", "--resume", root, "--client",
		"profllm bench serve --insecure"}, flags...)...)
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "was measured with client profllm bench serve, not profllm bench serve --insecure")
	got = call("latency-short", "--base-url", address, "--resume", root, "--", "--num-prompts", "9")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "was measured with")
	got = profllm(t, dir, nil, "report", root)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "concurrency-4")
	require.Equal(t, exitOK, profllm(t, dir, nil, "collect", root).code)
}

// A given client gets its arguments as they are. One run that fails stops no other, has a record,
// and decides the exit code; it is measured again when the measurement is continued.
//
// covers: BEN-12
func TestSuiteOfAnotherClient(t *testing.T) {
	// Not in parallel: its server and its client are as fast as the machine.
	address, env := fastServer(t)
	dir := t.TempDir()
	script := `for a; do case $a in concurrency-*-c1-*) test -e fixed || exit 3;; esac; done
exec "$BINARY" sim vllm bench serve "$@"
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a client.sh"), []byte(script), 0o644))
	env = append(env, "BINARY="+binary)
	args := []string{"bench", "suite", "concurrency-1,concurrency-4", "--base-url", address, "--client",
		"sh 'a client.sh'"}
	flags := []string{"--", "--num-prompts", "8", "--extra-body", `{"user": "a $b 'c'"}`}
	got := profllm(t, dir, env, append(args, flags...)...)
	require.Equal(t, exitJobFailed, got.code, got.stderr)
	root := onlyFolder(t, filepath.Join(dir, "results"))
	bad := readResult(t, filepath.Join(root, "concurrency-1"))
	require.Equal(t, result.Failed, bad.Status)
	require.Contains(t, fmt.Sprint(bad.Warnings), "exit status 3")
	good := readResult(t, filepath.Join(root, "concurrency-4"))
	require.Equal(t, 8, *good.Results.CompletedRequests)
	require.Equal(t, "sh 'a client.sh'", good.Provenance.Imported.From)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "fixed"), nil, 0o644))
	got = profllm(t, dir, env, append(append(args, "--resume", root), flags...)...)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Equal(t, 8, *readResult(t, filepath.Join(root, "concurrency-1")).Results.CompletedRequests)
	require.FileExists(t, filepath.Join(root, "concurrency-1/attempts/1/import.json"))
}

// vLLM's client is that of the machine if it has vllm, else that of an image, within an allocation
// and without one. The record says which it was.
//
// covers: BEN-6
func TestSuiteOfAnImage(t *testing.T) {
	t.Parallel()
	address, env := fastServer(t)
	for name, c := range map[string]struct {
		programs []string // on PATH beside those of the system
		env      []string
		program  string
		image    bool
	}{
		"vllm here":        {[]string{"vllm", "docker"}, nil, "vllm bench serve", false},
		"no vllm":          {[]string{"docker"}, nil, "vllm bench serve in vllm/vllm-openai:v0.32.0", true},
		"no vllm, in jobs": {[]string{"podman"}, []string{"SLURM_JOB_ID=17", "SLURM_STEP_ID=0", "SLURM_PROCID=0"}, "vllm bench serve in vllm/vllm-openai:v0.32.0", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bin := filepath.Join(dir, "bin")
			require.NoError(t, os.Mkdir(bin, 0o755))
			texts := map[string]string{"vllm": "exec \"$BINARY\" sim vllm \"$@\""}
			// A runtime whose images all have vllm: it runs what follows the image.
			runtime := `echo "$@" >>"$CALLS"
[ "$1" = run ] || exit 0
while [ "$1" != vllm/vllm-openai:v0.32.0 ] && [ "$1" != docker.io/vllm/vllm-openai:v0.32.0 ]; do shift || exit 9; done
shift 2
exec "$BINARY" sim vllm "$@"`
			texts["docker"], texts["podman"] = runtime, runtime
			for _, p := range c.programs {
				require.NoError(t, os.WriteFile(filepath.Join(bin, p), []byte("#!/bin/sh\n"+texts[p]+"\n"), 0o755))
			}
			calls := filepath.Join(dir, "calls")
			all := slices.Concat(env, c.env, []string{"BINARY=" + binary, "CALLS=" + calls, "PATH=" + bin + ":/usr/bin:/bin"})
			args := []string{"bench", "suite", "concurrency-4,sharegpt-rateinf", "--base-url", address, "--image",
				"vllm/vllm-openai:v0.32.0", "--sharegpt", "chats.json"}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "chats.json"), []byte("[]"), 0o644))
			if c.programs[0] == "podman" { // it comes behind docker, which this machine may have
				args = append(args, "--runtime", "podman")
			}
			got := profllm(t, dir, all, append(args, "--", "--num-prompts", "8")...)
			require.Equal(t, exitOK, got.code, got.stderr)
			root := onlyFolder(t, filepath.Join(dir, "results"))
			r := readResult(t, filepath.Join(root, "concurrency-4"))
			require.Equal(t, 8, *r.Results.CompletedRequests)
			require.Equal(t, c.program, r.Provenance.Imported.From)
			said, err := os.ReadFile(calls)
			require.Equal(t, c.image, err == nil, "the runtime is asked only where it is needed")
			if c.image {
				require.Contains(t, string(said), "--network=host", "the server may be on this machine")
				require.Contains(t, string(said), "source="+root, "results are written there")
				require.NotContains(t, string(said), "--gpus", "a client needs none")
				require.Regexp(t, "--name=profllm-[a-z0-9-]+-bench-[0-9]+-0 ", string(said), "no other command has the name")
				require.Regexp(t, regexp.QuoteMeta("source="+dir)+`"?,`, string(said), "a comma has it quoted")
				require.Contains(t, string(said), "--dataset-path "+dir+"/chats.json ")
			}
		})
	}
	dir := t.TempDir()
	empty := append(slices.Clone(env), "PATH="+dir)
	got := profllm(t, dir, empty, "bench", "suite", "concurrency-4", "--base-url", address, "--image", "a:1")
	require.Equal(t, exitUsage, got.code, got.stderr)
	require.Contains(t, got.stderr, "neither vllm nor a program that runs images")
	got = profllm(t, dir, env, "bench", "suite", "concurrency-4", "--base-url", "http://127.0.0.1:1", "--image", "a:1", "--client", "x")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "--client and --image both say what measures")
	got = profllm(t, dir, env, "bench", "suite", "concurrency-4", "--base-url", address, "--runtime", "docker")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "--runtime runs an image, and there is none")
}

// A client in a container finds the model, the tokenizer and the cache of this machine.
func TestSuiteMounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"model", "tokenizer", "home/.cache/huggingface", "hf", "hub"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	loads, err := measure.Plan(measure.Options{Names: []string{"latency-short"}, Flags: []string{"--tokenizer", dir + "/tokenizer"}})
	require.NoError(t, err)
	a := &app{environ: []string{"HOME=" + dir + "/home"}}
	at := func(name string) string { return dir + "/" + name + ":" + dir + "/" + name }
	cache := "home/.cache/huggingface"
	s := &measure.Session{Dir: dir + "/results", Model: dir + "/model"}
	require.ElementsMatch(t, []string{at("results"), at("model"), at("tokenizer"), at(cache), dir + "/" + cache + ":/root/.cache/huggingface"},
		benchSuiteCmd{}.mounts(a, s, loads))
	a.environ, s.Model = append(a.environ, "HF_HOME="+dir+"/hf"), "org/model"
	require.ElementsMatch(t, []string{at("results"), at("tokenizer"), at("hf")}, benchSuiteCmd{}.mounts(a, s, loads))
	a.environ = append(a.environ, "HF_HUB_CACHE="+dir+"/hub")
	require.ElementsMatch(t, []string{at("results"), at("tokenizer"), at("hf"), at("hub")}, benchSuiteCmd{}.mounts(a, s, loads))
}

// A client that takes its time to end is waited for when the suite is interrupted, and so is the removal
// of its container.
func TestSuiteWaitsForItsClient(t *testing.T) {
	t.Parallel()
	address, env := fastServer(t)
	const slow = `trap 'sleep 2; : >ended; exit 1' INT TERM
: >ready; while :; do sleep 0.01; done`
	for name, args := range map[string][]string{
		"client": {"--client", "./client"}, "image": {"--image", "vllm/vllm-openai:v0.32.0", "--runtime", "docker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for program, text := range map[string]string{
				"client": slow, "docker": `echo "$@" >>calls` + "\n" + `[ "$1" = run ] || exit 0` + "\n" + slow,
			} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
			}
			cmd := command(dir, append(slices.Clone(env), "PATH="+dir+":/usr/bin:/bin", "SLURM_JOB_ID="),
				append([]string{"bench", "suite", "concurrency-1", "--base-url", address}, args...)...)
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
			await.File(t, filepath.Join(dir, "ready"))
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			require.Error(t, cmd.Wait())
			require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
			require.FileExists(t, filepath.Join(dir, "ended"))
			if name == "image" {
				calls, err := os.ReadFile(filepath.Join(dir, "calls"))
				require.NoError(t, err)
				require.Contains(t, string(calls), "\nrm ")
			}
		})
	}
}

// The suites in place of vLLM's other scripts are measured by profllm's client and by vLLM's.
func TestSuiteOfScripts(t *testing.T) {
	// Not in parallel: its server and its client are as fast as the machine.
	address, env := fastServer(t)
	for _, client := range [][]string{nil, {"--client", "\"$BINARY\" sim vllm bench serve", "--release", "0.32.0"}} {
		dir := t.TempDir()
		args := append([]string{"bench", "suite", "structured,documents-asked1,prefixes", "--base-url", address}, client...)
		for i := range args {
			args[i] = strings.Replace(args[i], "\"$BINARY\"", binary, 1)
		}
		got := profllm(t, dir, env, args...)
		require.Equal(t, exitOK, got.code, got.stderr)
		root := onlyFolder(t, filepath.Join(dir, "results"))
		for name, want := range map[string]int{"structured-grammar": 100, "structured-free": 100, "documents-asked1": 8, "prefixes-100": 100, "prefixes-1": 100} {
			r := readResult(t, filepath.Join(root, name))
			require.Equal(t, want, *r.Results.CompletedRequests, name)
			require.True(t, r.Validity.Valid, "%s: %v", name, r.Validity.Words)
			if strings.HasPrefix(name, "structured") {
				require.Less(t, *r.Results.TotalOutputTokens, int64(want*128), "answers end by themselves")
			}
		}
	}
}

// A run of which no request completes is invalid, though the client left a file.
//
// covers: BEN-13
func TestSuiteWithoutResults(t *testing.T) {
	t.Parallel()
	address, env := fastServer(t)
	dir := t.TempDir()
	got := profllm(t, dir, env, "bench", "suite", "latency-short", "--base-url", address, "--", "--num-prompts", "4",
		"--extra-body", `{"model": "another"}`)
	require.Equal(t, exitJobFailed, got.code, got.stderr)
	root := onlyFolder(t, filepath.Join(dir, "results"))
	record := readResult(t, filepath.Join(root, "latency-short"))
	require.False(t, record.Validity.Valid)
	require.Contains(t, record.Validity.Words, "no-success")
	require.Contains(t, fmt.Sprint(record.Warnings), "no request completed: all 4 failed", "what the client said is kept")

	got = profllm(t, dir, env, "bench", "suite", "latency-short", "--base-url", address, "--resume", root, "--", "--num-prompts",
		"4", "--extra-body", `{"model": "another"}`)
	require.Equal(t, exitJobFailed, got.code, got.stderr)
	require.NotContains(t, got.stderr, ": kept\n", "a run in which nothing completed is measured again")
	require.Contains(t, got.stderr, "1/1 latency-in128-out128-rate1-n4: failed: ")
	require.FileExists(t, filepath.Join(root, "latency-short/attempts/1/import.json"))
}

// Each run of a suite can share its load between processes, which are started with the arguments of
// that run.
func TestSuiteOfProcesses(t *testing.T) {
	t.Parallel()
	address, env := fastServer(t)
	dir := t.TempDir()
	got := profllm(t, dir, env, "bench", "suite", "concurrency-4,latency-short", "--base-url", address, "--", "--processes", "2",
		"--num-prompts", "8")
	require.Equal(t, exitOK, got.code, got.stderr)
	root := onlyFolder(t, filepath.Join(dir, "results"))
	for _, run := range []string{"concurrency-4", "latency-short"} {
		require.Equal(t, 8, *readResult(t, filepath.Join(root, run)).Results.CompletedRequests)
	}
	own := resultKeys(t, filepath.Join(root, "concurrency-4/raw/concurrency-in512-out256-rateinf-c4-n8.json"))["profllm"]
	require.EqualValues(t, 2, own.(map[string]any)["processes"])
}

// The real vLLM is measured with suites, by profllm's client and by vLLM's own, which leave files of the
// same keys, and it is asked the questions of an evaluation.
func TestVLLMSuite(t *testing.T) {
	home := vllmHome(t)
	env := []string{"PATH=" + filepath.Join(home, "venv/bin") + ":" + os.Getenv("PATH"), "HF_HUB_OFFLINE=1",
		"VLLM_CPU_KVCACHE_SPACE=1", "VLLM_CPU_OMP_THREADS_BIND=nobind", "VLLM_SERVER_DEV_MODE=1"}
	port, model := freePort(t), filepath.Join(home, "tiny")
	serve := exec.Command(filepath.Join(home, "venv/bin/vllm"), "serve", model, "--served-model-name", "tiny", "--load-format",
		"dummy", "--dtype", "float32", "--enforce-eager", "--max-model-len", "2048", "--max-num-seqs", "16", "--host",
		"127.0.0.1", "--port", port, "--distributed-executor-backend", "uni")
	serve.Env = append(os.Environ(), env...)
	address := startServer(t, port, serve)
	dir := t.TempDir()
	keys := map[string][]string{}
	for name, more := range map[string][]string{
		"own":    nil,
		"theirs": {"--client", filepath.Join(home, "venv/bin/vllm") + " bench serve", "--release", "0.32.0"},
	} {
		args := append([]string{"bench", "suite", "throughput,prefill-in128,decode-out128,latency-short,concurrency-4",
			"--base-url", address, "--cache", "empty", "--result-dir", name}, more...)
		got := profllm(t, dir, env, append(args, "--", "--num-prompts", "4", "--tokenizer", model, "--request-rate", "inf")...)
		require.Equal(t, exitOK, got.code, got.stderr)
		root := onlyFolder(t, filepath.Join(dir, name))
		record := readResult(t, filepath.Join(root, "concurrency-4"))
		require.Equal(t, 4, *record.Results.CompletedRequests)
		require.False(t, record.Simulated)
		file := resultKeys(t, filepath.Join(root, "throughput/raw/throughput-in512-out256-rateinf-n4.json"))
		delete(file, "profllm")
		keys[name] = slices.Sorted(maps.Keys(file))
	}
	require.Equal(t, keys["theirs"], keys["own"])

	arithmetic(t, dir, 20)
	got := profllm(t, dir, env, "eval", "gsm8k", "--port", port, "--data", ".", "--max-tokens", "8", "--save-results",
		"e/vllm-gsm8k.json")
	require.Equal(t, exitOK, got.code, got.stderr)
	e := resultKeys(t, filepath.Join(dir, "e/vllm-gsm8k.json"))
	require.Equal(t, 20.0, e["num_questions"])
	require.Positive(t, e["total_output_tokens"])
}
