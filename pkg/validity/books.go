package validity

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// Counters of vLLM that are compared with what the client says.
const (
	generated   = "vllm:generation_tokens_total"
	preemptions = "vllm:num_preemptions_total"
	corrupted   = "vllm:corrupted_requests_total"
	cacheAsked  = "vllm:prefix_cache_queries_total"
	cacheFound  = "vllm:prefix_cache_hits_total"
)

// serving sums a counter over the engines that end requests: in a disaggregated
// service decode alone, because prefill counts one token and one request for
// each of them as well. why says what is missing.
func (c *facts) serving(counter string) (sum float64, why string) {
	seen := 0
	for _, d := range c.m.Server {
		if c.e.Planned.Disaggregated && d.Role != "decode" {
			continue
		}
		v, ok := d.Counters[counter]
		switch {
		case d.Reset:
			return 0, "a counter of " + d.Role + " decreased meanwhile"
		case d.Others:
			return 0, "the counters include other clients"
		case !ok || math.IsNaN(v):
			return 0, d.Role + " does not count " + counter
		}
		sum += v
		seen++
	}
	if kind := c.servingKind(); seen == 0 || seen < c.placed(kind) {
		return 0, "not every engine's counters were read"
	}
	return sum, ""
}

func (c *facts) servingKind() string {
	if c.e.Planned.Disaggregated {
		return "decode"
	}
	if len(c.m.Server) > 0 {
		return c.m.Server[0].Role
	}
	return ""
}

// Between the two pages of counters lie the measured requests, the warm-ups, and
// perhaps one more: some versions of clients send a first request to see whether
// the server answers, others do not.
const possibleProbes = 1

func tokenBooks(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	if c.m.TotalOutputTokens == nil || *c.m.TotalOutputTokens <= 0 {
		return notPossible("no output tokens, see no-tokens")
	}
	if served := c.m.UsageOutputTokens; served != nil && *served > 0 {
		off := float64(*c.m.TotalOutputTokens)/float64(*served) - 1
		if math.Abs(off) > c.limit("token_books") {
			return fail("%d output tokens by the client's tokenizer, %d by the server's usage: %+.2f %% (accepted %s %%); output and total throughput, TPOT and NTPOT are by the client's",
				*c.m.TotalOutputTokens, *served, 100*off, percent(c.limit("token_books")))
		}
	}
	if failed, _, ok := c.failed(); ok && failed > 0 {
		return notPossible("the tokens of %d failed requests were not counted", failed)
	}
	counted, why := c.serving(generated)
	if why != "" {
		return notPossible("%s", why)
	}
	reported := float64(*c.outputTokens())
	each := reported / float64(done)
	least := reported + each*float64(c.e.Planned.Warmups)
	most := least + each*possibleProbes
	if p := c.e.Planned; !p.IgnoreEOS || p.OutputTokens == 0 {
		// Every warm-up is a copy of the first request, whose answer may be of any length.
		longest := longestAnswer(c.e.Samples)
		switch {
		case longest > 0:
			least, most = reported, reported+float64(longest*(p.Warmups+possibleProbes))
		case p.Warmups > 0:
			return notPossible("the length of the warm-ups' answers is not known")
		}
	}
	off := 0.0
	switch {
	case counted < least:
		off = counted - least
	case counted > most:
		off = counted - most
	}
	if bad := c.otherBooks(done); len(bad) > 0 {
		return fail("%s", list(bad))
	}
	return judged(math.Abs(off)/reported > c.limit("token_books"),
		"the engines counted %.0f tokens, the client %.0f and %d warm-ups: %+.2f %% (accepted %s %%)",
		counted, reported, c.e.Planned.Warmups, 100*off/reported, percent(c.limit("token_books")))
}

// Means of the engines' histograms of their requests. Prompts are counted by two
// tokenizers, and a chat template or an image adds to them in the engine.
const (
	promptsOfRequests = "vllm:request_prompt_tokens"
	askedOfRequests   = "vllm:request_params_max_tokens"

	leastPrompt = 0.75 // of the client's mean
	mostPrompt  = 1.5  // the same, of completions
	promptExtra = 16   // tokens more, of completions
)

// otherBooks holds the engines' requests, prompts and asked lengths against the
// client's, none of whose requests failed. A client that gave up leaves requests that
// the engines abort: see requests-missing.
func (c *facts) otherBooks(done int) (bad []string) {
	if broken := c.brokenOff(); done >= c.planned() &&
		broken > max(possibleProbes, c.limit("token_books")*float64(done)) {
		bad = append(bad, fmt.Sprintf("the engines ended %.0f requests as aborted or failed, but no request of the client failed", broken))
	}
	if ended, why := c.serving(FinishedRequests); why == "" && ended > 0 {
		if missing := float64(done) - ended; missing > max(1, c.limit("token_books")*float64(done)) {
			bad = append(bad, fmt.Sprintf("the engines ended %.0f requests, but the client completed %d", ended, done))
		}
	}
	if mean, _, ok := c.meanOf(promptsOfRequests); ok && c.m.TotalInputTokens != nil && *c.m.TotalInputTokens > 0 {
		client := float64(*c.m.TotalInputTokens) / float64(done)
		chat := strings.Contains(c.r.Config.Benchmark.Backend, "chat") ||
			strings.Contains(c.r.Config.Benchmark.Endpoint, "chat")
		if mean < leastPrompt*client || !chat && mean > mostPrompt*client+promptExtra && c.completions() {
			bad = append(bad, fmt.Sprintf("the engines counted %.2f tokens per prompt, the client %.2f", mean, client))
		}
	}
	if mean, n, ok := c.meanOf(askedOfRequests); ok && n == float64(done) && c.e.Planned.IgnoreEOS &&
		c.e.Planned.OutputTokens > 0 {
		expected := float64(c.e.Planned.OutputTokens)
		if math.Abs(mean-expected) > c.limit("token_books")*expected {
			bad = append(bad, fmt.Sprintf("the engines were asked for %.2f tokens per answer, but %.0f were planned",
				mean, expected))
		}
	}
	return bad
}

// brokenOff is how many requests of this client the engines ended as aborted or failed,
// as far as they say so.
func (c *facts) brokenOff() (n float64) {
	for _, d := range c.m.Server {
		if d.BrokenOff != nil && !d.Reset && !d.Others {
			n += *d.BrokenOff
		}
	}
	return n
}

// completions reports whether the client is known to send prompts as they are.
func (c *facts) completions() bool {
	b := c.r.Config.Benchmark
	return b.Backend == "openai" || b.Backend == "vllm" || strings.HasSuffix(b.Endpoint, "/v1/completions")
}

// meanOf is the mean of an engine's histogram over all serving engines, and its count. It
// is of the client's requests only if there are hardly more than these.
func (c *facts) meanOf(name string) (mean, n float64, ok bool) {
	sum, why := c.serving(name + "_sum")
	n, other := c.serving(name + "_count")
	done := *c.m.CompletedRequests
	few := n >= leastOf && n <= float64(done+c.e.Planned.Warmups+possibleProbes)
	if why != "" || other != "" || !few || math.IsInf(sum, 0) {
		return 0, 0, false
	}
	return sum / n, n, true
}

func cacheWarm(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	if c.e.Planned.SharedInput == nil {
		return notPossible("the plan does not say how much the prompts share")
	}
	asked, found := map[string]float64{}, map[string]float64{}
	var kinds []string
	for _, d := range c.m.Server {
		if d.Reset || d.Others {
			return notPossible("the counters of %s include other clients", d.Role)
		}
		if n, ok := d.Counters[cacheAsked]; ok && n > 0 {
			if !slices.Contains(kinds, d.Role) {
				kinds = append(kinds, d.Role)
			}
			asked[d.Role] += n
			found[d.Role] += d.Counters[cacheFound]
		}
	}
	if len(kinds) == 0 {
		return notPossible("no engine used a prefix cache")
	}
	// Warm-ups and a probe repeat the first prompt, so that of so many requests
	// one computes it and the others find it.
	repeats := float64(c.e.Planned.Warmups + possibleProbes)
	if c.e.Planned.InputTokens == 0 {
		repeats *= 2 // lengths vary evenly around their mean, and the first may be the longest
	}
	expected := *c.e.Planned.SharedInput
	expected += (1 - expected) * repeats / (float64(done) + repeats)
	var parts []string
	bad := false
	for _, kind := range kinds {
		accepted := expected
		if strings.Contains(c.r.Config.Benchmark.Backend, "chat") {
			// Every prompt begins with what the chat template puts before it.
			added, ok := c.template(kind, asked[kind])
			if !ok {
				return notPossible("the length that a chat template adds to each prompt is not known")
			}
			accepted += (1 - expected) * added
		}
		share := found[kind] / asked[kind]
		bad = bad || share-accepted > c.limit("cache_warmth")
		parts = append(parts, fmt.Sprintf("%s found %.2f %% of the prompt tokens in its cache (expected %.2f %%)", kind,
			100*share, 100*accepted))
	}
	return judged(bad, "%s; %s more accepted", strings.Join(parts, ", "), percent(c.limit("cache_warmth")))
}

// template is the share of the prompts, tokens of them looked up by the engines of a
// kind, that no client asked for; ok is false if that cannot be told.
func (c *facts) template(kind string, tokens float64) (share float64, ok bool) {
	ended := 0.0
	for _, d := range c.m.Server {
		if d.Role == kind {
			ended += d.Counters[FinishedRequests]
		}
	}
	planned := c.e.Planned.InputTokens
	if ended <= 0 || planned == 0 {
		return 0, false
	}
	return max(0, 1-float64(planned)*ended/tokens), true
}

func preemptedRequests(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	n, why := c.serving(preemptions)
	if why != "" {
		return notPossible("%s", why)
	}
	return judged(n/float64(done) > c.limit("preempted_share"), "%.0f preemptions in %d requests (accepted %s %%)", n,
		done, percent(c.limit("preempted_share")))
}

func corruptOutput(c *facts) answer {
	n, why := c.serving(corrupted)
	if why != "" {
		return notPossible("%s", why)
	}
	return judged(n > 0, "%.0f requests had NaN logits", n)
}

func foreignLoad(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	served, why := c.serving(FinishedRequests)
	if why != "" {
		return notPossible("%s", why)
	}
	failed, _, _ := c.failed() // one that the client gave up may have ended on the engine
	own := float64(done+failed+c.e.Planned.Warmups) * c.inputs(done)
	beyond := served - own
	accepted := max(1, c.limit("foreign_share")*float64(done)) + possibleProbes
	return judged(beyond > accepted,
		"the engines ended %.0f requests, of which %.0f were the client's (%.0f more accepted)", served, own, accepted)
}

// inputs is how many inputs a request had on average: those of pooling models may have several,
// each of which is a request to the engine.
func (c *facts) inputs(done int) float64 {
	if n := c.m.TotalInputSequences; n != nil && done > 0 {
		return max(1, float64(*n)/float64(done))
	}
	return 1
}

// longestAnswer is the most tokens of an answer; 0 if the client did not save them.
func longestAnswer(s *result.Samples) int {
	if s == nil || len(s.OutputLen) == 0 {
		return 0
	}
	return slices.Max(s.OutputLen)
}
