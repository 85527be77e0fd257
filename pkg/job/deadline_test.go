package job

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// seenWithin is how long a dead worker may go unnoticed.
const seenWithin = 15 * time.Second

// A dead worker is seen within 15 s: the pause between two looks, the moment that its client has to
// notice it, and that pause again. This job's clock goes on by a second at each look, so that the
// test does not depend on the machine's.
func TestDeadWorkerIsSeenInTime(t *testing.T) {
	require.LessOrEqual(t, poll+clientGrace+poll, seenWithin)
	for _, when := range []string{"before it was ready", "while a client ran"} {
		t.Run(when, func(t *testing.T) {
			j := dynamo(t)
			var mu sync.Mutex
			start := time.Now()
			now := start
			j.Now = func() time.Time {
				mu.Lock()
				defer mu.Unlock()
				now = now.Add(time.Second)
				return now
			}
			decode, cmd := startProcess(t, "decode", "sleep", "7200")
			frontend, _ := startProcess(t, "frontend", "sleep", "7200")
			require.NoError(t, cmd.Process.Kill())
			procs := []Process{decode, frontend}
			var err error
			if when == "before it was ready" {
				err = j.Wait(t.Context(), procs)
			} else {
				client, _ := startProcess(t, "bench", "sleep", "7200") // one that never notices
				err = j.Watch(t.Context(), "bench", client.PID, procs)
			}
			require.ErrorContains(t, err, "decode ended "+when)
			require.LessOrEqual(t, j.Now().Sub(start)+2*poll, seenWithin)
		})
	}
}

// dynamo is a job of NVIDIA Dynamo's: a worker and the frontend that routes to it, neither of which
// is ready.
func dynamo(t *testing.T) *testJob {
	t.Helper()
	j := newJob(t)
	role := func(name string, health plan.Endpoint) plan.Role {
		health.Port, health.Path = name, "/health"
		return plan.Role{Name: name, Nodes: plan.Slice{Count: 1}, Health: health, Timeout: plan.Seconds(time.Hour)}
	}
	j.plan.Roles = []plan.Role{role("decode", plan.Endpoint{Serves: "generate"}),
		role("frontend", plan.Endpoint{Instances: map[string]int{"backend": 1}})}
	j.plan.Roles[0].Engine, j.plan.Roles[1].Router = true, true
	j.plan.Ports = []plan.Port{{Name: "decode", Base: 20000, Step: 10, Count: 1, Role: "decode"},
		{Name: "frontend", Base: 20001, Step: 10, Count: 1, Role: "frontend"}}
	j.save(t)
	j.serve(t, map[string]http.HandlerFunc{"decode": answer, "frontend": answer})
	return j
}

// A frontend that died between two phases fails the second before its client has said anything,
// although the worker behind it is well.
func TestFrontendDiesBetweenPhases(t *testing.T) {
	j := dynamo(t)
	decode, _ := startProcess(t, "decode", "sleep", "7200")
	frontend, cmd := startProcess(t, "frontend", "sleep", "7200")
	procs := []Process{decode, frontend}
	one, _ := startProcess(t, "one/bench", "sleep", "0.1")
	require.NoError(t, j.Watch(t.Context(), "one/bench", one.PID, procs))
	require.NoError(t, cmd.Process.Kill())
	two, _ := startProcess(t, "two/bench", "sleep", "0.1")
	require.ErrorContains(t, j.Watch(t.Context(), "two/bench", two.PID, procs), "frontend ended while a client ran")
	require.Equal(t, []string{"client-begins", "client-ended", "client-begins", "role-died frontend"}, j.events(t))
	require.True(t, alive(decode.PID))
}
