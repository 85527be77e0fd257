package job

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// Answers of Dynamo 1.6.1, shortened: the mocker's status is never that of success.
const (
	workerUp      = `{"status":"notready","uptime":{"secs":12,"nanos":1},"endpoints":{"generate":"ready"}}`
	workerWaits   = `{"status":"notready","uptime":{"secs":1,"nanos":1},"endpoints":{"generate":"notready"}}`
	frontendFound = `{"status":"healthy","endpoints":["dyn://dynamo.backend.generate"],"instances":[` +
		`{"component":"backend","endpoint":"generate","namespace":"dynamo","instance_id":1},` +
		`{"component":"backend","endpoint":"generate","namespace":"dynamo","instance_id":2},` +
		`{"component":"prefill","endpoint":"generate","namespace":"dynamo","instance_id":3},` +
		`{"component":"prefill","endpoint":"worker_kv_query_source_1","namespace":"dynamo","instance_id":3}]}`
	frontendEmpty = `{"status":"unhealthy","endpoints":[],"instances":[]}`
)

func TestReady(t *testing.T) {
	worker := plan.Endpoint{Serves: "generate"}
	front := func(prefill, backend int) plan.Endpoint {
		return plan.Endpoint{Instances: map[string]int{"prefill": prefill, "backend": backend}}
	}
	for _, c := range []struct {
		want         plan.Endpoint
		answer, lack string
	}{
		{worker, workerUp, ""},
		{worker, workerWaits, "it does not serve generate yet"},
		{worker, frontendFound, "it does not serve generate yet"},
		{front(1, 2), frontendFound, ""},
		{front(2, 3), frontendFound, "registered: 2 of 3 backend, 1 of 2 prefill"},
		{front(1, 1), frontendEmpty, "registered: 0 of 1 backend, 0 of 1 prefill"},
		{worker, "not found", "the answer is no JSON"},
		{front(1, 1), `[1]`, "the answer is no JSON"},
	} {
		err := ready(c.want, []byte(c.answer))
		if c.lack == "" {
			require.NoError(t, err, c.answer)
			continue
		}
		require.ErrorContains(t, err, c.lack, c.answer)
	}
}

// A frontend whose workers have registered must answer a request for the model, as a completion or a chat.
//
// covers: U-23
func TestRegistered(t *testing.T) {
	status := map[string]int{"/v1/completions": 404, "/v1/chat/completions": 404}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			fmt.Fprint(w, frontendFound)
			return
		}
		w.WriteHeader(status[r.URL.Path])
	}))
	defer server.Close()
	want := plan.Endpoint{Path: "/health", Instances: map[string]int{"backend": 2}, Model: "m"}
	ask := func() error { return registered(context.Background(), want, server.URL+"/health", time.Minute) }
	require.ErrorContains(t, ask(), "404")
	status["/v1/chat/completions"] = 200
	require.NoError(t, ask(), "a model without completions")
	status["/v1/chat/completions"], status["/v1/completions"] = 500, 200
	require.NoError(t, ask(), "a model without a chat template")
}

// Any answer is an answer.
func FuzzReady(f *testing.F) {
	for _, answer := range []string{workerUp, workerWaits, frontendFound, frontendEmpty, `{"endpoints":1}`, `{"instances":{}}`} {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		_ = ready(plan.Endpoint{Serves: "generate", Instances: map[string]int{"backend": 1}}, answer)
	})
}
