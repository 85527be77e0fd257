package validity

import (
	"fmt"
	"math"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// Histograms of vLLM that hold what an engine saw of its requests, s.
const (
	engineTTFT = "vllm:time_to_first_token_seconds"
	engineE2EL = "vllm:e2e_request_latency_seconds"
)

// What an engine's latencies may be above the client's: clocks are read one after the
// other, and a clock that is set may step. A request that the client did not measure, a
// warm-up or a probe, may wait until an engine has compiled.
const (
	engineSlack  = 0.05  // of the engines' sum
	engineSlackS = 0.005 // s, each request
	engineHeldS  = 0.5   // s, once: an engine that a busy machine holds up between its last token and its clock
	engineExtraS = 300   // s, each request that was not measured
)

// engineSlower holds the client's latencies against the engines' own. What an engine
// sees of a request begins after the client has sent it and ends before the client has
// its answer, so that a client's latencies cannot add up to less.
func engineSlower(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	switch failed, _, ok := c.failed(); {
	case ok && failed > 0:
		return notPossible("%d failed requests were not timed", failed)
	case c.cutShort():
		return notPossible("the end of the client's window cut requests")
	case c.imported():
		return notPossible("the engines' counters may include other clients")
	}
	var parts, bad []string
	for _, x := range []struct {
		family result.Family
		name   string
	}{{result.TTFT, engineTTFT}, {result.E2EL, engineE2EL}} {
		if x.family == result.TTFT && c.e.Planned.Disaggregated {
			continue // a proxy may pass on the token that prefill made, before decode has one
		}
		text, slower, reason := c.slower(x.family, x.name, done)
		switch {
		case reason != "":
			why = reason
		case slower:
			bad = append(bad, text)
		default:
			parts = append(parts, text)
		}
	}
	switch {
	case len(bad) > 0:
		return fail("%s", strings.Join(bad, "; "))
	case len(parts) > 0:
		return pass("%s", strings.Join(parts, "; "))
	}
	return notPossible("%s", why)
}

// slower compares one family's sum with that of the engines' histogram; why says why it
// cannot.
func (c *facts) slower(f result.Family, name string, done int) (text string, bad bool, why string) {
	d := c.m.Latency[f]
	if d.Mean == nil || d.N != nil && *d.N != done {
		return "", false, fmt.Sprintf("no mean %s of all requests", strings.ToUpper(string(f)))
	}
	count, why := c.serving(name + "_count")
	if why != "" {
		return "", false, why
	}
	sum, why := c.serving(name + "_sum")
	if why != "" {
		return "", false, why
	}
	extra := count - float64(done)
	most := float64(c.e.Planned.Warmups + possibleProbes)
	switch {
	case count <= 0 || math.IsInf(sum, 0) || math.IsInf(count, 0):
		return "", false, "the engines timed no requests"
	case extra > most:
		return "", false, fmt.Sprintf("the engines timed %.0f requests, the client %d", count, done)
	case extra < 0 && c.e.Planned.Warmups > 0:
		return "", false, fmt.Sprintf("it is not known which of the %.0f requests timed by the engines were warm-ups",
			count)
	}
	client := *d.Mean / 1000 * float64(done)
	slack := engineHeldS + engineSlack*sum + engineSlackS*float64(done) + engineExtraS*max(0, extra)
	if c.m.FromLog {
		slack += logRounding / 1000 * float64(done)
	}
	text = fmt.Sprintf("%s: %d requests took %.6g s in the client, %.0f requests took %.6g s in the engines",
		strings.ToUpper(string(f)), done, client, count, sum)
	return text, sum-client > slack, ""
}
