package validity_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/tier"
	"github.com/profllm/profllm/pkg/validity"
)

// Whatever trips a check passes, or is not looked at, under the loosest value of one
// of its thresholds, and the check says what was set. The default says nothing.
func TestEveryThresholdLoosensItsCheck(t *testing.T) {
	tier.Alone(t)
	seen, tripped := map[string]bool{}, map[string][]*run{} // by the check that fails
	for _, c := range trips {
		g := good()
		c.trip(g)
		for _, check := range validity.Judge(&g.r, g.e).Checks {
			if check.Outcome == result.Fail {
				require.NotContains(t, check.Detail, "set by the test")
				tripped[check.Word] = append(tripped[check.Word], g)
			}
		}
	}
	for _, x := range validity.Thresholds() {
		require.False(t, seen[x.Key], x.Key)
		seen[x.Key] = true
		require.True(t, x.Min <= x.Default && x.Default <= x.Max && x.Min < x.Max, x.Key)
		loosest := x.Max
		if x.Less {
			loosest = x.Min
		}
		loosened := x.Default == loosest // then there is nothing to loosen
		for _, g := range tripped[x.Check] {
			g.e.Limits = validity.Limits{x.Key: x.Default}
			require.NotContains(t, validity.Judge(&g.r, g.e).Check(x.Check).Detail, "set by the test")
			g.e.Limits = validity.Limits{x.Key: loosest}
			if x.Key == "spread_sigmas" || x.Key == "spread_share" { // the larger one counts
				g.e.Limits = validity.Limits{"spread_sigmas": 4, "spread_share": 0.1, x.Key: loosest}
			}
			after := validity.Judge(&g.r, g.e).Check(x.Check)
			if after.Outcome == result.Fail {
				continue // by another of its thresholds
			}
			said := fmt.Sprintf("; %s = %v is set by the test, looser than the default %v", x.Key, loosest, x.Default)
			require.Contains(t, after.Detail, said)
			loosened = true
		}
		require.True(t, loosened, "nothing that trips %s passes with %s = %v", x.Check, x.Key, loosest)
	}
}

func TestStricterThresholdsSaySo(t *testing.T) {
	g := good()
	g.e.Limits = validity.Limits{"client_cpu": 0.1, "questions": 1, "unknown": 7}
	v := validity.Judge(&g.r, g.e)
	require.Equal(t, []string{"client-bound"}, v.Words)
	require.Equal(t, []string{"client_cpu = 0.1, stricter than the default 0.85",
		"questions = 1, looser than the default 200"}, v.Set)
	require.Contains(t, v.Check("client-bound").Detail,
		"; client_cpu = 0.1 is set by the test, stricter than the default 0.85")
}
