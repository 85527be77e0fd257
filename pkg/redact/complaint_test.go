package redact

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestComplaint(t *testing.T) {
	env := []string{"PATH=/usr/bin:/bin", "HF_TOKEN=plain-words-only", "DB_PASSWORD=line one\nline two of it", "SLURM_CONF=/etc/slurm"}
	require.Empty(t, Complaint("", env))
	got := Complaint("sbatch: error: no /usr/bin here: HF_TOKEN=plain-words-only\nplain-words-only; line two of it\n", env)
	require.Contains(t, got, "sbatch: error: no /usr/bin here")
	require.NotContains(t, got, "plain-words-only")
	require.NotContains(t, got, "line two of it")
	require.NotContains(t, Complaint("Authorization: Bearer abcdefghijklmnopqrstuvwx", nil), "abcdefghij")
}
