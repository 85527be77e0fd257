package loadtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func post(t *testing.T, s *Server, body string) (status int, answer string, took time.Duration) {
	t.Helper()
	begin := time.Now()
	resp, err := http.Post(s.URL()+"/v1/completions", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(raw), time.Since(begin)
}

func TestNoTokenIsEarly(t *testing.T) {
	s, err := Start(Options{TTFT: 20 * time.Millisecond, ITL: 4 * time.Millisecond})
	require.NoError(t, err)
	defer s.Close()
	for n := 1; n <= 4; n++ {
		status, answer, took := post(t, s, fmt.Sprintf(`{"prompt":[1,2,3],"max_tokens":%d}`, n))
		require.Equal(t, 200, status)
		require.Equal(t, n, strings.Count(answer, `"text":" token"`))
		require.Contains(t, answer, fmt.Sprintf(`"prompt_tokens":3,"total_tokens":%d,"completion_tokens":%d`, 3+n, n))
		require.True(t, strings.HasSuffix(answer, "data: [DONE]\n\n"))
		require.GreaterOrEqual(t, took, 20*time.Millisecond+time.Duration(n-1)*4*time.Millisecond)
	}
	truth := s.Truth()
	require.Equal(t, 4, truth.Streams)
	require.GreaterOrEqual(t, truth.MeanTTFT, 20.0)
	require.GreaterOrEqual(t, truth.MaxTTFT, truth.MeanTTFT)
	require.GreaterOrEqual(t, truth.MeanLate, 0.0)
	require.Positive(t, truth.Gap.P99)
	require.Equal(t, 1, truth.MaxInFlight)
}

// The times of a stream are in order, and those of what is no stream are not kept.
func TestTimesOfStreams(t *testing.T) {
	const ttft = 20 * time.Millisecond
	s, err := Start(Options{TTFT: ttft, Time: true})
	require.NoError(t, err)
	defer s.Close()
	for _, body := range []string{`{"prompt":[1],"max_tokens":2}`, `{"prompt":[1]}`} {
		req, err := http.NewRequest(http.MethodPost, s.URL()+"/v1/completions", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("X-Request-Id", "r1")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
	}
	resp, err := http.Get(s.URL() + "/times")
	require.NoError(t, err)
	defer resp.Body.Close()
	var all []Times
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&all))
	require.Len(t, all, 1)
	one := all[0]
	require.Equal(t, "r1", one.ID)
	require.False(t, one.Read.Before(one.Arrived))
	require.GreaterOrEqual(t, one.Begun.Sub(one.Arrived), ttft)
	require.False(t, one.Written.Before(one.Begun))
	require.LessOrEqual(t, s.Truth().Unread.P50, s.Truth().MaxTTFT)
}

func TestBadRequestsAreRefused(t *testing.T) {
	s, err := Start(Options{})
	require.NoError(t, err)
	defer s.Close()
	status, _, _ := post(t, s, `{"prompt":"x"}`)
	require.Equal(t, 400, status, "max_tokens is missing")
}

func TestCloseEndsStreams(t *testing.T) {
	s, err := Start(Options{TTFT: time.Hour})
	require.NoError(t, err)
	done := make(chan error)
	go func() {
		_, err := http.Post(s.URL()+"/v1/completions", "", strings.NewReader(`{"max_tokens":1}`))
		done <- err
	}()
	for s.Requests() == 0 {
		time.Sleep(time.Millisecond)
	}
	s.Close()
	require.Error(t, <-done)
}
