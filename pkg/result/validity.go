package result

import (
	"fmt"
	"slices"
	"strings"
)

// Validity is the judgement on a record's numbers. Every check is listed,
// also those that passed and those that could not be made.
type Validity struct {
	Valid    bool     `json:"valid" jsonschema:"no check of severity invalid failed"`
	Verdict  Verdict  `json:"verdict"`
	Words    []string `json:"words,omitempty" jsonschema:"words of the failed checks, worst first"`
	Withheld []string `json:"withheld,omitempty" jsonschema:"keys of results that must not be shown as numbers, sorted"`
	Set      []string `json:"set,omitempty" jsonschema:"thresholds that the test set, and how they differ from the defaults"`
	Checks   []Check  `json:"checks"`
}

// Verdict sums up the checks in a word.
type Verdict string

// The verdicts, best first. Only a valid run may become a baseline.
const (
	VerdictValid   Verdict = "valid"
	VerdictSuspect Verdict = "suspect"
	VerdictInvalid Verdict = "invalid"
)

// Check is one question put to a record, and its answer.
type Check struct {
	OldID    string   `json:"id,omitempty" jsonschema:"only in records of releases before 2026-11-25; the word identifies the check"`
	Word     string   `json:"word" jsonschema:"what is wrong if it failed, in a word"`
	Outcome  Outcome  `json:"outcome"`
	Severity Severity `json:"severity" jsonschema:"what a failure means"`
	Detail   string   `json:"detail" jsonschema:"the numbers compared, or why the check was not possible"`
	Why      string   `json:"why" jsonschema:"what the check protects against"`
}

// Outcome is a check's answer.
type Outcome string

// The outcomes.
const (
	Pass        Outcome = "pass"
	Fail        Outcome = "fail"
	NotPossible Outcome = "not-possible" // something it needs was not recorded
)

// Severity is what a failed check means for the numbers.
type Severity string

// The severities, worst first.
const (
	Invalid  Severity = "invalid"  // never a baseline, never in charts by default
	Suspect  Severity = "suspect"  // shown with its word, never a baseline
	Withheld Severity = "withheld" // the named metrics are not shown, the rest stands
	Note     Severity = "note"     // says what kind of run it was; never compared with others
)

// Defaults of the thresholds of the checks, see Thresholds, and numbers that are part
// of a check's definition.
const (
	maxFailedShare     = 0.0  // request-errors: any failed request counts. A peer allows 0.05.
	maxOutputDeviation = 0.01 // output-length under ignore-eos
	maxInputDeviation  = 0.05 // input-length; a chat template alone adds some percent
	maxInvalidRate     = 0.05 // accuracy-invalid
	minQuestions       = 200  // accuracy-subset: below, the subset is named and the value withheld
	minGPUUse          = 0.01 // gpu-idle: of the window, a planned GPU
	maxGPUForeign      = 0.01 // gpu-idle: of the window, a GPU that no role was given
	maxSlowed          = 0.05 // throttled: of the samples
	maxClockSpread     = 0.05 // throttled: mean SM clocks of GPUs of one kind of role, of the highest
	maxPowerGap        = 3    // power-gaps, s
	minPowerCoverage   = 0.95 // power-gaps: of the window

	minOutputPerRequest = 2        // output-length without ignore-eos, tokens
	maxRateDeviation    = 0.01     // inconsistent
	maxShort            = 0.0      // output-length under ignore-eos
	maxCopied           = 0.01     // times-impossible
	maxOverCap          = 0.05     // times-impossible
	maxSummary          = 0.01     // summary-differs
	maxClockStep        = 0.05     // coarse-clock, of the median
	maxBundled          = 0.4      // itl-bundled: of a stream whose tokens come in pairs a half
	maxSendGap          = 2.0      // sends-lumped, s
	maxLumped           = 0.1      // sends-lumped
	maxStall            = 2.0      // stalled, s: a collection of garbage may take one
	maxGap              = 5.0      // stalled, s: a preempted request waits for its turn
	maxSpeedRatio       = 1.5      // impossible-speed
	maxTokensPerChunk   = 1.05     // itl-bundled, with ITL samples
	minITLShareOfTPOT   = 0.2      // itl-bundled, from the medians
	maxTokenBooks       = 0.02     // token-books
	maxCacheWarmth      = 0.05     // cache-warm, beyond what was planned
	maxPreemptions      = 0.01     // preempted-requests, per completed request
	maxForeign          = 0.01     // foreign-load, per completed request
	maxWindow           = 1.02     // window-wrong, window over first send to last end
	leastIdle           = 0.1      // window-wrong, s: what a client may need to end, on a busy machine
	maxFirstGap         = 6        // window-wrong, standard deviations of the gaps between sends
	maxClientCPU        = 0.85     // client-bound, of its threads
	minSendRate         = 0.95     // client-bound, of the rate that was asked for
	maxSendDelayMS      = 100      // client-bound
	maxLagMS            = 10       // client-bound
	minLoad             = 0.8      // load-not-reached, of the planned concurrency
	maxLoadDeviation    = 0.1      // load-not-reached, against the engines' own gauges
	minLoadSamples      = 30       // load-not-reached: with fewer, the ends of the window weigh too much
	minRounds           = 5        // no-steady-state, requests per slot of the cap
	maxRampShare        = 0.3      // no-steady-state, of the window below half the cap
	maxColdStart        = 3        // cold-start, first tenth over the rest
	minTrendSample      = 20       // not-steady, requests in the second half
	trendBlocks         = 6        // not-steady
	trendT              = 2.776445 // not-steady, 97.5 % of Student's t with trendBlocks-2 degrees of freedom
	maxTrend            = 0.2      // not-steady, rise over the second half
	percentileRisk      = 0.05     // n-too-small, one-sided: p^n
	logRounding         = 0.005
)

// Evidence is what a judgement needs beside the record itself. The Slurm
// state, the server's counters and the accuracy are read from the record.
type Evidence struct {
	Planned    Planned
	Servers    []Server  // every engine that was planned
	Samples    *Samples  // of the part that gave the metrics; nil if not saved
	GivenModel string    // that the client says it was given; "" if it does not
	Phases     []Phase   // in order: ready, bench, eval …
	Died       []RoleEnd // roles that ended while they were needed
	Missing    []string  // planned files that are not there
	Evaluated  *float64  // requests that the engines ended while the evaluation ran; nil: not known
	Apart      bool      // every phase of it was over before the job went on with something else: how the job ended is not its own end
	Job        *JobEnd   // what the run's own files say of the job's end; nil: nothing
	Profiled   bool
	Nodes      []NodeCheck // of the preflight; nil if there was none
	Hardware   []NodeGPU   // planned GPUs as the preflight saw them; nil if it saw none
	Limits     Limits      // thresholds that the test has set

	NoGPUSamples string // why the record has none, "" if it has

	Executions, Places Agreement // of the run's files, on what ran and on where
}

// NodeCheck is what a preflight saw on one node.
type NodeCheck struct {
	Node, Check, Seen string
	Made, Bad         bool // whether it could be made, and whether it warned or failed
}

// Planned is what the run was meant to do. A zero number means "not fixed".
type Planned struct {
	NumPrompts    int
	InputTokens   int // per request
	OutputTokens  int // per request
	IgnoreEOS     bool
	Accuracy      bool   // an evaluation is part of the run
	NoBenchmark   bool   // no load client is part of the run
	Disaggregated bool   // KV blocks move from prefill to decode
	Model         string // that the engines were told to load
	EngineVersion string // or its beginning
	GPUs          int    // of all roles on all nodes
	Locked        Locked // what an earlier run that this one repeats had

	Concurrency int      // most requests in flight
	RequestRate float64  // 1/s, the least if it rises
	Warmups     int      // requests of the client before the measured ones
	SharedInput *float64 // share of a prompt that every prompt begins with; nil: not known
}

// Locked is what must be as in an earlier run; "" is not asked.
type Locked struct {
	EngineVersion string
	ImageDigest   string
	ModelRevision string
}

// Server is what an engine said of itself when it was ready.
type Server struct {
	Role    string   // of one instance: prefill_1
	Wanted  []string // names under which clients must find the model
	Names   []string // those that it answers to; nil if it did not say
	Model   string   // where the weights came from, "" if it did not say
	Version string   // of the engine, "" if it did not say
}

// Phase is one step of the run.
type Phase struct {
	Name string
	Exit *int // nil if it never ended
}

// RoleEnd is a role's end before its time.
type RoleEnd struct {
	Role   string // of one instance: prefill_1
	Rank   int
	Node   string
	Exit   int     // exit code, 128 plus the signal if killed
	Spared *Spared // the other instances served on; nil if there were none
}

// Spared says how a run went on without one of several instances.
type Spared struct {
	Kind string // prefill, decode
	Of   int    // instances of the kind, with the one that ended
	// BeforeEnd is from the instance's end to the end of the client that
	// measured, s; not positive if that had ended before; nil if not known.
	BeforeEnd *float64
	// Before and After are the paces of the kind's other instances, by their
	// counters: from all ready, and to the client's end. Nil if not known.
	Before, After *Pace
}

// Pace is what instances of a kind did together in some time.
type Pace struct {
	Seconds  float64
	Requests float64
	Latency  float64 // summed over requests, s
}

// Judge puts every check to the record. It changes neither argument; the
// record's warnings are part of what it looks at.
func Judge(r *Result, e Evidence) *Validity {
	c := &facts{r: r, m: &r.Results, e: e}
	v := &Validity{Verdict: VerdictValid, Set: e.Limits.set()}
	for _, q := range questions {
		c.asked = nil
		a := q.ask(c)
		check := Check{Word: q.word, Severity: q.severity, Why: q.why, Outcome: a.outcome, Detail: a.detail + c.set()}
		if a.word != "" {
			check.Word = a.word
		}
		v.Checks = append(v.Checks, check)
		if a.outcome == Fail {
			v.Withheld = append(v.Withheld, a.withheld...)
		}
	}
	for _, s := range []Severity{Invalid, Suspect, Withheld, Note} {
		for _, check := range v.Checks {
			if check.Outcome == Fail && check.Severity == s && !slices.Contains(v.Words, check.Word) {
				v.Words = append(v.Words, check.Word)
			}
		}
	}
	switch {
	case v.failed(Invalid):
		v.Verdict = VerdictInvalid
	case v.failed(Suspect):
		v.Verdict = VerdictSuspect
	}
	v.Valid = v.Verdict != VerdictInvalid
	slices.Sort(v.Withheld)
	v.Withheld = slices.Compact(v.Withheld)
	return v
}

func (v *Validity) failed(s Severity) bool {
	return slices.ContainsFunc(v.Checks, func(c Check) bool { return c.Outcome == Fail && c.Severity == s })
}

// Baseline reports whether other runs may be compared with this one: valid,
// not suspect, neither simulated nor profiled.
func (v *Validity) Baseline() bool {
	return v.Verdict == VerdictValid && !v.failed(Note)
}

// Withholds reports whether the number under a key of results must not be shown.
func (v *Validity) Withholds(key string) bool { return v != nil && slices.Contains(v.Withheld, key) }

// Check returns the check of that word, nil if there is none.
func (v *Validity) Check(word string) *Check {
	for i := range v.Checks {
		if v.Checks[i].Word == word {
			return &v.Checks[i]
		}
	}
	return nil
}

// facts is what the questions are put to.
type facts struct {
	r     *Result
	m     *Metrics
	e     Evidence
	asked []*Threshold // by the check, of those that the test has set
}

// An answer to one question.
type answer struct {
	outcome  Outcome
	detail   string
	word     string   // in place of the question's
	withheld []string // keys of results, if failed
}

func pass(format string, args ...any) answer {
	return answer{outcome: Pass, detail: fmt.Sprintf(format, args...)}
}

func fail(format string, args ...any) answer {
	return answer{outcome: Fail, detail: fmt.Sprintf(format, args...)}
}

func notPossible(format string, args ...any) answer {
	return answer{outcome: NotPossible, detail: fmt.Sprintf(format, args...)}
}

// judged answers fail if bad, else pass, with the same detail.
func judged(bad bool, format string, args ...any) answer {
	if bad {
		return fail(format, args...)
	}
	return pass(format, args...)
}

// completed returns the number of completed requests, or why it is of no use.
func (c *facts) completed() (n int, why string) {
	switch {
	case c.e.Planned.NoBenchmark:
		return 0, "no benchmark was planned"
	case c.m.CompletedRequests == nil:
		return 0, "the client did not report the number of completed requests"
	case *c.m.CompletedRequests == 0:
		return 0, "no request completed, see no-success"
	}
	return *c.m.CompletedRequests, ""
}

// planned returns the number of requests asked for, 0 if unknown.
func (c *facts) planned() int {
	if n := c.e.Planned.NumPrompts; n > 0 {
		return n
	}
	if c.m.NumPrompts != nil {
		return *c.m.NumPrompts
	}
	return 0
}

// warnings returns the texts of the record's warnings of one kind.
func (c *facts) warnings(kind WarningKind) []string {
	var texts []string
	for _, w := range c.r.Warnings {
		if w.Kind == kind {
			texts = append(texts, fmt.Sprintf("%s: %s", w.Key, w.Text))
		}
	}
	return texts
}

func list(items []string) string {
	const most = 5
	if len(items) > most {
		return strings.Join(items[:most], ", ") + fmt.Sprintf(" and %d more", len(items)-most)
	}
	return strings.Join(items, ", ")
}
