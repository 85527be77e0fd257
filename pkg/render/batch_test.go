package render_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/templates"
)

// batch is three runs of the sample.
func batch(kind string) *plan.Batch {
	b := &plan.Batch{
		Schema: plan.BatchSchema, RunID: "exp_1_b", Version: "v1", Scenario: "s", Dir: "/out/s/batches/1", Kind: kind,
		Binary: "/bin/profllm",
		Job: plan.Job{Name: "s.exp_1_b", Comment: "profllm:exp_1_b", Nodes: 2, Partition: "gpu",
			TimeLimit: plan.Seconds(time.Hour), Grace: plan.Seconds(90 * time.Second)},
	}
	for _, id := range []string{"a", "b", "c"} {
		b.Runs, b.Limits = append(b.Runs, "/out/s/"+id+"/0"), append(b.Limits, plan.Seconds(20*time.Minute))
	}
	return b
}

// full is a plan with everything that a script can have: runs before and after
// it, several loads, one of which may not be needed, others to accompany.
func full() *plan.Plan {
	p := sample()
	p.PreTest = []plan.Hook{{Name: "warm", Dir: "/out/s/a/0/pre_test/warm"},
		{Name: "nccl.2", Dir: "/out/s/a/0/pre_test/nccl.2"}}
	p.PostTest = []plan.Hook{{Name: "check", Dir: "/out/s/a/0/post_test/check"}}
	p.Job.Until = []string{"/out/s/b/0", "/out/s/c d/0"}
	first := p.Loads[0]
	first.Name = "1"
	second := first
	second.Name, second.Dir, second.Cache = "2", "/out/s/a/2", plan.CacheReset
	second.Clients = []plan.Step{first.Clients[0],
		{Name: "eval", Nodes: plan.Slice{Count: 1}, Argv: plan.Texts("eval"), Log: "../2/logs/eval-%t.log"}}
	second.Clients[0].Log = "/out/s/a/2/logs/bench-%t.log"
	third := first
	third.Name, third.Repeat = "1.r2", &plan.Repeat{Group: "g", Index: 1, Of: 6,
		Until: &plan.Until{Percent: 2, Metrics: []string{"output_throughput"}}}
	p.Loads = []plan.Load{first, second, third}
	return p
}

// Scripts of what no shipped scenario has: batches, and a run with everything.
//
// covers: CD-22
func TestGoldenParts(t *testing.T) {
	array := batch(plan.Array)
	array.MaxParallel = 2
	texts := map[string][]byte{}
	for name, b := range map[string]*plan.Batch{"array": array, "sequence": batch(plan.Sequence)} {
		text, err := render.BatchScript(b, templates.FS)
		require.NoError(t, err)
		texts[name] = text
	}
	texts["full"] = []byte(rendered(t, full()))
	dir := t.TempDir()
	args := []string{"--shell=bash", "--severity=style"}
	for name, text := range texts {
		golden := filepath.Join("testdata", "parts", name+".sh")
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(golden), 0o755))
			require.NoError(t, os.WriteFile(golden, text, 0o644))
		}
		require.Equal(t, string(read(t, golden)), string(text), "%s; if that is right: go test ./pkg/render -update",
			golden)
		cmd := exec.Command("bash", "-n")
		cmd.Stdin = bytes.NewReader(text)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, text, 0o644))
		args = append(args, file)
	}
	for i, without := range []func(*plan.Plan){ // a variable that nothing uses is a complaint (SC2034)
		func(p *plan.Plan) { p.PreTest = nil },
		func(p *plan.Plan) { p.PostTest = nil },
		func(p *plan.Plan) { p.PreTest, p.PostTest = nil, nil },
		func(p *plan.Plan) { p.Job.Until = nil },
		func(p *plan.Plan) { p.Loads = p.Loads[:1] },
		func(p *plan.Plan) { p.Roles = nil },
	} {
		p := full()
		without(p)
		file := filepath.Join(dir, fmt.Sprintf("part-%d", i))
		require.NoError(t, os.WriteFile(file, []byte(rendered(t, p)), 0o644))
		args = append(args, file)
	}
	if out, err := exec.Command("shellcheck", args...).CombinedOutput(); !errors.Is(err, exec.ErrNotFound) {
		require.NoError(t, err, "%s", out)
	}
	require.Contains(t, string(texts["array"]),
		"#SBATCH --array=0-2%2\n#SBATCH --output=/out/s/batches/1/stdout-%a.txt\n")
	array.MaxParallel = 0
	text, err := render.BatchScript(array, templates.FS)
	require.NoError(t, err)
	require.Contains(t, string(text), "#SBATCH --array=0-2\n")
}

// covers: CD-20
func TestBatchIsChecked(t *testing.T) {
	for want, spoil := range map[string]func(*plan.Batch){
		"scenario name":       func(b *plan.Batch) { b.Scenario = "a\ntouch x" },
		"run ID":              func(b *plan.Batch) { b.RunID = "$(x)" },
		"version":             func(b *plan.Batch) { b.Version = "é" },
		"holds a %":           func(b *plan.Batch) { b.Dir = "/out/%a" },
		"kind":                func(b *plan.Batch) { b.Kind = "both" },
		"no runs":             func(b *plan.Batch) { b.Runs, b.Limits = nil, nil },
		"max_parallel":        func(b *plan.Batch) { b.MaxParallel = -1 },
		"3 runs have 2":       func(b *plan.Batch) { b.Limits = b.Limits[:2] },
		"limit of run 1":      func(b *plan.Batch) { b.Limits[1] = -1 },
		"the value may hold":  func(b *plan.Batch) { b.Job.Name = "a b" },
		"no layer has":        nil,
		"one option in print": func(b *plan.Batch) { b.Job.SbatchArgs = []string{"--a\n--b"} },
	} {
		b, layer := batch(plan.Sequence), templates.FS
		if spoil != nil {
			spoil(b)
			_, err := render.BatchScript(b, layer)
			require.ErrorContains(t, err, want)
			continue
		}
		_, err := render.BatchScript(b)
		require.ErrorContains(t, err, want)
	}
	for want, spoil := range map[string]func(*plan.Plan){
		`hook "a=b"`:      func(p *plan.Plan) { p.PreTest[0].Name = "a=b" },
		`hook "../x"`:     func(p *plan.Plan) { p.PostTest[0].Name = "../x" },
		`load "a/b"`:      func(p *plan.Plan) { p.Loads[0].Name = "a/b" },
		`load ""`:         func(p *plan.Plan) { p.Loads[0].Name = "" },
		`log "/out/a;b/"`: func(p *plan.Plan) { p.Loads[1].Clients[0].Log = "/out/a;b/x.log" },
		`holds a %`:       func(p *plan.Plan) { p.Loads[1].Clients[0].Log = "/out/%j/x.log" },
		`log "../$x"`:     func(p *plan.Plan) { p.Loads[1].Clients[0].Log = "../$x" },
	} {
		p := full()
		spoil(p)
		_, err := render.Script(p, templates.FS)
		require.ErrorContains(t, err, want)
	}
}

// sequence runs the script of a sequence whose runs are the given scripts, with
// a profllm that notes its arguments.
type sequence struct {
	*plan.Batch
	cmd *exec.Cmd
	dir string
	out bytes.Buffer
}

func newSequence(t *testing.T, scripts ...string) *sequence {
	t.Helper()
	s := &sequence{Batch: batch(plan.Sequence), dir: t.TempDir()}
	s.Dir, s.Binary, s.Runs, s.Limits = s.dir, filepath.Join(s.dir, "profllm"), nil, nil
	require.NoError(t, os.WriteFile(s.Binary, []byte("#!/bin/bash\necho \"$*\" >>"+s.dir+"/calls\n"), 0o755))
	for i, text := range scripts {
		dir := filepath.Join(s.dir, "runs with blanks", string(rune('a'+i)))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "job.sh"), []byte("cd \"${0%/*}\" || exit 9\n"+text), 0o644))
		s.Runs, s.Limits = append(s.Runs, dir), append(s.Limits, plan.Seconds(time.Minute))
	}
	return s
}

func (s *sequence) start(t *testing.T) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "runs.txt"), []byte(strings.Join(s.Runs, "\n")+"\n"), 0o644))
	text, err := render.BatchScript(s.Batch, templates.FS)
	require.NoError(t, err)
	name := filepath.Join(s.dir, "job.sh")
	require.NoError(t, os.WriteFile(name, text, 0o644))
	s.cmd = exec.Command("bash", name)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	require.NoError(t, s.cmd.Start())
}

func (s *sequence) wait(t *testing.T) int {
	t.Helper()
	s.cmd.Wait()
	t.Log(s.out.String())
	return s.cmd.ProcessState.ExitCode()
}

func (s *sequence) file(i int, name string) string { return filepath.Join(s.Runs[i], name) }

// covers: CD-22
func TestSequence(t *testing.T) {
	t.Run("a failure stops only what waits for it, the worst code is the job's", func(t *testing.T) {
		s := newSequence(t, "echo out; echo err >&2; touch finish.json", "touch finish.json; exit 6",
			"touch finish.json; exit 5")
		s.start(t)
		require.Equal(t, 6, s.wait(t))
		require.Equal(t, "out\n", string(read(t, s.file(0, "stdout.txt"))))
		require.Equal(t, "err\n", string(read(t, s.file(0, "stderr.txt"))))
		require.FileExists(t, s.file(2, "finish.json"))
	})
	t.Run("a run that must not begin does not", func(t *testing.T) {
		s := newSequence(t, "touch finish.json; exit 1", "touch finish.json", "touch finish.json")
		require.NoError(t, os.WriteFile(s.Binary, []byte("#!/bin/bash\ncase $4 in */b) exit 5 ;; *) exit 1 ;; esac\n"),
			0o755))
		s.start(t)
		require.Equal(t, 1, s.wait(t))
		require.NoFileExists(t, s.file(1, "finish.json"))
		require.FileExists(t, s.file(2, "finish.json"), "a program that fails decides nothing")
	})
	t.Run("a limit is the run's own", func(t *testing.T) {
		s := newSequence(t, "trap 'echo ended' TERM; trap 'echo flushed; touch finish.json; exit 124' XCPU; while :; do sleep 0.02; done", "touch finish.json")
		s.Limits[0] = plan.Seconds(time.Second)
		s.start(t)
		require.Equal(t, 124, s.wait(t))
		require.Equal(t, "flushed\n", string(read(t, s.file(0, "stdout.txt"))))
		require.FileExists(t, s.file(1, "finish.json"))
	})
	t.Run("what a killed script left is ended", func(t *testing.T) {
		s := newSequence(t, "kill -9 $$", "exit 70", "touch finish.json")
		s.start(t)
		require.Equal(t, 137, s.wait(t))
		var want strings.Builder
		for i, dir := range s.Runs {
			fmt.Fprintf(&want, "job turn --run %s --batch %s\n", dir, s.dir)
			if i == 0 {
				fmt.Fprintf(&want, "job stop --run %s\n", dir)
			}
		}
		require.Equal(t, want.String(), string(read(t, filepath.Join(s.dir, "calls"))),
			"not of a run that belongs to another job")
	})
	t.Run("TERM reaches the script alone, and no further run begins", func(t *testing.T) {
		s := newSequence(t, "trap 'wait; echo flushed; touch finish.json; exit 143' TERM\nbash -c 'trap \"echo child got TERM\" TERM; for i in {1..20}; do sleep 0.02; done' &\ntouch up\nwhile :; do sleep 0.02; done", "touch finish.json")
		s.start(t)
		await.File(t, s.file(0, "up"))
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
		require.Equal(t, 143, s.wait(t))
		require.Equal(t, "flushed\n", string(read(t, s.file(0, "stdout.txt"))))
		require.NoFileExists(t, s.file(1, "stdout.txt"))
	})
}
