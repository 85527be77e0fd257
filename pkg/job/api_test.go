package job

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// The counters of a single load begin behind the checks of the API, whose requests are not the
// load's. Those that failed are events with what came.
func TestCheckedAPI(t *testing.T) {
	j := newJob(t)
	looks := 0
	j.serve(t, map[string]http.HandlerFunc{"serve": func(w http.ResponseWriter, r *http.Request) {
		looks++
		fmt.Fprintf(w, "looks %d\n", looks)
	}, "proxy": http.NotFound})
	require.NoError(t, j.CheckedAPI(t.Context(), []APIResult{{Check: "models", Passed: true},
		{Check: "chat", Text: "asked …; got: nothing"}}))
	require.Zero(t, looks)
	events, err := ReadEvents(j.Dir)
	require.NoError(t, err)
	require.Equal(t, APIPassed, events[0].Event)
	require.Equal(t, Event{Time: events[1].Time, Event: APIFailed, Check: "chat", Text: "asked …; got: nothing"}, events[1])
	require.NoError(t, j.CheckedAPI(t.Context(), []APIResult{{Check: "models", Passed: true}}))
	data, err := os.ReadFile(j.path("raw", MetricsFile("serve", Before)))
	require.NoError(t, err)
	require.Equal(t, "looks 1\n", string(data))

	j.plan.Loads = []plan.Load{{Name: "a"}, {Name: "b"}} // each reads them
	j.save(t)
	require.NoError(t, j.CheckedAPI(t.Context(), []APIResult{{Check: "models", Passed: true}}))
	require.Equal(t, 1, looks)
}
