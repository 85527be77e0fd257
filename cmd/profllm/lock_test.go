package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

const lockScenario = `name = "night"

[[Tests]]
id = "first"
test_name = "agg"

[[Tests]]
id = "second"
test_name = "agg"
  [[Tests.dependencies]]
  type = "start_post_comp"
  id = "first"
  [Tests.bench_cmd_args]
  max_concurrency = 1
`

const lockTest = `name = "agg"
description = "d"
test_template_name = "vllm"
[cmd_args]
docker_image_url = "vllm/vllm-openai:v0.32.0"
model = "Qwen/Qwen3-8B"
[bench_cmd_args]
random_input_len = 16
random_output_len = 8
num_prompts = 10
max_concurrency = 2
[extra_env_vars]
NCCL_DEBUG = "INFO"
`

// repository makes definitions in a folder, below git.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "tests"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "night.toml"), []byte(lockScenario), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tests", "agg.toml"), []byte(lockTest), 0o644))
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."},
		{"-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "-m", "m"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return dir
}

func gitHead(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command("git", "rev-parse", "HEAD")
	cmd.Dir = dir
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

func recordAt(t *testing.T, dir string) *result.Result {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, run.ResultFile))
	require.NoError(t, err)
	r, err := result.Decode(data)
	require.NoError(t, err)
	return r
}

// A run is locked, and submitted again from the lock in another place: scripts and
// plans are the same but for ids, times and places; what is changed is named.
//
// covers: PL-D14, PL-V25, GEN-2, GEN-6
func TestLock(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a rehearsal")
	}
	dir := repository(t)
	o := profllm(t, dir, nil, "rehearse", "night.toml", "--output-dir", "results", "--time", "2026-01-02T03:04:05Z")
	require.Zero(t, o.code, o.stderr)
	root := filepath.Join(dir, "results", "night_2026-01-02_03-04-05")

	r := recordAt(t, filepath.Join(root, "first", "0"))
	require.Equal(t, gitHead(t, dir), r.Provenance.Git)
	require.Equal(t, []result.RoleEnv{{Role: "serve", Vars: r.Provenance.Environment[0].Vars}},
		r.Provenance.Environment)
	require.Equal(t, "INFO", r.Provenance.Environment[0].Vars["NCCL_DEBUG"], "as the server's own process had it")
	require.NotEmpty(t, r.System.HardwareInfo.Kernel)
	other := recordAt(t, filepath.Join(root, "second", "0"))
	require.NotEqual(t, r.Provenance.Fingerprint, other.Provenance.Fingerprint)

	locked := func(name string) string {
		o := profllm(t, dir, nil, "lock", filepath.Join(root, name))
		require.Zero(t, o.code, o.stderr)
		file := filepath.Join(t.TempDir(), "run.lock.toml")
		require.NoError(t, os.WriteFile(file, []byte(o.stdout), 0o644))
		return file
	}
	whole, one := locked("."), locked("second/0")
	for _, format := range []string{"script", "text"} {
		again := profllm(t, dir, nil, "slurm", "dry-run", whole, "--output", format, "--time", "2026-05-05T05:05:05Z",
			"--output-dir", "results")
		require.Zero(t, again.code, again.stderr)
		direct := profllm(t, dir, nil, "slurm", "dry-run", "night.toml", "--simulate", "--output", format, "--time",
			"2026-05-05T05:05:05Z", "--output-dir", "results")
		require.Equal(t, direct.stdout, again.stdout)
	}
	elsewhere := t.TempDir()
	again := profllm(t, elsewhere, nil, "slurm", "dry-run", whole, "--output", "script", "--time",
		"2026-01-02T03:04:05Z", "--output-dir", "results")
	require.Zero(t, again.code, again.stderr)
	require.NotContains(t, again.stdout, root, "another place")

	o = profllm(t, elsewhere, nil, "slurm", "dry-run", one, "--output", "json")
	require.Zero(t, o.code, o.stderr)
	var plans []plan.Plan
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &plans))
	require.Len(t, plans, 1, "the other run is not locked")
	require.Equal(t, "second", plans[0].Test)
	require.Empty(t, plans[0].Job.After)
	require.Equal(t, &plan.Locked{RunID: other.RunID, EngineVersion: other.Provenance.EngineVersion}, plans[0].Locked)
	require.Contains(t, o.stderr, "second is submitted alone")

	o = profllm(t, elsewhere, nil, "rehearse", one, "--output-dir", "results", "--time", "2026-02-02T03:04:05Z")
	require.Zero(t, o.code, o.stderr)
	repeated := filepath.Join(elsewhere, "results", "night_2026-02-02_03-04-05", "second", "0")
	require.Equal(t, other.Provenance.Fingerprint, recordAt(t, repeated).Provenance.Fingerprint)
	require.Equal(t, "pass", string(recordAt(t, repeated).Validity.Check("wrong-server").Outcome))
	o = profllm(t, dir, nil, "diff", filepath.Join(root, "second", "0"), repeated)
	require.Zero(t, o.code, o.stdout)
	require.Contains(t, o.stdout, "the same configuration, fingerprint "+other.Provenance.Fingerprint)
	o = profllm(t, dir, nil, "diff", filepath.Join(root, "first", "0"), repeated)
	require.Equal(t, exitInvalid, o.code)
	require.Regexp(t, `max_concurrency +2 +1\n`, o.stdout)
	require.Contains(t, o.stdout, "one setting differs: bench_cmd_args.max_concurrency: 2 against 1")
	o = profllm(t, dir, nil, "diff", root, repeated)
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "has 2 records")

	text, err := os.ReadFile(whole)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(whole,
		[]byte(strings.Replace(string(text), "num_prompts = 10", "num_prompts = 11", 1)), 0o644))
	o = profllm(t, dir, nil, "slurm", "dry-run", whole)
	require.Equal(t, exitDefinition, o.code)
	require.Contains(t, o.stderr, "the lock file was changed or truncated after it was written")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "night.toml"), []byte(lockScenario+"# changed\n"), 0o644))
	o = profllm(t, dir, nil, "slurm", "dry-run", "night.toml", "--simulate", "--output", "json")
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &plans))
	require.Equal(t, gitHead(t, dir)+"-dirty", plans[0].Source.Git)
}

// What is seen before a job runs, and is not as it was, is refused by name; the model
// is looked for where nodes find it.
//
// covers: PL-V25
func TestLockRefuses(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	const revision = "0123456789abcdef0123456789abcdef0123456%d"
	refs := filepath.Join(dir, "hf", "hub", "models--Qwen--Qwen3-8B", "refs", "main")
	model := func(n int) {
		id := fmt.Sprintf(revision, n)
		require.NoError(t, os.MkdirAll(filepath.Dir(refs), 0o755))
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "hf", "hub", "models--Qwen--Qwen3-8B", "snapshots", id),
			0o755))
		require.NoError(t, os.WriteFile(refs, []byte(id), 0o644))
	}
	system := "name = \"s\"\nscheduler = \"slurm\"\ninstall_path = \"install\"\noutput_path = \"results\"\ndefault_partition = \"p\"\nhf_home_path = \"hf\"\ngpus_per_node = 4\n[[partitions]]\nname = \"p\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "system.toml"), []byte(system), 0o644))
	image := func(digest, name string) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "install"), 0o755))
		files, err := filepath.Glob(filepath.Join(dir, "install", "*.sqsh.json"))
		require.NoError(t, err)
		for _, f := range files {
			name = strings.TrimSuffix(f, ".json")
		}
		require.NoError(t, os.WriteFile(name, []byte("image"), 0o644))
		record := fmt.Sprintf(`{"schema":"profllm.image/1","reference":"vllm/vllm-openai:v0.32.0","file":%q,"size_bytes":5,"digest":%q}`, filepath.Base(name), digest)
		require.NoError(t, os.WriteFile(name+".json", []byte(record), 0o644))
	}
	o := profllm(t, dir, nil, "stage", "night.toml", "--system", "system.toml", "--dry-run", "--output", "json")
	require.Zero(t, o.code, o.stderr)
	items := readDocument[document.Stage](t, o).Items
	require.Equal(t, "image", items[0].Kind)
	image("sha256:aa", items[0].Path)
	model(1)
	o = profllm(t, dir, nil, "slurm", "dry-run", "night.toml", "--system", "system.toml", "--output", "json", "--save",
		"saved", "--time", "2026-01-02T03:04:05Z")
	require.Zero(t, o.code, o.stderr)
	var plans []plan.Plan
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &plans))
	require.Equal(t, "sha256:aa", plans[0].ImageDigest)
	require.Equal(t, fmt.Sprintf(revision, 1), plans[0].Source.ModelRevision)

	root := refusedSubmission(t, dir)
	o = profllm(t, dir, nil, "lock", root, "--save", "run.lock.toml")
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stderr, "has no record, so the engine's version is not locked")
	require.Zero(t, profllm(t, dir, nil, "slurm", "dry-run", "run.lock.toml").code)
	image("sha256:bb", items[0].Path)
	model(2)
	o = profllm(t, dir, nil, "slurm", "submit", "run.lock.toml", "--yes")
	require.Equal(t, exitNotSubmit, o.code)
	for _, want := range []string{
		"first/0: image digest: sha256:aa is locked, now it is sha256:bb", "first/0: model revision: " + fmt.Sprintf(revision, 1) + " is locked, now it is " + fmt.Sprintf(revision, 2), "second/0: image digest",
		"hint: put back what differs",
	} {
		require.Contains(t, o.stderr, want)
	}
	left, err := filepath.Glob(filepath.Join(dir, "results", "night_*"))
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing was made")

	o = profllm(t, dir, nil, "lock", t.TempDir())
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "is neither a run of profllm nor the directory of a scenario\n\thint: ")
}

// refusedSubmission makes the directory of a submission that no Slurm takes: the run is there
// all the same.
func refusedSubmission(t *testing.T, dir string) string {
	t.Helper()
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "sbatch"), []byte("#!/bin/sh\necho refused >&2\nexit 1\n"),
		0o755))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "squeue"), []byte("#!/bin/sh\nexit 0\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "sacct"), []byte("#!/bin/sh\nexit 0\n"), 0o755))
	o := profllm(t, dir, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}, "slurm", "submit", "night.toml", "--system",
		"system.toml", "--yes", "--settle", "1ms")
	require.Equal(t, exitNotSubmit, o.code, o.stderr)
	roots, err := filepath.Glob(filepath.Join(dir, "results", "night_*"))
	require.NoError(t, err)
	require.Len(t, roots, 1)
	return roots[0]
}

func TestVersionFlag(t *testing.T) {
	t.Parallel()
	flag, verb := profllm(t, t.TempDir(), nil, "--version"), profllm(t, t.TempDir(), nil, "version")
	require.Zero(t, flag.code)
	require.NotEmpty(t, strings.TrimSpace(flag.stdout))
	require.Regexp(t, "^"+regexp.QuoteMeta(flag.stdout)+"GPU reader: .+\n$", verb.stdout)
}

// The verb says who would read the GPUs of this machine: the profllm-nvml beside the
// program, links to the program followed, else nvidia-smi.
func TestVersionSaysReader(t *testing.T) {
	t.Parallel()
	dir, bin := t.TempDir(), t.TempDir()
	data, err := os.ReadFile(binary)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "profllm"), data, 0o755))
	link := filepath.Join(t.TempDir(), "profllm")
	require.NoError(t, os.Symlink(filepath.Join(dir, "profllm"), link))
	says := func() string {
		cmd := exec.Command(link, "version")
		cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin"}
		out, err := cmd.Output()
		require.NoError(t, err)
		_, line, _ := strings.Cut(string(out), "\n")
		return line
	}
	program := func(file, text string) {
		require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	reader := filepath.Join(dir, "profllm-nvml")
	program(filepath.Join(bin, "nvidia-smi"), "exit 9")
	require.Equal(t, "GPU reader: nvidia-smi (no profllm-nvml in "+dir+")\n", says())
	program(reader, `echo '{"profllm_nvml":1,"nvml":"12.570","driver":"570","gpus":1}'; echo '{"index":0,"uuid":"GPU-a","name":"H100"}'`)
	require.Equal(t, "GPU reader: nvml 12.570\n", says())
	program(reader, `echo '{"profllm_nvml":99}'`)
	require.Contains(t, says(), "it speaks format 99, this profllm reads format 1: install both from one release")
	require.NoError(t, os.Remove(filepath.Join(bin, "nvidia-smi")))
	require.Contains(t, says(), "GPU reader: none (")
}
