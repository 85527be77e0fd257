package validity

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// Thresholds of proxy-errors. A request that is sent again does no harm to the numbers
// but its own, and none has to be.
const (
	maxProxyErrors = 0.0
	maxProxyResent = 0.0
	maxProxyNoKV   = 0.01 // a prompt shorter than a KV block has nothing to move
	proxyUnseen    = 0.02 // of the completed requests; one is always accepted
)

// clientGone is the proxy's status of a client that left before its answer.
const clientGone = 499

// countErrors counts the requests that the proxy answered with an error, or with an
// answer that is none.
func countErrors(p *result.Proxy) int64 {
	n := p.Broken + p.BadAnswers
	for text, count := range p.Statuses {
		if status, err := strconv.Atoi(text); err != nil || status >= 400 && status != clientGone {
			n += count
		}
	}
	return n
}

// clientsGone is how many clients left before the end of their answers.
func clientsGone(p *result.Proxy) int64 { return p.Statuses[strconv.Itoa(clientGone)] }

// proxyErrors judges what the proxy saw and the client perhaps did not say: a
// client that tries again reports a success.
func proxyErrors(c *facts) answer {
	p := c.m.Proxy
	switch {
	case p == nil:
		return notPossible("no counters of profllm's own proxy were read")
	case p.Reset:
		return fail("the proxy restarted between the first and the last reading of its counters")
	case p.Requests == 0:
		return notPossible("the proxy counted no request")
	}
	bad := c.proxyFaults(p)
	switch {
	case len(bad) == 0:
		return pass("%d requests: no error, none sent again%s", p.Requests,
			unlessZero(clientsGone(p), ", %d given up by the client"))
	case p.Others:
		return notPossible("the counters include other clients: %s", strings.Join(bad, "; "))
	}
	return fail("%s", strings.Join(bad, "; "))
}

// proxyFaults says what is beyond the accepted.
func (c *facts) proxyFaults(p *result.Proxy) (bad []string) {
	check := func(n int64, key, what, text string) {
		if share := float64(n) / float64(p.Requests); n > 0 && share > c.limit(key) {
			bad = append(bad, fmt.Sprintf("%d of %d requests %s (accepted %s %%)%s", n, p.Requests, text,
				percent(c.limit(key)), what))
		}
	}
	check(countErrors(p), "proxy_error_share",
		unlessZero(p.Broken, ", %d of them broken off")+unlessZero(p.BadAnswers,
			", %d of status 200")+backendFailures(p), "were answered with an error")
	if n := clientsGone(p) - c.unanswered(); n > 0 && !c.cutShort() {
		bad = append(bad, fmt.Sprintf("the client gave up %d requests, but reports %d failed", clientsGone(p),
			c.unanswered()))
	}
	if done, why := c.completed(); why == "" && !p.Others {
		if missing := float64(done) - float64(p.Requests); missing > max(1, proxyUnseen*float64(done)) {
			bad = append(bad, fmt.Sprintf("the proxy saw %d requests, but the client completed %d", p.Requests, done))
		}
	}
	check(p.WithoutKV, "proxy_without_kv_share", "",
		"were computed by decode itself, because prefill handed over no KV cache")
	check(p.Resent, "proxy_resent_share", "", "were sent to an instance a second time")
	return bad
}

// backendFailures lists what the instances did, worst first.
func backendFailures(p *result.Proxy) string {
	var parts []string
	for _, b := range p.Backends {
		for _, why := range slices.Sorted(maps.Keys(b.Failures)) {
			parts = append(parts, fmt.Sprintf("%s %s %s %d", b.Role, b.URL, why, b.Failures[why]))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; " + list(parts)
}

// unanswered is how many requests the client reports as failed, those of its warm-up included: the
// proxy counts these, too.
func (c *facts) unanswered() int64 {
	failed, _, _ := c.failed()
	if k := c.m.Client; k != nil && k.WarmUpsFailed != nil {
		failed += *k.WarmUpsFailed
	}
	return int64(failed)
}

// cutShort reports whether the client says that the end of its window cut requests.
func (c *facts) cutShort() bool {
	return c.m.CutRequests != nil || len(c.warnings(result.Incomplete)) > 0
}

func unlessZero(n int64, format string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(format, n)
}
