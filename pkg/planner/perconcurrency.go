package planner

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/source"
)

// The two keys of every client that say how many requests a load has, and how many of
// them at once.
const (
	numPrompts     = "num_prompts"
	maxConcurrency = "max_concurrency"
)

var multiple = regexp.MustCompile(`^[1-9][0-9]{0,5}x$`)

// perConcurrency is the arguments of a load with num_prompts as a number: "5x" is five
// times max_concurrency.
func perConcurrency(bench *source.Table) (*source.Table, error) {
	v := bench.Get(numPrompts)
	text, ok := v.Text()
	if !ok {
		return bench, nil
	}
	if !multiple.MatchString(text) {
		return nil, source.Errorf(v.Pos,
			"bench_cmd_args.num_prompts is %q, and must be a number, or a number with x, such as \"5x\": 5 times max_concurrency", text).
			Hintf(`write num_prompts = 80, or num_prompts = "5x"`)
	}
	times, err := strconv.Atoi(strings.TrimSuffix(text, "x"))
	if err != nil {
		return nil, source.Errorf(v.Pos, "bench_cmd_args.num_prompts: %v", err)
	}
	at := bench.Get(maxConcurrency)
	if at == nil || vllmserve.Unlimited(bench) {
		return nil, notSet(bench, v.Pos, text)
	}
	n, ok := at.Int()
	if !ok || n < 1 {
		return bench.Without(numPrompts), nil // the client complains about max_concurrency
	}
	out := bench.Without()
	out.Set(numPrompts, &source.Value{Pos: v.Pos, Any: int64(times) * n})
	return out, nil
}

// notSet is the error of a num_prompts that counts by max_concurrency, which is not set,
// or under a misspelt name.
func notSet(bench *source.Table, pos source.Pos, text string) error {
	e := source.Errorf(pos, "bench_cmd_args.num_prompts is %q, times max_concurrency, which is not set", text)
	for _, key := range bench.Keys() {
		if key != maxConcurrency && source.Nearest(key, []string{maxConcurrency}) != "" {
			return e.Hintf("%s has %s: did you mean max_concurrency?", bench.KeyPos(key), key)
		}
	}
	return e.Hintf("set bench_cmd_args.max_concurrency, or write num_prompts as a number")
}
