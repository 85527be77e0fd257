package validity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// A question is one check before it is put to a record.
type question struct {
	word     string
	severity result.Severity
	why      string
	ask      func(*facts) answer
}

// questions lists every check, in the order of the record. It is never changed.
var questions = []question{
	{"job-state", result.Invalid, "a job that was cut short may leave numbers behind", jobState},
	{"phase-failed", result.Invalid, "a client can fail behind a job that succeeds", phaseFailed},
	{"role-died", result.Invalid, "answers of a server that died are errors or leftovers", roleDied},
	{"instance-died", result.Invalid, "numbers from before and after it are of two different servers", instanceDied},
	{"result-missing", result.Invalid, "no numbers are no result", resultMissing},
	{"metrics-missing", result.Invalid, "a result without the numbers that its benchmark is run for, or with something else in their place, is none", metricsMissing},
	{"files-missing", result.Suspect, "planned files that are missing or unreadable were not checked", filesMissing},
	{"files-mixed", result.Invalid, "numbers of another execution are not of this run", filesMixed},
	{"placed-otherwise", result.Invalid, "a run on other nodes or GPUs than planned is another run", placedOtherwise},
	{"from-log", result.Suspect, "console text is rounded and lacks the details behind the numbers", fromLog},
	{"wrong-server", result.Invalid, "numbers of another model or engine are of another benchmark", wrongServer},
	{"server-restarted", result.Invalid, "a server that began again was away meanwhile, and has forgotten what it counted", serverRestarted},
	{"no-success", result.Invalid, "a client exits 0 when nothing was served", noSuccess},
	{"no-tokens", result.Invalid, "an engine that dies behind its headers answers fast and empty", noTokens},
	{"requests-missing", result.Invalid, "requests that vanish are neither served nor failed", requestsMissing},
	{"request-errors", result.Invalid, "failed requests lighten the load of the others", requestErrors},
	{"output-length", result.Invalid, "short answers make every latency look better", outputLength},
	{"input-length", result.Suspect, "other prompts than asked are another benchmark", inputLength},
	{"token-books", result.Suspect, "client and engine count the same tokens, or one of them is wrong", tokenBooks},
	{"engine-slower", result.Invalid, "a request spends less time in the engine than in the client, so the engine's latencies cannot add up to more", engineSlower},
	{"inconsistent", result.Invalid, "a report that contradicts itself proves nothing", inconsistent},
	{"times-impossible", result.Invalid, "a clock that was set, or requests that were copied, are no measurement", timesImpossible},
	{"summary-differs", result.Invalid, "a summary of other requests than those beside it proves nothing", summaryDiffers},
	{"coarse-clock", result.Suspect, "a latency cannot be finer than the clock that read it", coarseClock},
	{"impossible-speed", result.Invalid, "tokens cannot come faster than the latencies allow", impossibleSpeed},
	{"itl-bundled", result.Withheld, "with several tokens per chunk the gap between chunks is no latency of a token", itlBundled},
	{"cache-warm", result.Invalid, "a prompt that is found in the cache costs nothing", cacheWarm},
	{"client-bound", result.Invalid, "a client at its limit measures itself", clientBound},
	{"requests-resent", result.Suspect, "a server that drops connections under requests is not steady, and the request waited for both", resent},
	{"usage-missing", result.Suspect, "an event of a stream may hold several tokens, or none", usageMissing},
	{"warm-up-failed", result.Suspect, "a warm-up that fails warms nothing up", warmUpFailed},
	{"load-not-reached", result.Suspect, "latency at a lower load than asked for is another result", loadNotReached},
	{"sends-lumped", result.Suspect, "requests that a client held back and sent together are another load", sendsLumped},
	{"no-steady-state", result.Suspect, "ramp and tail are no steady load", noSteadyState},
	{"uneven-spread", result.Suspect, "an instance that gets more than its share sets the latency, one that gets less is not measured", unevenSpread},
	{"proxy-errors", result.Suspect, "a client that tries again reports a success where the service failed", proxyErrors},
	{"kv-transfer-failed", result.Invalid, "without transfers decode computes the prompt itself: not disaggregated", kvTransferFailed},
	{"preempted-requests", result.Suspect, "a thrashing KV cache computes prompts twice", preemptedRequests},
	{"corrupt-output", result.Invalid, "NaN logits are no answer", corruptOutput},
	{"foreign-load", result.Suspect, "requests of others share the engine", foreignLoad},
	{"window-wrong", result.Invalid, "idle time in the window lowers every rate", windowWrong},
	{"cold-start", result.Suspect, "compiling inside the window is no serving", coldStart},
	{"stalled", result.Suspect, "an outage in the window is in every rate and in few percentiles", stalled},
	{"not-steady", result.Suspect, "a queue that still grows has no latency yet", notSteady},
	{"n-too-small", result.Withheld, "a percentile needs enough requests beyond it", tooFew},
	{"accuracy-missing", result.Invalid, "speed without the planned proof of right answers", accuracyMissing},
	{"accuracy-invalid", result.Invalid, "the accuracy of a sick server is not the model's", accuracyInvalid},
	{"accuracy-subset", result.Withheld, "the first questions are easier than all of them", accuracySubset},
	{"gpu-shared", result.Suspect, "a process of somebody else takes time and memory of the GPU", gpuShared},
	{"gpu-idle", result.Invalid, "a GPU without work, or work on another GPU, is not what was planned", gpuIdle},
	{"throttled", result.Suspect, "a GPU that heat or a lack of power slows down is not the GPU that was bought", throttled},
	{"mixed-hardware", result.Suspect, "numbers measured on different GPU models hold for none of them", mixedHardware},
	{"power-gaps", result.Withheld, "what was drawn while nobody looked is not known", powerGaps},
	{"imported", result.Note, "profllm did not watch the server, so that most checks are not possible: no baseline by default", imported},
	{"simulated", result.Note, "simulated or profiled numbers are no measurements of the engine", instrumented},
}

func orNone(s string) string {
	if s == "" {
		return "not recorded"
	}
	return s
}

func phaseFailed(c *facts) answer {
	if len(c.e.Phases) == 0 {
		return notPossible("no phase was recorded")
	}
	var bad []string
	for _, p := range c.e.Phases {
		switch {
		case p.Exit == nil:
			bad = append(bad, p.Name+" never ended")
		case *p.Exit != 0:
			bad = append(bad, fmt.Sprintf("%s ended with %d", p.Name, *p.Exit))
		}
	}
	if len(bad) > 0 {
		return fail("%s", list(bad))
	}
	return pass("%d phases ended with 0", len(c.e.Phases))
}

func roleDied(c *facts) answer {
	var bad []string
	for _, d := range c.e.Died {
		if c.left(d) == 0 {
			bad = append(bad, d.String())
		}
	}
	if len(bad) > 0 {
		return fail("%s", list(bad))
	}
	if len(c.e.Phases) == 0 {
		return notPossible("no phase was recorded, so nobody watched the roles")
	}
	return pass("every role was there to the end")
}

func resultMissing(c *facts) answer {
	switch {
	case c.e.Planned.NoBenchmark:
		return notPossible("no benchmark was planned")
	case c.m.CompletedRequests != nil:
		return pass("%d completed requests were reported", *c.m.CompletedRequests)
	case c.m.Offline != nil:
		return pass("an offline benchmark was reported")
	case len(c.e.Missing) > 0:
		return fail("no benchmark result; missing: %s", list(c.e.Missing))
	case c.imported() && c.m.Measured():
		return notPossible("the imported file has numbers, and none of completed requests")
	}
	return fail("no benchmark result")
}

func filesMissing(c *facts) answer {
	var parts []string
	if len(c.e.Missing) > 0 {
		parts = append(parts, "missing: "+list(c.e.Missing))
	}
	if bad := c.unreadable(); len(bad) > 0 {
		parts = append(parts, "unreadable: "+list(bad))
	}
	switch {
	case len(parts) > 0:
		return fail("%s", strings.Join(parts, "; "))
	case c.m.CompletedRequests == nil && c.m.Offline == nil && !c.e.Planned.NoBenchmark:
		return notPossible("no benchmark result, see result-missing")
	}
	return pass("every planned file is there")
}

// unreadable lists files, or parts of them, that are there and cannot be read.
func (c *facts) unreadable() []string {
	var bad []string
	for _, w := range c.r.Warnings {
		if w.Kind == result.Unreadable {
			bad = append(bad, w.File+": "+w.Text)
		}
	}
	return bad
}

func fromLog(c *facts) answer {
	var read []string
	bad := false
	if c.m.CompletedRequests != nil || c.m.Offline != nil {
		read, bad = append(read, orNone(c.m.Source)), c.m.FromLog
	}
	if a := c.r.Accuracy; a != nil {
		read, bad = append(read, a.Task+" from "+orNone(a.Source)), bad || a.FromLog
	}
	if len(read) == 0 {
		return notPossible("neither a benchmark result nor an accuracy")
	}
	return judged(bad, "read from %s", strings.Join(read, ", "))
}

func kvTransferFailed(c *facts) answer {
	if !c.e.Planned.Disaggregated {
		return notPossible("not disaggregated")
	}
	t := result.KVTransferOf(c.m.Server)
	if t == nil {
		return notPossible("no KV transfer counters were read from prefill and decode")
	}
	var bad int64
	for _, n := range []*int64{t.FailedTransfers, t.FailedNotifications, t.ExpiredRequests} {
		if n != nil {
			bad += *n
		}
	}
	if idle := c.idlePrefill(); idle != "" {
		a := fail("%s", idle)
		a.word = "not-disaggregated"
		return a
	}
	if bad > 0 {
		return fail("%d failed transfers, %d failed notifications, %d expired requests",
			orZero(t.FailedTransfers), orZero(t.FailedNotifications), orZero(t.ExpiredRequests))
	}
	// Transfers are counted where they arrive: without decode's page, zero says
	// nothing.
	arrived := slices.ContainsFunc(c.m.Server, func(d result.ServerDelta) bool { return d.Role == "decode" })
	if t.Bytes == nil || !arrived {
		return notPossible("no counter of the bytes that reached decode")
	}
	a := judged(*t.Bytes <= 0, "%.0f bytes moved in %d transfers, none failed", *t.Bytes, orZero(t.Transfers))
	if a.outcome == result.Fail {
		a.word = "not-disaggregated"
	}
	return a
}

// idlePrefill says that prefill computed no prompt, where all of its engines count them.
func (c *facts) idlePrefill() string {
	const prompts = "vllm:prompt_tokens_total"
	done, why := c.completed()
	n := 0
	for _, d := range c.m.Server {
		if d.Role != "prefill" {
			continue
		}
		if v, ok := d.Counters[prompts]; !ok || v != 0 || d.Reset || d.Others {
			return ""
		}
		n++
	}
	if why != "" || n == 0 || n < c.placed("prefill") {
		return ""
	}
	return fmt.Sprintf("prefill computed no prompt token, and the client completed %d requests", done)
}

func gpuShared(c *facts) answer {
	made := 0
	var bad []string
	for _, n := range c.e.Nodes {
		if n.Check != "gpu-memory" && n.Check != "gpu-processes" || !n.Made {
			continue
		}
		if made++; n.Bad {
			bad = append(bad, n.Node+": "+n.Seen)
		}
	}
	if made == 0 {
		return notPossible("nobody looked at the GPUs before the start")
	}
	return judged(len(bad) > 0, "%s", cmp.Or(list(bad), "before the start the planned GPUs were idle"))
}

func instrumented(c *facts) answer {
	switch p := c.r.Provenance; {
	case c.r.Simulated, p != nil && p.Simulated:
		return fail("the engine was simulated")
	case c.e.Profiled, c.r.Profiling != nil && c.r.Profiling.Enabled:
		a := fail("a profiler ran%s", by(c.r.Profiling))
		a.word = "profiled"
		return a
	}
	return pass("neither simulated nor profiled")
}

// by says what showed that a profiler ran.
func by(p *result.Profiling) string {
	if p == nil || p.By == "" {
		return ""
	}
	return ": " + p.By
}

// imported says whether the record is of a file that another program wrote.
func (c *facts) imported() bool { return c.r.Provenance.From() != "" }

func imported(c *facts) answer {
	switch {
	case c.r.Provenance == nil:
		return notPossible("no provenance")
	case !c.imported():
		return pass("read where it was measured")
	}
	i := c.r.Provenance.Imported
	if i == nil {
		return fail("the files of %s lay alone", c.r.Provenance.Foreign)
	}
	return fail("imported from %s, format %s", i.From, i.Format)
}
