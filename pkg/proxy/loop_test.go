package proxy

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ring starts n proxies of which each has the next one as its only instance.
func ring(t *testing.T, n int) (urls []string, proxies []*Proxy) {
	t.Helper()
	proxies = make([]*Proxy, n)
	for i := range proxies {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			proxies[i].ServeHTTP(w,
				r)
		}))
		t.Cleanup(s.Close)
		urls = append(urls, s.URL)
	}
	for i := range proxies {
		next := []string{urls[(i+1)%n]}
		p, err := New(Options{Prefill: next, Decode: next})
		require.NoError(t, err)
		t.Cleanup(func() { p.Close() })
		proxies[i] = p
	}
	return urls, proxies
}

// A proxy that is its own instance, and proxies in a ring, answer and do not go on for ever. A
// proxy that is its own instance says so in its health.
func TestLoops(t *testing.T) {
	for n := 1; n <= 3; n++ {
		urls, proxies := ring(t, n)
		for _, path := range []string{"/v1/completions", "/v1/chat/completions", "/tokenize"} {
			resp, text := post(t, urls[0]+path, `{}`)
			require.Equal(t, http.StatusLoopDetected, resp.StatusCode)
			requireError(t, text, 508, "leads back")
		}
		resp, text := post(t, urls[0]+"/sleep", `{}`)
		require.Equal(t, http.StatusLoopDetected, resp.StatusCode)
		requireError(t, text, 508, "2 of 2 instances failed")
		status, _ := get(t, urls[0]+"/v1/models")
		require.Equal(t, http.StatusLoopDetected, status)
		if n == 1 {
			status, text = get(t, urls[0]+"/health")
			require.Equal(t, http.StatusServiceUnavailable, status)
			require.Contains(t, text, "508 Loop Detected")
		}
		for _, p := range proxies {
			eventually(t, "nothing goes on", func() bool { return p.counts.inFlight.Load() == 0 })
		}
	}
}

// Proxies behind one another are no loop; each adds itself to what the client says.
func TestVia(t *testing.T) {
	_, decode, url, inner, _ := pairOf(t)
	outer, url, _ := serve(t, Options{Prefill: []string{url}, Decode: []string{url}})
	resp, _ := post(t, url+"/tokenize", `{}`, "Via", "1.1 profllm-other, 1.0 fred (Apache)")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	via := strings.Join(decode.calls[0].header["Via"], ", ")
	for _, name := range []string{"1.1 " + inner.via, "1.1 " + outer.via, "1.1 profllm-other, 1.0 fred (Apache)"} {
		require.Contains(t, via, name)
	}
	require.NotEqual(t, inner.via, outer.via)
	require.Len(t, inner.via, len("profllm-")+32)
}
