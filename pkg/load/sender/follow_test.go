package sender

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/load/answer/answertest"
)

// chains returns a load of so many chains of requests: those that follow a head h are h+n, h+2n and
// so on.
func chains(n, length int, pause time.Duration) *Load {
	began := time.Now()
	load := &Load{
		Requests: asking{10}, Outcomes: make([]answer.Outcome, n*length), Limit: 3, Heads: n,
		Clock: func() int64 { return 1 + int64(time.Since(began)) },
	}
	load.Follow = func(i int, at int64) (int, int64) {
		if i+n >= len(load.Outcomes) || load.Outcomes[i].State != answer.Completed {
			return -1, 0
		}
		return i + n, at + int64(pause)
	}
	return load
}

// onEach runs a test with the loop, with several loops and with the pool.
func onEach(t *testing.T, address string, f func(t *testing.T, snd Sender)) {
	for _, way := range []string{"loop", "many loops", "pool"} {
		if way != "pool" && !HaveLoop {
			continue
		}
		t.Run(way, func(t *testing.T) {
			to := &Target{Streams: 3, PerLoop: 3, Goroutines: way == "pool"}
			if way == "many loops" {
				to.PerLoop = 1
			}
			var err error
			to.URL, err = url.Parse(address)
			require.NoError(t, err)
			snd, err := Open(t.Context(), to)
			require.NoError(t, err)
			defer snd.Close()
			f(t, snd)
		})
	}
}

func TestRequestsThatFollowOthers(t *testing.T) {
	const body = answertest.TokenEvent + answertest.TokenEvent + answertest.UsageEvent + answertest.DoneEvent
	var flying, peak atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := flying.Add(1)
		defer flying.Add(-1)
		for old := peak.Load(); now > old && !peak.CompareAndSwap(old, now); old = peak.Load() {
		}
		fmt.Fprint(w, body)
	}))
	defer server.Close()
	const n, length, pause = 10, 4, 2 * time.Millisecond
	onEach(t, server.URL, func(t *testing.T, snd Sender) {
		load := chains(n, length, pause)
		snd.Run(t.Context(), load)
		require.EqualValues(t, n*length, load.Ended.N.Load())
		open, full := 0, 0
		for i := range load.Outcomes {
			o := &load.Outcomes[i]
			require.Equal(t, answer.Completed, o.State, "%d: %s", i, o.Err)
			if i >= n {
				before := &load.Outcomes[i-n]
				require.GreaterOrEqual(t, o.Start, before.End+int64(pause), "%d waits for the answer and the pause", i)
				require.Equal(t, o.Due, o.Ready)
			}
			if i < n { // a chain keeps its place from its first request to its last answer
				end := load.Outcomes[i+n*(length-1)].End
				open = 0
				for k := range n {
					if load.Outcomes[k].Start <= o.Start && load.Outcomes[k+n*(length-1)].End > o.Start {
						open++
					}
				}
				require.Greater(t, end, o.Start)
				require.LessOrEqual(t, open, load.Limit)
				full = max(full, open)
			}
		}
		require.Equal(t, load.Limit, full)
		require.LessOrEqual(t, peak.Load(), int64(load.Limit))
	})
}

// A request that fails ends its chain, and its place is free for the next one.
func TestChainsThatEndEarly(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no", http.StatusInternalServerError)
	}))
	defer server.Close()
	onEach(t, server.URL, func(t *testing.T, snd Sender) {
		load := chains(6, 3, time.Hour)
		snd.Run(t.Context(), load)
		for i := range load.Outcomes {
			want := answer.Failed
			if i >= 6 {
				want = answer.Unsent
			}
			require.Equal(t, want, load.Outcomes[i].State)
		}
	})
}

// An interruption ends the pauses between requests.
func TestInterruptedChains(t *testing.T) {
	const body = answertest.TokenEvent + answertest.TokenEvent + answertest.UsageEvent + answertest.DoneEvent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, body) }))
	defer server.Close()
	onEach(t, server.URL, func(t *testing.T, snd Sender) {
		ctx, cancel := context.WithCancel(t.Context())
		load := chains(3, 2, time.Hour)
		follow := load.Follow
		var ended atomic.Int64
		load.Follow = func(i int, at int64) (int, int64) {
			if ended.Add(1) == 3 {
				defer cancel()
			}
			return follow(i, at)
		}
		snd.Run(ctx, load)
		for i := range 3 {
			require.Equal(t, answer.Completed, load.Outcomes[i].State)
			require.Equal(t, answer.Unsent, load.Outcomes[i+3].State)
		}
	})
}
