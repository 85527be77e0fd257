package validity

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// recordDeviation is what the rates of a record may be off their totals. It is wider than
// rate_deviation: a record may have been judged under an older default, and its numbers
// may have passed through a program that rounds.
const recordDeviation = 0.02

// Contradiction says what in the record contradicts itself although the record's own
// verdict does not say so, "" if nothing does: such a record was changed after it was
// judged. What its checks already found is not repeated.
func Contradiction(r *result.Result) string {
	var bad []string
	if r.Validity != nil {
		bad = verdictContradictions(r.Validity)
	}
	if !doubts(r.Validity, "inconsistent", "rate_deviation") {
		c := &facts{r: r, m: &r.Results, e: Evidence{Limits: Limits{"rate_deviation": recordDeviation}}}
		if o := c.m.Offline; o == nil {
			rates, _ := c.rateContradictions()
			bad = append(append(bad, rates...), c.perGPU()...)
		} else {
			more, _ := offlineContradictions(o, c.m.FromLog, recordDeviation)
			bad = append(bad, more...)
		}
	}
	return list(bad)
}

// perGPU lists rates per GPU that are not the rate over the GPUs. What other programs
// divide by is theirs.
func (c *facts) perGPU() (bad []string) {
	m := c.m
	if m.GPUs == nil || *m.GPUs <= 0 || c.imported() {
		return nil
	}
	for _, x := range []struct {
		key         string
		whole, each *float64
	}{
		{"output_throughput_per_gpu", m.OutputThroughput, m.OutputPerGPU},
		{"total_token_throughput_per_gpu", m.TotalTokenThroughput, m.TotalPerGPU},
	} {
		if x.whole == nil || x.each == nil {
			continue
		}
		if sum := *x.each * float64(*m.GPUs); !(math.Abs(sum-*x.whole) <= recordDeviation*math.Abs(*x.whole)+
			logRounding*float64(*m.GPUs)) {
			bad = append(bad, fmt.Sprintf("%s %.6g x %d GPUs is %.6g, not %.6g", x.key, *x.each, *m.GPUs, sum,
				*x.whole))
		}
	}
	return bad
}

// doubts reports whether the verdict answers for a contradiction itself: the check of
// that word failed, or the test chose its threshold.
func doubts(v *result.Validity, word, key string) bool {
	if v == nil {
		return false
	}
	if check := v.Check(word); check != nil && check.Outcome == result.Fail {
		return true
	}
	return slices.ContainsFunc(v.Set, func(s string) bool { return strings.HasPrefix(s, key+" = ") })
}

// verdictContradictions lists how the verdict differs from its checks. A record without checks
// or without a verdict, as other programs may write it, is left alone.
func verdictContradictions(v *result.Validity) (bad []string) {
	if len(v.Checks) == 0 {
		return nil
	}
	failed := func(word string) bool {
		return slices.ContainsFunc(v.Checks,
			func(c result.Check) bool { return c.Outcome == result.Fail && c.Word == word })
	}
	if invalid := v.Failed(result.Invalid); v.Valid == invalid {
		bad = append(bad, fmt.Sprintf("validity.valid is %v, but %s", v.Valid, failedChecks(v, result.Invalid)))
	}
	expected := result.VerdictValid
	switch {
	case v.Failed(result.Invalid):
		expected = result.VerdictInvalid
	case v.Failed(result.Suspect):
		expected = result.VerdictSuspect
	}
	if v.Verdict != "" && v.Verdict != expected {
		bad = append(bad, fmt.Sprintf("validity.verdict is %s, but its checks give %s", v.Verdict, expected))
	}
	for _, word := range v.Words {
		if !failed(word) {
			bad = append(bad, fmt.Sprintf("validity.words has %s, but no failed check has this word", word))
		}
	}
	for _, c := range v.Checks {
		if c.Outcome == result.Fail && !slices.Contains(v.Words, c.Word) {
			bad = append(bad, fmt.Sprintf("check %s failed, but is not in validity.words", c.Word))
		}
	}
	return bad
}

// failedChecks names the failed checks of a severity.
func failedChecks(v *result.Validity, s result.Severity) string {
	var words []string
	for _, c := range v.Checks {
		if c.Outcome == result.Fail && c.Severity == s {
			words = append(words, c.Word)
		}
	}
	if len(words) == 0 {
		return fmt.Sprintf("no check of severity %s failed", s)
	}
	return "failed: " + list(words)
}
