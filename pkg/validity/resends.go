package validity

import "github.com/profllm/profllm/pkg/result"

// resent asks whether the client sent requests again. The program counts such a request from
// its first send, so that its times are right; but the server, or what lies before it, had
// dropped a connection that it was to keep.
func resent(c *facts) answer {
	return c.clientCount("sent again because their connection closed as they were sent",
		func(k *result.Client) *int { return k.Resent })
}

// usageMissing asks whether tokens were counted by the events of a stream. An event may hold
// several tokens, or none.
func usageMissing(c *facts) answer {
	return c.clientCount("answered without token usage, and their tokens counted by events",
		func(k *result.Client) *int { return k.UsageMissing })
}

// clientCount fails if the client counted any request of a kind.
func (c *facts) clientCount(kind string, count func(*result.Client) *int) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	if c.m.Client == nil || count(c.m.Client) == nil {
		return notPossible("the client did not say how many requests were %s", kind)
	}
	n := *count(c.m.Client)
	failed, _, _ := c.failed()
	return judged(n != 0, "%d of %d requests were %s", n, done+failed, kind)
}

func warmUpFailed(c *facts) answer {
	k := c.m.Client
	if k == nil || k.WarmUpsFailed == nil {
		return notPossible("the client did not say how many warm-up requests failed")
	}
	if c.e.Planned.Warmups == 0 && *k.WarmUpsFailed == 0 {
		return pass("no warm-up was planned")
	}
	return judged(*k.WarmUpsFailed != 0, "%d of %d warm-up requests failed", *k.WarmUpsFailed, c.e.Planned.Warmups)
}
