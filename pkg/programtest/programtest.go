// Package programtest gives tests the profllm program.
package programtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// builtVar names a program that was compiled from this tree, once for all packages: .ci/test sets it.
const builtVar = "PROFLLM_BUILT"

// Build puts the program into dir and returns its path: a link to the one that the environment names, or compiled.
// It is to be given os.Getenv, of which go test takes note: what was tested with another program is not cached.
func Build(dir string, getenv func(name string) string) (string, error) {
	binary := filepath.Join(dir, "profllm")
	if built := getenv(builtVar); built != "" && os.Link(built, binary) == nil {
		return binary, nil
	}
	cmd := exec.Command("go", "build", "-o", binary, "github.com/profllm/profllm/cmd/profllm")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build profllm: %w\n%s", err, out)
	}
	return binary, nil
}
