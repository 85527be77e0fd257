package job

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// Holding says where the servers are, and ends when it is asked to, after its time, or with its step.
//
// covers: SRV-15
func TestHold(t *testing.T) {
	begin := func(t *testing.T, models string) (j *testJob, url string) {
		j = newJob(t)
		j.serve(t, map[string]http.HandlerFunc{"serve": answer, "proxy": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/models" || models == "" {
				http.Error(w, "no", http.StatusUnauthorized)
				return
			}
			io.WriteString(w, models)
		}})
		var place run.Placement
		require.NoError(t, run.ReadJSON(j.path(run.PlacementFile), &place))
		return j, fmt.Sprintf("http://127.0.0.1:%d/v1", place.Ports["proxy"])
	}
	t.Run("asked", func(t *testing.T) {
		j, url := begin(t, `{"data": [{"id": "small"}, {"id": "adapter"}]}`)
		over := make(chan error, 1)
		go func() { over <- j.Hold(t.Context(), url, 0) }()
		await.File(t, j.path(run.ServingFile))
		s, err := run.ReadServing(j.Dir, j.id())
		require.NoError(t, err)
		require.Equal(t, url, s.URL)
		require.Equal(t, "small", s.Model, "as the engine calls it")
		require.Nil(t, s.Until)
		require.Len(t, s.Roles, 2)
		require.Equal(t, "n1", s.Roles[0].Host)
		other, err := run.ReadServing(j.Dir, "another")
		require.NoError(t, err)
		require.Nil(t, other, "servers of an earlier job")
		require.NoError(t, run.RequestStop(j.Dir, time.Now()))
		require.NoError(t, <-over)
		require.Equal(t, []string{"hold-over"}, j.events(t))
	})
	t.Run("its time", func(t *testing.T) {
		j, url := begin(t, "")
		require.NoError(t, j.Hold(t.Context(), url, time.Nanosecond))
		s, err := run.ReadServing(j.Dir, j.id())
		require.NoError(t, err)
		require.NotNil(t, s.Until)
		p, err := run.ReadPlan(j.Dir)
		require.NoError(t, err)
		require.Equal(t, p.Config.Model, s.Model, "as it was planned, if the engine did not say")
	})
	t.Run("ended", func(t *testing.T) {
		j, url := begin(t, "")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, j.Hold(ctx, url, 0), context.Canceled)
		require.Empty(t, j.events(t))
	})
}

// A server that dies while nothing but the hold runs ends it at once, and no client is blamed.
//
// covers: HLT-3
func TestWatchOfAHold(t *testing.T) {
	j := newJob(t)
	p, err := run.ReadPlan(j.Dir)
	require.NoError(t, err)
	p.Serve = &plan.Serve{}
	data, err := p.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(j.path(run.PlanFile), data, 0o644))
	serve, cmd := startProcess(t, "serve", "sleep", "7200")
	hold, _ := startProcess(t, plan.HoldStep, "sleep", "7200")
	require.NoError(t, cmd.Process.Kill())
	require.ErrorContains(t, j.Watch(t.Context(), plan.HoldStep, hold.PID, []Process{serve}), "serve ended after it was ready")
}
