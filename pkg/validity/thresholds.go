package validity

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// A Threshold is what a check compares with. A test may set it in [Tests.accept].
type Threshold struct {
	Key      string // in [Tests.accept]
	Check    string // the word of the check
	Default  float64
	Min, Max float64 // what may be set, both included
	Whole    bool    // a whole number
	Less     bool    // a smaller value accepts more; else a larger one
	Unit     string
	Means    string
}

// Thresholds lists every threshold, in the order of the checks. What is not here is
// part of a check's definition: how a trend is fitted, how a log is rounded.
func Thresholds() []Threshold { return slices.Clone(thresholds) }

// A new check adds its rows here, and compares with c.limit of their keys.
var thresholds = []Threshold{
	{Key: "failed_share", Check: "request-errors", Default: maxFailedShare, Max: 1, Unit: "share", Means: "most failed requests, of all"},
	{Key: "output_deviation", Check: "output-length", Default: maxOutputDeviation, Max: 10, Unit: "share", Means: "most that tokens per answer may be off the planned, under ignore-eos"},
	{Key: "short_share", Check: "output-length", Default: maxShort, Max: 1, Unit: "share", Means: "most answers of less than half the planned tokens, under ignore-eos"},
	{Key: "output_tokens", Check: "output-length", Default: minOutputPerRequest, Min: 1, Max: 1e6, Less: true, Unit: "tokens", Means: "least tokens per answer, without ignore-eos"},
	{Key: "input_deviation", Check: "input-length", Default: maxInputDeviation, Max: 10, Unit: "share", Means: "most that tokens per prompt may be off the planned"},
	{Key: "token_books", Check: "token-books", Default: maxTokenBooks, Max: 10, Unit: "share", Means: "most that the engines' tokens may be off the client's"},
	{Key: "rate_deviation", Check: "inconsistent", Default: maxRateDeviation, Max: 1, Unit: "share", Means: "most that a rate times the window may be off its total"},
	{Key: "copied_share", Check: "times-impossible", Default: maxCopied, Max: 1, Unit: "share", Means: "most requests with the times of another to the last digit; two are always accepted"},
	{Key: "over_cap", Check: "times-impossible", Default: maxOverCap, Max: 100, Unit: "share", Means: "most requests in flight beyond the cap"},
	{Key: "summary_deviation", Check: "summary-differs", Default: maxSummary, Max: 100, Unit: "share", Means: "most that a statistic may be off that of the single requests"},
	{Key: "clock_share", Check: "coarse-clock", Default: maxClockStep, Max: 1, Unit: "share", Means: "largest step between two values of a latency, of its median"},
	{Key: "speed_ratio", Check: "impossible-speed", Default: maxSpeedRatio, Min: 1, Max: 100, Unit: "times", Means: "most tokens, of those that the latencies allow"},
	{Key: "tokens_per_chunk", Check: "itl-bundled", Default: maxTokensPerChunk, Min: 1, Max: 1000, Unit: "tokens", Means: "most tokens per chunk, from ITL samples"},
	{Key: "bundled_share", Check: "itl-bundled", Default: maxBundled, Max: 1, Unit: "share", Means: "most chunks that came together with the one before"},
	{Key: "itl_share", Check: "itl-bundled", Default: minITLShareOfTPOT, Max: 1, Less: true, Unit: "share", Means: "least median ITL, of the median TPOT, without samples"},
	{Key: "cache_warmth", Check: "cache-warm", Default: maxCacheWarmth, Max: 1, Unit: "share", Means: "most prompt tokens found in the cache beyond the expected"},
	{Key: "client_cpu", Check: "client-bound", Default: maxClientCPU, Max: 1, Unit: "share", Means: "most that the client may use of its threads"},
	{Key: "send_delay_ms", Check: "client-bound", Default: maxSendDelayMS, Max: 1e6, Unit: "ms", Means: "largest p99 of the delay of sends"},
	{Key: "lag_ms", Check: "client-bound", Default: maxLagMS, Max: 1e6, Unit: "ms", Means: "largest p99 of the client's lag"},
	{Key: "send_rate", Check: "client-bound", Default: minSendRate, Max: 1, Less: true, Unit: "share", Means: "least rate of sends, of the one asked for; of load-not-reached as well"},
	{Key: "load_share", Check: "load-not-reached", Default: minLoad, Max: 1, Less: true, Unit: "share", Means: "least requests in flight, of the cap"},
	{Key: "load_deviation", Check: "load-not-reached", Default: maxLoadDeviation, Max: 100, Unit: "share", Means: "most that the client's requests in flight may be off the engines'"},
	{Key: "load_samples", Check: "load-not-reached", Default: minLoadSamples, Min: 1, Max: 1e6, Whole: true, Unit: "samples", Means: "least samples of the engines' gauges; with fewer they are not compared"},
	{Key: "send_gap_s", Check: "sends-lumped", Default: maxSendGap, Max: 3600, Unit: "s", Means: "longest time without a send that chance does not explain, and most of the schedule that is sent at once"},
	{Key: "lump_share", Check: "sends-lumped", Default: maxLumped, Max: 1, Unit: "share", Means: "most sends close behind another, beyond what chance explains"},
	{Key: "rounds", Check: "no-steady-state", Default: minRounds, Max: 1e6, Less: true, Unit: "times", Means: "least requests, of the cap"},
	{Key: "ramp_share", Check: "no-steady-state", Default: maxRampShare, Max: 1, Unit: "share", Means: "most of the window with fewer than half the cap in flight"},
	{Key: "spread_share", Check: "uneven-spread", Default: maxSpread, Max: 100, Unit: "share", Means: "most that an instance's requests may be off its share; the larger of this and the next counts"},
	{Key: "spread_sigmas", Check: "uneven-spread", Default: maxSpreadSigmas, Max: 100, Unit: "standard deviations", Means: "likewise, of a proxy that picks at random"},
	{Key: "proxy_error_share", Check: "proxy-errors", Default: maxProxyErrors, Max: 1, Unit: "share", Means: "most requests that the proxy answered with an error, of all"},
	{Key: "proxy_resent_share", Check: "proxy-errors", Default: maxProxyResent, Max: 1, Unit: "share", Means: "most requests that the proxy sent a second time, of all"},
	{Key: "proxy_without_kv_share", Check: "proxy-errors", Default: maxProxyNoKV, Max: 1, Unit: "share", Means: "most requests for which prefill handed over no KV cache, of all"},
	{Key: "preempted_share", Check: "preempted-requests", Default: maxPreemptions, Max: 1000, Unit: "per request", Means: "most preemptions"},
	{Key: "foreign_share", Check: "foreign-load", Default: maxForeign, Max: 1000, Unit: "share", Means: "most requests of others, of the completed"},
	{Key: "window_ratio", Check: "window-wrong", Default: maxWindow, Min: 1, Max: 100, Unit: "times", Means: "longest window, of the time from the first send to the last answer"},
	{Key: "idle_s", Check: "window-wrong", Default: leastIdle, Max: 3600, Unit: "s", Means: "idle time in the window that is always accepted"},
	{Key: "first_gap_sigmas", Check: "window-wrong", Default: maxFirstGap, Max: 100, Unit: "standard deviations", Means: "longest gap before the first request of a load with a rate"},
	{Key: "cold_start_ratio", Check: "cold-start", Default: maxColdStart, Min: 1, Max: 1000, Unit: "times", Means: "largest median TTFT of the first tenth, of that of the others"},
	{Key: "stall_s", Check: "stalled", Default: maxStall, Max: 3600, Unit: "s", Means: "longest time in which no stream gets a token; longer where the load is slow"},
	{Key: "gap_s", Check: "stalled", Default: maxGap, Max: 3600, Unit: "s", Means: "longest gap between two tokens of one stream; longer where the load is slow"},
	{Key: "trend_share", Check: "not-steady", Default: maxTrend, Max: 100, Unit: "share", Means: "largest rise over the second half of the window"},
	{Key: "trend_requests", Check: "not-steady", Default: minTrendSample, Min: 2 * trendBlocks, Max: 1e6, Whole: true, Unit: "requests", Means: "least requests in the second half; with fewer no trend is looked for"},
	{Key: "percentile_risk", Check: "n-too-small", Default: percentileRisk, Min: 1e-6, Max: 0.5, Unit: "share", Means: "largest risk that a sample holds nothing beyond its percentile"},
	{Key: "invalid_answers", Check: "accuracy-invalid", Default: maxInvalidRate, Max: 1, Unit: "share", Means: "most answers of an evaluation that hold no number"},
	{Key: "questions", Check: "accuracy-subset", Default: minQuestions, Min: 1, Max: 1e6, Whole: true, Less: true, Unit: "questions", Means: "least questions behind an accuracy"},
	{Key: "gpu_use", Check: "gpu-idle", Default: minGPUUse, Max: 1, Less: true, Unit: "share", Means: "least of the window in which a GPU that a role was given is in use"},
	{Key: "gpu_foreign", Check: "gpu-idle", Default: maxGPUForeign, Max: 1, Unit: "share", Means: "most of the window in which another GPU of the nodes is in use"},
	{Key: "slowed_share", Check: "throttled", Default: maxSlowed, Max: 1, Unit: "share", Means: "most samples in which heat or a lack of power slows a GPU down"},
	{Key: "clock_spread", Check: "throttled", Default: maxClockSpread, Max: 1, Unit: "share", Means: "most that the lowest mean SM clock of GPUs of one kind of role may be below the highest"},
	{Key: "power_gap_s", Check: "power-gaps", Default: maxPowerGap, Max: 3600, Unit: "s", Means: "longest time without a sample of a GPU's power"},
	{Key: "power_coverage", Check: "power-gaps", Default: minPowerCoverage, Max: 1, Less: true, Unit: "share", Means: "least of the window near such samples"},
}

// Limits are thresholds that a test has set, by key. The others have their defaults.
type Limits map[string]float64

// limit is the threshold to compare with. The check's detail will say that it was set.
func (c *facts) limit(key string) float64 {
	i := slices.IndexFunc(thresholds, func(t Threshold) bool { return t.Key == key })
	t := &thresholds[i]
	v, set := c.e.Limits[key]
	if !set {
		return t.Default
	}
	if !slices.Contains(c.asked, t) {
		c.asked = append(c.asked, t)
	}
	return v
}

// set says which thresholds of the last check are not the defaults, so that nobody
// takes a result for better than it is.
func (c *facts) set() string {
	text := ""
	for _, t := range c.asked {
		if v := c.e.Limits[t.Key]; v != t.Default {
			text += fmt.Sprintf("; %s = %s is set by the test, %s", t.Key, plain(v), t.deviation(v))
		}
	}
	return text
}

// deviation says how a value differs from the default.
func (t *Threshold) deviation(v float64) string {
	how := "stricter"
	if v < t.Default == t.Less {
		how = "looser"
	}
	return how + " than the default " + plain(t.Default)
}

// set lists the thresholds that are not the defaults, in the order of the checks.
func (l Limits) set() []string {
	var list []string
	for i := range thresholds {
		t := &thresholds[i]
		if v, set := l[t.Key]; set && v != t.Default {
			list = append(list, fmt.Sprintf("%s = %s, %s", t.Key, plain(v), t.deviation(v)))
		}
	}
	return list
}

func plain(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// percent is a share in percent, with the digits that it needs.
func percent(share float64) string {
	return strconv.FormatFloat(math.Round(share*1e8)/1e6, 'f', -1, 64)
}
