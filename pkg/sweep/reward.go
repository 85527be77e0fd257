package sweep

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// The reward functions, all CloudAI's. The first three look at the first metric
// only, in its own unit: the scale of the reward follows it, the order of the
// points does not. The others take three metrics: a time to first token, a time
// per token (ITL or TPOT) and a token throughput per second. CloudAI's formulas
// want both times in seconds; metrics whose name ends in _ms are converted.
const (
	RewardInverse  = "inverse"  // 1/o0; 0 for 0
	RewardNegative = "negative" // -o0
	RewardIdentity = "identity" // o0

	// RewardWeighted is 0.45·(0.3 s/ttft) + 0.1·(0.02 s/itl) + 0.45·(tps/50); -1
	// where a time is 0 or less, at which CloudAI divides by zero.
	RewardWeighted = "ai_dynamo_weighted_normalized"
	// RewardRatio is (tps/1000) / ((ttft/1 s)·(itl/0.03 s)); 0 if one is 0 or less.
	RewardRatio = "ai_dynamo_ratio_normalized"
	// RewardLog is ln(tps+1) − 0.7·ln(ttft+1) − 0.1·ln(itl+1), times in s; −0.001 if
	// one is 0 or less.
	RewardLog = "ai_dynamo_log_scale"
)

// Rewards lists the names of the reward functions.
func Rewards() []string {
	return []string{RewardInverse, RewardNegative, RewardIdentity, RewardWeighted, RewardRatio, RewardLog}
}

func isSimple(reward string) bool {
	return reward == RewardInverse || reward == RewardNegative || reward == RewardIdentity
}

// Reward is what an observation is worth, higher being better. metrics names the
// values of observation, which are in the metrics' own units: ms where a name
// ends in _ms. A value that counts and is NaN makes the reward NaN; what CloudAI
// gives for too few values is given here as well. An unknown name is an error.
func Reward(name string, metrics []string, observation []float64) (float64, error) {
	if len(metrics) != len(observation) {
		return 0, fmt.Errorf("%d values for %d metrics", len(observation), len(metrics))
	}
	if !slices.Contains(Rewards(), name) {
		return 0, fmt.Errorf("unknown agent_reward_function %q", name)
	}
	if isSimple(name) {
		if len(observation) == 0 {
			return 0, nil
		}
		return simpleReward(name, observation[0]), nil
	}
	few := map[string]float64{RewardWeighted: -1, RewardRatio: 0, RewardLog: 0}[name]
	if len(observation) < 3 {
		return few, nil
	}
	return dynamoReward(name, seconds(metrics[0], observation[0]), seconds(metrics[1], observation[1]),
		observation[2]), nil
}

func simpleReward(name string, o float64) float64 {
	switch {
	case name == RewardNegative:
		return -o
	case name == RewardIdentity:
		return o
	case o == 0:
		return 0
	}
	return 1 / o
}

// dynamoReward takes seconds, seconds and tokens per second.
func dynamoReward(name string, ttft, itl, tps float64) float64 {
	if math.IsNaN(ttft + itl + tps) {
		return math.NaN()
	}
	switch {
	case name == RewardWeighted && (ttft <= 0 || itl <= 0):
		return -1
	case name == RewardWeighted:
		return 0.45*(0.3/ttft) + 0.1*(0.02/itl) + 0.45*(tps/50)
	case ttft <= 0 || itl <= 0 || tps <= 0:
		return map[string]float64{RewardRatio: 0, RewardLog: -1e-3}[name]
	case name == RewardRatio:
		return (tps / 1000) / (ttft * (itl / 0.03))
	}
	return math.Log(tps+1) - 0.7*math.Log(ttft+1) - 0.1*math.Log(itl+1)
}

func seconds(metric string, v float64) float64 {
	if strings.HasSuffix(metric, "_ms") {
		return v / 1000
	}
	return v
}

// checkReward reports metrics that a reward function would misread.
func checkReward(name string, metrics []string) error {
	if isSimple(name) {
		return nil
	}
	tps := []string{"default", "throughput", "output_throughput", "total_token_throughput"}
	if len(metrics) >= 3 && family(metrics[0]) == "ttft" &&
		slices.Contains([]string{"itl", "tpot"}, family(metrics[1])) &&
		slices.Contains(tps, metrics[2]) {
		return nil
	}
	return fmt.Errorf("agent_reward_function %q needs a TTFT, an ITL or TPOT and a token throughput as agent_metrics, not %q", name, metrics)
}

// CloudAI's names of metrics, by the key that a result has for them.
var cloudAIMetrics = map[string]string{
	"default": "output_throughput", "throughput": "output_throughput",
	"tps-per-user": "output_throughput_per_user", "tps-per-gpu": "output_throughput_per_gpu",
	"accuracy": "accuracy",
}

// Keys of a result that can be observed, beside the latencies.
var (
	higherKeys = []string{
		"request_throughput", "request_goodput", "input_throughput", "input_sequence_throughput", "output_throughput",
		"total_token_throughput", "output_throughput_per_gpu", "total_token_throughput_per_gpu",
		"output_throughput_per_user",
		"max_output_tokens_per_s", "max_concurrent_requests", "rtfx", "completed_requests",
		"spec_decode_acceptance_rate", "spec_decode_acceptance_length", "diffusion_committed_throughput",
	}
	lowerKeys = []string{
		"duration_s", "failed_requests", "probe_median_e2el_ms", "probe_p99_e2el_ms", "probe_max_e2el_ms",
	}
)

// latencyKey is a statistic of a latency, such as p99.9_ttft_ms.
var latencyKey = lazyregexp.New(`^(?:mean|median|std|min|max|p(?:\d{1,2}(?:\.\d+)?|100))_(ttft|tpot|itl|e2el|client_queue_time|e2el_including_client_queue)_ms$`)

func family(metric string) string {
	if m := latencyKey.FindStringSubmatch(metric); m != nil {
		return m[1]
	}
	return ""
}

// HigherIsBetter says which way a metric is good; known is false for a name that
// is not a metric. Names are CloudAI's (default, throughput, tps-per-user,
// tps-per-gpu, accuracy) and the keys of a result's metrics.
func HigherIsBetter(metric string) (higher, known bool) {
	if _, ok := cloudAIMetrics[metric]; ok || slices.Contains(higherKeys, metric) {
		return true, true
	}
	return false, slices.Contains(lowerKeys, metric) || family(metric) != ""
}

// ResultKey is the key under which a result's metrics hold a metric; accuracy
// is not among them, it is the value of the evaluation.
func ResultKey(metric string) string {
	if key, ok := cloudAIMetrics[metric]; ok {
		return key
	}
	return metric
}

// Metrics lists the names of metrics, of the latencies the usual statistics.
func Metrics() []string {
	var out []string
	for m := range cloudAIMetrics {
		out = append(out, m)
	}
	out = append(append(out, higherKeys...), lowerKeys...)
	for _, f := range []string{"ttft", "tpot", "itl", "e2el"} {
		for _, stat := range []string{"mean", "median", "p90", "p95", "p99"} {
			out = append(out, stat+"_"+f+"_ms")
		}
	}
	slices.Sort(out)
	return out
}
