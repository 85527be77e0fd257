package job

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// A job that somebody ends may be queued again, and needs its secrets then. Slurm ends
// the steps first: a script that sees a server die of that does not know yet.
//
// covers: PL-D10
func TestToldToEnd(t *testing.T) {
	died := []Event{{Event: AllReady}, {Event: RoleDied, Role: "serve"}}
	stopped := []Event{{Event: AllReady}, {Event: Stopping}}
	for name, c := range map[string]struct {
		code   int
		phases []run.Phase
		roles  []run.Phase
		events []Event
		want   bool
	}{
		"good":                       {0, []run.Phase{{Name: "bench"}}, []run.Phase{{Name: "serve", Code: 143}}, stopped, false},
		"its script had TERM":        {143, nil, nil, stopped, true},
		"a server had TERM":          {70, []run.Phase{{Name: "bench", Code: Lost}}, []run.Phase{{Name: "serve", Code: 143}}, died, true},
		"a server ended well of it":  {70, []run.Phase{{Name: "bench", Code: Lost}}, []run.Phase{{Name: "serve"}}, died, true},
		"a client had TERM":          {143, []run.Phase{{Name: "bench", Code: 143}}, nil, stopped, true},
		"a client, not yet said":     {1, []run.Phase{{Name: "bench", Code: 143}}, nil, stopped, true},
		"a server died":              {70, []run.Phase{{Name: "bench", Code: Lost}}, []run.Phase{{Name: "serve", Code: 137}}, died, false},
		"another than that was ours": {70, nil, []run.Phase{{Name: "serve", Code: 1}, {Name: "proxy", Code: 143}}, died, false},
		"a client failed":            {1, []run.Phase{{Name: "bench", Code: 1}}, []run.Phase{{Name: "serve", Code: 143}}, stopped, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, EndedFromOutside(c.code, c.phases, c.roles, c.events))
		})
	}
}
