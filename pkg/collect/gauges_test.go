package collect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

func TestServerLoad(t *testing.T) {
	require.Nil(t, serverLoad(busyPoints(nil), 0))
	require.Nil(t, serverLoad(busyPoints([]byte("time_s,role,running,waiting,kv_cache\n1.0,serve,0,0,0\n")), 0),
		"nothing ran")

	var text strings.Builder
	text.WriteString("time_s,role,running,waiting,kv_cache\n")
	for i := range 10 {
		n := 4 // nothing runs in the first two seconds and the last
		if i < 2 || i == 9 {
			n = 0
		}
		fmt.Fprintf(&text, "%d.010,decode_1,%d,0,0.25\n", 1000+i, n)
		fmt.Fprintf(&text, "%d.002,decode_0,%d,1,0.5\n", 1000+i, n) // whoever answers first
	}
	sampled := strings.ReplaceAll(text.String(), "decode_0,0,1", "decode_0,0,0")
	got := serverLoad(busyPoints([]byte(sampled+"1010.0,decode_0,9")), 0)
	require.Equal(t, &result.ServerLoad{Samples: 7, Running: 8, Waiting: 1, RunningMax: 8, WaitingMax: 1,
		KVCacheMax: 0.5, IntervalSec: 1}, got)

	// A look at which one engine did not answer is no sum.
	missing := strings.Replace(sampled, "1005.010,decode_1,4,0,0.25\n", "", 1)
	require.InDelta(t, 8, serverLoad(busyPoints([]byte(missing)), 0).Running, 1e-9, "so it is left out")
}

// covers: PL-V14
func TestServerLoadOfTheWindow(t *testing.T) {
	var text strings.Builder
	for i := range 40 {
		n := 16
		switch {
		case i < 10:
			n = 1 // the client's probe
		case i == 10, i == 39:
			n = 0
		}
		fmt.Fprintf(&text, "%d.0,serve,%d,0,0.25\n", 1000+i, n)
	}
	require.InDelta(t, 458.0/39, serverLoad(busyPoints([]byte(text.String())), 0).Running, 1e-9)
	got := serverLoad(busyPoints([]byte(text.String())), 27.9)
	require.Equal(t, 28, got.Samples)
	require.InDelta(t, 16, got.Running, 1e-9)
}

func FuzzServerLoad(f *testing.F) {
	f.Add([]byte("time_s,role,running,waiting,kv_cache\n1.0,serve,3,0,0.1\n2.0,serve,1,NaN,0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if l := serverLoad(busyPoints(data), 1); l != nil {
			require.Positive(t, l.Samples)
			require.GreaterOrEqual(t, l.RunningMax+l.WaitingMax, 0.0)
			require.LessOrEqual(t, l.Running, l.RunningMax*(1+1e-9))
		}
	})
}
