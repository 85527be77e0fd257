package inline

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/synthetic"
)

func runsOf(n int) (runs []Run) {
	g := synthetic.New(1, n, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	for i := range n {
		r := g.Run(i)
		runs = append(runs, Run{Run: &r})
	}
	return runs
}

// The same runs give the same bytes, and no text of a run ends the block of data.
func TestPack(t *testing.T) {
	evil := "</script><!-- <script>\u2028\u202e\x00 ]]>"
	runs := runsOf(20)
	r := *runs[0].Run.Result
	r.Suite, r.Failure = evil, &result.Failure{Cause: evil, Line: evil, Next: evil}
	runs[0].Run.Result, runs[0].Run.Dir, runs[0].Link = &r, evil, evil
	runs = append(runs, runs[0], Run{Run: &records.Run{Dir: "a", NoJob: "refused", Refusal: evil}})
	data, err := Pack(runs)
	require.NoError(t, err)
	again, err := Pack(runs)
	require.NoError(t, err)
	require.Equal(t, string(data), string(again))
	require.NotRegexp(t, "[<>&\u2028\u2029\u0000]", string(data))
	require.Contains(t, string(data), r.RunID+`~2"`)
	require.Contains(t, string(data), `"problem":"refused: \u003c/script`)
}

// What a page may not have in it: an end of the script, characters that are obeyed, requests, code from texts.
func TestScript(t *testing.T) {
	require.NotRegexp(t, `(?i)</script|<!--|</style`, Script+Style)
	require.Equal(t, Script, printable.Text(Script), "its digest is that of what is written")
	require.Equal(t, Style, printable.Text(Style))
	require.NotRegexp(t, `(?i)url\(|@import|@font-face`, Style)
	require.NotRegexp(t, `\bimport\(|\bnew Function\(|[^.\w]eval\(|XMLHttpRequest|EventSource|WebSocket|sendBeacon`, Script)
	var named []string
	for _, u := range regexp.MustCompile(`https?://[\w./-]+`).FindAllString(Script, -1) {
		if !strings.HasPrefix(u, "http://www.w3.org/") {
			named = append(named, u)
		}
	}
	t.Log(named) // in messages of libraries
}
