package slurmtest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Lab asks for the real Slurm of examples/slurm-lab (eight nodes node[1-8] of
// four GPUs, partition main). Without it the test is skipped, aloud, or fails
// where environ has PROFLLM_REQUIRE_SLURM=1.
func Lab(t testing.TB, environ []string) {
	t.Helper()
	out, err := exec.Command("sinfo", "-h", "-p", "main", "-o", "%D").CombinedOutput()
	said := strings.TrimSpace(string(out))
	switch {
	case err == nil && said == "8":
	case slices.Contains(environ, "PROFLLM_REQUIRE_SLURM=1"):
		t.Fatalf("no Slurm lab (make lab-up): sinfo says %q, %v", said, err)
	default:
		t.Skipf("no Slurm lab (make lab-up): sinfo says %q, %v", said, err)
	}
}
