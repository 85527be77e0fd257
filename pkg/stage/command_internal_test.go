package stage

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// covers: PL-D10
func TestSecretsAreNotShown(t *testing.T) {
	s := &Stager{LookPath: exec.LookPath, Environ: []string{"PATH=/usr/bin:/bin"}}
	_, err := s.execute(t.Context(), t.TempDir(), "sh", "-c", "echo fatal: $0 >&2; exit 3",
		"https://me:hunter2@host/x.git")
	require.ErrorContains(t, err, "https://me:[redacted]@host/x.git: exit status 3")
	require.ErrorContains(t, err, "fatal: https://me:[redacted]@host/x.git")
	require.NotContains(t, err.Error(), "hunter2")
}
