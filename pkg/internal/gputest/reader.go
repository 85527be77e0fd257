package gputest

import (
	_ "embed"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// libraryName is what the driver's library is called, as it is looked for.
const libraryName = "libnvidia-ml.so.1"

//go:embed testdata/nvml.c
var library string

// Reader returns the path of profllm-nvml: that in PROFLLM_NVML, or one that is built
// here with cgo. The test is skipped where there is no C compiler, or fails where environ
// has PROFLLM_REQUIRE_CC=1.
func Reader(t testing.TB, environ []string) string {
	t.Helper()
	for _, kv := range environ {
		if path, ok := strings.CutPrefix(kv, "PROFLLM_NVML="); ok && path != "" {
			return path
		}
	}
	compiler(t, environ)
	file := filepath.Join(t.TempDir(), "profllm-nvml")
	cmd := exec.Command("go", "build", "-trimpath", "-o", file, "github.com/profllm/profllm/cmd/profllm-nvml")
	cmd.Env = append(slices.Clone(environ), "CGO_ENABLED=1", "CGO_LDFLAGS=-Wl,-z,lazy")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build profllm-nvml: %v\n%s", err, out)
	}
	return file
}

// Library compiles the simulated library of a driver and returns its folder, for
// LD_LIBRARY_PATH. Everything that it says is made up; see testdata/nvml.c. Without a C
// compiler it does as Reader does.
func Library(t testing.TB, environ []string) (dir string) {
	t.Helper()
	cc := compiler(t, environ)
	dir = t.TempDir()
	cmd := exec.Command(cc[0],
		append(slices.Clone(cc[1:]), "-shared", "-fPIC", "-x", "c", "-o", filepath.Join(dir, libraryName), "-")...)
	cmd.Stdin = strings.NewReader(library)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cc[0], err, out)
	}
	return dir
}

// compiler is the C compiler that Go uses, with its arguments.
func compiler(t testing.TB, environ []string) []string {
	t.Helper()
	why := ""
	out, err := exec.Command("go", "env", "CC").Output()
	cc := strings.Fields(string(out))
	switch {
	case err != nil || len(cc) == 0:
		why = "no Go here that could build profllm-nvml"
	default:
		cmd := exec.Command(cc[0], append(slices.Clone(cc[1:]), "-fsyntax-only", "-x", "c", "-")...)
		cmd.Stdin = strings.NewReader("#include <stdlib.h>\n")
		if cmd.Run() != nil {
			why = "no C compiler with a C library's headers (" + cc[0] + "): profllm-nvml cannot be built"
		}
	}
	if why != "" {
		if slices.Contains(environ, "PROFLLM_REQUIRE_CC=1") {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	return cc
}
