package validity_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/validity"
)

// proxy gives the proxy requests by status.
func (g *run) proxy(statuses map[string]int64) {
	p := &result.Proxy{Statuses: statuses}
	for _, n := range statuses {
		p.Requests += n
	}
	g.r.Results.Proxy = p
}

// Warm-up requests that the client gave up and says so of are no contradiction: they have a check of
// their own.
func TestProxyErrorsOfAWarmUp(t *testing.T) {
	for failed, fails := range map[int]bool{8: false, 7: true} {
		g := good()
		g.r.Results.Proxy = &result.Proxy{Requests: 1008, Statuses: map[string]int64{"200": 1000, "499": 8}}
		g.e.Planned.Warmups = 8
		client := result.Client{}
		if g.r.Results.Client != nil {
			client = *g.r.Results.Client
		}
		client.WarmUpsFailed = &failed
		g.r.Results.Client = &client
		v := validity.Judge(&g.r, g.e)
		require.Equal(t, fails, v.Check("proxy-errors").Outcome == result.Fail, v.Check("proxy-errors").Detail)
		if fails {
			require.Equal(t, "the client gave up 8 requests, but reports 7 failed", v.Check("proxy-errors").Detail)
		}
		require.Equal(t, result.Fail, v.Check("warm-up-failed").Outcome)
	}
}

// covers: PL-V34
func TestProxyErrorsSayTheNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		proxy  result.Proxy
		failed int
		fails  bool
		says   string
	}{
		"nothing": {result.Proxy{Requests: 1000, Statuses: map[string]int64{"200": 1000}}, 0, false,
			"1000 requests: no error, none sent again"},
		"errors that the client hid": {result.Proxy{Requests: 1010, Statuses: map[string]int64{"200": 1000, "502": 7, "400": 3}, Broken: 1, BadAnswers: 2,
			Backends: []result.ProxyBackend{{Role: "decode", URL: "http://b:1",
				Failures: map[string]int64{"closed": 7, "bad-body": 2}}}}, 0, true,
			"13 of 1010 requests were answered with an error (accepted 0 %), 1 of them broken off, 2 of status 200; decode http://b:1 bad-body 2, decode http://b:1 closed 7"},
		"sent again": {result.Proxy{Requests: 1000, Statuses: map[string]int64{"200": 1000}, Resent: 3}, 0, true,
			"3 of 1000 requests were sent to an instance a second time (accepted 0 %)"},
		"errors and sent again": {result.Proxy{Requests: 1000, Statuses: map[string]int64{"200": 999, "503": 1}, Resent: 3}, 1, true,
			"1 of 1000 requests were answered with an error (accepted 0 %); 3 of 1000 requests were sent to an instance a second time (accepted 0 %)"},
		"given up": {result.Proxy{Requests: 1000, Statuses: map[string]int64{"200": 996, "499": 4}}, 1, true,
			"the client gave up 4 requests, but reports 1 failed"},
		"given up and reported": {result.Proxy{Requests: 1000, Statuses: map[string]int64{"200": 996, "499": 4}}, 4, false,
			"1000 requests: no error, none sent again, 4 given up by the client"},
		"without KV": {result.Proxy{Requests: 1000, Statuses: map[string]int64{"200": 1000}, WithoutKV: 400}, 0, true,
			"400 of 1000 requests were computed by decode itself, because prefill handed over no KV cache (accepted 1 %)"},
		"restarted": {result.Proxy{Requests: 1, Reset: true}, 0, true, "the proxy restarted between the first and the last reading of its counters"},
	} {
		t.Run(name, func(t *testing.T) {
			g := good()
			g.r.Results.Proxy = &c.proxy
			g.r.Results.FailedRequests = &c.failed
			v := validity.Judge(&g.r, g.e)
			check := v.Check("proxy-errors")
			require.Equal(t, c.fails, check.Outcome == result.Fail)
			if c.fails {
				require.NotEqual(t, result.VerdictValid, v.Verdict)
			}
			require.Equal(t, c.says, check.Detail)
		})
	}
}
