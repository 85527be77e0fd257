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
	{Key: "failed_share", Check: "request-errors", Default: maxFailedShare, Max: 1, Unit: "share",
		Means: "largest accepted share of failed requests"},
	{Key: "output_deviation", Check: "output-length", Default: maxOutputDeviation, Max: 10, Unit: "share",
		Means: "largest accepted deviation of tokens per answer from the planned number, under ignore-eos"},
	{Key: "short_share", Check: "output-length", Default: maxShort, Max: 1, Unit: "share",
		Means: "largest accepted share of answers with less than half the planned tokens, under ignore-eos"},
	{Key: "output_tokens", Check: "output-length", Default: minOutputPerRequest, Min: 1, Max: 1e6, Less: true,
		Unit: "tokens", Means: "fewest accepted tokens per answer, without ignore-eos"},
	{Key: "input_deviation", Check: "input-length", Default: maxInputDeviation, Max: 10, Unit: "share",
		Means: "largest accepted deviation of tokens per prompt from the planned number"},
	{Key: "token_books", Check: "token-books", Default: maxTokenBooks, Max: 10, Unit: "share",
		Means: "largest accepted difference between the engines' and the client's count of tokens"},
	{Key: "rate_deviation", Check: "inconsistent", Default: maxRateDeviation, Max: 1, Unit: "share",
		Means: "largest accepted difference between a rate times the window and the total"},
	{Key: "copied_share", Check: "times-impossible", Default: maxCopied, Max: 1, Unit: "share",
		Means: "largest accepted share of requests whose times equal another's to the last digit; two such requests are always accepted"},
	{Key: "over_cap", Check: "times-impossible", Default: maxOverCap, Max: 100, Unit: "share",
		Means: "largest accepted excess of requests in flight over the cap"},
	{Key: "summary_deviation", Check: "summary-differs", Default: maxSummary, Max: 100, Unit: "share",
		Means: "largest accepted difference between a statistic and the same statistic of the single requests"},
	{Key: "clock_share", Check: "coarse-clock", Default: maxClockStep, Max: 1, Unit: "share",
		Means: "largest accepted step between two values of a latency, relative to its median"},
	{Key: "speed_ratio", Check: "impossible-speed", Default: maxSpeedRatio, Min: 1, Max: 100, Unit: "times",
		Means: "largest accepted ratio of reported tokens to the tokens that the latencies allow"},
	{Key: "tokens_per_chunk", Check: "itl-bundled", Default: maxTokensPerChunk, Min: 1, Max: 1000, Unit: "tokens",
		Means: "largest accepted number of tokens per chunk, from ITL samples"},
	{Key: "bundled_share", Check: "itl-bundled", Default: maxBundled, Max: 1, Unit: "share",
		Means: "largest accepted share of chunks that arrive together with the previous chunk"},
	{Key: "itl_share", Check: "itl-bundled", Default: minITLShareOfTPOT, Max: 1, Less: true, Unit: "share",
		Means: "smallest accepted ratio of median ITL to median TPOT, without samples"},
	{Key: "cache_warmth", Check: "cache-warm", Default: maxCacheWarmth, Max: 1, Unit: "share",
		Means: "largest accepted share of prompt tokens found in the cache beyond the expected share"},
	{Key: "client_cpu", Check: "client-bound", Default: maxClientCPU, Max: 1, Unit: "share",
		Means: "largest accepted use of the client's threads"},
	{Key: "send_delay_ms", Check: "client-bound", Default: maxSendDelayMS, Max: 1e6, Unit: "ms",
		Means: "largest accepted p99 of the client's send delay"},
	{Key: "lag_ms", Check: "client-bound", Default: maxLagMS, Max: 1e6, Unit: "ms",
		Means: "largest accepted p99 of the client's lag"},
	{Key: "send_rate", Check: "client-bound", Default: minSendRate, Max: 1, Less: true, Unit: "share",
		Means: "smallest accepted ratio of the send rate to the planned rate; load-not-reached uses it as well"},
	{Key: "load_share", Check: "load-not-reached", Default: minLoad, Max: 1, Less: true, Unit: "share",
		Means: "smallest accepted ratio of requests in flight to the cap"},
	{Key: "load_deviation", Check: "load-not-reached", Default: maxLoadDeviation, Max: 100, Unit: "share",
		Means: "largest accepted difference between the client's and the engines' requests in flight"},
	{Key: "load_samples", Check: "load-not-reached", Default: minLoadSamples, Min: 1, Max: 1e6, Whole: true,
		Unit: "samples", Means: "samples of the engines' gauges needed for the comparison"},
	{Key: "send_gap_s", Check: "sends-lumped", Default: maxSendGap, Max: 3600, Unit: "s",
		Means: "longest accepted time without a send that chance does not explain, and longest part of the schedule that may be sent at once"},
	{Key: "lump_share", Check: "sends-lumped", Default: maxLumped, Max: 1, Unit: "share",
		Means: "largest accepted share of sends close behind another, beyond what chance explains"},
	{Key: "rounds", Check: "no-steady-state", Default: minRounds, Max: 1e6, Less: true, Unit: "times",
		Means: "fewest accepted requests, in multiples of the cap"},
	{Key: "ramp_share", Check: "no-steady-state", Default: maxRampShare, Max: 1, Unit: "share",
		Means: "largest accepted share of the window with fewer requests in flight than half the cap"},
	{Key: "spread_share", Check: "uneven-spread", Default: maxSpread, Max: 100, Unit: "share",
		Means: "largest accepted deviation of an instance's requests from its share; the larger of this and spread_sigmas counts"},
	{Key: "spread_sigmas", Check: "uneven-spread", Default: maxSpreadSigmas, Max: 100, Unit: "standard deviations",
		Means: "the same for a proxy that picks at random"},
	{Key: "proxy_error_share", Check: "proxy-errors", Default: maxProxyErrors, Max: 1, Unit: "share",
		Means: "largest accepted share of requests that the proxy answered with an error"},
	{Key: "proxy_resent_share", Check: "proxy-errors", Default: maxProxyResent, Max: 1, Unit: "share",
		Means: "largest accepted share of requests that the proxy sent a second time"},
	{Key: "proxy_without_kv_share", Check: "proxy-errors", Default: maxProxyNoKV, Max: 1, Unit: "share",
		Means: "largest accepted share of requests for which prefill handed over no KV cache"},
	{Key: "preempted_share", Check: "preempted-requests", Default: maxPreemptions, Max: 1000, Unit: "per request",
		Means: "largest accepted number of preemptions per completed request"},
	{Key: "foreign_share", Check: "foreign-load", Default: maxForeign, Max: 1000, Unit: "share",
		Means: "largest accepted ratio of other clients' requests to completed requests"},
	{Key: "window_ratio", Check: "window-wrong", Default: maxWindow, Min: 1, Max: 100, Unit: "times",
		Means: "longest accepted window, in multiples of the time from the first send to the last answer"},
	{Key: "idle_s", Check: "window-wrong", Default: leastIdle, Max: 3600, Unit: "s",
		Means: "idle time in the window that is always accepted"},
	{Key: "first_gap_sigmas", Check: "window-wrong", Default: maxFirstGap, Max: 100, Unit: "standard deviations",
		Means: "longest accepted gap before the first request of a load with a rate"},
	{Key: "cold_start_ratio", Check: "cold-start", Default: maxColdStart, Min: 1, Max: 1000, Unit: "times",
		Means: "largest accepted ratio of the median TTFT of the first tenth to that of the other requests"},
	{Key: "stall_s", Check: "stalled", Default: maxStall, Max: 3600, Unit: "s",
		Means: "longest accepted time in which no stream gets a token; extended if the load is slow"},
	{Key: "gap_s", Check: "stalled", Default: maxGap, Max: 3600, Unit: "s",
		Means: "longest accepted gap between two tokens of one stream; extended if the load is slow"},
	{Key: "trend_share", Check: "not-steady", Default: maxTrend, Max: 100, Unit: "share",
		Means: "largest accepted rise over the second half of the window"},
	{Key: "trend_requests", Check: "not-steady", Default: minTrendSample, Min: 2 * trendBlocks, Max: 1e6, Whole: true,
		Unit: "requests", Means: "requests in the second half of the window needed to look for a trend"},
	{Key: "percentile_risk", Check: "n-too-small", Default: percentileRisk, Min: 1e-6, Max: 0.5, Unit: "share",
		Means: "largest accepted risk that a sample has no value above its percentile"},
	{Key: "invalid_answers", Check: "accuracy-invalid", Default: maxInvalidRate, Max: 1, Unit: "share",
		Means: "largest accepted share of an evaluation's answers that contain no number"},
	{Key: "questions", Check: "accuracy-subset", Default: minQuestions, Min: 1, Max: 1e6, Whole: true, Less: true,
		Unit: "questions", Means: "fewest accepted questions for an accuracy"},
	{Key: "gpu_use", Check: "gpu-idle", Default: minGPUUse, Max: 1, Less: true, Unit: "share",
		Means: "smallest accepted share of the window in which a role's GPU is in use"},
	{Key: "gpu_foreign", Check: "gpu-idle", Default: maxGPUForeign, Max: 1, Unit: "share",
		Means: "largest accepted share of the window in which a GPU without a role is in use"},
	{Key: "slowed_share", Check: "throttled", Default: maxSlowed, Max: 1, Unit: "share",
		Means: "largest accepted share of samples in which heat or a lack of power slows a GPU down"},
	{Key: "clock_spread", Check: "throttled", Default: maxClockSpread, Max: 1, Unit: "share",
		Means: "largest accepted gap between the lowest and the highest mean SM clock of GPUs with the same kind of role"},
	{Key: "power_gap_s", Check: "power-gaps", Default: maxPowerGap, Max: 3600, Unit: "s",
		Means: "longest accepted time without a sample of a GPU's power"},
	{Key: "power_coverage", Check: "power-gaps", Default: minPowerCoverage, Max: 1, Less: true, Unit: "share",
		Means: "smallest accepted share of the window near samples of a GPU's power"},
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
