package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Sequential requests go round; requests in flight at once are spread evenly,
// and a busy instance is left alone.
func TestSpread(t *testing.T) {
	var prefill, decode []*engine
	for range 2 {
		prefill = append(prefill, newEngine(t, prefillRole, nil))
	}
	release := make(chan struct{})
	for range 3 {
		e := newEngine(t, decodeRole, nil)
		e.answer = func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Hold") != "" {
				<-release
			}
		}
		decode = append(decode, e)
	}
	p, url, _ := serve(t, Options{Prefill: urls(prefill), Decode: urls(decode)})
	for range 12 {
		post(t, url+"/v1/completions", `{}`)
	}
	for _, e := range prefill {
		require.Equal(t, 6, e.count())
	}
	for _, e := range decode {
		require.Equal(t, 4, e.count())
	}

	var held sync.WaitGroup
	for range 30 {
		held.Go(func() { post(t, url+"/v1/completions", `{}`, "X-Hold", "1") })
	}
	eventually(t, "30 more calls", func() bool {
		return decode[0].count()+decode[1].count()+decode[2].count() == 42
	})
	for _, e := range decode {
		require.Equal(t, 14, e.count(), "ten each of those in flight at once")
	}
	close(release)
	held.Wait()
	for _, b := range p.decode.all {
		require.Zero(t, p.decode.busy(b))
	}
	p.decode.mu.Lock()
	p.decode.all[1].busy = 5
	p.decode.mu.Unlock()
	for range 8 {
		post(t, url+"/v1/completions", `{}`)
	}
	require.Equal(t, 14, decode[1].count())
	require.Equal(t, 36, decode[0].count()+decode[2].count())
}

// Before servers that compute prompts themselves, each request goes unchanged to the server with
// the fewest in flight, and the answer comes back as it is.
//
// covers: SRV-20
func TestServers(t *testing.T) {
	servers := []*engine{newEngine(t, serverRole, nil), newEngine(t, serverRole, nil)}
	p, url, log := serve(t, Options{Servers: urls(servers)})
	const body = `{"model":"m", "prompt":"p","stream":true,"kv_transfer_params":{"mine":1}}`
	for range 6 {
		resp, text := post(t, url+"/v1/completions", body)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, events, text)
	}
	for _, e := range servers {
		require.Equal(t, 3, e.count())
		require.Equal(t, body, e.calls[0].body)
	}
	p.decode.mu.Lock()
	p.decode.all[0].busy = 5
	p.decode.mu.Unlock()
	post(t, url+"/v1/chat/completions", `{}`)
	post(t, url+"/v1/chat/completions", `{}`)
	require.Equal(t, 5, servers[1].count())
	_, page := get(t, url+"/metrics")
	require.Contains(t, page, `profllm_proxy_backend_requests_total{role="serve",backend="`+servers[1].URL+`",status="200"} 5`)
	require.Contains(t, page, "profllm_proxy_overhead_seconds_count 8")
	require.Contains(t, page, "profllm_proxy_without_kv_total 0")
	require.Equal(t, []string{""}, log.lines())

	_, text := post(t, url+"/start_profile", "")
	require.Equal(t, 2, strings.Count(text, `"role":"serve"`), "every server")
	status, text := get(t, url+"/health")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, `"status":"ok","servers":[{"url":"`+servers[0].URL)
	servers[1].answer = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"error":{"message":"full"}}`) }
	post(t, url+"/v1/completions", body)
	_, page = get(t, url+"/metrics")
	require.Contains(t, page, "profllm_proxy_bad_answers_total 1", "completions are judged as behind prefill")
}

// One dead instance of two: the request that meets it fails, the next ones go
// to the other.
func TestDeadInstanceIsLeftOut(t *testing.T) {
	prefill, decode := newEngine(t, prefillRole, nil), newEngine(t, decodeRole, nil)
	_, url, _ := serve(t, Options{Prefill: []string{prefill.URL}, Decode: []string{unused(t), decode.URL}})
	resp, _ := post(t, url+"/v1/completions", `{}`)
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	for range 5 {
		resp, _ = post(t, url+"/v1/completions", `{}`)
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
}

func TestHealth(t *testing.T) {
	gone, prefill, decode := newEngine(t, prefillRole, nil), newEngine(t, prefillRole, nil), newEngine(t, decodeRole,
		nil)
	p, url, _ := serve(t, Options{Prefill: []string{gone.URL, prefill.URL}, Decode: []string{decode.URL}})
	p.eachBackend(func(b *backend) { b.poll(t.Context()) })
	gone.Close()
	for _, path := range []string{"/health", "/healthcheck", "/readiness"} {
		status, h := healthOf(t, url+path)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "ok", h.Status)
		require.Equal(t, gone.URL, h.Prefill[0].URL)
		require.False(t, h.Prefill[0].Healthy)
		require.Contains(t, h.Prefill[0].Reason, "refused")
		require.True(t, h.Prefill[1].Healthy)
		require.True(t, h.Decode[0].Healthy)
	}
	prefill.Close()
	p.eachBackend(func(b *backend) { b.poll(t.Context()) })
	status, h := healthOf(t, url+"/health")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "unavailable", h.Status)
}

// A proxy is not ready while one of its instances is not: the load would begin
// without that one, and go on so until the next poll.
func TestNotReadyBeforeEveryInstance(t *testing.T) {
	prefill, decode := newEngine(t, prefillRole, nil), newEngine(t, decodeRole, nil)
	dead := unused(t)
	for _, o := range []Options{
		{Prefill: []string{dead}, Decode: []string{decode.URL}},
		{Prefill: []string{prefill.URL}, Decode: []string{dead}},
		{Prefill: []string{dead, prefill.URL}, Decode: []string{decode.URL}},
		{Prefill: []string{prefill.URL}, Decode: []string{decode.URL, dead}},
	} {
		_, url, _ := serve(t, o)
		for _, path := range []string{"/health", "/healthcheck"} {
			status, h := healthOf(t, url+path)
			require.Equal(t, http.StatusServiceUnavailable, status, "%+v", o)
			require.Equal(t, "starting", h.Status)
		}
	}

	// As soon as it is ready, the load goes to all instances alike.
	late := newEngine(t, decodeRole, nil)
	late.down.Store(true)
	p, url, stop := polling(t, Options{Prefill: []string{prefill.URL}, Decode: []string{late.URL, decode.URL}})
	eventually(t, "the others are healthy", func() bool {
		return p.prefill.all[0].is(healthy) && p.decode.all[0].is(unhealthy) && p.decode.all[1].is(healthy)
	})
	status, _ := get(t, url+"/health")
	require.Equal(t, http.StatusServiceUnavailable, status)
	late.down.Store(false)
	eventually(t, "ready", func() bool { status, _ := get(t, url+"/health"); return status == http.StatusOK })
	for range 6 {
		post(t, url+"/v1/completions", `{}`)
	}
	require.Equal(t, 3, late.count())
	require.Equal(t, 3, decode.count())
	require.NoError(t, stop())
}

type healthAnswer struct {
	Status          string
	Prefill, Decode []instanceJSON
}

func healthOf(t *testing.T, url string) (status int, h healthAnswer) {
	t.Helper()
	status, text := get(t, url)
	require.NoError(t, json.Unmarshal([]byte(text), &h))
	return status, h
}

// covers: PL-V37
func TestMetrics(t *testing.T) {
	_, _, url, _, _ := pairOf(t)
	post(t, url+"/v1/completions", `{"stream":true}`)
	get(t, url+"/version")
	_, text := get(t, url+"/metrics")
	for _, line := range []string{
		`profllm_proxy_requests_total{method="POST",path="/v1/completions",status="200"} 1`,
		`profllm_proxy_requests_total{method="GET",path="other",status="200"} 1`,
		"profllm_proxy_in_flight 0", "profllm_proxy_request_bytes_total 15",
		`profllm_proxy_prefill_seconds_bucket{le="+Inf"} 1`, "profllm_proxy_prefill_seconds_count 1",
		"profllm_proxy_overhead_seconds_count 1", "# TYPE profllm_proxy_overhead_seconds histogram",
		"profllm_proxy_without_kv_total 0",
	} {
		require.Contains(t, text, line+"\n")
	}
	require.Positive(t, metric(t, strings.TrimPrefix(url, "http://"), "profllm_proxy_cpu_seconds_total"))
	require.Positive(t, metric(t, strings.TrimPrefix(url, "http://"), "profllm_proxy_overhead_seconds_sum"))
	for line := range strings.Lines(text) {
		require.Regexp(t, `^(# (HELP|TYPE) profllm_proxy_\w+ .+|profllm_proxy_\w+(\{.+\})? [0-9.eE+-]+)\n$`, line)
	}
}

func TestServe(t *testing.T) {
	prefill, decode := newEngine(t, prefillRole, nil), newEngine(t, decodeRole, nil)
	for _, graceful := range []bool{true, false} {
		started, end := make(chan struct{}), make(chan struct{})
		decode.answer = func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "data: 1\n\n")
			w.(http.Flusher).Flush()
			close(started)
			select {
			case <-end:
			case <-r.Context().Done():
			}
		}
		o := Options{Prefill: []string{prefill.URL}, Decode: []string{decode.URL}, Grace: 20 * time.Second}
		if !graceful {
			o.Grace = time.Millisecond
		}
		p, err := New(o)
		require.NoError(t, err)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		url := "http://" + l.Addr().String()
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- p.Serve(ctx, l) }()
		eventually(t, "health", func() bool { status, _ := get(t, url+"/health"); return status == 200 })

		resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"stream":true}`))
		require.NoError(t, err)
		<-started
		stop()
		eventually(t, "listener closed", func() bool {
			c, err := net.Dial("tcp", l.Addr().String())
			if err == nil {
				c.Close()
			}
			return err != nil
		})
		if graceful {
			close(end)
		}
		_, readErr := io.ReadAll(resp.Body)
		resp.Body.Close()
		err = <-served
		if graceful {
			require.NoError(t, readErr)
			require.NoError(t, err)
		} else {
			require.Error(t, readErr)
			require.ErrorContains(t, err, "1 requests cut")
		}
		require.Empty(t, p.decode.all[0].idle)
	}
	prefill.Close()
	decode.Close()
	http.DefaultClient.CloseIdleConnections()
	eventually(t, "no goroutine is left", func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return !bytes.Contains(stacks, []byte("pkg/proxy.(*")) &&
			!bytes.Contains(stacks, []byte("net/http.(*conn).serve"))
	})
}

// Health follows an instance that dies and returns while Serve polls.
func TestServeFollowsHealth(t *testing.T) {
	prefill, decode := newEngine(t, prefillRole, nil), newEngine(t, decodeRole, nil)
	log := &logBuffer{}
	p, _, stop := polling(t, Options{Prefill: []string{prefill.URL}, Decode: []string{decode.URL},
		Logger: slog.New(slog.NewTextHandler(log, nil))})
	b := p.decode.all[0]
	eventually(t, "healthy", func() bool { return b.is(healthy) })
	decode.Close()
	eventually(t, "unhealthy", func() bool { return b.is(unhealthy) })
	require.NoError(t, stop())
	require.Contains(t, strings.Join(log.lines(), "\n"), "instance is not healthy")
}

func TestNewRefuses(t *testing.T) {
	ok := []string{"http://a:1"}
	for _, o := range []Options{
		{}, {Prefill: ok}, {Decode: ok},
		{Servers: ok, Decode: ok}, {Servers: []string{"https://a:1"}},
		{Prefill: ok, Decode: []string{"https://a:1"}}, {Prefill: ok, Decode: []string{"a:1"}}, {Prefill: ok, Decode: []string{"http://"}},
		{Prefill: ok, Decode: []string{"http://u:p@a:1"}}, {Prefill: ok, Decode: []string{"http://a:1?x"}}, {Prefill: []string{"http://a:x"}, Decode: ok},
	} {
		_, err := New(o)
		require.Error(t, err, "%v", o)
	}
	_, err := New(Options{})
	require.ErrorContains(t, err, "prefill")
	require.ErrorContains(t, err, "decode")
}

// A path in an instance's URL stands in front of every request.
func TestURLWithPath(t *testing.T) {
	prefill, decode := newEngine(t, prefillRole, nil), newEngine(t, decodeRole, nil)
	_, url, _ := serve(t, Options{Prefill: []string{prefill.URL + "/p/"}, Decode: []string{decode.URL + "/d"}})
	post(t, url+"/v1/completions", `{}`)
	require.Equal(t, "/p/v1/completions", prefill.calls[0].path)
	require.Equal(t, "/d/v1/completions", decode.calls[0].path)
}

// A silent engine is left out only after several polls; one that refuses, at once.
func TestPolled(t *testing.T) {
	b, err := newBackend(decodeRole, "http://a:1", &Proxy{})
	require.NoError(t, err)
	b.polled(context.DeadlineExceeded, true)
	require.True(t, b.is(unhealthy), "it never answered")
	b.polled(nil, false)
	for range maxLate - 1 {
		b.polled(context.DeadlineExceeded, true)
		require.True(t, b.is(healthy))
	}
	b.polled(nil, false)
	for range maxLate {
		require.True(t, b.is(healthy))
		b.polled(context.DeadlineExceeded, true)
	}
	require.True(t, b.is(unhealthy))
	b.polled(nil, false)
	b.polled(errReader, false)
	require.True(t, b.is(unhealthy))
}

// An instance's health and the reason of it are one value: none is seen with the other's past.
func TestHealthAndReasonAgree(t *testing.T) {
	p, err := New(Options{Prefill: []string{"http://a:1"}, Decode: []string{"http://b:1"}})
	require.NoError(t, err)
	b := p.decode.all[0]
	require.Equal(t, []instanceJSON{{URL: b.url, Reason: "not asked yet"}}, p.decode.describe())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 1000 {
			b.saw(errGone)
			b.saw(nil)
		}
	}()
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		default:
		}
		i := p.decode.describe()[0]
		require.True(t, i.Reason == "not asked yet" && !i.Healthy || i.Healthy == (i.Reason == ""), "%+v", i)
	}
	require.Equal(t, []instanceJSON{{URL: b.url, Healthy: true}}, p.decode.describe())
	b.saw(errGone)
	require.Equal(t, []instanceJSON{{URL: b.url, Reason: errGone.Error()}}, p.decode.describe())
}
