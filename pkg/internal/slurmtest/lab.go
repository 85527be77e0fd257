package slurmtest

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Lab asks for the real Slurm of examples/slurm-lab (eight nodes node[1-8] of
// four GPUs, partition main). Without it the test is skipped, aloud, or fails
// where environ has PROFLLM_REQUIRE_SLURM=1. With -short it is not asked.
func Lab(t testing.TB, environ []string) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs Slurm, left out with -short")
	}
	why := lab()
	switch {
	case why == "":
	case slices.Contains(environ, "PROFLLM_REQUIRE_SLURM=1"):
		t.Fatal(why)
	default:
		t.Skip(why)
	}
}

// lab says once why there is no lab. Slurm's programs look for their
// configuration for a minute, so they get 10 s.
var lab = sync.OnceValue(func() string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sinfo", "-h", "-p", "main", "-o", "%D").CombinedOutput()
	if said := strings.TrimSpace(string(out)); err != nil || said != "8" {
		return fmt.Sprintf("no Slurm lab (make lab-up): sinfo says %q, %v", said, err)
	}
	return ""
})
