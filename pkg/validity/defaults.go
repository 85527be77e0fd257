package validity

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
