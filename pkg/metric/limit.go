package metric

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// Limit is what a metric may be at most, or must be at least where higher is better.
type Limit struct {
	Metric Metric  `json:"metric"`
	Value  float64 `json:"value"` // in the metric's unit
}

// String is the limit as a condition: p99_ttft_ms <= 500.
func (l Limit) String() string {
	sign := "<="
	if l.Metric.Better == Higher {
		sign = ">="
	}
	return fmt.Sprintf("%s %s %g", l.Metric.Key, sign, l.Value)
}

// Meets reports whether a value keeps the limit.
func (l Limit) Meets(v float64) bool { return !l.Metric.Beats(l.Value, v) }

// ParseLimit reads a limit as it is written on command lines: p99_ttft_ms=500.
func ParseLimit(text string) (Limit, error) {
	l, err := ReadLimit(text)
	switch {
	case errors.As(err, new(*source.Error)):
		err = fmt.Errorf("--limit: %w", err)
	case err != nil:
		err = fmt.Errorf("--limit %w", err)
	}
	return l, err
}

// ReadLimit is ParseLimit for a limit of a file. The error is Find's if there is no such metric.
func ReadLimit(text string) (Limit, error) {
	name, value, ok := strings.Cut(text, "=")
	v, err := strconv.ParseFloat(value, 64)
	if !ok || err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return Limit{}, fmt.Errorf("%q: want KEY=VALUE with a number, such as p99_ttft_ms=500", text)
	}
	m, err := Find(strings.TrimSpace(name))
	if err != nil {
		return Limit{}, err
	}
	return Limit{Metric: m, Value: v}, nil
}
