package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// canaries are secrets of one test, each with the same mark in every line.
type canaries struct {
	mark string
	env  []string // of the shell that submits
	hard string   // what a printer escapes, over several lines
	file string   // holds one of them
	seen string   // a file that is made when a watcher has seen whom it waits for some times
}

func newCanaries(t *testing.T) *canaries {
	t.Helper()
	c := &canaries{mark: fmt.Sprintf("c4n4ry%08x", rand.Uint32())}
	c.hard = c.mark + " 3'a\"b$(touch x)`c`\\d\n" + c.mark + "-second-line\n\n" + c.mark + "-third\tline' "
	c.file, c.seen = filepath.Join(t.TempDir(), "to ken'$(touch x)"), filepath.Join(t.TempDir(), "seen")
	require.NoError(t, os.WriteFile(c.file, []byte(c.mark+"-of-a-file\n"), 0o600))
	c.env = []string{"PLANTED=" + c.mark + "-of-env", "PLANTED_HARD=" + c.hard, "UNASKED=" + c.mark + "-unasked",
		"ASKED=plain, value=with 'commas'\n"}
	return c
}

// write writes a scenario in which decode alone has secrets, prints all it has in
// several ways, also into raw/, and in which a hook has one.
func (c *canaries) write(t *testing.T, dir string, prompts int) {
	t.Helper()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "hook"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "hook/h.toml"), []byte(`name = "h"
[[Tests]]
id = "look"
test_template_name = "BashCmd"
cmd_args.cmd = "env; echo digest $(printf %s \"$PLANTED\" | sha256sum)"
[Tests.extra_env_vars]
PLANTED = { env = "PLANTED" }
`), 0o644))
	show := `env; export -p; set; env >raw/environ; printf 'HARD=%s' "$HARD" >raw/hard; echo "${HARD@Q}"; printf '{"k": "%s"}' "$FROM_FILE" >raw/k.json
for s in "$TOKEN" "$FROM_FILE" "$HARD"; do echo "digest $(printf %s "$s" | sha256sum)"; done
until [ -e ` + c.seen + ` ]; do sleep 0.02; done`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(fmt.Sprintf(`name = "s"
pre_test = "h"
[[Tests]]
id = "a"
test_template_name = "vllm"
num_nodes = 2
time_limit = "5m"
[Tests.slurm]
export = ["ASKED"]
[Tests.cmd_args.prefill]
[Tests.cmd_args.decode]
[Tests.bench_cmd_args]
num_prompts = %d
random_output_len = 20
[Tests.custom_bash]
"PROFLLM_ROLE=decode " = %s
"." = "env"
[Tests.extra_env_vars]
TOKEN = { env = "PLANTED", for = ["decode"] }
HARD = { env = "PLANTED_HARD", for = ["decode"] }
FROM_FILE = { file = %s, for = ["decode"] }
`, prompts, strconv.Quote(show), strconv.Quote(c.file))), 0o644))
}

// digests is what decode prints of its secrets: that it has them, exactly.
func (c *canaries) digests() []string {
	var list []string
	for _, s := range []string{c.mark + "-of-env", c.mark + "-of-a-file", c.hard} {
		list = append(list, fmt.Sprintf("digest %x", sha256.Sum256([]byte(s))))
	}
	return list
}

// below lists the files below dir that hold a canary, but for those of secrets.
func (c *canaries) below(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Base(filepath.Dir(name)) == run.SecretDir {
			return nil // Slurm removes files while we look
		}
		if data, err := os.ReadFile(name); err == nil && bytes.Contains(data, []byte(c.mark)) {
			found = append(found, name)
		}
		return nil
	}))
	return found
}

// watcher looks at every process of this machine, which hosts every node, until it
// is told to stop: whose arguments and whose environment hold a canary.
type watcher struct {
	mu       sync.Mutex
	argv     map[string]bool // arguments of processes with a canary among them
	environ  map[string]bool // of processes with a canary in their environment
	looks    int
	stop     chan struct{}
	finished sync.WaitGroup
}

// someLooks is how often a watcher sees the process that it waits for, which goes on only then.
const someLooks = 6

// watch looks until it is told to stop, and makes the file seen when it has seen some times that a process holds a
// canary in its environment which is one of those that awaited knows.
func (c *canaries) watch(awaited func(process string) bool) *watcher {
	_ = os.Remove(c.seen)
	w := &watcher{argv: map[string]bool{}, environ: map[string]bool{}, stop: make(chan struct{})}
	mark := []byte(c.mark)
	w.finished.Go(func() {
		for {
			select {
			case <-w.stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			met := false
			procs, _ := filepath.Glob("/proc/[0-9]*")
			for _, p := range procs {
				environ, _ := os.ReadFile(p + "/environ")
				argv, err := os.ReadFile(p + "/cmdline")
				if err != nil || len(argv) == 0 { // it becomes another program at this moment, or ends
					continue
				}
				text := strings.ReplaceAll(string(argv), "\x00", " ")
				w.mu.Lock()
				if bytes.Contains(argv, mark) {
					w.argv[text] = true
				}
				if bytes.Contains(environ, mark) {
					if bytes.Contains(environ, []byte("PROFLLM_ROLE=decode\x00")) {
						text = "decode: " + text
					}
					w.environ[text] = true
					met = met || awaited(text)
				}
				w.mu.Unlock()
			}
			if !met {
				continue
			}
			if w.looks++; w.looks == someLooks {
				_ = os.WriteFile(c.seen, nil, 0o644) // ends misses it
			}
		}
	})
	return w
}

// ends stops the watcher. Nobody had a canary among its arguments, and in its
// environment only who needs it: those that need says.
func (w *watcher) ends(t *testing.T, needs func(process string) bool) {
	t.Helper()
	close(w.stop)
	w.finished.Wait()
	require.GreaterOrEqual(t, w.looks, someLooks)
	require.Empty(t, w.argv)
	seen := slices.Sorted(maps.Keys(w.environ))
	require.NotEmpty(t, seen, "who needs it has it")
	for _, p := range seen {
		require.True(t, needs(p), "%s has a secret in its environment", p)
	}
}

// ofDecode are the processes of decode, from the moment at which its own process
// becomes the command; and the shell text of the hook.
func ofDecode(process string) bool {
	return strings.HasPrefix(process, "decode: ") || strings.HasPrefix(process, "env PROFLLM_ROLE=decode ") ||
		strings.HasPrefix(process, "bash -c env; echo digest") ||
		process == "env " || strings.HasPrefix(process, "sha256sum")
}

// check looks at a run that is over: no file of it, and none beside it, holds a
// canary; decode had them, and nobody else.
func (c *canaries) check(t *testing.T, dir string) {
	t.Helper()
	d := only(t, dir)
	require.Empty(t, c.below(t, dir))
	require.NoDirExists(t, filepath.Join(d, run.SecretDir))
	require.NoDirExists(t, filepath.Join(d, "pre_test/look", run.SecretDir))
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(d, name))
		require.NoError(t, err)
		return string(data)
	}
	decode := read("logs/decode-0.log")
	for _, digest := range c.digests() {
		require.Contains(t, decode, digest, "the value arrived, byte for byte")
	}
	require.Contains(t, decode, "TOKEN="+strings.Repeat("x", len(c.mark+"-of-env"))+"\n", "and was overwritten")
	require.Contains(t, read("pre_test/look/logs/bash-0.log"), c.digests()[0])
	for _, log := range []string{"logs/prefill-0.log", "logs/proxy-0.log", "logs/bench-0.log"} {
		text := read(log)
		require.NotContains(t, text, "TOKEN=")
		require.NotContains(t, text, "PLANTED")
		require.NotContains(t, text, "UNASKED")
		require.Contains(t, text, "ASKED=plain, value=with 'commas'\n\n")
	}
	require.Contains(t, decode, "ASKED=")
	require.NotContains(t, decode, "UNASKED")

	r := readResult(t, d)
	require.True(t, r.Validity.Valid)
	masked := map[string]bool{}
	for _, w := range r.Warnings {
		if w.Kind == result.SecretInLog {
			masked[w.File] = true
			require.Positive(t, w.Line)
		}
	}
	require.Equal(t, map[string]bool{"logs/decode-0.log": true, "raw/environ": true, "raw/hard": true,
		"raw/k.json": true}, masked)
	require.Contains(t, fmt.Sprint(readResult(t, filepath.Join(d, "pre_test/look")).Warnings),
		"secret-in-log logs/bash-0.log")
	plan := read("plan.json")
	require.Contains(t, plan, `"env": "PLANTED_HARD"`)
	require.Equal(t, 1, strings.Count(read("job.sh"), "--env=HARD=PLANTED_HARD"), "one step")
}

// Secrets on a real Slurm: planted, used by one role that prints them, and looked for
// in every byte that is written, every argument and every environment.
//
// covers: PL-D10, PL-G9, PL-S29, CTR-8
func TestSlurmSecrets(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	c := newCanaries(t)
	c.write(t, dir, 60)
	slurmFiles := filepath.Dir(os.Getenv("SLURM_CONF"))
	submit := []string{"slurm", "submit", "--simulate", "--system", "site.toml", "s.toml"}

	o := profllm(t, dir, nil, submit...)
	require.Equal(t, exitNotSubmit, o.code)
	require.Contains(t, o.stderr, "a secret is not set in this shell: PLANTED, PLANTED_HARD\n\thint: export PLANTED=…")
	require.NoDirExists(t, filepath.Join(dir, "results"), "nothing was begun")

	// A submission that found no sbatch, and its resume by cron, in which nothing is set.
	o = profllm(t, dir, append(c.env, "PATH=/nowhere"), submit...)
	require.Equal(t, exitNotSubmit, o.code)
	require.Empty(t, c.below(t, dir))
	d := only(t, dir)
	require.NoDirExists(t, filepath.Join(d, run.SecretDir), "no job needs them")
	o = profllm(t, dir, nil, "slurm", "resume", filepath.Dir(filepath.Dir(d)))
	require.Equal(t, exitNotSubmit, o.code)
	require.Contains(t, o.stderr,
		"a/0: a secret is not set in this shell: PLANTED, PLANTED_HARD\n\thint: export PLANTED=…")
	require.NoFileExists(t, filepath.Join(d, "intent-2.json"))

	w := c.watch(ofDecode)
	shell := command(dir, c.env, "slurm", "resume", filepath.Dir(filepath.Dir(d)))
	out, err := shell.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), c.mark)
	id := jobID(t, d)
	for _, f := range []struct {
		name string
		mode fs.FileMode
	}{{"", fs.ModeDir | 0o700}, {"PLANTED", 0o600}, {"PLANTED_HARD", 0o600},
		{"../pre_test/look/secrets/PLANTED", 0o600}} {
		if st, err := os.Stat(filepath.Join(d, run.SecretDir, f.name)); err == nil { // else the job is over
			require.Equal(t, f.mode, st.Mode(), f.name)
		}
	}
	await.Text(t, filepath.Join(d, "events.jsonl"), "all-ready")
	require.Empty(t, c.below(t, slurmFiles), "files of Slurm's daemons, while the job runs")
	asked := func() {
		for _, argv := range [][]string{
			{"scontrol", "show", "job", "-dd", id}, {"scontrol", "write", "batch_script", id, "-"},
			{"squeue", "-a", "-t", "all", "-j", id, "-o", "%all"}, {"sacct", "-j", id, "-P", "-o", "ALL"},
		} {
			out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
			require.NoError(t, err, "%v: %s", argv, out)
			require.NotContains(t, string(out), c.mark, "%v", argv)
			require.NotContains(t, string(out), "PLANTED="+c.mark)
		}
	}
	asked()
	require.Equal(t, exitOK, profllm(t, dir, nil, "slurm", "watch").code)
	w.ends(t, func(p string) bool {
		return ofDecode(p) || strings.Contains(p, "slurm resume "+filepath.Dir(filepath.Dir(d)))
	})
	asked()
	require.Empty(t, c.below(t, slurmFiles))
	c.check(t, dir)
	for _, args := range [][]string{{"collect", "results"}, {"report", "results"}, {"why", d}, {"slurm", "logs", d},
		{"slurm", "logs", d, "--role", "decode"}} {
		o := profllm(t, dir, nil, args...)
		require.NotContains(t, o.stdout+o.stderr, c.mark)
	}
	require.Equal(t, exitOK, profllm(t, dir, nil, "archive", filepath.Dir(filepath.Dir(d))).code)
	c.check(t, dir)
}

// The same script with stand-ins for srun, on this machine.
//
// covers: PL-D10
func TestRehearseSecrets(t *testing.T) {
	t.Parallel()
	dir, temp := t.TempDir(), t.TempDir()
	c := newCanaries(t)
	c.write(t, dir, 40)
	o := profllm(t, dir, []string{"TMPDIR=" + temp}, "rehearse", "s.toml")
	require.Equal(t, exitNotSubmit, o.code)
	require.Contains(t, o.stderr, "a secret is not set in this shell: PLANTED, PLANTED_HARD")

	w := c.watch(ofDecode)
	o = profllm(t, dir, append(c.env, "TMPDIR="+temp), "rehearse", "s.toml")
	require.Equal(t, exitOK, o.code)
	require.NotContains(t, o.stdout+o.stderr, c.mark)
	w.ends(t, func(p string) bool { return ofDecode(p) || strings.HasSuffix(p, " rehearse s.toml ") })
	c.check(t, dir)
	require.Empty(t, c.below(t, temp))
}

// A job that somebody else ends keeps its secrets, because Slurm may queue it again;
// whoever sees its end removes them. Killed at once, it could not even overwrite them.
//
// covers: PL-D10
func TestSlurmSecretsOfKilledJobs(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(t *testing.T, id string){
		"cancelled by hand": func(t *testing.T, id string) { scancel(t, id) },
		"killed":            func(t *testing.T, id string) { scancel(t, "--signal=KILL", "--full", id) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := lab(t)
			c := newCanaries(t)
			c.write(t, dir, 100000)
			require.NoError(t, os.WriteFile(c.seen, nil, 0o644))
			require.Equal(t, exitOK,
				profllm(t, dir, c.env, "slurm", "submit", "--simulate", "--system", "site.toml", "s.toml").code)
			d := only(t, dir)
			await.Text(t, filepath.Join(d, "events.jsonl"), job.AllReady)
			require.FileExists(t, filepath.Join(d, run.SecretDir, "PLANTED"))
			o := profllm(t, dir, nil, "archive", "--force", filepath.Dir(filepath.Dir(d)))
			require.Equal(t, exitUsage, o.code)
			require.Contains(t, o.stderr, "has secrets of a job whose end is not known")
			kill(t, jobID(t, d))
			await.True(t, func() bool {
				out, err := exec.Command("squeue", "-h", "-j", jobID(t, d)).Output()
				return err != nil || len(bytes.TrimSpace(out)) == 0
			}, "the killed job has left the queue")
			require.FileExists(t, filepath.Join(d, run.SecretDir, "PLANTED"))
			profllm(t, dir, nil, "collect", "results")
			require.NoDirExists(t, filepath.Join(d, run.SecretDir))
			require.Empty(t, c.below(t, dir))
			require.Contains(t, fmt.Sprint(readResult(t, d).Warnings), "secret-in-log")
		})
	}
}

// A run that was cut short with its sequence is over, and has its secrets still when
// the sequence, queued again, comes to it.
//
// covers: PL-D10, PL-S12
func TestSlurmSecretsOfARequeuedSequence(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(`name = "s"
[[Tests]]
id = "a"
test_template_name = "BashCmd"
cmd_args.cmd = "sleep 60"
extra_env_vars.A = { env = "TOKEN" }
`), 0o644))
	o := profllm(t, dir, []string{"TOKEN=canary-of-shell"}, "slurm", "submit", "--single-sbatch", "--system",
		"site.toml", "s.toml")
	require.Equal(t, exitOK, o.code, o.stderr)
	d := only(t, dir)
	await.Text(t, filepath.Join(d, "events.jsonl"), job.ClientBegins)
	id := regexp.MustCompile(`submitted job (\d+)`).FindStringSubmatch(o.stdout + o.stderr)[1]
	// A requeue is this TERM, with a KILL after KillWait, which on a busy machine may come
	// before the run's end is written. So the job ends by itself, and is requeued then.
	scancel(t, "--signal=TERM", "--full", id)
	waitGone(t, id)
	require.FileExists(t, filepath.Join(d, run.SentinelFile))
	out, err := exec.Command("scontrol", "requeue", id).CombinedOutput()
	require.NoError(t, err, string(out))
	o = profllm(t, dir, nil, "slurm", "status", d)
	require.Equal(t, exitOK, o.code, o.stderr)
	require.FileExists(t, filepath.Join(d, run.SecretDir, "TOKEN"), o.stdout)
	await.True(t, func() bool {
		scancel(t, id)
		profllm(t, dir, nil, "slurm", "status", d)
		return !run.KeepsSecrets(d)
	}, "the secrets of the cancelled job are forgotten")
}

// What a job has of the submitting shell, whatever is said of exporting: its script
// finds its programs, and so do its steps.
//
// covers: PL-S29, PL-S33, PL-G9
func TestSlurmExport(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		slurm     string
		has, lack []string
	}{
		"by itself":        {"", []string{"\nNAMED=by the script\n", "\nby the script, see\n", "HOME="}, []string{"ASKED=", "UNASKED="}},
		"asked for":        {`export = ["ASKED"]`, []string{"\nASKED=plain, value=with 'commas'\n\n"}, []string{"UNASKED="}},
		"all":              {`export = "ALL"`, []string{"\nASKED=plain, value", "\nUNASKED=c4n4ry"}, nil},
		"sbatch's ALL":     {`sbatch_args = ["--export=ALL"]`, []string{"\nUNASKED=c4n4ry"}, nil},
		"sbatch's NONE":    {`sbatch_args = ["--export=NONE"]`, []string{"HOME="}, []string{"ASKED=plain", "UNASKED="}},
		"sbatch's one":     {`sbatch_args = ["--export=UNASKED"]`, []string{"\nUNASKED=c4n4ry"}, []string{"\nASKED="}},
		"sbatch's setting": {`sbatch_args = ["--export=ALL,ASKED=x"]`, []string{"\nASKED=x\n", "\nUNASKED=c4n4ry"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := lab(t)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(`name = "s"
[[Tests]]
id = "a"
test_template_name = "BashCmd"
time_limit = "1m"
cmd_args.cmd = "env; echo $NAMED, see"
[Tests.slurm]
`+c.slurm+"\n"), 0o644))
			o := profllm(t, dir, append(newCanaries(t).env, "NAMED=by the script"), "slurm", "submit", "--system",
				"site.toml", "s.toml", "--wait")
			require.Equal(t, exitOK, o.code)
			log, err := os.ReadFile(filepath.Join(only(t, dir), "logs/bash-0.log"))
			require.NoError(t, err)
			require.Contains(t, string(log), "SLURM_EXPORT_ENV=ALL\n")
			for _, text := range c.has {
				require.Contains(t, string(log), text)
			}
			for _, text := range c.lack {
				require.NotContains(t, string(log), text)
			}
		})
	}
}

// What the first look at an ended job could not overwrite, the next one does, however
// long the end is known: no archive is made before.
//
// covers: PL-D10
func TestSecretsAreForgottenLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(`name = "s"
[[Tests]]
id = "a"
test_template_name = "BashCmd"
cmd_args.cmd = "true"
extra_env_vars.A = { env = "TOKEN" }
`), 0o644))
	o := profllm(t, dir, []string{"TOKEN=canary-of-shell"}, "rehearse", "s.toml")
	require.Equal(t, exitOK, o.code, o.stderr)
	d := only(t, dir)
	log, kept := filepath.Join(d, "logs/late"), filepath.Join(d, run.SecretDir, "TOKEN")
	require.NoError(t, os.WriteFile(log, []byte("canary-of-shell"), 0o644))
	require.NoError(t, os.MkdirAll(kept, 0o700)) // not to be read
	root := filepath.Dir(filepath.Dir(d))
	for range 2 {
		o = profllm(t, dir, nil, "slurm", "status", d)
		require.Contains(t, o.stderr, "note: the secret A: ")
		o = profllm(t, dir, nil, "archive", root)
		require.Equal(t, exitUsage, o.code)
		require.Contains(t, o.stderr,
			"if the run is not submitted: rm -r "+strings.TrimPrefix(filepath.Dir(kept), dir+"/")+"\n")
	}
	require.NoError(t, os.Remove(kept))
	require.NoError(t, os.WriteFile(kept, []byte("canary-of-shell"), 0o600))
	o = profllm(t, dir, nil, "slurm", "status", d)
	require.Contains(t, o.stderr, "logs/late:1: a secret was found here")
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("x", len("canary-of-shell")), string(text))
	o = profllm(t, dir, nil, "archive", root)
	require.Equal(t, exitOK, o.code, o.stderr)
}

// Runtimes are given the name of a secret, and its value in their environment alone.
// Docker's and podman's programs are stood in for by one that notes both.
//
// covers: CTR-8, PL-D10
func TestContainerSecrets(t *testing.T) {
	t.Parallel()
	c := newCanaries(t)
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, run.SecretDir), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, run.SecretDir, "PLANTED_HARD"), []byte(c.hard), 0o600))
	for _, runtime := range []string{"docker", "podman", "apptainer", "enroot"} {
		notes, bin := t.TempDir(), t.TempDir()
		stand := "#!/bin/bash\ncat /proc/$$/cmdline >" + notes + "/argv-$1\ncat /proc/$$/environ >" + notes +
			"/environ-$1\nuntil [ -e " + c.seen + " ]; do sleep 0.02; done\n"
		if runtime == "enroot" { // its lines cannot hold the value, which its command script restores
			stand = strings.Replace(stand, "cat /proc/$$/environ",
				"sed -i 's|/.profllm|"+binary+"|' \"$3\"\nsh \"$3\" cat /proc/self/environ", 1)
		}
		require.NoError(t, os.WriteFile(filepath.Join(bin, runtime), []byte(stand), 0o755))
		args := []string{"job", "exec", "--run", dir, "--env=TOKEN=PLANTED_HARD", "--file=KEY=" + c.file, "--", binary,
			"job", "contain", "--runtime=" + runtime, "--env=TOKEN", "--env=KEY", "--step=serve", "PLAIN=a b", "--"}
		w := c.watch(func(p string) bool {
			return strings.HasPrefix(p, "/bin/bash "+bin) || strings.HasPrefix(p, "sleep 0.02")
		})
		o := profllm(t, dir, []string{"PATH=" + bin + ":" + os.Getenv("PATH")},
			append(args, "image", "command")...)
		require.Equal(t, exitOK, o.code)
		w.ends(t, func(p string) bool {
			return strings.Contains(p, " job contain ") ||
				strings.HasPrefix(p, `/bin/sh -c trap "" TERM; exec "$@" sh `+bin) ||
				strings.HasPrefix(p, "/bin/bash "+bin) || strings.HasPrefix(p, "sleep 0.02") ||
				strings.HasPrefix(p, "cat /proc/") || strings.Contains(p, "/rc cat /proc/") ||
				strings.Contains(p, " job exec --run . -- cat /proc/") || strings.HasPrefix(p, "sed -i ")
		})
		verb := map[string]string{"docker": "run", "podman": "run", "apptainer": "exec", "enroot": "start"}[runtime]
		prefix := map[string]string{"apptainer": "APPTAINERENV_"}[runtime]
		environ, err := os.ReadFile(filepath.Join(notes, "environ-"+verb))
		require.NoError(t, err)
		require.Contains(t, string(environ), "\x00"+prefix+"TOKEN="+c.hard+"\x00")
		require.Contains(t, string(environ)+"\x00", "\x00"+prefix+"KEY="+c.mark+"-of-a-file\x00")
		argv, err := os.ReadFile(filepath.Join(notes, "argv-"+verb))
		require.NoError(t, err)
		require.Contains(t, string(environ)+"\x00", "\x00"+prefix+"PLAIN=a b\x00")
		if runtime != "apptainer" { // which takes all that has its prefix
			require.Contains(t, string(argv), "--env=PLAIN\x00--env=TOKEN\x00--env=KEY\x00--env=PROFLLM_NODE_ADDR\x00")
		}
		require.Contains(t, string(argv), "image\x00command\x00")
	}
}

// Runs of an array and of one allocation have their own secrets, and no run those of
// another.
//
// covers: PL-D10
func TestSlurmSecretsOfBatches(t *testing.T) {
	t.Parallel()
	const entry = `[[Tests]]
id = "%[1]s"
test_template_name = "BashCmd"
time_limit = "1m"
cmd_args.cmd = "env; env >raw/environ; ls ../../*/0/secrets; echo digest $(printf %%s \"$%[2]s\" | sha256sum)"
[Tests.slurm]
%[3]s
[Tests.extra_env_vars]
%[2]s = { env = "%[2]s" }
`
	const points = `[[Tests]]
id = "a"
test_template_name = "BashCmd"
time_limit = "1m"
cmd_args.cmd = ["env; echo first; echo digest $(printf %s \"$TOKEN\" | sha256sum)", "env; echo second; echo digest $(printf %s \"$TOKEN\" | sha256sum)"]
[Tests.extra_env_vars]
TOKEN = { env = "FIRST" }
`
	two := func(slurm string) string {
		return fmt.Sprintf(entry, "a", "FIRST", slurm) + fmt.Sprintf(entry, "b", "SECOND", slurm)
	}
	for name, x := range map[string]struct {
		tests string
		args  []string
	}{"one allocation": {two(`export = "ALL"`), []string{"--single-sbatch"}}, "jobs": {two(""), nil},
		"array": {points, nil}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := lab(t)
			mark := newCanaries(t).mark
			require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte("name = \"s\"\n"+x.tests), 0o644))
			env := []string{"FIRST=" + mark + "-one", "SECOND=" + mark + "-two"}
			o := profllm(t, dir, env,
				append([]string{"slurm", "submit", "--system", "site.toml", "s.toml", "--wait"}, x.args...)...)
			require.Equal(t, exitOK, o.code)
			require.Equal(t, name == "array", strings.Contains(o.stdout, "array of 2 runs"))
			c := canaries{mark: mark}
			require.Empty(t, c.below(t, dir))
			for d, p := range runs(t, dir) {
				log, err := os.ReadFile(filepath.Join(d, "logs/bash-0.log"))
				require.NoError(t, err)
				value, foreign := mark+"-one", "SECOND="
				if p.Test == "b" {
					value, foreign = mark+"-two", "FIRST="
				}
				require.Contains(t, string(log), fmt.Sprintf("digest %x", sha256.Sum256([]byte(value))))
				require.NotContains(t, string(log), foreign)
				require.NoDirExists(t, filepath.Join(d, run.SecretDir))
			}
		})
	}
}
