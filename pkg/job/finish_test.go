package job

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// A job that somebody ends may be queued again, and needs its secrets then; in a sequence, nothing
// else says which run was cut short. Slurm ends the steps first: a script that sees a server die of
// that, or no node answer, does not know yet.
//
// covers: PL-D10, CD-22
func TestToldToEnd(t *testing.T) {
	const died, timedOut = 70, 124
	for name, c := range map[string]struct {
		code       int
		left, want bool
	}{
		"good":                                 {},
		"good, and cancelled while it ended":   {left: true},
		"its script had TERM":                  {code: run.Terminated, want: true},
		"a server had TERM, and the guard":     {code: died, left: true, want: true},
		"a server died":                        {code: died},
		"a client failed":                      {code: 1},
		"at its own limit, and cancelled then": {code: timedOut, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			j := &Job{Dir: t.TempDir()}
			if c.left {
				require.NoError(t, j.writeLeft("n1", nil, true))
			}
			require.Equal(t, c.want, j.ToldToEnd(c.code))
		})
	}
}
