package job

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// A container is not ended by force while a profiler in it may still write.
//
// covers: SIG-5
func TestContainerPatience(t *testing.T) {
	j := newJob(t)
	b := box{Job: j.Job}
	require.Equal(t, termWait-containMargin, b.patience())
	b.Contain.Dir = j.Dir
	require.Equal(t, termWait-containMargin, b.patience())
	j.plan.Roles[0].Report = "raw/nsys-serve-0"
	j.save(t)
	require.Equal(t, plan.ReportWait-containMargin, b.patience())
}
