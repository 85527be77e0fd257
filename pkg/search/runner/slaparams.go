package runner

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/metric"
)

// ReadSLA reads the file that vLLM's "bench sweep serve_sla" took as --sla-params: a list of
// objects from a metric to an operator and a number, such as {"p99_e2el_ms": "<=500"}. Each object
// is a set of limits. Of noisy numbers, < and <= are the same.
func ReadSLA(data []byte) ([][]metric.Limit, error) {
	var objects []map[string]string
	if err := json.Unmarshal(data, &objects); err != nil {
		return nil, fmt.Errorf(`want a list of objects such as [{"p99_ttft_ms": "<=500"}]: %w`, err)
	}
	var sets [][]metric.Limit
	for i, o := range objects {
		var set []metric.Limit
		for _, key := range slices.Sorted(maps.Keys(o)) {
			l, err := criterion(key, o[key])
			if err != nil {
				return nil, fmt.Errorf("object %d: %w", i+1, err)
			}
			set = append(set, l)
		}
		if len(set) == 0 {
			return nil, fmt.Errorf("object %d has no limit", i+1)
		}
		sets = append(sets, set)
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("the list is empty")
	}
	return sets, nil
}

// Sets are the limits of each search: those of each object of a file for [ReadSLA], together with
// those that hold in all of them. nil is no file.
func Sets(common []metric.Limit, file []byte) ([][]metric.Limit, error) {
	if file == nil {
		return [][]metric.Limit{common}, nil
	}
	sets, err := ReadSLA(file)
	for i := range sets {
		sets[i] = slices.Concat(sets[i], common)
	}
	return sets, err
}

// criterion is one limit; its operator must be on the side that the metric has one.
func criterion(key, text string) (metric.Limit, error) {
	m, err := metric.Find(key)
	if err != nil {
		return metric.Limit{}, err
	}
	better := metric.Lower
	if strings.HasPrefix(text, ">") {
		better = metric.Higher
	}
	number := strings.TrimPrefix(strings.TrimLeft(text, "<>"), "=")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	switch {
	case !strings.HasPrefix(text, "<") && !strings.HasPrefix(text, ">"), err != nil, math.IsNaN(v), math.IsInf(v, 0):
		return metric.Limit{}, fmt.Errorf(`%s is %q, and must be an operator and a number, such as "<=500"`, key, text)
	case m.Better != better:
		return metric.Limit{}, fmt.Errorf("%s is %q, but of it %s is better", key, text, m.Better)
	}
	return metric.Limit{Metric: m, Value: v}, nil
}
