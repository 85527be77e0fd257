package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/progress"
	"github.com/profllm/profllm/pkg/run"
)

// fakeSlurm makes squeue and sacct, which print the files queue and acct beside
// them, and returns their folder. A job that is in neither nobody knows.
func fakeSlurm(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for program, file := range map[string]string{"squeue": "queue", "sacct": "acct"} {
		script := fmt.Sprintf("#!/bin/bash\necho asked >>%q\ncat %q\n", filepath.Join(dir, program+".calls"),
			filepath.Join(dir, file))
		require.NoError(t, os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), nil, 0o644))
	}
	return dir
}

// withSlurm puts the fake programs first on PATH.
func withSlurm(dir string) []string { return []string{"PATH=" + dir + ":" + os.Getenv("PATH")} }

// live is a copy of a rehearsed run, set back to the middle of its life, and a
// fake Slurm that runs its job.
type live struct {
	t      *testing.T
	dir    string // of the run
	slurm  string // the folder of its programs
	events []string
	finish []byte
}

func newLive(t *testing.T) *live {
	t.Helper()
	root := filepath.Join(t.TempDir(), "results")
	require.NoError(t, os.CopyFS(root, os.DirFS(rehearsedDemo.made(t))))
	asOnSlurm(t, root)
	require.NoError(t, os.RemoveAll(filepath.Join(root, "aggregated")))
	l := &live{t: t, dir: filepath.Join(root, "disaggregated", "0"), slurm: fakeSlurm(t)}
	l.events = slices.DeleteFunc(strings.SplitAfter(strings.TrimSpace(l.read(run.EventFile)), "\n"),
		func(line string) bool {
			return strings.Contains(line, `"preflight`) // before the roles begin
		})
	slices.SortStableFunc(l.events[:3], func(x, y string) int { // they race
		return strings.Index(y, `"prefill"`) - strings.Index(x, `"prefill"`)
	})
	l.finish = []byte(l.read(run.SentinelFile))
	for _, name := range []string{run.SentinelFile, run.StateFile, run.ResultFile, run.EventFile,
		run.LogDir + "/bench-0.log"} {
		require.NoError(t, os.Remove(filepath.Join(l.dir, name)))
	}
	l.job("RUNNING|None", "")
	return l
}

func (l *live) read(name string) string {
	l.t.Helper()
	data, err := os.ReadFile(filepath.Join(l.dir, name))
	require.NoError(l.t, err)
	return string(data)
}

func (l *live) add(name, text string) {
	l.t.Helper()
	f, err := os.OpenFile(filepath.Join(l.dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(l.t, err)
	_, err = f.WriteString(text)
	require.NoError(l.t, err)
	require.NoError(l.t, f.Close())
}

// job says what Slurm knows: words of squeue and sacct, "" for nothing.
func (l *live) job(queue, acct string) {
	l.t.Helper()
	id := jobID(l.t, l.dir)
	p, err := run.ReadPlan(l.dir)
	require.NoError(l.t, err)
	if queue != "" {
		queue = id + "|" + queue + "||" + p.Job.Name + "|\n"
	}
	if acct != "" {
		acct = id + "|" + acct + "|0:0|2026-11-21T03:00:00|2026-11-21T03:10:00|600|node1|" + p.Job.Name + "\n"
	}
	for name, text := range map[string]string{"acct": acct, "queue": queue} {
		require.NoError(l.t, run.WriteFile(filepath.Join(l.slurm, name), []byte(text), 0o644))
	}
}

func (l *live) env() []string { return withSlurm(l.slurm) }

func TestWatchOnce(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	l.add(run.EventFile, l.events[0]) // prefill is ready
	l.add("logs/decode-0.log",
		"(EngineCore pid=7) INFO 11-22 03:06:11 [weights.py:7] Loading shards\x1b[0m:  10%|# | 1/10\r Loading shards:  50%|##| 5/10\n\n---\n")
	once := func(args ...string) string {
		t.Helper()
		o := profllm(t, filepath.Join(l.dir, "../../.."), l.env(),
			append([]string{"slurm", "watch", "--once"}, args...)...)
		require.Equal(t, exitOK, o.code)
		require.Equal(t, 1, strings.Count(o.stdout, "\n"))
		return o.stdout
	}
	here := filepath.Dir(filepath.Dir(l.dir))
	line := once(here)
	require.Contains(t, line, "disaggregated/0  job "+jobID(t, l.dir)+"  running for ")
	require.Contains(t, line, "ready 1/3  decode: Loading shards:  50%|##| 5/10\n")

	l.add(run.EventFile, strings.Join(l.events[1:5], ""))
	require.Regexp(t, `ready 3/3  bench  \d+ running, \d+ waiting, KV \d+ %`, once(here), "as the engines were last seen")
	require.NoError(t, os.RemoveAll(filepath.Join(l.dir, run.TelemetryDir)))
	require.Regexp(t, `ready 3/3  bench\n$`, once(here), "its log is not there yet")
	l.add("logs/bench-0.log", "Starting main benchmark run...\n\r  0%|   | 0/64 [00:00<?, ?it/s]\r 19%|#8 | 12/64 [00:03<00:14,  3.5it/s]")
	require.Regexp(t, `ready 3/3  bench  12/64  \S.* left\n$`, once(here))
	l.add("logs/bench-0.log", "\nload: 40/64 done\n")
	require.Regexp(t, `ready 3/3  bench  40/64  \S.* left\n$`, once(here))

	require.NoError(t, os.Remove(filepath.Join(l.dir, run.ClaimFile)))
	l.job("PENDING|Priority", "")
	require.Regexp(t, `  queued for \S+  \(Priority\)\n$`, once(here))
	require.Equal(t, once(here)[:30], once()[:30], "what is not over in results, which is here")
	submit := []byte(l.read(run.SubmitFile))
	require.NoError(t, os.Remove(filepath.Join(l.dir, run.SubmitFile)))
	require.NoError(t, os.Remove(filepath.Join(l.dir, run.IntentFile)))
	require.Regexp(t, `^disaggregated/0  not submitted\n$`, once(here))
	o := profllm(t, l.dir, l.env(), "slurm", "watch", l.dir)
	require.Equal(t, exitOK, o.code, "nothing to wait for")
	require.NoError(t, run.WriteFile(filepath.Join(l.dir, run.SubmitFile), submit, 0o644))
	l.job("", "COMPLETED")
	o = profllm(t, filepath.Join(l.dir, "../../.."), l.env(), "slurm", "watch", "--once")
	require.Equal(t, exitOK, o.code)
	require.Empty(t, o.stdout)
	require.Contains(t, o.stderr, "every run is over: profllm slurm status lists them")
	require.Equal(t, exitUsage, profllm(t, l.dir, l.env(), "slurm", "watch", t.TempDir()).code)

	empty := t.TempDir()
	o = profllm(t, empty, l.env(), "slurm", "status")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "there is no folder results here\n\thint: name the folder that submit printed")
	o = profllm(t, empty, l.env(), "slurm", "dry-run", "nowhere.toml")
	require.Equal(t, exitUsage, o.code, "a file that is not there")
	require.NoError(t, os.WriteFile(filepath.Join(empty, "x.tar.xz"), nil, 0o644))
	o = profllm(t, empty, l.env(), "why", "x.tar.xz")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "hint: profllm archive --restore x.tar.xz unpacks it")
}

// Without a path runs are looked for where submit put them: below --output-dir, or
// the output_path of the system file, by its flag or by its variable.
func TestStatusLooksWhereSubmitWrites(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	results := filepath.Dir(filepath.Dir(filepath.Dir(l.dir)))
	elsewhere := t.TempDir()
	site := filepath.Join(elsewhere, "site.toml")
	write := func(output string) {
		require.NoError(t, os.WriteFile(site,
			[]byte("name = \"s\"\nscheduler = \"slurm\"\ninstall_path = \"i\"\ndefault_partition = \"p\"\noutput_path = \""+output+"\"\n"), 0o644))
	}
	relative, err := filepath.Rel(elsewhere, results)
	require.NoError(t, err)
	for _, output := range []string{results, relative} {
		write(output)
		for _, verb := range [][]string{{"slurm", "status"}, {"slurm", "watch", "--once"}} {
			for name, o := range map[string]outcome{
				"flag":     profllm(t, elsewhere, l.env(), append(verb, "--system", "site.toml")...),
				"variable": profllm(t, elsewhere, append(l.env(), "PROFLLM_SYSTEM="+site), verb...),
				"folder":   profllm(t, elsewhere, append(l.env(), "PROFLLM_SYSTEM="+site), append(verb, "--output-dir", results)...),
				"path":     profllm(t, elsewhere, append(l.env(), "PROFLLM_SYSTEM=/nowhere"), append(verb, results)...),
			} {
				require.Equal(t, exitOK, o.code, name)
				require.Contains(t, o.stdout, "disaggregated/0", name)
			}
		}
	}
	write("later")
	o := profllm(t, elsewhere, append(l.env(), "PROFLLM_SYSTEM="+site), "slurm", "watch")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "there is no folder later here\n\thint: nothing was submitted to this folder yet")
	o = profllm(t, elsewhere, append(l.env(), "PROFLLM_SYSTEM=gone.toml"), "slurm", "status")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "gone.toml")
}

// A pipe gets a line for each change, with its time; the end is that of --wait.
func TestWatchPiped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		acct string
		code int
	}{"well": {"COMPLETED", exitOK}, "badly": {"FAILED", exitJobFailed}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLive(t)
			cmd := command(l.dir, l.env(), "slurm", "watch", l.dir)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(out)
			next := func(want string) {
				t.Helper()
				require.True(t, lines.Scan(), stderr.String())
				require.Regexp(t, `^\d\d:\d\d:\d\d disaggregated/0  job \d+  `+want, lines.Text())
			}
			next(`running for \S+  ready 0/3  prefill: `)
			l.add(run.EventFile, strings.Join(l.events[:4], ""))
			next(`running for \S+  ready 3/3$`)
			l.add(run.EventFile, l.events[4])
			l.add("logs/bench-0.log", "load: 33/64 done\n")
			next(`running for \S+  ready 3/3  bench`)
			l.add(run.EventFile, strings.Join(l.events[5:], ""))
			if c.code == exitOK { // before Slurm knows the end, as in a job
				require.NoError(t, run.WriteFile(filepath.Join(l.dir, run.SentinelFile), l.finish, 0o644))
			}
			l.job("", c.acct)
			var rest strings.Builder
			for lines.Scan() {
				rest.WriteString(lines.Text() + "\n")
			}
			_ = cmd.Wait() // its code is looked at
			require.Equal(t, c.code, cmd.ProcessState.ExitCode(), stderr.String())
			require.NotContains(t, rest.String(), "\x1b")
			require.Contains(t, rest.String(), "TTFT ms", "the table of --wait")
			require.FileExists(t, filepath.Join(l.dir, run.ResultFile))
		})
	}
}

// A rehearsal that goes on is no job that Slurm knows; its files say the end.
func TestWatchRehearsal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fake := fakeSlurm(t)
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
num_prompts = 16
max_concurrency = 3
random_input_len = 8
random_output_len = 4
`), 0o644))
	background := command(dir, []string{"PROFLLM_SIM_STARTUP=1s"}, "rehearse", "--output-dir", "results", "s.toml")
	require.NoError(t, background.Start())
	t.Cleanup(func() { _ = background.Wait() }) // its end is not the question
	await.True(t, func() bool {
		found, _ := filepath.Glob(filepath.Join(dir, "results", "*", "a", "0", run.ClaimFile))
		return len(found) == 1
	}, "the rehearsal has claimed its run")
	o := profllm(t, dir, withSlurm(fake), "slurm", "watch", "results")
	require.Equal(t, exitOK, o.code)
	require.Contains(t, o.stdout, "succeeded at ")
	require.Contains(t, o.stdout, "valid (simulated)")
}

func TestViewInPlace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{stdout: &out, now: time.Now}
	v := &view{app: a, cols: 30, rows: 5, colours: true}
	two := []progress.Progress{
		{Name: "a/0", State: run.Running, Text: "running"},
		{Name: "b/0", State: run.Failed, Text: "failed " + strings.Repeat("x", 40), Final: true},
	}
	v.draw(two)
	require.Equal(t, "\x1b[36ma/0  running\x1b[0m\x1b[K\n\x1b[31mb/0  failed xxxxxxxxxxxxxxxx…\x1b[0m\x1b[K\n\x1b[J",
		out.String())
	out.Reset()
	v.colours = false
	v.draw(append([]progress.Progress{two[1], two[1], two[1]}, two...))
	require.Equal(t, "\x1b[2Aa/0  running\x1b[K\nand 4 more\x1b[K\n\x1b[J", out.String(), "what is over gives way")
	out.Reset()
	v.draw(two[:1])
	require.Equal(t, "\x1b[2Aa/0  running\x1b[K\n\x1b[J", out.String())
	for environ, isTerminal := range map[string]bool{"TERM=dumb": false, "TERM=xterm": false} {
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, _, ok := (&app{environ: []string{environ}}).cursorOf(null)
		require.Equal(t, isTerminal, ok, "/dev/null is a device, and no terminal")
		require.NoError(t, null.Close())
	}
}
