package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/sim/knobs"
)

const ms = time.Millisecond

func TestScheduleWithoutJitter(t *testing.T) {
	s := request(knobs.Timing{TTFT: 50 * ms, ITL: 20 * ms}, 7, false)
	for i, want := range []time.Duration{50 * ms, 70 * ms, 90 * ms} {
		require.Equal(t, want, s.due(i))
	}
	require.Equal(t, 50*ms+100_000*20*ms, s.due(100_000), "no drift")
}

func TestScheduleOfTransferredPrompt(t *testing.T) {
	s := request(knobs.Timing{TTFT: 50 * ms, ITL: 20 * ms}, 7, true)
	require.Equal(t, 20*ms, s.due(0))
	require.Equal(t, 40*ms, s.due(1))
}

func TestScheduleWithJitter(t *testing.T) {
	at := knobs.Timing{TTFT: 50 * ms, ITL: 20 * ms, Jitter: 0.5}
	s := request(at, 7, false)
	require.Equal(t, s, request(at, 7, false), "same seed, same schedule")
	require.NotEqual(t, s.due(0), request(at, 8, false).due(0))
	require.InDelta(t, float64(50*ms), float64(s.due(0)), float64(25*ms))
	early, late := 0, 0
	for i := 1; i < 1000; i++ {
		exact := s.due(0) + time.Duration(i)*20*ms
		require.InDelta(t, float64(exact), float64(s.due(i)), float64(5*ms), "token %d", i)
		require.GreaterOrEqual(t, s.due(i), s.due(i-1), "token %d", i)
		if s.due(i) < exact {
			early++
		} else {
			late++
		}
	}
	require.Greater(t, early, 400)
	require.Greater(t, late, 400)
}

// With the largest jitter tokens may be due together, never in the wrong order.
func TestScheduleNeverDecreases(t *testing.T) {
	for seed := range uint64(20) {
		s := request(knobs.Timing{TTFT: 10 * ms, ITL: 20 * ms, Jitter: 1}, seed, false)
		for i := 1; i < 500; i++ {
			require.GreaterOrEqual(t, s.due(i), s.due(i-1), "seed %d token %d", seed, i)
		}
	}
}

func TestUnitIsUniform(t *testing.T) {
	const n = 20_000
	sum := 0.0
	for i := range uint64(n) {
		x := knobs.Unit(1, i)
		require.GreaterOrEqual(t, x, 0.0)
		require.Less(t, x, 1.0)
		sum += x
	}
	require.InDelta(t, 0.5, sum/n, 0.01)
}
