package planner

import (
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/bench/aiperf"
	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// The two keys of the engines' clients that say how many requests a load has, and how many of
// them at once.
const (
	numPrompts     = "num_prompts"
	maxConcurrency = "max_concurrency"
)

// loadKeys are these keys for the client of a test, as its arguments spell them.
func loadKeys(t scenario.Test, bench *source.Table) (count, inFlight string) {
	if catalog.ByAIPerf(t) {
		return aiperf.Spelled(bench, "request_count"), aiperf.Spelled(bench, "concurrency")
	}
	return numPrompts, maxConcurrency
}

var multiple = lazyregexp.New(`^[1-9][0-9]{0,5}x$`)

// perConcurrency is the arguments of a load with num_prompts as a number: "5x" is five
// times max_concurrency. AIPerf has other names of both.
func perConcurrency(test scenario.Test, bench *source.Table) (*source.Table, error) {
	count, inFlight := loadKeys(test, bench)
	v := bench.Get(count)
	text, ok := v.Text()
	if !ok {
		return bench, nil
	}
	if !multiple.MatchString(text) {
		return nil, source.Errorf(v.Pos,
			"bench_cmd_args.%s is %q, and must be a number, or a number with x, such as \"5x\": 5 times %s", count, text, inFlight).
			Hintf(`write %s = 80, or %s = "5x"`, count, count)
	}
	times, err := strconv.Atoi(strings.TrimSuffix(text, "x"))
	if err != nil {
		return nil, source.Errorf(v.Pos, "bench_cmd_args.%s: %v", count, err)
	}
	at := bench.Get(inFlight)
	if at == nil || vllmserve.Unlimited(bench) {
		return nil, notSet(bench, v.Pos, text, count, inFlight)
	}
	n, ok := at.Int()
	if !ok || n < 1 {
		return bench.Without(count), nil // the client complains about max_concurrency
	}
	out := bench.Without()
	out.Set(count, &source.Value{Pos: v.Pos, Any: int64(times) * n})
	return out, nil
}

// notSet is the error of a num_prompts that counts by max_concurrency, which is not set,
// or under a misspelt name.
func notSet(bench *source.Table, pos source.Pos, text, count, inFlight string) error {
	e := source.Errorf(pos, "bench_cmd_args.%s is %q, times %s, which is not set", count, text, inFlight)
	for _, key := range bench.Keys() {
		if key != inFlight && source.Nearest(key, []string{inFlight}) != "" {
			return e.Hintf("%s has %s: did you mean %s?", bench.KeyPos(key), key, inFlight)
		}
	}
	return e.Hintf("set bench_cmd_args.%s, or write %s as a number", inFlight, count)
}
