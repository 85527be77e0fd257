// Package programtest gives tests the profllm program.
package programtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// builtVar names a program that was compiled from this tree, once for all packages: .ci/test sets it.
const builtVar = "PROFLLM_BUILT"

// Build puts the program into dir and returns its path: a link to the one that environ names, or compiled.
func Build(dir string, environ []string) (string, error) {
	binary := filepath.Join(dir, "profllm")
	for _, kv := range environ {
		if built, ok := strings.CutPrefix(kv, builtVar+"="); ok && os.Link(built, binary) == nil {
			return binary, nil
		}
	}
	cmd := exec.Command("go", "build", "-o", binary, "github.com/profllm/profllm/cmd/profllm")
	cmd.Env = append(append([]string(nil), environ...), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build profllm: %w\n%s", err, out)
	}
	return binary, nil
}
