package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A result of simulated servers says so, whoever started them, and so does what is made of it.
func TestBenchServeSaysSimulated(t *testing.T) {
	t.Parallel()
	address, env := fastServer(t)
	dir := t.TempDir()
	for _, more := range [][]string{nil, {"--metadata", "simulated=true"}} {
		o := profllm(t, dir, env, append([]string{"bench", "serve", "--base-url", "http://" + address, "--model", "tiny",
			"--num-prompts", "4", "--random-output-len", "4", "--save-result", "--result-filename", "r.json"}, more...)...)
		require.Zero(t, o.code, o.stderr)
		require.Equal(t, len(more) == 0, strings.Contains(o.stdout, "the engine is simulated"), o.stdout)
		require.Equal(t, "true", resultKeys(t, filepath.Join(dir, "r.json"))["simulated"])
		o = profllm(t, dir, nil, "import", "r.json", "--output-dir", "results")
		require.Contains(t, o.stdout, "simulated", o.stderr)
		require.NoError(t, os.Remove(filepath.Join(dir, "r.json")))
	}
}
