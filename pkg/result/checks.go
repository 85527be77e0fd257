package result

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// A question is one check before it is put to a record.
type question struct {
	id, word string
	severity Severity
	why      string
	ask      func(*facts) answer
}

// questions lists every check, in the order of the record. It is never changed.
var questions = []question{
	{"PL-S5", "job-state", Invalid, "a job that was cut short may leave numbers behind", jobState},
	{"PL-S5", "phase-failed", Invalid, "a client can fail behind a job that succeeds", phaseFailed},
	{"PL-D8", "role-died", Invalid, "answers of a server that died are errors or leftovers", roleDied},
	{"PL-D8", "instance-died", Invalid, "numbers from before and after it are of two different servers", instanceDied},
	{"PL-V1", "result-missing", Invalid, "no numbers are no result", resultMissing},
	{"PL-V1", "files-missing", Suspect, "what was planned and is not there was not looked at", filesMissing},
	{"PL-D15", "from-log", Suspect, "console text is rounded and lacks the details behind the numbers", fromLog},
	{"PL-V25", "wrong-server", Invalid, "numbers of another model or engine are of another benchmark", wrongServer},
	{"PL-V19", "server-restarted", Invalid, "a server that began again was away meanwhile, and has forgotten what it counted", serverRestarted},
	{"PL-V1", "no-success", Invalid, "a client exits 0 when nothing was served", noSuccess},
	{"PL-V2", "no-tokens", Invalid, "an engine that dies behind its headers answers fast and empty", noTokens},
	{"PL-V3", "requests-missing", Invalid, "requests that vanish are neither served nor failed", requestsMissing},
	{"PL-V4", "request-errors", Invalid, "failed requests lighten the load of the others", requestErrors},
	{"PL-V5", "output-length", Invalid, "short answers make every latency look better", outputLength},
	{"PL-V6", "input-length", Suspect, "other prompts than asked are another benchmark", inputLength},
	{"PL-V7", "token-books", Suspect, "client and engine count the same tokens, or one of them is wrong", tokenBooks},
	{"PL-V8", "inconsistent", Invalid, "a report that contradicts itself proves nothing", inconsistent},
	{"PL-V9", "impossible-speed", Invalid, "tokens cannot come faster than the latencies allow", impossibleSpeed},
	{"PL-V10", "itl-bundled", Withheld, "with several tokens per chunk the gap between chunks is no latency of a token", itlBundled},
	{"PL-V11", "cache-warm", Invalid, "a prompt that is found in the cache costs nothing", cacheWarm},
	{"PL-V13", "client-bound", Invalid, "a client at its limit measures itself", clientBound},
	{"PL-V14", "load-not-reached", Suspect, "latency at a lower load than asked for is another result", loadNotReached},
	{"PL-V15", "no-steady-state", Suspect, "ramp and tail are no steady load", noSteadyState},
	{"PL-V14", "uneven-spread", Suspect, "an instance that gets more than its share sets the latency, one that gets less is not measured", unevenSpread},
	{"PL-V16", "kv-transfer-failed", Invalid, "without transfers decode computes the prompt itself: not disaggregated", kvTransferFailed},
	{"PL-V17", "preempted-requests", Suspect, "a thrashing KV cache computes prompts twice", preemptedRequests},
	{"PL-V18", "corrupt-output", Invalid, "NaN logits are no answer", corruptOutput},
	{"PL-V20", "foreign-load", Suspect, "requests of others share the engine", foreignLoad},
	{"PL-V21", "window-wrong", Invalid, "idle time in the window lowers every rate", windowWrong},
	{"PL-V22", "cold-start", Suspect, "compiling inside the window is no serving", coldStart},
	{"PL-V23", "not-steady", Suspect, "a queue that still grows has no latency yet", notSteady},
	{"PL-V24", "n-too-small", Withheld, "a percentile needs enough requests beyond it", tooFew},
	{"PL-V31", "accuracy-missing", Invalid, "speed without the planned proof of right answers", accuracyMissing},
	{"PL-V31", "accuracy-invalid", Invalid, "the accuracy of a sick server is not the model's", accuracyInvalid},
	{"PL-V31", "accuracy-subset", Withheld, "the first questions are easier than all of them", accuracySubset},
	{"PL-G13", "gpu-shared", Suspect, "a process of somebody else takes time and memory of the GPU", gpuShared},
	{"PL-V26", "gpu-idle", Invalid, "a GPU without work, or work on another GPU, is not what was planned", gpuIdle},
	{"PL-V27", "throttled", Suspect, "a GPU that heat or a lack of power slows down is not the GPU that was bought", throttled},
	{"PL-V28", "mixed-hardware", Suspect, "numbers of unlike GPUs are of none of them", mixedHardware},
	{"PL-V33", "power-gaps", Withheld, "what was drawn while nobody looked is not known", powerGaps},
	{"PL-I4", "imported", Note, "nobody here watched the server, so that most checks are not possible: no baseline by default", imported},
	{"PL-V29", "simulated", Note, "simulated or profiled numbers are no measurements of the engine", instrumented},
}

func jobState(c *facts) answer {
	s := c.r.Slurm
	if s == nil || s.State == "" {
		return notPossible("not run under Slurm, or its state is not known")
	}
	state, _, _ := strings.Cut(s.State, " ") // "CANCELLED by 1000"
	if c.e.Apart {
		return pass("this load was over before job %s ended as %s, exit code %s", s.JobID, s.State, orNone(s.ExitCode))
	}
	switch state {
	case "COMPLETED":
		bad := s.ExitCode != "" && s.ExitCode != "0:0"
		return judged(bad, "job %s is COMPLETED, exit code %s", s.JobID, orNone(s.ExitCode))
	case "PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "UNKNOWN":
		return notPossible("job %s is %s: its end is not known", s.JobID, state)
	}
	return fail("job %s is %s, exit code %s", s.JobID, s.State, orNone(s.ExitCode))
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
	if c.m.CompletedRequests == nil && !c.e.Planned.NoBenchmark {
		return notPossible("no benchmark result, see result-missing")
	}
	if len(c.e.Missing) > 0 {
		return fail("missing: %s", list(c.e.Missing))
	}
	return pass("every planned file is there")
}

func fromLog(c *facts) answer {
	if c.m.CompletedRequests == nil && c.m.Offline == nil {
		return notPossible("no benchmark result")
	}
	return judged(c.m.FromLog, "read from %s", orNone(c.m.Source))
}

func noSuccess(c *facts) answer {
	if c.m.CompletedRequests == nil {
		return notPossible("the client reported no number of completed requests")
	}
	done := *c.m.CompletedRequests
	return judged(done <= 0, "%d requests completed", done)
}

func noTokens(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	if c.m.TotalOutputTokens == nil {
		return notPossible("the client reported no output tokens")
	}
	empty := 0
	if s := c.e.Samples; s != nil {
		for i, n := range s.OutputLen {
			if n == 0 && !s.Failed(i) {
				empty++
			}
		}
	}
	out := *c.m.TotalOutputTokens
	return judged(out <= 0 || empty > 0, "%d output tokens in %d requests, %d known to be empty", out, done, empty)
}

// failed returns the number of failed requests; derived says that the client
// did not report it.
func (c *facts) failed() (n int, derived, ok bool) {
	if c.m.FailedRequests != nil {
		return *c.m.FailedRequests, slices.Contains(c.m.Derived, "failed_requests"), true
	}
	return 0, false, false
}

func requestsMissing(c *facts) answer {
	if c.m.CompletedRequests == nil {
		return notPossible("the client reported no number of completed requests")
	}
	failed, derived, ok := c.failed()
	if !ok || derived {
		return notPossible("the client reported no number of failed requests")
	}
	planned := c.planned()
	if planned == 0 {
		return notPossible("the number of planned requests is not known")
	}
	done := *c.m.CompletedRequests
	return judged(done+failed != planned, "%d completed + %d failed of %d planned", done, failed, planned)
}

func requestErrors(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	failed, _, ok := c.failed()
	if !ok {
		return notPossible("the number of failed requests is not known")
	}
	share := float64(failed) / float64(done+failed)
	return judged(share > c.limit("failed_share"), "%d of %d requests failed (%.2f %%, accepted %.2f %%)",
		failed, done+failed, 100*share, 100*c.limit("failed_share"))
}

func outputLength(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	if c.m.TotalOutputTokens == nil || *c.m.TotalOutputTokens <= 0 {
		return notPossible("no output tokens, see no-tokens")
	}
	perRequest := float64(*c.m.TotalOutputTokens) / float64(done)
	p := c.e.Planned
	switch {
	case p.IgnoreEOS && p.OutputTokens > 0:
		off := perRequest/float64(p.OutputTokens) - 1
		return judged(math.Abs(off) > c.limit("output_deviation"), "%.2f tokens per request, %d planned (%+.2f %%, accepted %.2f %%)",
			perRequest, p.OutputTokens, 100*off, 100*c.limit("output_deviation"))
	case p.OutputTokens > 0 && float64(p.OutputTokens) < c.limit("output_tokens"):
		return notPossible("answers of %d token were planned, without ignore-eos", p.OutputTokens)
	}
	least := c.limit("output_tokens")
	return judged(perRequest < least, "%.2f tokens per request, at least %s expected", perRequest, plain(least))
}

func inputLength(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	if c.m.TotalInputTokens == nil {
		return notPossible("the client reported no input tokens")
	}
	total := *c.m.TotalInputTokens
	if total <= 0 {
		return fail("%d input tokens in %d requests", total, done)
	}
	want := c.e.Planned.InputTokens
	if want == 0 {
		return notPossible("no fixed prompt length was planned")
	}
	got := float64(total) / float64(done)
	off := got/float64(want) - 1
	return judged(math.Abs(off) > c.limit("input_deviation"), "%.2f tokens per request, %d planned (%+.2f %%, accepted %.2f %%)",
		got, want, 100*off, 100*c.limit("input_deviation"))
}

func impossibleSpeed(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	tpot := c.m.Latency[TPOT].Mean
	if c.m.TotalOutputTokens == nil || tpot == nil || *tpot <= 0 {
		return notPossible("no output tokens, or no mean TPOT")
	}
	busy, ok := c.e.Samples.TotalLatency() // s of all requests together
	if mean := c.m.Latency[E2EL].Mean; !ok && mean != nil {
		busy, ok = *mean/1000*float64(done), true
	}
	if !ok || busy <= 0 {
		return notPossible("neither latencies nor a mean E2EL were reported")
	}
	// (O/D) / (L x 1000/mean_tpot_ms) with L = busy/D: the window cancels out.
	ratio := float64(*c.m.TotalOutputTokens) * *tpot / 1000 / busy
	return judged(ratio > c.limit("speed_ratio"), "%d tokens of %.3f ms in %.3f s of requests: %.2f times what fits, accepted %.2f",
		*c.m.TotalOutputTokens, *tpot, busy, ratio, c.limit("speed_ratio"))
}

func itlBundled(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	itl, has := c.m.Latency[ITL]
	if !has {
		return notPossible("no ITL was reported")
	}
	var a answer
	if gaps, ok := c.e.Samples.Gaps(); ok && gaps > 0 && c.m.TotalOutputTokens != nil {
		per := float64(*c.m.TotalOutputTokens-int64(done)) / float64(gaps)
		a = judged(per > c.limit("tokens_per_chunk"), "%.3f tokens per chunk, accepted %.2f", per, c.limit("tokens_per_chunk"))
	} else if tpot := c.m.Latency[TPOT].Median; itl.Median != nil && tpot != nil {
		a = judged(*itl.Median < c.limit("itl_share")**tpot, "median ITL %.3f ms, median TPOT %.3f ms, least accepted share %.2f",
			*itl.Median, *tpot, c.limit("itl_share"))
	} else {
		return notPossible("neither ITL samples nor both medians were reported")
	}
	for _, s := range itl.Statistics() {
		a.withheld = append(a.withheld, ITL.Key(s.Name))
	}
	return a
}

func kvTransferFailed(c *facts) answer {
	if !c.e.Planned.Disaggregated {
		return notPossible("not disaggregated")
	}
	t := kvTransfer(c.m.Server)
	if t == nil {
		return notPossible("no KV transfer counters were read from prefill and decode")
	}
	var bad int64
	for _, n := range []*int64{t.FailedTransfers, t.FailedNotifications, t.ExpiredRequests} {
		if n != nil {
			bad += *n
		}
	}
	if bad > 0 {
		return fail("%d failed transfers, %d failed notifications, %d expired requests",
			orZero(t.FailedTransfers), orZero(t.FailedNotifications), orZero(t.ExpiredRequests))
	}
	// Transfers are counted where they arrive: without decode's page, zero says
	// nothing.
	arrived := slices.ContainsFunc(c.m.Server, func(d ServerDelta) bool { return d.Role == "decode" })
	if t.Bytes == nil || !arrived {
		return notPossible("no counter of the bytes that reached decode")
	}
	a := judged(*t.Bytes <= 0, "%.0f bytes moved in %d transfers, none failed", *t.Bytes, orZero(t.Transfers))
	if a.outcome == Fail {
		a.word = "not-disaggregated"
	}
	return a
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// minSample is the least n with p^n <= risk: below it the sample
// holds no value beyond the percentile with that confidence (PL-Q8, one-sided).
func minSample(rank, risk float64) int {
	p := rank / 100
	if p <= 0 || p >= 1 {
		return 1
	}
	return int(math.Ceil(math.Log(risk)/math.Log(p) - 1e-9))
}

func tooFew(c *facts) answer {
	if o := c.m.Offline; o != nil {
		return o.tooFew(c.limit("percentile_risk"))
	}
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	var bad, keys []string
	checked := 0
	for _, f := range Families() {
		d := c.m.Latency[f]
		n, known := c.sampleSize(f, d, done)
		atMost := "at most "
		if known {
			atMost = ""
		}
		for _, rank := range slices.Sorted(maps.Keys(d.Percentiles)) {
			checked++
			if need := minSample(rank, c.limit("percentile_risk")); n < need {
				key := f.Key(PercentileName(rank))
				bad = append(bad, fmt.Sprintf("%s needs %d, has %s%d", key, need, atMost, n))
				keys = append(keys, key)
			}
		}
	}
	if checked == 0 {
		return notPossible("no percentile was reported")
	}
	a := pass("%d percentiles have samples enough", checked)
	if len(bad) > 0 {
		a = fail("%s", list(bad))
	}
	a.withheld = keys
	return a
}

// sampleSize returns the size of a family's sample, or the most it can be.
func (c *facts) sampleSize(f Family, d Distribution, done int) (n int, known bool) {
	if d.N != nil {
		return *d.N, true
	}
	if f == ITL && c.m.TotalOutputTokens != nil {
		return int(*c.m.TotalOutputTokens) - done, false
	}
	return done, false
}

func accuracyMissing(c *facts) answer {
	if !c.e.Planned.Accuracy {
		return notPossible("no evaluation was planned")
	}
	if a := c.r.Accuracy; a != nil {
		return pass("%s %.4f from %s", a.Task, a.Value, a.Source)
	}
	return fail("an evaluation was planned and left no accuracy")
}

func accuracyInvalid(c *facts) answer {
	a := c.r.Accuracy
	if a == nil {
		return notPossible("no accuracy")
	}
	if !(a.Value >= 0 && a.Value <= 1) {
		return fail("accuracy %v is no share", a.Value)
	}
	if a.InvalidRate == nil {
		return notPossible("the evaluation reported no invalid rate")
	}
	return judged(*a.InvalidRate > c.limit("invalid_answers"), "%.2f %% of the answers hold no number, accepted %.2f %%",
		100**a.InvalidRate, 100*c.limit("invalid_answers"))
}

func accuracySubset(c *facts) answer {
	a := c.r.Accuracy
	if a == nil {
		return notPossible("no accuracy")
	}
	if a.Questions == nil {
		return notPossible("the evaluation reported no number of questions")
	}
	least := c.limit("questions")
	out := judged(float64(*a.Questions) < least, "%d questions, at least %.0f wanted", *a.Questions, least)
	out.withheld = []string{"accuracy.value"}
	return out
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
		a := fail("a profiler ran")
		a.word = "profiled"
		return a
	}
	return pass("neither simulated nor profiled")
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
