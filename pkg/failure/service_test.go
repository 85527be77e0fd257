package failure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/failure"
)

// What a part of the service says last comes before what its users saw, if nobody
// recorded how that part ended.
//
// covers: PL-F5, PL-F12
func TestServiceWords(t *testing.T) {
	const (
		gone   = "2026-11-21 10:00:12,000 aiohttp.client_exceptions.ServerDisconnectedError: Server disconnected"
		broken = "2026-11-21T10:00:10.000000Z ERROR runtime::lease: the lease is lost, shutting down"
	)
	for name, tt := range map[string]struct {
		logs        []failure.Log
		cause, want string
	}{
		"a worker's error":              {[]failure.Log{log("client", gone), log("worker", broken)}, "error-message", broken},
		"a worker comes before a proxy": {[]failure.Log{log("client", gone), log("proxy", "2026-11-21T10:00:09.000000Z ERROR http: no instances"), log("worker", broken)}, "error-message", broken},
		"the earlier of two workers": {[]failure.Log{log("client", gone), log("worker", broken), log("decode", "2026-11-21T10:00:08.000000Z ERROR router: queue closed")},
			"error-message", "2026-11-21T10:00:08.000000Z ERROR router: queue closed"},
		"a proxy that nobody is behind": {[]failure.Log{log("client", gone), log("proxy", broken)}, "error-message", broken},
		"a panic": {[]failure.Log{log("client", "aiohttp.client_exceptions.ServerDisconnectedError: Server disconnected"),
			log("frontend", "thread 'main' panicked at src/index.rs:4:1:", "no parent block")}, "error-message",
			"thread 'main' panicked at src/index.rs:4:1:"},
		"a daemon that gave up before it was missed": {[]failure.Log{log("worker", "2026-11-21T10:00:10.000000Z ERROR a: Failed to connect to etcd server with config"),
			log("etcd", `{"level":"fatal","ts":"2026-11-21T10:00:01.120Z","msg":"discovery failed","error":"listen tcp 10.0.0.1:2380: bind: cannot assign requested address"}`)},
			"address-not-local", `{"level":"fatal","ts":"2026-11-21T10:00:01.120Z","msg":"discovery failed","error":"listen tcp 10.0.0.1:2380: bind: cannot assign requested address"}`},
		"NATS": {[]failure.Log{log("client", "Successful requests:                     0"), log("nats", "[1] 2026/11/21 10:00:01.000000 [INF] Server is ready",
			"[1] 2026/11/21 10:00:02.000000 [ERR] 10.0.0.4:51234 - the route is lost")}, "error-message", "[1] 2026/11/21 10:00:02.000000 [ERR] 10.0.0.4:51234 - the route is lost"},
		"etcd": {[]failure.Log{log("client", "Successful requests:                     0"),
			log("etcd", `{"level":"info","msg":"serving"}`,
				`{"level":"fatal","caller":"etcdmain/etcd.go:204","msg":"discovery failed"}`)},
			"error-message", `{"level":"fatal","caller":"etcdmain/etcd.go:204","msg":"discovery failed"}`},
		"words that are later than what a user saw": {[]failure.Log{log("client", gone), log("worker", "2026-11-21T10:05:00.000000Z ERROR runtime::lease: the lease is lost")}, "client-disconnected", gone},
		"a proxy's own exception":                   {[]failure.Log{log("proxy", "RuntimeError: no backend", "Caused by:", "    nobody"), log("client", gone)}, "unhandled-exception", "RuntimeError: no backend: nobody"},
		"a warning is no reason":                    {[]failure.Log{log("client", gone), log("worker", "2026-11-21T10:00:10.000000Z WARN runtime::lease: late")}, "client-disconnected", gone},
		"a server that went on":                     {[]failure.Log{log("client", gone), log("worker", broken, "INFO a", "INFO b", "INFO c", "INFO d")}, "client-disconnected", gone},
	} {
		t.Run(name, func(t *testing.T) {
			f := explain(t, failure.Job{}, tt.logs...)
			require.Equal(t, tt.cause, f.Cause, f.Line)
			require.Equal(t, tt.want, f.Line)
		})
	}
}
