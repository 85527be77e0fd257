package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/conf"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/result"
)

// A simulated engine that dies under load, on a site that knows the line.
//
// covers: PL-F9, PL-F7
func TestWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	site := string(conf.Local) + `
[[signatures]]
id = "site-simulated-death"
regex = "simulated death of the engine"
sample = "RuntimeError: simulated death of the engine"
role = "server"
next = "take the fault out of PROFLLM_SIM_FAULTS"
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "site.toml"), []byte(site), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(`name = "s"
[[Tests]]
id = "a"
test_template_name = "vllm"
num_nodes = 1
[Tests.cmd_args]
model = "m"
[Tests.cmd_args.decode]
tensor_parallel_size = 1
[Tests.bench_cmd_args]
num_prompts = 8
random_input_len = 8
random_output_len = 4
`), 0o644))
	o := profllm(t, dir, []string{"PROFLLM_SIM_FAULTS=serve:die-on-request=3,exit=3"}, "rehearse", "--system",
		"site.toml", "--output-dir", "results", "s.toml")
	require.Equal(t, exitJobFailed, o.code)

	d := only(t, dir)
	before, err := os.ReadFile(filepath.Join(d, "result.json"))
	require.NoError(t, err)
	o = profllm(t, dir, nil, "why", d)
	require.Equal(t, exitOK, o.code)
	for _, want := range []string{": failed\n", "test a of scenario s, SIMULATED engine: serve", "serve ready after ",
		"serve died at ", "(exit code 3), while a client ran",
		"cause     site-simulated-death in serve, on ", ": logs/serve-0.log:", "RuntimeError: simulated death of the engine",
		"phase bench was ended, because a role had died", "do        take the fault out", "logs/serve-0.log, stderr.txt"} {
		require.Contains(t, o.stdout, want)
	}
	require.LessOrEqual(t, strings.Count(o.stdout, "\n"), 11)
	after, err := os.ReadFile(filepath.Join(d, "result.json"))
	require.NoError(t, err)
	require.Equal(t, before, after, "it writes nothing")

	require.Equal(t, o.stdout, profllm(t, dir, nil, "why", filepath.Join(d, "logs")).stdout,
		"from below the run as well")
	o = profllm(t, dir, nil, "why", "--output", "json", "results")
	require.Equal(t, exitOK, o.code)
	told := readDocument[document.Why](t, o).Stories
	require.Len(t, told, 1)
	require.Equal(t, "site-simulated-death", told[0].Failure.Cause)
	require.Equal(t, result.Exact, told[0].Failure.Confidence)
	require.Equal(t, readResult(t, d).Failure, told[0].Failure)

	require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	for _, nothing := range []string{"empty", "nowhere"} {
		require.Equal(t, exitUsage, profllm(t, dir, nil, "why", nothing).code)
	}

	require.NoError(t, os.WriteFile(filepath.Join(dir, "site.toml"),
		[]byte(strings.ReplaceAll(site, "site-simulated-death", "cuda-oom")), 0o644))
	o = profllm(t, dir, nil, "verify", "site.toml")
	require.Equal(t, exitDefinition, o.code)
	require.Contains(t, o.stdout+o.stderr,
		`signature "cuda-oom": another signature, built in or of the site, has this id`)
}

// A scenario's file is neither a run nor a log, whatever is to be known of its runs.
func TestDefinitionInThePlaceOfRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{
		"s.toml": "name = 'small'\n[[Tests]]\nid = 'a'\n", "site.toml": string(conf.Local), "cut.toml": "name = ",
		"run.lock.toml": "schema = 'profllm.lock/1'\n",
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	const scenario = "s.toml is a scenario file and holds neither runs nor logs\n" +
		"\thint: name the directory of its runs, such as results/small_TIME; profllm verify s.toml checks the file\n"
	for _, verb := range []string{"why", "collect", "report", "trend", "lock", "archive", "compare", "diff",
		"export llm-d",
		"slurm status", "slurm watch", "slurm logs", "slurm cancel", "slurm resume"} {
		args := append(strings.Fields(verb), "s.toml")
		if verb == "compare" || verb == "diff" {
			args = append(args, "s.toml")
		}
		o := profllm(t, dir, nil, args...)
		require.Equal(t, exitUsage, o.code, verb)
		require.Equal(t, scenario, o.stderr, verb)
	}
	for name, want := range map[string]string{
		"site.toml": "site.toml is a system file and holds neither runs nor logs\n\thint: profllm verify site.toml checks the file\n",
		"cut.toml":  "cut.toml is a TOML file and holds neither runs nor logs\n\thint: profllm verify cut.toml checks the file\n",
		"run.lock.toml": "run.lock.toml is a lock file and holds neither runs nor logs\n" +
			"\thint: name the directory of its runs\n",
	} {
		require.Equal(t, want, profllm(t, dir, nil, "why", name).stderr)
	}
}

// What to do of a cancelled rehearsal is no command that refuses rehearsals.
func TestWhyOfACancelledRehearsal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"),
		[]byte("name = 's'\n[[Tests]]\nid = 'a'\ntest_template_name = 'vllm'\n"+
			"[Tests.bench_cmd_args]\nnum_prompts = 4\nrandom_output_len = 5\n"), 0o644))
	profllm(t, dir, nil, "rehearse", "s.toml")
	run := only(t, dir)
	data, err := os.ReadFile(filepath.Join(run, "state.json"))
	require.NoError(t, err)
	data = bytes.Replace(data, []byte(`"succeeded"`), []byte(`"cancelled"`), 1)
	require.NoError(t, os.WriteFile(filepath.Join(run, "state.json"), data, 0o644))
	require.NoError(t, os.Remove(filepath.Join(run, "raw", "vllm-bench.json")))
	require.NoError(t, os.Remove(filepath.Join(run, "logs", "bench-0.log")))
	o := profllm(t, dir, nil, "why", run)
	do := regexp.MustCompile(`the job was cancelled: ((?:PROFLLM_SIM_\w+=\w+ )*)profllm (rehearse .*) runs it again\n`).
		FindStringSubmatch(o.stdout)
	require.NotNil(t, do, o.stdout)
	require.Contains(t, do[2], " --output-dir results --speed ")
	require.Equal(t, exitOK, profllm(t, dir, strings.Fields(do[1]), append(strings.Fields(do[2]), "--output-dir",
		"again")...).code)
}

// Each repeat of each point of a sweep has the story of its own load, and what looks
// like a secret in the plan is in no report of it.
//
// covers: PL-F7
func TestWhyOfRepeatedPoints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const secret = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(`name = "s"
[[Tests]]
id = "a"
test_template_name = "vllm"
client = "profllm"
repeat = 2
[Tests.cmd_args]
model = "m"
[Tests.bench_cmd_args]
num_prompts = 4
random_input_len = 8
random_output_len = 4
max_concurrency = [1, 2]
[Tests.extra_env_vars]
MY_TOKEN = "`+secret+`"
PROFLLM_SIM_STARTUP = "0s"
`), 0o644))
	o := profllm(t, dir, nil, "rehearse", "--output-dir", "results", "s.toml")
	require.Contains(t, []int{exitOK, exitInvalid}, o.code, o.stderr)
	o = profllm(t, dir, nil, "why", "results", "--output", "json")
	require.Equal(t, exitOK, o.code)
	seen := map[string]bool{}
	for _, s := range readDocument[document.Why](t, o).Stories {
		seen[s.Run] = true
	}
	require.Len(t, seen, 4)
	for _, load := range []string{"1.r1", "1.r2", "2.r1", "2.r2"} {
		require.Contains(t, o.stdout, "test a of scenario s, load "+load+",")
	}
	o = profllm(t, dir, nil, "report", "results", "--output", "json")
	require.Equal(t, exitOK, o.code)
	require.Contains(t, o.stdout, `"extra_env_vars.MY_TOKEN"`)
	require.NotContains(t, o.stdout, secret)
}

// The next step of every known cause can be pasted: nothing in it stands for something else, and
// each command exists, for a run on Slurm, for a rehearsal, and for runs of others.
func TestNextStepsCanBePasted(t *testing.T) {
	t.Parallel()
	table, err := failure.Builtin()
	require.NoError(t, err)
	steps := map[string]step{}
	for _, s := range table.Signatures() {
		steps[s.ID] = step{s.Next, s.Command}
		require.Contains(t, []result.Command{"", result.Resume, result.ResumeFailed, result.ReleaseJob}, s.Command, s.ID)
	}
	for _, e := range failure.Endings() {
		steps["ending "+e.ID] = step{e.Next, ""}
	}
	for check, e := range failure.Preflight() {
		steps["preflight "+check] = step{e.Next, ""}
	}
	steps["preflight"] = step{failure.OfPreflight("").Next, ""}
	f, err := table.Explain(nil, failure.Job{})
	require.NoError(t, err)
	steps["no log"] = step{f.Next, f.Command}
	dir := t.TempDir()
	for _, name := range []string{"scenario.toml", "system.toml"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	placeholder := regexp.MustCompile(`\b(DIR|JOB|FILE|SCENARIO|NODE|NAME|FOLDER)\b|<[a-z ]+>|\{|…`)
	command := regexp.MustCompile(`\bprofllm ((?:slurm|rehearse|why|collect|report|stage|verify|image|doctor)\b[^,;()]*)`)
	for name, next := range steps {
		for kind, again := range map[string]collect.Again{
			"slurm":    {Resume: dir},
			"rehearse": {Local: "profllm rehearse " + filepath.Join(dir, "scenario.toml") + " --system " + filepath.Join(dir, "system.toml")},
			"others":   {},
		} {
			job := "17"
			if kind != "slurm" {
				job = ""
			}
			text := next.of(again, job)
			require.NotEmpty(t, text)
			require.NotRegexp(t, placeholder, text, "%s, %s", name, kind)
			require.NotRegexp(t, `[:,;( ]$|: :|::`, text, "%s, %s", name, kind)
			for _, m := range command.FindAllStringSubmatch(text, -1) {
				words := strings.Fields(m[1])
				require.NoError(t, parses(words), "%s, %s: %s", name, kind, text)
				require.NotEqual(t, "others", kind, "%s: %s", name, text)
				require.Equal(t, kind, words[0], "%s: %s", name, text)
			}
		}
	}
	require.Contains(t, steps["slurm-node-failure"].of(collect.Again{Resume: "d"}, "1"),
		"run it again: profllm slurm resume d")
	require.Equal(t, "exclude the node, then run it again",
		steps["slurm-node-failure"].of(collect.Again{}, ""))
	require.Contains(t, steps["no log"].of(collect.Again{}, "17"), ": sacct -j 17, scontrol show job 17")
}

// step is a next step of a known cause.
type step struct {
	next    string
	command result.Command
}

func (s step) of(again collect.Again, job string) string {
	return collect.NextStep(s.next, s.command, again, job)
}
