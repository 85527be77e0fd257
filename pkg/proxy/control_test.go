package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// four is two instances of each role and a proxy before them.
func four(t *testing.T) (all []*engine, url string, log *logBuffer) {
	prefill := []*engine{newEngine(t, prefillRole, nil), newEngine(t, prefillRole, nil)}
	decode := []*engine{newEngine(t, decodeRole, nil), newEngine(t, decodeRole, nil)}
	_, url, log = serve(t, Options{Prefill: urls(prefill), Decode: urls(decode)})
	return slices.Concat(prefill, decode), url, log
}

func instances(t *testing.T, text string) controlJSON {
	t.Helper()
	var c controlJSON
	require.NoError(t, json.Unmarshal([]byte(text), &c), text)
	return c
}

// What belongs to every engine reaches every instance of both roles, once, as the
// client wrote it.
func TestControlsReachEveryInstance(t *testing.T) {
	all, url, log := four(t)
	for _, e := range all {
		e.answer = func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"success":true}`) }
	}
	for path := range controls {
		resp, text := post(t, url+path+"?x=1", `{"a": 1}`, "Authorization", "Bearer key")
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
		c := instances(t, text)
		require.Nil(t, c.Error)
		require.Len(t, c.Instances, 4)
		for i, e := range all {
			require.Equal(t, e.role, c.Instances[i].Role)
			require.Equal(t, e.URL, c.Instances[i].URL)
			require.Equal(t, 200, c.Instances[i].Status)
			require.JSONEq(t, `{"success":true}`, string(c.Instances[i].Body))
			got := e.calls[len(e.calls)-1]
			require.Equal(t, path+"?x=1", got.path)
			require.Equal(t, `{"a": 1}`, got.body)
			require.Equal(t, "Bearer key", got.header.Get("Authorization"))
		}
	}
	for _, e := range all {
		require.Equal(t, len(controls), e.count(), "each once")
	}
	status, text := get(t, url+"/is_sleeping")
	require.Equal(t, http.StatusOK, status)
	require.Len(t, instances(t, text).Instances, 4)
	require.Equal(t, []string{""}, log.lines())
	_, metrics := get(t, url+"/metrics")
	require.Contains(t, metrics,
		fmt.Sprintf(`profllm_proxy_requests_total{method="any",path="control",status="200"} %d`, len(controls)+1))
	for _, path := range []string{"/v1/models", "/version", "/tokenize", "/start_profiles", "/v1/sleep"} {
		before := all[0].count()
		post(t, url+path, `{}`)
		require.Equal(t, before, all[0].count(), "%s is no control", path)
	}
}

// One instance that does not do it fails the whole, and the answer says which.
func TestControlsThatFail(t *testing.T) {
	const wrong = "status 500"
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"an error":           {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, wrong},
		"not enabled":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "status 404"},
		"redirected":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(307) }, "status 307"},
		"died":               {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "closed without an answer"},
		"refused with a 200": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"success":false}`) }, `"success": false`},
		"broke off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			io.WriteString(w, "{")
		}, "read answer"},
		"an answer without end": {func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, maxOutcome+1)) }, errTooBig.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			all, url, log := four(t)
			for _, e := range all {
				e.answer = func(http.ResponseWriter, *http.Request) {}
			}
			all[1].answer = c.answer
			resp, text := post(t, url+"/reset_prefix_cache", "")
			require.Equal(t, http.StatusBadGateway, resp.StatusCode)
			require.Equal(t, "prefill "+all[1].URL, resp.Header.Get("X-Profllm-Backend"))
			requireError(t, text, 502, "1 of 4 instances failed", all[1].URL, c.says)
			for i, o := range instances(t, text).Instances {
				require.Equal(t, i == 1, o.Error != "", o.Error)
			}
			for _, e := range all {
				require.Equal(t, 1, e.count(), "the others are asked all the same")
			}
			eventually(t, "log line", func() bool { return log.lines()[0] != "" })
			require.Contains(t, log.lines()[0], "1 of 4 instances failed")
		})
	}
}

// Answers to a control request take room like bodies, all of them together and with the text
// that they become, and give it back. An answer without room is no failure of its instance.
func TestControlsHaveRoom(t *testing.T) {
	binary := strings.Repeat("\x00", 1000) // six times as long in JSON
	for name, c := range map[string]struct {
		answer  string
		chunked bool
		status  int
	}{
		"within":                 {strings.Repeat(" ", 2000), false, 200},
		"together above":         {strings.Repeat(" ", 4000), false, 503},
		"together above, chunks": {strings.Repeat(" ", 4000), true, 503},
		"one above":              {strings.Repeat(" ", 20_000), false, 503},
		"above when quoted":      {binary, false, 503},
	} {
		t.Run(name, func(t *testing.T) {
			var prefill, decode []*engine
			var got sync.WaitGroup
			for i := range 4 {
				e := newEngine(t, []string{prefillRole, decodeRole}[i/2], nil)
				got.Add(1)
				e.answer = func(w http.ResponseWriter, _ *http.Request) {
					got.Done()
					got.Wait() // all answers come while none has ended
					if c.chunked {
						w.(http.Flusher).Flush()
					}
					io.WriteString(w, c.answer)
				}
				if i < 2 {
					prefill = append(prefill, e)
				} else {
					decode = append(decode, e)
				}
			}
			p, url, _ := serve(t,
				Options{Prefill: urls(prefill), Decode: urls(decode), MaxBody: 1000, MaxBodies: 12_000})
			resp, text := post(t, url+"/sleep", "")
			require.Equal(t, c.status, resp.StatusCode, text)
			require.Len(t, instances(t, text).Instances, 4)
			if c.status != 200 {
				requireError(t, text, 503, errNoRoom.Error())
				require.Equal(t, "1", resp.Header.Get("Retry-After"))
			}
			eventually(t, "all room is back", func() bool { return p.room.used.Load() == 0 })
			p.eachBackend(func(b *backend) {
				require.Zero(t, b.counts.errors.Load())
				require.True(t, b.is(healthy))
			})
		})
	}
}

// Instances that fail alike lend the answer their status.
func TestControlsThatNoneKnows(t *testing.T) {
	all, url, _ := four(t)
	for _, e := range all {
		e.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(404)
			io.WriteString(w, "Not Found")
		}
	}
	resp, text := post(t, url+"/sleep", "")
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	require.Equal(t, `"Not Found"`, string(instances(t, text).Instances[0].Body))
	all[0].answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }
	resp, _ = post(t, url+"/sleep", "")
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
}

// The reference page names every control path, reason, flag and metric, and no other
// metric.
func TestReferencePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/proxy.md")
	require.NoError(t, err)
	for path := range controls {
		require.Contains(t, string(page), "`"+path+"`")
	}
	for _, label := range reasonLabels {
		require.Contains(t, string(page), "`"+label+"`")
	}
	for _, m := range regexp.MustCompile(`--[a-z-]+`).FindAllString(Usage(), -1) {
		require.True(t, m == "--help" || strings.Contains(string(page), "`"+m), m)
	}
	for _, line := range regexp.MustCompile(`(?m)^profllm proxy (.+)$`).FindAllStringSubmatch(string(page), -1) {
		_, _, err := ParseArgs(strings.Fields(line[1]))
		require.NoError(t, err, line[1])
	}
	_, _, url, _, _ := pairOf(t)
	_, metrics := get(t, url+"/metrics")
	inPage := regexp.MustCompile(`profllm_proxy_[a-z_]+`).FindAllString(string(page), -1)
	for _, m := range regexp.MustCompile(`# TYPE (\w+)`).FindAllStringSubmatch(metrics, -1) {
		require.Contains(t, inPage, m[1])
	}
	for _, name := range inPage {
		require.Contains(t, metrics, "# TYPE "+name+" ")
	}
}
