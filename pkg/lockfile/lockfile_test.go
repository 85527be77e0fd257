package lockfile_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/lockfile"
	"github.com/profllm/profllm/pkg/plan"
)

func file() *lockfile.File {
	return &lockfile.File{
		Schema: lockfile.Schema, Profllm: "v1", Scenario: "night", Git: "abc-dirty", WorkDir: "/home/u", Whole: true,
		Single: true,
		Runs: []lockfile.Run{
			{RunID: "exp_1", Test: "agg", Engine: "vllm", EngineVersion: "0.11.0", Image: "a b", ImageDigest: "sha256:1", Plan: "sha256:p", Script: "sha256:s",
				Settings:     lockfile.Table(map[string]string{"cmd_args.x": "\"\\\t\n\u0001é]", "NUM_NODES": "1"}),
				Repositories: lockfile.Table(map[string]string{"https://h/r": "abc"})},
			{Test: "agg", Iteration: 1, Step: 3},
		},
		Files: []lockfile.Definition{
			{Name: "scenario.toml", Text: "name = \"night\"\r\nx = \"\"\"\na\\b\"\"\"\n"}, {Name: "tests/a.toml", Text: "# no newline at the end, \u007f"}, {Name: "system.toml"},
		},
	}
}

func encode(t *testing.T, f *lockfile.File) []byte {
	t.Helper()
	data, err := f.Encode()
	require.NoError(t, err)
	return data
}

func TestThereAndBack(t *testing.T) {
	data := encode(t, file())
	require.True(t, lockfile.Is(data))
	back, err := lockfile.Parse("run.lock.toml", data)
	require.NoError(t, err)
	require.Equal(t, string(data), string(encode(t, back)))
	for i, d := range file().Files {
		require.Equal(t, d, back.Files[i])
	}
	require.Equal(t, "agg/1/3", back.Runs[1].Name())
	require.True(t, back.Whole)
}

// One changed byte is found wherever it is.
//
// covers: PL-D14
func TestChanged(t *testing.T) {
	data := encode(t, file())
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 1
		_, err := lockfile.Parse("run.lock.toml", bad)
		require.Error(t, err, "byte %d", i)
	}
	for _, c := range []struct{ data, want string }{
		{"", "run.lock.toml:1:1: this is not a lock file"},
		{string(data[:len(data)-5]), "was changed or truncated"},
		{string(data) + "\n", "hint: write it again: profllm lock RUN > run.lock.toml"},
	} {
		_, err := lockfile.Parse("run.lock.toml", []byte(c.data))
		require.ErrorContains(t, err, c.want)
	}
}

func TestRefused(t *testing.T) {
	for want, change := range map[string]func(*lockfile.File){
		`files[0]: "../x" names no file`: func(f *lockfile.File) { f.Files[0].Name = "../x" },
		`files[0]: "/x" names no file`:   func(f *lockfile.File) { f.Files[0].Name = "/x" },
		"runs is required":               func(f *lockfile.File) { f.Runs = nil },
	} {
		f := file()
		change(f)
		_, err := lockfile.Parse("l.toml", encode(t, f))
		require.ErrorContains(t, err, want)
	}
	f := file()
	f.Files[0].Text = "\xff"
	_, err := f.Encode()
	require.ErrorContains(t, err, "not UTF-8")
}

// planned is a run below a scenario's directory.
func planned(root, id, version string) lockfile.Planned {
	dir := root + "/agg/0"
	return lockfile.Planned{
		Root: root, Script: fmt.Appendf(nil, "# profllm %s: run %s\nRUN=%s\ncmd --a %s \\\n  --b\n", version, id, dir,
			dir),
		Plan: &plan.Plan{
			Schema: plan.Schema, RunID: id, Version: version, Created: time.Unix(int64(len(root)), 0), Dir: dir,
			Binary: root + "/bin/profllm", Test: "agg", Image: "i", ImageDigest: "sha256:1",
			Source: plan.Source{ModelRevision: "aa", Repositories: []plan.Checkout{{URL: "u", Commit: "c1"}}},
			Job:    plan.Job{Name: "agg." + id, Nodes: 1},
			Loads:  []plan.Load{{RunID: id, Dir: dir, Benchmark: map[string]any{"max_concurrency": 16}}},
		},
	}
}

// Places, times and ids are not compared; everything else is, by its name.
func TestCompare(t *testing.T) {
	first := planned("/a/night_1", "exp_20260102_030405_aaaaaa", "v1")
	f := &lockfile.File{Runs: []lockfile.Run{{
		Test: "agg", ImageDigest: "sha256:1", ModelRevision: "aa",
		Repositories: lockfile.Table(map[string]string{"u": "c1"}),
		Settings:     lockfile.Table(first.Plan.Settings(&first.Plan.Loads[0])),
	}}}
	var err error
	f.Runs[0].Plan, f.Runs[0].Script, err = first.Printed()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change func(*lockfile.Planned)
		want   []string
	}{
		"another time and place": {func(*lockfile.Planned) {}, nil},
		"line ends elsewhere":    {func(p *lockfile.Planned) { p.Script = bytes.ReplaceAll(p.Script, []byte(" \\\n  "), []byte(" ")) }, nil},
		"note":                   {func(p *lockfile.Planned) { p.Plan.Notes = []string{"x"}; p.Plan.Source.Git = "x" }, nil},
		"not known now":          {func(p *lockfile.Planned) { p.Plan.Source = plan.Source{}; p.Plan.ImageDigest = "sha256:1" }, nil},
		"image":                  {func(p *lockfile.Planned) { p.Plan.ImageDigest = "sha256:2" }, []string{"agg/0: image digest: sha256:1 is locked, now it is sha256:2"}},
		"model":                  {func(p *lockfile.Planned) { p.Plan.Source.ModelRevision = "bb" }, []string{"agg/0: model revision: aa is locked, now it is bb"}},
		"repository":             {func(p *lockfile.Planned) { p.Plan.Source.Repositories[0].Commit = "c2" }, []string{"agg/0: repository u: c1 is locked, now it is c2"}},
		"two": {func(p *lockfile.Planned) {
			p.Plan.Job.Nodes, p.Plan.Loads[0].Benchmark = 2, map[string]any{"rate": 1}
		}, []string{"agg/0: NUM_NODES: 1 is locked, now it is 2",
			"agg/0: bench_cmd_args.max_concurrency: 16 is locked, now it is nothing", "agg/0: bench_cmd_args.rate: nothing is locked, now it is 1"}},
		"time limit": {func(p *lockfile.Planned) { p.Plan.Job.TimeLimit = 1 }, []string{"agg/0: plan: " + f.Runs[0].Plan + " is locked"}},
		"script":     {func(p *lockfile.Planned) { p.Script = append(p.Script, "true\n"...) }, []string{"agg/0: script: " + f.Runs[0].Script + " is locked"}},
		"hook":       {func(p *lockfile.Planned) { p.Hooks = []lockfile.Planned{*p} }, []string{"agg/0: plan: " + f.Runs[0].Plan + " is locked"}},
		"gone":       {func(p *lockfile.Planned) { p.Plan.Test = "other" }, []string{"agg/0: run: it is locked, now it is not planned"}},
	} {
		t.Run(name, func(t *testing.T) {
			again := planned("/somewhere/else/night_22", "exp_20270102_030405_bbbbbb", "v2")
			c.change(&again)
			got, err := f.Compare([]lockfile.Planned{again})
			require.NoError(t, err)
			require.Len(t, got, len(c.want))
			for i, d := range got {
				require.Contains(t, d.String(), c.want[i])
			}
		})
	}
	require.Equal(t, "/a/night_1", lockfile.RootOf(first.Plan, "agg/0"))
}

func FuzzParse(f *testing.F) {
	data, err := file().Encode()
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte(strings.Replace(string(data), "agg", "b\\u0000", 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		read, err := lockfile.Parse("x", lockfile.Sealed(data))
		if err != nil {
			return
		}
		again, err := read.Encode()
		require.NoError(t, err)
		back, err := lockfile.Parse("x", again)
		require.NoError(t, err)
		require.Equal(t, read.Files, back.Files)
		require.Len(t, back.Runs, len(read.Runs))
	})
}
