package validity

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/result"
)

// What an evaluation's numbers may be off without contradicting each other.
const (
	shareRounding   = 1e-6      // of a share that its program writes with all its digits
	stderrFactor    = 2         // a bootstrap's standard error is within percents of the formula's
	durationSlack   = 1.02      // of the run's time: the clocks of two programs
	durationSlackS  = 5.0       // s
	evaluationClock = time.Hour // by which the clocks of two nodes may differ
)

// accuracyContradictions is how an evaluation contradicts itself, or the run it is of.
func accuracyContradictions(c *facts) (bad []string) {
	a := c.r.Accuracy
	note := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	if a.InvalidRate != nil {
		if sum := a.Value + *a.InvalidRate; sum > 1+roundingOf(a, a.Value)+roundingOf(a, *a.InvalidRate) {
			note("accuracy %v plus invalid rate %v is %.4g, but no answer can be both right and invalid", a.Value,
				*a.InvalidRate, sum)
		}
	}
	if isCounted(a) && a.Questions != nil {
		n := float64(*a.Questions)
		shares := []result.Score{{Metric: "accuracy", Value: a.Value}}
		if a.InvalidRate != nil {
			shares = append(shares, result.Score{Metric: "invalid rate", Value: *a.InvalidRate})
		}
		for _, s := range shares {
			if k := math.Round(s.Value * n); math.Abs(s.Value-k/n) > roundingOf(a, s.Value) {
				note("%s %v is not possible with %d questions; the nearest possible value is %.0f of them: %.6g",
					s.Metric, s.Value, *a.Questions, k, k/n)
			}
		}
		if right := math.Round(a.Value * n); a.Tokens != nil && float64(*a.Tokens) < right {
			note("%d output tokens for %.0f right answers", *a.Tokens, right)
		}
		expected := math.Sqrt(a.Value * (1 - a.Value) / n)
		if a.Stderr != nil && expected > 0 && *a.Questions >= leastAlike &&
			(*a.Stderr > stderrFactor*expected || *a.Stderr < expected/stderrFactor) {
			note("standard error %.4g, but that of %.4g in %d questions is %.4g", *a.Stderr, a.Value, *a.Questions,
				expected)
		}
	}
	if a.Questions != nil {
		if n, ok := questionsAsked(c.r.Provenance); ok && *a.Questions > n {
			note("%d questions were evaluated, but %d were planned", *a.Questions, n)
		}
	}
	if served := c.e.Evaluated; served != nil && a.Questions != nil {
		if n := float64(*a.Questions); n-*served > max(1, c.limit("token_books")*n) {
			note("%d questions were evaluated, but the engines ended %.0f requests meanwhile", *a.Questions, *served)
		}
	}
	if whole := c.r.Duration; a.Duration != nil && whole != nil && *a.Duration > durationSlack**whole+durationSlackS {
		note("the evaluation took %.6g s, but the run only %.6g s", *a.Duration, *whole)
	}
	if at := a.Time; at != nil && !c.imported() && !c.r.Timestamp.IsZero() &&
		at.Before(c.r.Timestamp.Add(-evaluationClock)) {
		note("the evaluation's file was written at %s, before the run began at %s", at.UTC().Format(time.RFC3339),
			c.r.Timestamp.UTC().Format(time.RFC3339))
	}
	return bad
}

// isCounted reports whether the value is a number of right answers over the number of
// questions: a metric of other tasks may weigh answers, or give half a point.
func isCounted(a *result.Accuracy) bool {
	return strings.HasPrefix(a.Task, "gsm8k") && (a.Metric == "" || a.Metric == "exact_match")
}

// roundingOf is by how much a share may be off for the digits it was written with. lm-eval
// writes all digits, so that a short number of its is exact.
func roundingOf(a *result.Accuracy, v float64) float64 {
	if a.Program == "lm-eval" {
		return shareRounding
	}
	_, decimals, _ := strings.Cut(strconv.FormatFloat(v, 'f', -1, 64), ".")
	digits := len(decimals)
	if a.FromLog {
		digits = min(digits, logDigits)
	}
	return max(shareRounding, 0.5*math.Pow10(-digits)*(1+1e-9))
}

// logDigits are the decimals of a share in the console text of the engines' scripts.
const logDigits = 3

// questionFlags are the options by which evaluations are told how many questions to ask.
var questionFlags = []string{"--num-questions", "--num_questions", "--num-examples", "--num_examples"}

// questionsAsked is what the command line of the evaluation asks for. Of an option that
// is there twice the last counts, as argparse has it.
func questionsAsked(p *result.Provenance) (n int, ok bool) {
	if p == nil {
		return 0, false
	}
	for _, command := range p.Commands {
		if command.Role != "eval" {
			continue
		}
		for i, word := range command.Argv {
			flag, text, joined := strings.Cut(word, "=")
			if !slices.Contains(questionFlags, flag) {
				continue
			}
			if !joined && i+1 < len(command.Argv) {
				text = command.Argv[i+1]
			}
			v, err := strconv.Atoi(text)
			n, ok = v, err == nil && v > 0
		}
	}
	return n, ok
}
