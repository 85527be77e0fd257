package validity

import (
	"math"
	"strings"
)

func accuracyMissing(c *facts) answer {
	if !c.e.Planned.Accuracy {
		return notPossible("no evaluation was planned")
	}
	if a := c.r.Accuracy; a != nil {
		return pass("%s %.4f from %s", a.Task, a.Value, a.Source)
	}
	return fail("an evaluation was planned, but it left no accuracy")
}

func accuracyInvalid(c *facts) answer {
	a := c.r.Accuracy
	if a == nil {
		return notPossible("no accuracy")
	}
	if !(a.Value >= 0 && a.Value <= 1) {
		return fail("accuracy %v is not between 0 and 1", a.Value)
	}
	for _, o := range a.Others { // metrics of other names may be anything
		if o.Metric == a.Metric && o.Task == a.Task && !(o.Value >= 0 && o.Value <= 1) {
			return fail("%s %s %s %v is not between 0 and 1", o.Task, o.Metric, o.Filter, o.Value)
		}
	}
	for _, x := range []struct {
		name  string
		value *float64
		most  float64
	}{{"invalid_rate", a.InvalidRate, 1}, {"stderr", a.Stderr, math.Inf(1)}, {"duration_s", a.Duration, math.Inf(1)}} {
		if x.value != nil && !(*x.value >= 0 && *x.value <= x.most) {
			return fail("%s is %v", x.name, *x.value)
		}
	}
	if a.Questions != nil && *a.Questions <= 0 {
		return fail("%d questions", *a.Questions)
	}
	if bad := accuracyContradictions(c); len(bad) > 0 {
		return fail("%s", list(bad))
	}
	if a.InvalidRate == nil {
		return notPossible("the evaluation reported no invalid rate")
	}
	return judged(*a.InvalidRate > c.limit("invalid_answers"),
		"%.2f %% of the answers contain no number (accepted %.2f %%)",
		100**a.InvalidRate, 100*c.limit("invalid_answers"))
}

func accuracySubset(c *facts) answer {
	a := c.r.Accuracy
	if a == nil {
		return notPossible("no accuracy")
	}
	if a.Questions == nil {
		return notPossible("the evaluation reported no number of questions")
	}
	n, least := *a.Questions, c.limit("questions")
	// A small task that was asked whole is no subset. GSM8K has 1,319 questions: a task of that
	// name with fewer is a part of it.
	if a.TaskQuestions != nil && n >= *a.TaskQuestions && !strings.HasPrefix(a.Task, "gsm8k") {
		return pass("all %d questions of the task", n)
	}
	out := judged(float64(n) < least, "%d questions (accepted from %.0f)", n, least)
	out.withheld = []string{"accuracy.value"}
	return out
}
