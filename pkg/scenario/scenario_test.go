package scenario

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/source"
)

func load(t *testing.T, scenario string, tests ...string) (*Scenario, error) {
	t.Helper()
	files := make([]File, len(tests))
	for i, data := range tests {
		files[i] = File{Name: "test" + string(rune('1'+i)) + ".toml", Data: []byte(data)}
	}
	return Load(File{Name: "s.toml", Data: []byte(scenario)}, files, HookFiles{})
}

const testFile = "name='base'\ndescription='d'\ntest_template_name='vllm'\n[cmd_args]\ndocker_image_url='img'\n[cmd_args.decode]\ntensor_parallel_size=4\n"

// covers: CD-7
func TestMergeKeepsWhatTheUserSet(t *testing.T) {
	s, err := load(t, "name='s'\n[[Tests]]\nid='a'\ntest_name='base'\nnum_nodes='2'\ntime_limit='10m'\n[Tests.cmd_args.decode]\nenforce_eager=''\n[Tests.bench_cmd_args]\nnum_prompts=3\n", testFile)
	require.NoError(t, err)
	test := s.Tests[0]
	n, err := test.Nodes()
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, 10*time.Minute, test.Duration())
	require.Equal(t, []string{"tensor_parallel_size", "enforce_eager"}, test.CmdArgs.Table("decode").Keys())
	require.False(t, test.CmdArgs.Has("healthcheck"), "a default is never written in")
	require.Equal(t, "test1.toml:5:1", test.CmdArgs.PosOf("docker_image_url").String())
	require.True(t, test.BenchArgs.Has("num_prompts"))
}

// A test may lie in a subfolder. Those of the tests folder come first, as CloudAI reads
// only these; of two in subfolders none is chosen, and what nobody names is not judged.
func TestTestsInSubfolders(t *testing.T) {
	file := func(below, name, data string) File {
		return File{Name: "tests/" + below + "/" + name, Data: []byte(data), Below: below}
	}
	other := strings.Replace(testFile, "'base'", "'other'", 1)
	below := []File{
		file("h100", "base.toml", testFile), file("h100", "other.toml", other), file("b200", "twice.toml", other),
		file("old", "broken.toml", "name = "),
		file("site", "site.toml", "name = 'other'\nscheduler = 'slurm'\n"),
		file("site", "s.toml", "name = 'other'\n[[Tests]]\nid = 'a'\n"),
	}
	named := func(name string) File {
		return File{Name: "s.toml", Data: []byte("name='s'\n[[Tests]]\nid='a'\ntest_name='" + name + "'\n")}
	}
	s, err := Load(named("base"), below, HookFiles{})
	require.NoError(t, err)
	require.Equal(t, "tests/h100/base.toml", s.Tests[0].CmdArgs.Pos.File)

	s, err = Load(named("base"), append(below, File{Name: "tests/base.toml", Data: []byte(testFile)}), HookFiles{})
	require.NoError(t, err)
	require.Equal(t, "tests/base.toml", s.Tests[0].CmdArgs.Pos.File)

	_, err = Load(named("other"), below, HookFiles{})
	require.EqualError(t, err,
		`s.toml:4:1: 2 test files are named "other": tests/h100/other.toml:1:1, tests/b200/twice.toml:1:1
	hint: choose one by its folder, such as --tests-dir tests/h100`)

	_, err = Load(named("othre"), below, HookFiles{})
	require.ErrorContains(t, err, `no test file has the name "othre"`)
	require.ErrorContains(t, err, `did you mean "other"?`)
	require.ErrorContains(t, err, "tests/old/broken.toml:1:")
}

func TestInlineTestNeedsOnlyItsTemplate(t *testing.T) {
	s, err := load(t, "name='s'\n[[Tests]]\nid='a'\ntest_template_name='vllm'\n[Tests.cmd_args]\ndocker_image_url='x'\n[Tests.bench_cmd_args]\nnum_prompts=3\n")
	require.NoError(t, err)
	require.Equal(t, "a", s.Tests[0].Name)
}

// covers: CD-41, CD-45
func TestMistakesAreReportedTogether(t *testing.T) {
	_, err := load(t, `name = "s"
pre_test = "nccl"
[[Tests]]
id = "a/../../b"
test_name = "bsae"
[[Tests]]
id = "x"
test_template_name = "vllm"
num_node = 2
[[Tests]]
id = "x"
time_limit = "60"
  [[Tests.dependencies]]
  type = "start_post_comp"
  id = "nope"
`, testFile, testFile)
	require.EqualError(t, err, `s.toml:2:1: no hook has the name "nccl"
	hint: none is known; --hook-dir names another folder of hooks
s.toml:4:1: test id "a/../../b" cannot name a directory
	hint: use letters, digits and _ . - + = @, not starting with a dot or dash
s.toml:5:1: no test file has the name "bsae"
	hint: did you mean "base"? known: base; test files are read from . (--tests-dir names another folder)
s.toml:9:1: unknown key "num_node"
	hint: did you mean "num_nodes"?
s.toml:10:3: test "x" has neither test_name nor test_template_name
	hint: name a test file with test_name, or write test_template_name = "vllm" here
s.toml:11:1: test id "x" is taken (s.toml:7:1)
s.toml:12:1: time_limit "60" is not understood
	hint: add a unit: "60m" is minutes (as in Slurm), "60h" is hours
s.toml:13:11: test "x" depends on unknown test "nope"
	hint: known: a/../../b, x
test2.toml:1:1: test name "base" is taken (test1.toml:1:1)`)
}

// Tests that wait for each other would never start. One that ends with another
// waits for nobody.
//
// covers: CD-5, CD-45
func TestTestsThatWaitForEachOther(t *testing.T) {
	test := func(id, typ, on string) string {
		return "[[Tests]]\nid = '" + id + "'\ntest_template_name = 'vllm'\ndependencies = [{ type = '" + typ +
			"', id = '" + on + "' }]\n"
	}
	_, err := load(t, "name = 's'\n"+test("a", "start_post_comp", "b")+test("b", "start_post_init", "c")+test("c",
		"start_post_comp", "a"))
	require.EqualError(t, err,
		"s.toml:5:1: tests wait for each other: a -> b -> c -> a\n\thint: none of these tests would start; remove one of the dependencies")
	_, err = load(t, "name = 's'\n"+test("a", "start_post_comp", "b")+test("b", "end_post_comp", "a"))
	require.NoError(t, err)
	_, err = load(t, "name = 's'\n"+test("a", "end_post_comp", "a"))
	require.ErrorContains(t, err, `test "a" depends on itself`)
}

// The folder of definitions in CloudAI's format has every key of a test and of a
// scenario that CloudAI knows.
func TestFormatHasEveryKey(t *testing.T) {
	const format = "../planner/testdata/format/conf/"
	seen := map[string]map[string]bool{"scenario": {}, "entry": {}, "dependency": {}, "repository": {}}
	note := func(kind string, table *source.Table) {
		for _, k := range table.Keys() {
			seen[kind][k] = true
		}
	}
	tables := func(v *source.Value) (list []*source.Table) {
		if v == nil {
			return nil
		}
		if t, ok := v.Any.(*source.Table); ok {
			return append(list, t)
		}
		for _, e := range v.Any.([]*source.Value) {
			list = append(list, e.Any.(*source.Table))
		}
		return list
	}
	require.NoError(t, filepath.WalkDir(format, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		top, err := source.Parse(name, data)
		require.NoError(t, err)
		tests := []*source.Table{top}
		switch kind(top) {
		case "system":
			return nil
		case "scenario":
			note("scenario", top)
			tests = tables(top.Get("Tests"))
		}
		for _, test := range tests {
			note("entry", test)
			for _, d := range tables(test.Get("dependencies")) {
				note("dependency", d)
			}
			for _, key := range []string{"git_repos", "proxy_script_repo"} {
				for _, r := range tables(test.Get(key)) {
					note("repository", r)
				}
			}
		}
		return nil
	}))
	// the last is internal to CloudAI
	ours := []string{"repeat", "slurm", "launcher", "network", "client", "client_nodes", "phases", "after_load", "before_load", "stop_on_failure", "sweep", "preflight", "telemetry", "accept", "search", "torch_profiler", "viztracer", "files", "helpers",
		"installed_path"}
	for kind, keys := range map[string][]string{
		"scenario": source.Fields(head{}), "entry": slices.Concat(source.Fields(entry{}), source.Fields(definition{})),
		"dependency": source.Fields(Dependency{}), "repository": source.Fields(GitRepo{}),
	} {
		for _, key := range keys {
			require.True(t, seen[kind][key] || slices.Contains(ours, key), "%s key %s stands in no file of %s", kind,
				key, format)
		}
	}
}

func TestUnknownReportIsRefused(t *testing.T) {
	_, err := load(t, "name = \"s\"\n[reports.statsu]\nenable = true\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\n")
	require.EqualError(t, err, "s.toml:2:10: unknown report \"statsu\"\n\thint: did you mean \"status\"?")
}

// A test and a phase cannot take the name of what profllm keeps beside them.
func TestNamesOfDirectoriesAndFilesAreKept(t *testing.T) {
	for id, phase := range map[string]string{"batches": "raw", "definitions": "submit.json",
		"scenario.json": "intent-2.json", "x.csv": "job.env"} {
		_, err := Load(File{Name: "s.toml",
			Data: []byte("name = \"s\"\n[[Tests]]\nid = \"" + id + "\"\ntest_template_name = \"vllm\"\n" +
				"[[Tests.phases]]\nname = \"" + phase + "\"\n")}, nil, HookFiles{})
		require.ErrorContains(t, err, "s.toml:3:1: test id \""+id+"\" is reserved")
		require.ErrorContains(t, err, "phase name \""+phase+"\" is reserved")
	}
}

// The script of a run knows its phases and hooks by name, so = has no place there.
func TestNamesInTheScript(t *testing.T) {
	hook := HookFiles{Scenarios: []File{{Name: "h.toml",
		Data: []byte("name = \"h\"\n[[Tests]]\nid = \"h=1\"\niterations = 2\ntest_template_name = \"Sleep\"\n")}}}
	_, err := Load(File{Name: "s.toml",
		Data: []byte("name = \"s\"\npre_test = \"h\"\n[[Tests]]\nid = \"t=1\"\ntest_template_name = \"vllm\"\n[[Tests.phases]]\nname = \"a=b\"\n")}, nil, hook)
	require.EqualError(t, err, `h.toml:3:1: hook id "h=1" cannot be used
	hint: use letters, digits and _ . -
h.toml:4:1: hook "h=1" has 2 iterations, but a hook is one run
	hint: write repeat, or the test several times
s.toml:7:1: phase name "a=b" cannot be used
	hint: use letters, digits and _ . -`)
}

// Keys that CloudAI knows of AIDynamo's tests alone are read there, and unknown in every other.
//
// covers: P-24
func TestKeysOfDynamoAlone(t *testing.T) {
	for _, line := range []string{`script = "x.sh"`, `repo = { url = "u", commit = "c" }`, `success_marker = "a"`,
		`failure_marker = "b"`} {
		text := "name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"%s\"\n" + line + "\n"
		_, err := load(t, fmt.Sprintf(text, "AIDynamo"))
		require.NoError(t, err, line)
		_, err = load(t, fmt.Sprintf(text, "vllm"))
		key, _, _ := strings.Cut(line, " ")
		require.EqualError(t, err, `s.toml:5:1: unknown key "`+key+`" in a test of vllm: only AIDynamo has it`+"\n\thint: remove it", line)
	}
}

// A path below a home folder is refused where it stands: no shell expands it.
func TestHomeFoldersAreRefused(t *testing.T) {
	for keys, want := range map[string]string{
		"[Tests.cmd_args]\ndocker_image_url='~/image.sqsh'":                             "s.toml:6:1: cmd_args.docker_image_url is \"~/image.sqsh\"",
		"[Tests.cmd_args]\ndocker_image_url='i'\n[Tests.cmd_args.decode]\nx=['~ada/a']": "s.toml:8:4: cmd_args.decode.x is",
		"[Tests.bench_cmd_args]\ndataset_path='~/d.json'":                               "bench_cmd_args.dataset_path is",
		"extra_container_mounts=['~/a:/a']":                                             "extra_container_mounts is",
		"[Tests.extra_env_vars]\nHF_HOME='~/hf'":                                        "extra_env_vars.HF_HOME is",
	} {
		_, err := load(t, "name='s'\n[[Tests]]\nid='a'\ntest_name='base'\n"+keys, testFile)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "~ is not expanded")
	}
	_, err := load(t, "name='s'\n[[Tests]]\nid='a'\ntest_name='base'\n[Tests.cmd_args]\nnode_setup_cmd='~/bin/setup'\nfilter='a~b'\n", testFile)
	require.NoError(t, err)
}
