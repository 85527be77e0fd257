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
	{"job-state", result.Invalid, "a job that ended early may have measured only a part of its load", jobState},
	{"phase-failed", result.Invalid, "a job can succeed although its client failed", phaseFailed},
	{"role-died", result.Invalid, "requests to a server that died fail or end incomplete", roleDied},
	{"instance-died", result.Invalid, "before and after an instance died, the numbers describe two different services",
		instanceDied},
	{"search-unanswered", result.Invalid, "a search without an answer says nothing about the highest load",
		searchUnanswered},
	{"no-load-holds", result.Note, "if no measured load keeps the limits, the search has an answer, but no numbers",
		noLoadHolds},
	{"result-missing", result.Invalid, "a run without a benchmark result has no numbers to judge", resultMissing},
	{"metrics-missing", result.Invalid, "the metrics that the benchmark measures must be present and be numbers",
		metricsMissing},
	{"files-missing", result.Suspect, "planned files that are missing or unreadable were not checked", filesMissing},
	{"files-mixed", result.Invalid, "files of another execution do not describe this run", filesMixed},
	{"placed-otherwise", result.Invalid, "a run on other nodes or GPUs did not measure what was planned",
		placedOtherwise},
	{"from-log", result.Suspect, "console text is rounded and lacks the details behind the numbers", fromLog},
	{"wrong-server", result.Invalid, "numbers of another model or engine belong to another benchmark", wrongServer},
	{"server-restarted", result.Invalid, "a restarted server did not answer for a while and lost its counts",
		serverRestarted},
	{"no-success", result.Invalid, "a client can exit with 0 although no request was served", noSuccess},
	{"no-tokens", result.Invalid, "an engine that dies after its response headers answers fast, but without tokens",
		noTokens},
	{"requests-missing", result.Invalid, "every planned request must have completed or failed", requestsMissing},
	{"request-errors", result.Invalid, "failed requests reduce the load, so the other requests look faster",
		requestErrors},
	{"output-length", result.Invalid, "short answers make every latency look better", outputLength},
	{"input-length", result.Suspect, "prompts of another length are another load than planned", inputLength},
	{"token-books", result.Suspect, "client and engine must count the same tokens; otherwise one of them is wrong",
		tokenBooks},
	{"engine-slower", result.Invalid,
		"a request spends less time in the engine than in the client, so the engine's latencies cannot be larger",
		engineSlower},
	{"inconsistent", result.Invalid, "numbers that contradict each other cannot all be right", inconsistent},
	{"times-impossible", result.Invalid, "impossible times come from a clock that was set or from copied requests",
		timesImpossible},
	{"summary-differs", result.Invalid, "the statistics must be those of the single requests in the same file",
		summaryDiffers},
	{"coarse-clock", result.Suspect, "a latency cannot be more precise than the clock that measured it", coarseClock},
	{"impossible-speed", result.Invalid, "tokens cannot come faster than the latencies allow", impossibleSpeed},
	{"itl-bundled", result.Withheld,
		"if chunks hold several tokens, the gap between two chunks is not the latency of a token", itlBundled},
	{"cache-warm", result.Invalid,
		"prompts found in the prefix cache need no prefill, so TTFT and throughput look better", cacheWarm},
	{"client-bound", result.Invalid, "an overloaded client adds its own delays to the latencies", clientBound},
	{"requests-resent", result.Suspect,
		"a server that drops connections is not stable, and the latency of a resent request includes both attempts",
		resent},
	{"usage-missing", result.Suspect,
		"without usage the client counts events of the stream, and an event may hold several tokens or none",
		usageMissing},
	{"warm-up-failed", result.Suspect, "after a failed warm-up the server may be cold", warmUpFailed},
	{"load-not-reached", result.Suspect, "latency at a lower load is not the latency at the planned load",
		loadNotReached},
	{"sends-lumped", result.Suspect,
		"requests that the client held back and sent together are another load than planned", sendsLumped},
	{"no-steady-state", result.Suspect, "ramp-up and tail are not a steady load", noSteadyState},
	{"uneven-spread", result.Suspect,
		"an overloaded instance dominates the latency, and an underloaded one is not measured at the planned load",
		unevenSpread},
	{"proxy-errors", result.Suspect, "a client that retries reports success although the service failed", proxyErrors},
	{"kv-transfer-failed", result.Invalid,
		"without KV transfers decode computes the prompts itself, and the run is not disaggregated", kvTransferFailed},
	{"preempted-requests", result.Suspect, "a preempted request loses its KV cache and is computed again",
		preemptedRequests},
	{"corrupt-output", result.Invalid, "answers from NaN logits are meaningless", corruptOutput},
	{"foreign-load", result.Suspect, "requests of other clients slow down the measured requests", foreignLoad},
	{"window-wrong", result.Invalid, "idle time in the window lowers every rate", windowWrong},
	{"cold-start", result.Suspect, "compilation during the window raises latencies that later requests do not have",
		coldStart},
	{"stalled", result.Suspect, "an outage lowers every rate, but few percentiles show it", stalled},
	{"not-steady", result.Suspect, "while a queue grows, latency depends on how long the test runs", notSteady},
	{"n-too-small", result.Withheld, "a percentile needs enough requests above it", tooFew},
	{"accuracy-missing", result.Invalid, "without the planned evaluation, fast but wrong answers would not be noticed",
		accuracyMissing},
	{"accuracy-invalid", result.Invalid,
		"many answers without a number point to a broken server, so the accuracy is not the model's", accuracyInvalid},
	{"accuracy-subset", result.Withheld, "the first questions are easier than the whole set", accuracySubset},
	{"gpu-shared", result.Suspect, "another process takes time and memory of the GPU", gpuShared},
	{"gpu-idle", result.Invalid,
		"an idle planned GPU, or a busy GPU outside the plan, means that the run used other GPUs than planned",
		gpuIdle},
	{"throttled", result.Suspect, "heat or a lack of power makes a GPU slower than it normally is", throttled},
	{"mixed-hardware", result.Suspect, "numbers measured on different GPU models describe none of them", mixedHardware},
	{"power-gaps", result.Withheld, "the power drawn between samples is unknown", powerGaps},
	{"imported", result.Note, "profllm did not observe the server, so most checks are not possible; not a baseline by default", imported},
	{"simulated", result.Note, "a simulated or profiled engine does not have the speed of the real engine",
		instrumented},
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
	var bad, ended, elsewhere []string
	for _, p := range c.e.Phases {
		switch text := c.withoutAnswer(p); {
		case text != "":
			elsewhere = append(elsewhere, text)
		case p.Exit == nil && c.e.EndedWithOthers && !p.Lost && len(bad) == 0:
			ended = append(ended, p.Name)
		case p.Exit == nil:
			bad = append(bad, c.unfinished(p, len(bad) > 0))
		case *p.Exit != 0:
			bad = append(bad, fmt.Sprintf("%s ended with %d", p.Name, *p.Exit))
		}
	}
	switch {
	case len(bad) > 0:
		return fail("%s", list(bad))
	case len(ended) > 0:
		return pass("%s ended as planned: the runs that it accompanied were over", list(ended))
	case len(elsewhere) > 0:
		return pass("%s", list(elsewhere))
	}
	return pass("%d phases ended with 0", len(c.e.Phases))
}

// unfinished says what became of a phase without a known end; after is set if one before it failed.
func (c *facts) unfinished(p Phase, after bool) string {
	switch {
	case p.Lost:
		return p.Name + " was stopped, because a server that it needs died"
	case c.e.Job != nil && c.e.Job.Script == nil:
		return fmt.Sprintf("how %s ended is not known, because the job was killed before it could record that", p.Name)
	case p.Begun:
		return p.Name + " was cut off by the end of the job"
	case after:
		return p.Name + " did not run"
	}
	return p.Name + " did not run to its end, because the job ended first"
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
		return notPossible("no phase was recorded, so the roles were not monitored")
	}
	return pass("every role ran to the end")
}

func resultMissing(c *facts) answer {
	switch {
	case c.e.Planned.NoBenchmark:
		return notPossible("no benchmark was planned")
	case c.m.CompletedRequests != nil:
		return pass("%d completed requests were reported", *c.m.CompletedRequests)
	case c.m.Offline != nil:
		return pass("an offline benchmark was reported")
	case WithoutNumbers(c.r):
		return notPossible("the search left no numbers: %s", searchOf(c.r).Sentence)
	case len(c.e.Missing) > 0:
		return fail("no benchmark result; missing: %s", list(c.e.Missing))
	case c.imported() && c.m.Measured():
		return notPossible("the imported file has numbers, but no count of completed requests")
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
	case c.m.CompletedRequests == nil && c.m.Offline == nil && !c.e.Planned.NoBenchmark && !WithoutNumbers(c.r):
		return notPossible("no benchmark result, see result-missing")
	}
	return pass("every planned file is present")
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
		return notPossible("the bytes that reached decode were not counted")
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
	return fmt.Sprintf("prefill computed no prompt token, but the client completed %d requests", done)
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
		return notPossible("the GPUs were not checked before the start")
	}
	return judged(len(bad) > 0, "%s", cmp.Or(list(bad), "the planned GPUs were idle before the start"))
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
		return pass("read in the run that measured it")
	}
	i := c.r.Provenance.Imported
	if i == nil {
		return fail("the files of %s lay outside a run of profllm", c.r.Provenance.Foreign)
	}
	return fail("imported from %s, format %s", i.From, i.Format)
}
