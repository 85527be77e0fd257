package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/stage"
)

// stageSite is a folder with a system file, a scenario, and a fake enroot on PATH.
func stageSite(t *testing.T, more string) (dir string, call func(args ...string) (int, string, string)) {
	t.Helper()
	dir = t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
	}
	write("site.toml", "name = \"s\"\nscheduler = \"slurm\"\noutput_path = \""+dir+"/out\"\ninstall_path = \""+dir+
		"/install\"\nhf_home_path = \"/not/here/hf\"\ndefault_partition = \"p\"\ngpus_per_node = 4\n"+more, 0o644)
	write("s.toml", "name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\ncmd_args = { docker_image_url = \"nvcr.io#nvidia/vllm:26.01\" }\n", 0o644)
	// A squashfs header: 96 bytes, and bytes_used says so.
	write("bin/enroot", "#!/bin/bash\n[[ -e "+dir+"/fail ]] && { echo 401 >&2; exit 1; }\n"+
		`{ printf hsqs; head -c 36 /dev/zero; printf '\x60\0\0\0\0\0\0\0'; head -c 48 /dev/zero; } >"$3"`+"\n", 0o755)
	return dir, func(args ...string) (int, string, string) {
		o := profllm(t, ".", []string{"PATH=" + dir + "/bin:/usr/bin:/bin"}, args...)
		return o.code, o.stdout, o.stderr
	}
}

// A job that will fetch its image itself is warned of, once for each image and with
// the mend; one whose image is a file, or that runs no container, is not.
//
// covers: PL-G4
func TestNotStagedIsNoted(t *testing.T) {
	t.Parallel()
	dir, profllm := stageSite(t, "")
	site, scenario := "--system="+dir+"/site.toml", dir+"/s.toml"
	const note = "note: image nvcr.io#nvidia/vllm:26.01 is not staged: a node without the image fetches it inside the job"
	data, err := os.ReadFile(scenario)
	require.NoError(t, err)
	twice := strings.Replace(string(data), "name = \"s\"\n", "", 1)
	require.NoError(t, os.WriteFile(scenario, []byte(string(data)+strings.Replace(twice, "\"a\"", "\"b\"", 1)), 0o644))

	code, _, stderr := profllm("slurm", "dry-run", scenario, site)
	require.Zero(t, code, stderr)
	require.Equal(t, 1, strings.Count(stderr, note), stderr)
	require.Contains(t, stderr, "(15 to 20 min for 30 to 65 GB)\n\thint: profllm stage "+relative(scenario)+" --system "+dir+"/site.toml\n")

	tests, hooks := filepath.Join(dir, "my tests"), filepath.Join(dir, "hooks")
	require.NoError(t, errors.Join(os.Mkdir(tests, 0o755), os.Mkdir(hooks, 0o755)))
	code, _, stderr = profllm("slurm", "dry-run", scenario, site, "--tests-dir", tests, "--hook-dir", hooks,
		"--launcher=pyxis")
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "hint: profllm stage "+relative(scenario)+" --system "+dir+"/site.toml --tests-dir '"+tests+
		"' --hook-dir "+hooks+" --launcher pyxis\n", "the command takes the same flags")

	_, _, stderr = profllm("slurm", "dry-run", scenario, site, "--launcher=bare")
	require.NotContains(t, stderr, note)

	wrong := dir + "/wrong.toml"
	require.NoError(t, os.WriteFile(wrong,
		[]byte(strings.ReplaceAll(string(data), " }\n", ", decode = { tensor_parallel_size = 64 } }\n")), 0o644))
	code, _, stderr = profllm("slurm", "dry-run", wrong, site)
	require.Equal(t, exitDefinition, code, stderr)
	require.NotContains(t, stderr, note, "nothing fetches an image of a plan that is refused")

	_, _, stderr = profllm("stage", scenario, site, "--image-size=1e8")
	require.Contains(t, stderr, "hint: profllm image prune --system "+dir+"/site.toml --older-than 720h, or set")
	code, _, stderr = profllm("stage", scenario, site, "--image-size=0")
	require.Zero(t, code, stderr)
	_, _, stderr = profllm("slurm", "dry-run", scenario, site)
	require.NotContains(t, stderr, note)
}

// covers: PL-D24, PL-G3
func TestStage(t *testing.T) {
	t.Parallel()
	dir, profllm := stageSite(t, "cache_docker_images_locally = true\n")
	site, scenario := "--system="+dir+"/site.toml", dir+"/s.toml"
	sqsh := dir + "/install/nvcr.io_nvidia__vllm__26.01.sqsh"

	code, _, stderr := profllm("slurm", "submit", scenario, site)
	require.Equal(t, exitNotSubmit, code, stderr)
	require.Contains(t, stderr,
		"these images are not staged: nvcr.io#nvidia/vllm:26.01 ("+sqsh+")\n\thint: profllm stage "+relative(scenario)+" --system "+dir+"/site.toml\n")
	require.NoDirExists(t, dir+"/out")

	code, stdout, _ := profllm("stage", scenario, site, "--dry-run", "--output=json")
	require.Zero(t, code)
	outcomes := readDocument[document.Stage](t, outcome{stdout: stdout}).Items
	require.Len(t, outcomes, 2)
	require.Equal(t, "would stage", outcomes[0].State)
	require.NoFileExists(t, sqsh)

	require.NoError(t, os.WriteFile(dir+"/fail", nil, 0o644))
	code, stdout, stderr = profllm("stage", scenario, site, "--image-size=0")
	require.Equal(t, exitInternal, code)
	require.Contains(t, stdout, "failed")
	require.Contains(t, stderr, "| 401")
	require.NoError(t, os.Remove(dir+"/fail"))

	code, stdout, stderr = profllm("stage", scenario, site, "--image-size=0", "--output=json")
	require.Zero(t, code, stderr)
	outcomes = readDocument[document.Stage](t, outcome{stdout: stdout}).Items
	require.Equal(t, stage.Staged, outcomes[0].State)
	require.Equal(t, stage.Skipped, outcomes[1].State)
	require.Contains(t, outcomes[1].Detail, "/not/here/hf is not reachable here")

	for flag, want := range map[string]string{"--image-size=0": stage.Present, "--force": stage.Staged} {
		code, stdout, stderr = profllm("stage", scenario, site, "--image-size=0", "--output=json", flag)
		require.Zero(t, code, stderr)
		require.Equal(t, want, readDocument[document.Stage](t, outcome{stdout: stdout}).Items[0].State)
	}

	code, stdout, stderr = profllm("slurm", "dry-run", scenario, site, "--output=json")
	require.Zero(t, code, stderr)
	require.NotContains(t, stderr, "not staged")
	var plans []plan.Plan
	require.NoError(t, json.Unmarshal([]byte(stdout), &plans))
	require.Equal(t, sqsh, plans[0].Image)
	require.Equal(t, outcomes[0].Digest, plans[0].ImageDigest)

	code, stdout, _ = profllm("image", "list", site, "--verify")
	require.Zero(t, code)
	require.Contains(t, stdout, "nvcr.io#nvidia/vllm:26.01")
	data, err := os.ReadFile(sqsh)
	require.NoError(t, err)
	data[95] = 1
	require.NoError(t, os.WriteFile(sqsh, data, 0o644))
	code, stdout, stderr = profllm("image", "list", site, "--verify")
	require.Equal(t, exitInvalid, code)
	require.Contains(t, stdout, stage.Differs)
	require.Contains(t, stderr, "its digest is")

	require.NoError(t, os.WriteFile(sqsh, data[:50], 0o644))
	code, _, stderr = profllm("slurm", "dry-run", scenario, site)
	require.Equal(t, exitDefinition, code)
	require.Contains(t, stderr, "it has 50 bytes, its record says 96")
}

func TestImageVerbs(t *testing.T) {
	t.Parallel()
	dir, profllm := stageSite(t, "")
	site := "--system=" + dir + "/site.toml"
	code, stdout, stderr := profllm("image", "stage", "vllm/vllm-openai:v1", site, "--image-size=0", "--output=json")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "vllm__vllm-openai__v1.sqsh")
	code, _, stderr = profllm("image", "stage", "/a/b.sqsh", site)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "needs no staging")
	require.NoError(t, os.WriteFile(dir+"/install/.x.sqsh.partial-h-1.sqsh", nil, 0o644))
	for range 2 {
		code, stdout, _ = profllm("image", "prune", site, "--dry-run")
		require.Zero(t, code)
		require.Contains(t, stdout, stage.Partial)
	}
	code, _, _ = profllm("image", "prune", site)
	require.Zero(t, code)
	code, stdout, _ = profllm("image", "list", site)
	require.Zero(t, code)
	require.NotContains(t, stdout, stage.Partial)
	require.Contains(t, stdout, "vllm/vllm-openai:v1")
	code, _, stderr = profllm("slurm", "dry-run", dir+"/s.toml", site, "--launcher=pixis")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--launcher: must be pyxis, enroot, apptainer, docker, podman or bare, not \"pixis\"")
}

// What only a hook needs is staged with the scenario that asks for the hook.
//
// covers: CD-8
func TestStageForHooks(t *testing.T) {
	t.Parallel()
	dir, profllm := stageSite(t, "")
	require.NoError(t, os.Mkdir(dir+"/hook", 0o755))
	require.NoError(t, os.WriteFile(dir+"/hook/h.toml", []byte(`name = "h"
[[Tests]]
id = "before"
test_template_name = "NcclTest"
cmd_args = { docker_image_url = "nvcr.io#nvidia/pytorch:25.06-py3" }
git_repos = [{ url = "https://h/x/repo.git", commit = "v1" }]
`), 0o644))
	text, err := os.ReadFile(dir + "/s.toml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/s.toml", append([]byte("pre_test = \"h\"\n"), text...), 0o644))
	code, stdout, stderr := profllm("stage", dir+"/s.toml", "--system="+dir+"/site.toml", "--hook-dir="+dir+"/hook",
		"--dry-run", "--output=json")
	require.Zero(t, code, stderr)
	outcomes := readDocument[document.Stage](t, outcome{stdout: stdout}).Items
	tests := map[string][]string{}
	for _, o := range outcomes {
		tests[o.Name] = o.Tests
	}
	require.Equal(t, []string{"before"}, tests["nvcr.io#nvidia/pytorch:25.06-py3"])
	require.Equal(t, []string{"before"}, tests["https://h/x/repo.git@v1"])
	require.Equal(t, []string{"a"}, tests["nvcr.io#nvidia/vllm:26.01"])
}
