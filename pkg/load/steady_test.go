package load

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/answer"
)

// sent returns a completed request in seconds: its start, its tokens, the last of which ends it.
func sent(start float64, tokens ...float64) answer.Outcome {
	o := answer.Outcome{State: answer.Completed, Start: int64(start * second), Input: 10, Output: 2 * len(tokens)}
	for _, at := range tokens {
		o.Tokens = append(o.Tokens, int64(at*second))
	}
	o.End = o.Tokens[len(o.Tokens)-1]
	return o
}

// measured returns a run of these requests from 0 s to its end.
func measured(t *testing.T, line string, end float64, outcomes ...answer.Outcome) *measurement {
	o := parse(t, "--metric-percentiles 50,99.9 "+line)
	return &measurement{options: &o, outcomes: outcomes, arrivals: make([]time.Duration, len(outcomes)),
		end: int64(end * second), started: time.Now()}
}

func TestSteadyPartAtAConcurrency(t *testing.T) {
	s := measured(t, "--max-concurrency 2", 10,
		sent(1, 2, 3), // the ramp: one alone up to 2
		sent(2, 3, 5),
		sent(3, 4, 7), // takes the place of the first
		sent(5, 6, 9),
		sent(7, 8, 10), // alone from 9 on
	).steady()
	require.Empty(t, s.None)
	require.Equal(t, "concurrency", s.Rule)
	require.Equal(t, 2, s.Level)
	require.Equal(t, [3]float64{2, 9, 0.7}, [3]float64{s.Begin, s.End, s.Share})
	require.Equal(t, [4]int{4, 4, 0, 3}, [4]int{s.Sent, s.Completed, s.Failed, s.Whole})
	require.InEpsilon(t, 4.0/7, s.RequestThroughput, 1e-9)
	require.InEpsilon(t, 9*2.0/7, s.OutputThroughput, 1e-9, "each event stands for two tokens; nine came in the window")
	require.InEpsilon(t, (9*2.0+50)/7, s.TotalThroughput, 1e-9)
	require.Equal(t, 4, s.Families["ttft"].N)
	require.InEpsilon(t, 1000.0, s.Families["ttft"].Mean, 1e-9)
	require.Equal(t, 3, s.Families["e2el"].N, "those sent and answered in the window")
	require.InEpsilon(t, 4000.0, s.Families["e2el"].Percentiles["99.9"], 0.01)
	require.InEpsilon(t, 4000.0, s.Families["e2el"].Median, 1e-9)
	require.Equal(t, 4, s.Families["itl"].N, "gaps that end in the window")
	require.Contains(t, s.Families["tpot"].Percentiles, "50")
}

func TestSteadyPartAtARate(t *testing.T) {
	var list []answer.Outcome
	for i := range 20 {
		list = append(list, sent(float64(i+1), float64(i+1)+1.5, float64(i+1)+2))
	}
	list[15].State, list[15].Tokens = answer.Failed, nil
	s := measured(t, "--request-rate 1", 22, list...).steady()
	require.Equal(t, "rate", s.Rule)
	require.Equal(t, [2]float64{4, 20}, [2]float64{s.Begin, s.End}, "from the answer to the second of twenty")
	require.Equal(t, [3]int{17, 16, 1}, [3]int{s.Sent, s.Completed, s.Failed})
	require.InDelta(t, 1, s.RequestThroughput, 0.01)

	s = measured(t, "--request-rate 1 --max-concurrency 2", 22, list...).steady()
	require.Equal(t, "concurrency", s.Rule, "the limit was reached almost all the time")
	s = measured(t, "--request-rate 1 --max-concurrency 3", 22, list...).steady()
	require.Equal(t, "rate", s.Rule, "the limit was never reached")
}

// A place that is taken again at once is not free: a client that wakes for many answers fills their
// places a little later. The requests of a trace have a rate.
func TestSteadyLevel(t *testing.T) {
	var chain []answer.Outcome
	for i := range 20 {
		at := float64(i)
		chain = append(chain, sent(at+0.0002, at+0.5, at+0.9999))
	}
	s := measured(t, "--max-concurrency 1 --request-rate 5", 21, chain...).steady()
	require.Equal(t, "concurrency", s.Rule)
	require.InDelta(t, 19.9997, s.End-s.Begin, 1e-6)

	slow := measured(t, "--max-concurrency 1 --request-rate 5", 21, chain...)
	for i := range slow.outcomes {
		slow.outcomes[i].Start += int64(0.6 * second)
	}
	require.Equal(t, "rate", slow.steady().Rule, "six tenths of the time nothing was in flight")

	trace := measured(t, "--max-concurrency 1", 21, chain[0], chain[19])
	trace.options.DatasetName, trace.options.DatasetPath = "timed_trace", "trace.jsonl"
	require.Equal(t, "rate", trace.steady().Rule, "the limit was reached for two moments")
}

func TestRunsWithoutASteadyPart(t *testing.T) {
	unsent := answer.Outcome{}
	for name, tt := range map[string]struct {
		m    *measurement
		none string
	}{
		"nothing sent": {measured(t, "", 1, unsent), "no request was sent"},
		"a ramp": {measured(t, "--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 2", 9, sent(1, 2)),
			"the rate rises"},
		"never at the limit": {measured(t, "--max-concurrency 2", 9, sent(1, 2), sent(3, 4)), "at most 1 requests were in flight, fewer than 2"},
		"slow answers":       {measured(t, "--request-rate 1", 9, sent(1, 9), sent(2, 9)), "no steady part"},
	} {
		t.Run(name, func(t *testing.T) {
			s := tt.m.steady()
			require.Contains(t, s.None, tt.none)
			raw, err := json.Marshal(s)
			require.NoError(t, err)
			require.JSONEq(t, `{"none":"`+s.None+`"}`, string(raw))
		})
	}
}

// Requests that an interruption cut off kept their slots to the end.
func TestSteadyPartOfAnInterruptedRun(t *testing.T) {
	cut := answer.Outcome{State: answer.Interrupted, Start: 3 * second}
	s := measured(t, "--max-concurrency 2", 8, sent(1, 2, 3), sent(2, 4, 5), cut, sent(5, 6), cut).steady()
	require.Equal(t, [2]float64{2, 8}, [2]float64{s.Begin, s.End})
	require.Equal(t, 3, s.Completed)
	for _, f := range s.Families {
		require.False(t, math.IsNaN(f.Mean))
	}
}
