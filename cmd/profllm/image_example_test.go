package main

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/syntax"
)

const imageExample = "../../examples/image"

// instructions are those of a Containerfile, each on one line, without comments.
func instructions(t *testing.T, file string) []string {
	t.Helper()
	var list []string
	open := false
	for line := range strings.Lines(readText(t, file)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		text, more := strings.CutSuffix(line, "\\")
		if open {
			list[len(list)-1] += text
		} else {
			list = append(list, text)
		}
		open = more
	}
	return list
}

// Every version in the recipe of an image is an argument with a default: given another value, the
// recipe has no trace of the default. The README lists the same arguments.
//
// covers: IMG-1
func TestImageRecipe(t *testing.T) {
	t.Parallel()
	defaults := map[string]string{
		"VLLM_VERSION": "0.15.1", "CUDA_VERSION": "12.8.1", "GDRCOPY_VERSION": "v2.5.1",
		"EFA_INSTALLER_VERSION": "1.46.0", "NCCL_VERSION": "v2.29.2-1", "NVSHMEM_VERSION": "v3.5.19-1",
		"DEEPGEMM_VERSION": "v2.1.1.post3", "UBUNTU_VERSION": "24.04", "CUDA_ARCH": "90", "NSYS_VERSION": "", "JOBS": "16",
	}
	page := readText(t, filepath.Join(imageExample, "README.md"))
	given, used := map[string]bool{}, map[string]bool{}
	var others []string
	for _, line := range instructions(t, filepath.Join(imageExample, "Containerfile")) {
		if arg, ok := strings.CutPrefix(line, "ARG "); ok {
			name, value, ok := strings.Cut(arg, "=")
			require.True(t, ok, "%s has a default", name)
			require.Equal(t, defaults[name], value, name)
			require.Contains(t, defaults, name)
			given[name] = true
			require.Contains(t, page, "| `"+name+"` | "+map[bool]string{true: "`" + value + "`", false: "the newest"}[value != ""]+" |")
			continue
		}
		for name := range given {
			used[name] = used[name] || strings.Contains(line, "${"+name+"}")
		}
		others = append(others, line)
		if command, ok := strings.CutPrefix(line, "RUN "); ok { // by sh: Podman ignores another SHELL
			_, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(command), "RUN")
			require.NoError(t, err, command)
			require.True(t, !strings.Contains(command, ";") || strings.HasPrefix(command, "set -eu;"), command)
		}
	}
	for name, value := range defaults {
		require.True(t, given[name], "%s is no argument", name)
		require.True(t, used[name], "%s is not used behind its definition", name)
		if len(value) > 2 {
			require.NotContains(t, strings.Join(others, "\n"), strings.TrimPrefix(value, "v"), "%s stands elsewhere", name)
		}
	}
}

// An image is saved compressed, under its name and tag, and appears when it is complete.
//
// covers: IMG-2
func TestImageSave(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for name, body := range map[string]string{
		"docker": `[ "$1" = save ] && printf 'image %s' "$2"`, "podman": `printf half; exit 1`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755))
	}
	save := func(engine string, args ...string) (string, string, error) {
		dir := t.TempDir()
		script, err := filepath.Abs(filepath.Join(imageExample, "save.sh"))
		require.NoError(t, err)
		cmd := exec.Command(script, append(args, dir)...)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "ENGINE="+engine)
		out, err := cmd.Output()
		return dir, strings.TrimSpace(string(out)), err
	}
	for image, want := range map[string][2]string{
		"vllm-serve":                    {"vllm-serve-latest.tar.gz", "vllm-serve:latest"},
		"vllm-serve:0.15.1":             {"vllm-serve-0.15.1.tar.gz", "vllm-serve:0.15.1"},
		"registry:5000/group/vllm:0.16": {"vllm-0.16.tar.gz", "registry:5000/group/vllm:0.16"},
	} {
		dir, said, err := save("docker", image)
		require.NoError(t, err)
		file := filepath.Join(dir, want[0])
		require.Equal(t, file, said)
		f, err := os.Open(file)
		require.NoError(t, err)
		z, err := gzip.NewReader(f)
		require.NoError(t, err)
		data, err := io.ReadAll(z)
		require.NoError(t, errors.Join(err, f.Close()))
		require.Equal(t, "image "+want[1], string(data))
	}
	dir, _, err := save("podman", "vllm-serve:1")
	require.Error(t, err)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left of an image that could not be saved")
}
