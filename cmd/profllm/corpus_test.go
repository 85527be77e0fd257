package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/cloudaitest"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/scenario"
)

// ourFormat holds definitions of our own in CloudAI's format.
func ourFormat(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../pkg/planner/testdata/format/conf")
	require.NoError(t, err)
	return dir
}

// A whole folder is verified, each file by its kind.
func TestVerifyFormat(t *testing.T) {
	t.Parallel()
	o := profllm(t, t.TempDir(), nil, "verify", ourFormat(t))
	require.Equal(t, exitDefinition, o.code)
	require.Equal(t, 23, strings.Count(o.stdout, "ok   ")-strings.Count(o.stdout, ": not runnable: "))
	require.Equal(t, 4, strings.Count(o.stdout, ".toml: not runnable: "))
	require.Equal(t, 1, strings.Count(o.stdout, "bad  "))
	require.Contains(t, o.stdout, "bad  scenario "+filepath.Join(ourFormat(t), "test_scenario/ambiguous.toml"))
	require.Contains(t, o.stderr, "1 of 28 files bad, 4 not runnable\n")
	require.Contains(t, o.stderr,
		"note: sizes were not checked (nodes, GPUs, ports): they depend on the cluster; add --system FILE\n")
}

// outcome is what the page says of a file.
type expected struct{ kind, outcome, why string }

// filesPage reads the rows of the page on CloudAI's own files.
func filesPage(t *testing.T) map[string]expected {
	t.Helper()
	data, err := os.ReadFile("../../docs/reference/cloudai-files.md")
	require.NoError(t, err)
	rows := map[string]expected{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\S+\\.toml)` \\| (.*) \\| (.*) \\| (.*)\\|$").
		FindAllStringSubmatch(string(data), -1) {
		require.NotContains(t, rows, m[1], "named twice")
		rows[m[1]] = expected{m[2], m[3], strings.TrimSpace(m[4])}
	}
	require.NotEmpty(t, rows)
	return rows
}

// Each file of CloudAI's folder is on the page, and what the page says of it is so:
// scenarios and tests are planned on CloudAI's sample site.
func TestCloudAIFiles(t *testing.T) {
	t.Parallel()
	conf := cloudaitest.Conf(t, os.Environ())
	page := filesPage(t)
	var names []string
	require.NoError(t, filepath.WalkDir(conf, func(name string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".toml" {
			name, err = filepath.Rel(conf, name)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	}))
	require.Equal(t, slices.Sorted(slices.Values(names)), slices.Sorted(maps.Keys(page)),
		"files in the folder, and on the page")
	checkCloudAICounts(t, conf, page)
	for _, name := range names {
		t.Run(name, func(t *testing.T) { checkCloudAIFile(t, conf, name, page[name]) })
	}
}

// checkCloudAICounts compares the numbers on the pages with the rows, and with what verify
// says of the whole folder. Notes on the system file are said once.
func checkCloudAICounts(t *testing.T, conf string, page map[string]expected) {
	t.Helper()
	of := map[string]int{}
	for _, row := range page {
		of[row.outcome]++
	}
	o := profllm(t, t.TempDir(), nil, "verify", conf)
	last := strings.TrimSpace(o.stderr[strings.LastIndex(strings.TrimSpace(o.stderr), "\n")+1:])
	for name, counts := range map[string]string{
		"reference/cloudai-files.md": fmt.Sprintf("In all: %d run, %d is only planned, %d are not runnable, %d are refused.",
			of["runs"], of["plans only"], of["not runnable"], of["refused"]),
		"how-to/coming-from-cloudai.md": "",
	} {
		data, err := os.ReadFile(filepath.Join("../../docs", name))
		require.NoError(t, err)
		require.Contains(t, string(data), counts)
		require.Contains(t, string(data), "`"+last+"`", name)
	}
	o = profllm(t, t.TempDir(), nil, "verify", conf, "--system",
		filepath.Join(conf, "common/system/example_slurm_cluster.toml"))
	require.Equal(t, 1, strings.Count(o.stderr, "data_repository has no effect: only CloudAI's NeMo report uses it\n"))
}

// code are words that profllm says, or a flag that it needs.
var code = regexp.MustCompile("`([^`]+)`")

func checkCloudAIFile(t *testing.T, conf, name string, want expected) {
	file := filepath.Join(conf, name)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	kind, err := scenario.Kind(scenario.File{Name: name, Data: data})
	require.NoError(t, err)
	require.Equal(t, want.kind, kind)
	var flags, says []string
	for _, m := range code.FindAllStringSubmatch(want.why, -1) {
		if dir, ok := strings.CutPrefix(m[1], "--tests-dir "); ok {
			flags = []string{"--tests-dir", filepath.Join(conf, dir)}
			o := profllm(t, t.TempDir(), nil, "verify", file)
			require.Equal(t, exitDefinition, o.code, "it needs the flag")
			require.Contains(t, o.stderr, "test files are named")
			continue
		}
		says = append(says, m[1])
	}
	dir := t.TempDir()
	verified := profllm(t, dir, nil, append([]string{"verify", file}, flags...)...)
	last := verified
	if want.outcome == "refused" {
		require.Equal(t, exitDefinition, verified.code)
	} else {
		require.Equal(t, exitOK, verified.code)
		require.Equal(t, want.outcome == "not runnable", strings.Contains(verified.stdout, ".toml: not runnable: "))
		switch kind {
		case "test":
			test, err := scenario.LoadTest(scenario.File{Name: name, Data: data})
			require.NoError(t, err)
			file = filepath.Join(dir, "s.toml")
			require.NoError(t,
				os.WriteFile(file,
					[]byte("name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_name = \""+test.Name+"\"\ntime_limit = \"1h\"\n"),
					0o644))
			flags = []string{"--tests-dir", filepath.Dir(filepath.Join(conf, name))}
		case "system":
			file = filepath.Join(conf, "common/test_scenario/sleep.toml")
		}
		last = profllm(t, dir, nil,
			append([]string{"slurm", "dry-run", file, "--system",
				filepath.Join(conf, "common/system/example_slurm_cluster.toml"), "--hook-dir",
				filepath.Join(conf, "hook")}, flags...)...)
		switch want.outcome {
		case "runs", "plans only":
			require.Equal(t, exitOK, last.code)
			require.Contains(t, last.stdout, "#SBATCH --nodes=")
		case "not runnable":
			require.Equal(t, exitDefinition, last.code)
			require.NotEmpty(t, says, "why it is not planned")
		default:
			t.Fatalf("unknown outcome %q", want.outcome)
		}
	}
	for _, words := range says {
		require.Contains(t, last.stderr, words)
	}
	require.Equal(t, want.outcome != "runs", want.why != "", "a reason, where it does not run")
}

// The page for users of CloudAI lists every workload with its outcome, as the program
// has it.
func TestCloudAIWorkloads(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/how-to/coming-from-cloudai.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(data), "\n## Workloads\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]string{"NoSuchWorkload": "refused"}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*) \\| (runs|not runnable) \\|$").
		FindAllStringSubmatch(section, -1) {
		for _, m := range code.FindAllStringSubmatch(row[1], -1) {
			if m[1] == "test_template_name" {
				continue
			}
			require.NotContains(t, listed, m[1], "listed twice")
			listed[m[1]] = row[2]
		}
	}
	require.Equal(t, slices.Sorted(slices.Values(append(slices.Clone(catalog.Known), "NoSuchWorkload"))),
		slices.Sorted(maps.Keys(listed)))
	dir := t.TempDir()
	for name, outcome := range listed {
		test := fmt.Sprintf("name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = %q\n[Tests.cmd_args]\n", name)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(test), 0o644))
		planned := profllm(t, dir, nil, "slurm", "dry-run", "s.toml", "--simulate").stderr
		require.Equal(t, outcome == "refused", strings.Contains(planned, "unknown workload"), name)
		require.Equal(t, outcome == "not runnable", strings.Contains(planned, "is not supported yet"), name)
	}
}

// CloudAI's scenarios for vLLM, SGLang and containers run unchanged on the lab,
// with simulated engines.
func TestSlurmCloudAICorpus(t *testing.T) {
	t.Parallel()
	conf := cloudaitest.Conf(t, os.Environ())
	for file, tests := range map[string]int{
		"experimental/vllm/test_scenario/vllm.toml":           5,
		"experimental/vllm/test_scenario/vllm-heavy.toml":     1,
		"experimental/sglang/test_scenario/sglang.toml":       5,
		"experimental/sglang/test_scenario/sglang-heavy.toml": 1,
		"common/test_scenario/slurm_container.toml":           1,
	} {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			dir := lab(t)
			o := profllm(t, dir, nil, "slurm", "submit", "--simulate", "-y", "--system", "site.toml",
				filepath.Join(conf, file), "--wait")
			require.Equal(t, exitOK, o.code)
			all := runs(t, dir)
			require.Len(t, all, tests)
			for d := range all {
				r := readResult(t, d)
				require.Equal(t, result.Completed, r.Status)
				require.True(t, r.Validity.Valid, r.Validity.Words)
				require.True(t, r.Simulated)
			}
		})
	}
}
