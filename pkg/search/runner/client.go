package runner

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/client"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/result"
)

// MeasureBy has a client measure each load. What the client prints is kept beside its result, which
// gets the metadata.
func (o *Options) MeasureBy(c client.Client, metadata ...string) {
	variable, ranks := o.Variable, percentiles(o.Limits)
	o.Measure = func(ctx context.Context, ask Ask) error {
		args := ask.arguments(variable, ranks)
		if len(metadata) > 0 {
			args = append(append(args, "--metadata"), metadata...)
		}
		return client.Load{Args: args, Log: filepath.Join(ask.Dir, vllmserve.DefaultLog),
			Result: filepath.Join(ask.Dir, vllmserve.DefaultFile)}.Measure(ctx, c)
	}
}

// arguments are the flags of one load.
func (a Ask) arguments(variable string, ranks []string) []string {
	value := strconv.FormatFloat(a.Value, 'g', -1, 64)
	if math.IsInf(a.Value, 1) {
		value = "inf"
	}
	return []string{"--" + strings.ReplaceAll(variable, "_", "-"), value, "--num-prompts", strconv.Itoa(a.NumPrompts),
		"--seed", strconv.FormatInt(a.Seed, 10), "--save-result", "--result-dir", a.Dir,
		"--result-filename", vllmserve.DefaultFile, "--percentile-metrics", "ttft,tpot,itl,e2el",
		"--metric-percentiles", strings.Join(ranks, ",")}
}

// percentiles are those that a probe reports: those of the limits, and those by which evidence about
// them is weighed.
func percentiles(sets [][]metric.Limit) []string {
	ranks := []string{"50", "90", "95", "99"}
	for _, l := range slices.Concat(sets...) {
		_, stat, _ := result.SplitKey(l.Metric.Key)
		if rank := strings.TrimPrefix(stat, "p"); rank != stat && !slices.Contains(ranks, rank) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}
