package validity_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/validity"
)

// spread gives decode as many instances as there are counts of requests.
func (g *run) spread(counts ...float64) {
	g.r.Results.Server = g.r.Results.Server[:2]
	decode(g)["vllm:request_success_total"] = counts[0]
	for i, n := range counts[1:] {
		g.r.Results.Server = append(g.r.Results.Server, result.ServerDelta{
			Role: "decode", Replica: i + 1, Counters: map[string]float64{
				"vllm:request_success_total": n, "vllm:generation_tokens_total": 0, "vllm:num_preemptions_total": 0, "vllm:corrupted_requests_total": 0,
			},
		})
	}
	total := 0.0
	for _, n := range counts {
		total += n
	}
	g.e.Planned.Warmups = int(total) - 1000 // whoever is not measured
	decode(g)["vllm:generation_tokens_total"] = 50 * total
}

func TestSpreadSaysTheNumbers(t *testing.T) {
	g := good()
	g.spread(600, 400)
	c := validity.Judge(&g.r, g.e).Check("uneven-spread")
	require.Equal(t, "decode 600/400 requests, decode_0 +20.0 % off its share (accepted 12.6 %)", c.Detail)

	g = good()
	g.spread(1000)
	require.Equal(t, result.Pass, validity.Judge(&g.r, g.e).Check("uneven-spread").Outcome)
	g.r.Placement = &result.Placement{Roles: []result.PlacedRole{{Role: "decode"}, {Role: "decode", Replica: 1}}}
	require.Equal(t, result.NotPossible, validity.Judge(&g.r, g.e).Check("uneven-spread").Outcome,
		"an instance without a page is not one that does not exist")
}

// One of three decode instances ended 10 s before the client did.
//
// covers: PL-D8
func TestInstanceDiedSaysWhatItDid(t *testing.T) {
	spared := func() *run {
		g := good()
		g.requests(990, 10)
		g.e.Died = []validity.RoleEnd{{Role: "decode_1", Node: "node4", Exit: 137, Spared: &validity.Spared{
			Kind: "decode", Of: 3, BeforeEnd: new(10.0),
			Before: &validity.Pace{Seconds: 20, Requests: 400, Latency: 200},
			After:  &validity.Pace{Seconds: 10, Requests: 300, Latency: 240},
		}}}
		return g
	}
	const lead = "decode_1 rank 0 on node4 ended with 137; 2 of 3 decode instances served on; 10 of 1000 requests failed"
	detail := func(g *run) string {
		v := validity.Judge(&g.r, g.e)
		require.False(t, v.Valid)
		require.Equal(t, result.Fail, v.Check("instance-died").Outcome)
		require.Equal(t, result.Pass, v.Check("role-died").Outcome)
		require.Equal(t, result.NotPossible, v.Check("uneven-spread").Outcome)
		return v.Check("instance-died").Detail
	}
	g := spared()
	require.Equal(t, lead+"; by the counters of the other instances: 20.00 requests/s of 500.0 ms on average before, 30.00 requests/s of 800.0 ms on average afterwards", detail(g))

	// Requests of 1 s, two a second over 20 s; from 10 s on each takes 2 s.
	g = spared()
	s := &result.Samples{}
	for i := range 38 {
		at := float64(i) / 2
		took := 1.0
		if at >= 10 {
			took = 2
		}
		s.Start, s.Latency, s.Errors = append(s.Start, 1000+at), append(s.Latency, took), append(s.Errors, "")
	}
	s.Latency[19], s.Errors[19] = 0, "connection reset" // was under way at 10 s
	s.Start, s.Latency, s.Errors = append(s.Start, 1018), append(s.Latency, 2), append(s.Errors, "")
	g.e.Samples = s
	g.e.Died[0].Spared.BeforeEnd = new(10.5) // the last request ends at 1020.5
	require.Equal(t, lead+"; before 1.90 requests/s of median 1000.0 ms, afterwards 1.81 requests/s of median 2000.0 ms", detail(g))

	g = spared()
	g.e.Died[0].Spared.BeforeEnd = new(-3.0)
	require.Equal(t, lead+"; the benchmark had ended", detail(g))

	g = spared()
	g.e.Died[0].Spared.Before = nil
	require.Contains(t, detail(g), "the times before and after cannot be told apart")

	g = spared()
	g.e.Died = append(g.e.Died, g.e.Died[0])
	g.e.Died[1].Role = "decode_2"
	require.Contains(t, detail(g), "1 of 3 decode instances served on")
}
