package sim

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
)

func faulty(text string) map[string]string {
	return map[string]string{"PROFLLM_SIM_FAULTS": text, "PROFLLM_ROLE": "serve"}
}

// The condition that the check PL-V1, PL-V19 must find (PL-V36); the check itself is tested
// where it lives.
func TestFaultDieAtStart(t *testing.T) {
	code, out, errs := run(t, faulty("serve:die-at-start,exit=3"), "vllm", "serve", "m", "--port", "0")
	require.Equal(t, 3, code)
	require.Contains(t, out, "ValueError: No available memory for the cache blocks.")
	require.Contains(t, out, "profllm sim")
	require.Contains(t, errs, "See root cause above")
	require.NotContains(t, out, "Application startup complete")
}

func TestFaultNeverReady(t *testing.T) {
	c := start(t, faulty("*:never-ready"), "vllm", "serve", "m", "--port", "0")
	c.await(t, "simulated TTFT")
	require.Empty(t, c.code)
	c.cancel()
	require.Equal(t, 0, c.exit(t))
	require.NotContains(t, c.out.String(), "Application startup complete")
}

func TestFaultDieAfter(t *testing.T) {
	c, _ := serveCommand(t, faulty("serve:die-after=1ms,exit=9"))
	require.Equal(t, 9, c.exit(t))
	require.Contains(t, c.out.String(), "EngineDeadError")
}

func TestFaultDieOnRequest(t *testing.T) {
	c, url := serveCommand(t, faulty("*:die-on-request=2"))
	status, _, err := post(t.Context(), url+"/v1/completions", hello)
	require.NoError(t, err)
	require.Equal(t, 200, status)
	_, _, err = post(t.Context(), url+"/v1/completions", hello)
	require.Error(t, err, "the second request gets no answer")
	require.Equal(t, 1, c.exit(t))
}

func TestFaultHang(t *testing.T) {
	c, url := serveCommand(t, faulty("*:hang"))
	a, err := http.Get(url + "/health")
	require.NoError(t, err)
	a.Body.Close()
	require.Equal(t, 200, a.StatusCode)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, err = post(ctx, url+"/v1/completions", hello)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	c.cancel()
	require.Equal(t, 0, c.exit(t), "SIGTERM ends a hanging server")
}

func TestFaultFail(t *testing.T) {
	_, url := serveCommand(t, faulty("*:fail=0.5"))
	statuses := map[int]int{}
	for range 100 {
		status, body, err := post(t.Context(), url+"/v1/completions", `{"prompt":"Hello","max_tokens":1}`)
		require.NoError(t, err)
		statuses[status]++
		if status != 200 {
			require.JSONEq(t, `{"error":{"message":"Internal server error","type":"InternalServerError","param":null,"code":500}}`, body)
		}
	}
	want := 0 // the share is drawn, but always the same
	for n := range uint64(100) {
		if knobs.Unit(1, n+1) < 0.5 {
			want++
		}
	}
	require.Equal(t, map[int]int{200: 100 - want, 500: want}, statuses)
	require.InDelta(t, 50, want, 20)
}

// The condition that the check PL-V10 must find (PL-V36); the check itself is tested where it
// lives.
func TestFaultBundle(t *testing.T) {
	_, url := serveCommand(t, faulty("*:bundle=4"))
	_, body, err := post(t.Context(), url+"/v1/completions", helloStream)
	require.NoError(t, err)
	require.Equal(t, 2+1+1, strings.Count(body, "data: "), "two chunks of 4 and 2 tokens, usage, done: %s", body)
	require.Contains(t, body, `"completion_tokens":6`)
}

// The condition that the check PL-V1 must find (PL-V36); the check itself is tested where it lives.
func TestFaultZeroTokens(t *testing.T) {
	_, url := serveCommand(t, faulty("*:zero-tokens"))
	for _, request := range []string{hello, helloStream} {
		status, body, err := post(t.Context(), url+"/v1/completions", request)
		require.NoError(t, err)
		require.Equal(t, 200, status)
		require.Contains(t, body, `"completion_tokens":0`)
		require.Contains(t, body, `"finish_reason":"stop"`)
	}
	status, body, err := post(t.Context(), url+"/v1/chat/completions",
		`{"messages":[{"role":"user","content":"x"}],"stream":true}`)
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Equal(t, 3, strings.Count(body, "data: "), "role, finish, done: %s", body)
}

// The conditions that the checks PL-V19 and PL-V25 must find (PL-V36); the checks themselves
// are tested where they live.
func TestFaultsOfIdentity(t *testing.T) {
	_, url := serveCommand(t, faulty("*:root=org/m,version=1.2,restart-on-request=2"))
	page := func(path string) string {
		res, err := http.Get(url + path)
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(body)
	}
	require.JSONEq(t, `{"version": "1.2"}`, page("/version"))
	require.Contains(t, page("/v1/models"), `"id":"tiny"`)
	require.Contains(t, page("/v1/models"), `"root":"org/m"`)
	for _, want := range []string{"1.0", "1.0"} { // the second is counted after the restart
		status, _, err := post(t.Context(), url+"/v1/completions", hello)
		require.NoError(t, err)
		require.Equal(t, 200, status)
		require.Regexp(t, `vllm:request_success_total{[^}]*finished_reason="length"[^}]*} `+want, page("/metrics"))
	}
}

func TestFaultsOfTheClient(t *testing.T) {
	tests := map[string]struct {
		faults string
		code   int
		ran    bool
	}{
		"none":        {"", 0, true},
		"servers'":    {"*:die-at-start", 0, true},
		"die":         {"client:die-at-start,exit=5", 5, false},
		"die after":   {"client:die-after=1ms,exit=6", 6, true},
		"a mistake":   {"client:die", 2, false},
		"other roles": {"decode:hang", 0, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ran := false
			code := Main(t.Context(), program.Process{
				Args: []string{"vllm", "bench", "serve"}, Env: env(faulty(tt.faults)), Stdout: io.Discard,
				Stderr: io.Discard,
				Bench: func(ctx context.Context, _ []string, _ func() time.Time, _, _ io.Writer) int {
					ran = true
					if strings.Contains(tt.faults, "die-after") {
						<-ctx.Done()
						return 130
					}
					return 0
				},
			})
			require.Equal(t, tt.code, code)
			require.Equal(t, tt.ran, ran)
		})
	}
}

// The condition that the check PL-V22 must find: nobody gets a token while it lasts.
func TestFaultStall(t *testing.T) {
	_, url := serveCommand(t, faulty("*:stall=300ms@0s"))
	begin := time.Now()
	_, body, err := post(t.Context(), url+"/v1/completions", helloStream)
	require.NoError(t, err)
	require.Contains(t, body, `"completion_tokens":6`)
	require.GreaterOrEqual(t, time.Since(begin), 300*time.Millisecond)
}

// The conditions of a client that the checks PL-V8, PL-V13 and PL-V14 must find.
func TestFaultsOfTheClientsClock(t *testing.T) {
	for text, check := range map[string]func(args []string, now func() time.Time){
		"":                   func(args []string, _ func() time.Time) { require.Equal(t, []string{"--request-rate", "10"}, args) },
		"client:pace=0.8":    func(args []string, _ func() time.Time) { require.Equal(t, []string{"--request-rate", "8"}, args) },
		"client:step=-9h@0s": func(_ []string, now func() time.Time) { require.Less(t, time.Until(now()), -8*time.Hour) },
		"client:freeze=100ms@0s": func(_ []string, now func() time.Time) {
			begin := time.Now()
			now()
			require.GreaterOrEqual(t, time.Since(begin), 50*time.Millisecond)
		},
	} {
		called := false
		p := program.Process{Env: env(map[string]string{"PROFLLM_SIM_FAULTS": text}), Stdout: io.Discard,
			Stderr: io.Discard,
			Bench: func(_ context.Context, args []string, now func() time.Time, _, _ io.Writer) int {
				called = true
				check(args, now)
				return 0
			}}
		p.Args = []string{"vllm", "bench", "serve", "--request-rate", "10"}
		require.Zero(t, Main(t.Context(), p), text)
		require.True(t, called, text)
	}
}
