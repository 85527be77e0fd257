package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/quantity"
)

// bestText says which setting is the best, and what it costs.
func (c *Choice) bestText(limits []Limit) string {
	switch {
	case len(c.Unlike) > 0 && len(c.Candidates) > 0 && c.Noun != OfTests:
		return c.unlikeText()
	case len(c.Unlike) > 0 && len(c.Candidates) > 0:
		return fmt.Sprintf("The %d tests are not ranked, because they differ in %s.%s",
			len(c.Candidates), quantity.List(c.Unlike), c.suspectsText())
	case len(c.Candidates) == 0:
		return c.nothingText()
	case c.Within == 0:
		return c.exceededText(limits)
	}
	best, rest := &c.Candidates[0], ""
	if c.Within < len(c.Candidates) {
		rest = " " + capital(c.others()) + "."
	}
	switch {
	case len(c.Candidates) == 1:
		within := ""
		if len(limits) > 0 {
			within = ", which keeps " + conditions(limits)
		}
		return fmt.Sprintf("%s measured %s of %s%s%s.", c.subject(), article(c.Metric), c.value(best), best.costText(),
			within)
	case len(c.Level()) > 0:
		return c.levelText(limits) + rest
	case c.Within == 1:
		return fmt.Sprintf("%s is the only one of the %s that is known to keep %s: %s%s.%s", best.Name,
			c.ofAll(len(c.Candidates)), conditions(limits), c.value(best), best.costText(), rest)
	}
	return fmt.Sprintf("%s has the %s %s of the %s%s: %s%s.%s", best.Name, superlative(c.Metric), phrase(c.Metric),
		c.ofAll(c.Within), c.keeping(limits), c.value(best), best.costText(), rest)
}

// subject is the only candidate, with the test that it is of.
func (c *Choice) subject() string {
	if name := c.Candidates[0].Name; c.Noun == OfTests || c.About == "" {
		return name + c.Kind.Suffix()
	}
	return c.About + " " + c.Candidates[0].Name + c.Kind.Suffix()
}

// article is a metric as something that was measured.
func article(m metric.Metric) string {
	name := phrase(m)
	if strings.ContainsRune("aeiouAEIOU", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}

// ofAll is how many things are ranked, of what: 7 settings of load.
func (c *Choice) ofAll(n int) string {
	said := quantity.Count(n, string(c.Noun))
	if c.About != "" {
		said += " of " + c.About
	}
	return said + c.Kind.Suffix()
}

// keeping says that the candidates within the limits keep them.
func (c *Choice) keeping(limits []Limit) string {
	switch {
	case len(limits) == 0:
		return ""
	case c.Within == len(c.Candidates):
		return ", which all keep " + conditions(limits)
	}
	return " that keep " + conditions(limits)
}

// others counts the candidates that are not known to keep the limits.
func (c *Choice) others() string {
	count := map[Standing]int{}
	for _, x := range c.Candidates[c.Within:] {
		count[x.Standing]++
	}
	var parts []string
	for _, s := range []struct {
		is           Standing
		one, several string
	}{{Exceeds, "misses it", "miss it"}, {Unclear, "is unclear", "are unclear"},
		{Unknown, "is not known", "are not known"}} {
		n, verb := count[s.is], s.several
		if n == 0 {
			continue
		}
		if n == 1 {
			verb = s.one
		}
		what := strconv.Itoa(n)
		if len(parts) == 0 {
			what = quantity.Count(n, string(c.Noun))
		}
		parts = append(parts, what+" "+verb)
	}
	return quantity.List(parts)
}

// levelText names what ties for the best, or is so near that the order says nothing.
func (c *Choice) levelText(limits []Limit) string {
	names, level := []string{c.Candidates[0].Name}, c.Level()
	for _, i := range level {
		names = append(names, c.Candidates[i].Name)
	}
	do := "tie for"
	if len(c.Near) > 0 {
		do = fmt.Sprintf("are within %g %% of", c.Metric.Floor())
	}
	head := fmt.Sprintf("%s %s the %s %s of the %s%s: ", some(names), do, superlative(c.Metric), phrase(c.Metric),
		c.ofAll(c.Within), c.keeping(limits))
	if len(names) > mostNames+1 {
		return head + c.value(&c.Candidates[0]) + c.Candidates[0].costText() + ", for the first."
	}
	costs := []string{c.value(&c.Candidates[0]) + c.Candidates[0].costText()}
	for _, i := range level {
		costs = append(costs, c.value(&c.Candidates[i])+c.Candidates[i].shortCost(&c.Candidates[0]))
	}
	return head + strings.Join(costs, "; ") + "."
}

// shortCost is the costText of a candidate behind that of the first, if both have the same
// metrics.
func (x *Candidate) shortCost(first *Candidate) string {
	if !slices.EqualFunc(x.Beside, first.Beside, func(a, b Aside) bool { return a.Key == b.Key }) {
		return x.costText()
	}
	var parts []string
	for _, a := range x.Beside {
		parts = append(parts, strings.TrimSpace(a.Shown(a.Value)+" "+a.Unit))
	}
	return x.at(parts)
}

// costText is what a candidate costs beside its metric: its other metrics and its GPUs.
func (x *Candidate) costText() string {
	var parts []string
	for _, a := range x.Beside {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s of %s %s", article(a.Metric), a.Shown(a.Value), a.Unit)))
	}
	return x.at(parts)
}

// at is what some values are measured at, and on how many GPUs.
func (x *Candidate) at(values []string) string {
	text := ""
	if len(values) > 0 {
		text = ", at " + quantity.List(values)
	}
	if x.GPUs > 0 {
		text += ", on " + quantity.Count(x.GPUs, "GPU")
	}
	return text
}

// value is the median of a candidate with its unit.
func (c *Choice) value(x *Candidate) string {
	return strings.TrimSpace(c.Metric.Shown(*x.Value.Median) + " " + c.Metric.Unit)
}

// nothingText says why nothing is ranked.
func (c *Choice) nothingText() string {
	of := string(c.Noun)
	if c.About != "" {
		of += " of " + c.About
	}
	of += c.Kind.Suffix()
	why := fmt.Sprintf("none of %s is valid", quantity.Count(c.Runs, "run"))
	if c.Runs == 1 {
		why = "its only run is not valid"
	}
	if c.Valid > 0 {
		why = "no valid run has " + c.Metric.Key
	}
	if c.Runs == 1 {
		return fmt.Sprintf("No result for the %s: %s.%s", of, why, c.suspectsText())
	}
	return fmt.Sprintf("No best %s: %s.%s", of, why, c.suspectsText())
}

// unlikeText names what has other prompts than the rest of its test.
func (c *Choice) unlikeText() string {
	var names []string
	for i := range c.Candidates {
		names = append(names, c.Candidates[i].Name)
	}
	of, are := "", "are"
	if c.About != "" {
		of = " of " + c.About
	}
	if len(names) == 1 {
		are = "is"
	}
	return fmt.Sprintf("%s%s%s %s not compared: prompts differ (%s).", some(names), of, c.Kind.Suffix(), are,
		strings.Join(c.Unlike, ", "))
}

// suspectsText names the best of the suspect runs that nothing valid reaches.
func (c *Choice) suspectsText() string {
	if len(c.Suspects) == 0 || len(c.Unlike) > 0 {
		return ""
	}
	s := c.Suspects[0]
	return fmt.Sprintf(" The suspect run with the %s %s is %s: %s %s (%s).", superlative(c.Metric), phrase(c.Metric),
		s.Name, c.Metric.Shown(*s.Value), c.Metric.Unit, s.Why)
}

// exceededText says that nothing keeps the limits, with the candidate that is nearest to them.
func (c *Choice) exceededText(limits []Limit) string {
	nearest, known := &c.Candidates[0], true
	for i := range c.Candidates {
		x := &c.Candidates[i]
		if x.Standing != Exceeds {
			known = false
		}
		if x.nearer(nearest, limits[0].Metric) {
			nearest = x
		}
	}
	if len(c.Candidates) == 1 {
		keep := "does not keep"
		if !known {
			keep = "is not known to keep"
		}
		return fmt.Sprintf("%s %s %s: %s.", c.subject(), keep, conditions(limits), nearest.Why)
	}
	keep := "keeps " + conditions(limits)
	if !known {
		keep = "is known to keep " + conditions(limits) + ": " + c.others()
	}
	return fmt.Sprintf("None of the %s %s. The nearest is %s: %s.", c.ofAll(len(c.Candidates)), keep, nearest.Name,
		nearest.Why)
}

// nearer reports whether a candidate is nearer to keeping the limits than another: by its
// standing, or else by the metric of the first limit.
func (x *Candidate) nearer(other *Candidate, m metric.Metric) bool {
	rank := map[Standing]int{Keeps: 0, Unclear: 1, Exceeds: 2, Unknown: 3}
	if a, b := rank[x.Standing], rank[other.Standing]; a != b {
		return a < b
	}
	a, err := spread(numbersOf(m, x.runs))
	b, otherErr := spread(numbersOf(m, other.runs))
	return err == nil && otherErr == nil && m.Beats(*a.Median, *b.Median)
}

// conditions are limits in a line.
func conditions(limits []Limit) string {
	parts := make([]string, len(limits))
	for i, l := range limits {
		parts[i] = l.String()
	}
	return quantity.List(parts)
}

// sureText says how sure the answer is.
func (c *Choice) sureText(limited bool) string {
	text := c.certaintyText()
	text += c.startsText()
	if limited && c.TopLoad {
		text += " No higher load was measured, so a higher one may keep the limit too."
	}
	if n := len(c.Suspects); n > 0 {
		s := c.Suspects[0]
		text += fmt.Sprintf(" Not ranked: %s measured %s %s, which is better, but is suspect (%s).", s.Name,
			c.Metric.Shown(*s.Value), c.Metric.Unit, s.Why)
	}
	return text
}

// startsText says which of what was compared has several runs on one server start, which were
// compared as if each had had its own.
func (c *Choice) startsText() string {
	var said []string
	for i := range c.Candidates[:c.Within] {
		if x := &c.Candidates[i]; x.Jobs == 1 && x.measured > 1 {
			said = append(said, fmt.Sprintf("%s has %d runs on 1 start", x.Name, x.measured))
		}
	}
	switch {
	case len(said) == 0:
		return ""
	case len(said) > mostNames+1 && len(said) == c.Within && c.sameRuns():
		said = []string{fmt.Sprintf("every %s has %d runs on 1 start", c.Noun, c.Candidates[0].measured)}
	}
	return " Differences between server starts are not included: " + some(said) + "."
}

// sameRuns reports whether all that was compared has equally many runs.
func (c *Choice) sameRuns() bool {
	return !slices.ContainsFunc(c.Candidates[:c.Within], func(x Candidate) bool {
		return x.measured != c.Candidates[0].measured
	})
}

func (c *Choice) certaintyText() string {
	best := &c.Candidates[0]
	switch {
	case c.Certainty == Alone:
		return c.aloneText(best)
	case len(c.Level()) > 0:
		return c.levelSure()
	case c.Certainty == NotSure:
		return c.openText()
	}
	if c.Within == 2 {
		return fmt.Sprintf("Shown: %s is worse by more than noise and by more than %g %% (%s).", c.Candidates[1].Name,
			c.Metric.Floor(), c.against(1))
	}
	return fmt.Sprintf("Shown: each of the others is worse by more than noise and by more than %g %%; the next is %s "+
		"(%s).",
		c.Metric.Floor(), c.Candidates[1].Name, c.against(1))
}

// aloneText is the certainty of a number that nothing is held against.
func (c *Choice) aloneText(best *Candidate) string {
	v, of := best.Value, best.unit()+"s"
	switch {
	case v.N == 1:
		return "Not known: one run does not show how much another would differ."
	case v.Low == nil && v.CV != nil:
		return fmt.Sprintf("%d %s with a CV of %s %%; the median has no interval below 6 %[2]s.", v.N, of,
			quantity.Significant(*v.CV))
	case v.Low == nil:
		return fmt.Sprintf("%d %s; the median has no interval below 6 %[2]s.", v.N, of)
	}
	return fmt.Sprintf("The median of %d %s lies within %s and %s %s (95 %% interval).", v.N, of,
		c.Metric.Shown(*v.Low), c.Metric.Shown(*v.High), c.Metric.Unit)
}

// unit is what the numbers of a candidate are of.
func (x *Candidate) unit() string {
	if x.starts {
		return "server start"
	}
	return "run"
}

// levelSure says what it rests on that some are as good as the best, or near it.
func (c *Choice) levelSure() string {
	floor := fmt.Sprintf("%g %%", c.Metric.Floor())
	level := c.Level()
	furthest := level[0]
	for _, i := range level {
		if c.Candidates[i].Against.further(c.Candidates[furthest].Against) {
			furthest = i
		}
	}
	differ := "they differ by "
	if len(level) > 1 {
		differ = "the largest difference between them is "
	}
	differ += c.apartBy(furthest)
	if c.Candidates[furthest].Against.P == nil {
		return fmt.Sprintf("Not known: %s, and %s cannot show whether repeats would keep the order.", differ, c.counts())
	}
	open := ""
	if n := len(c.Open); n > 0 {
		open = fmt.Sprintf(" The runs do not show that %s worse either.",
			map[bool]string{true: "the next one is", false: fmt.Sprintf("the next %d are", n)}[n == 1])
	}
	if len(c.Near) == 0 {
		return fmt.Sprintf("Shown: %s, and the interval excludes a difference above %s.%s",
			differ, floor, open)
	}
	return fmt.Sprintf("Not known: %s, and the runs neither show nor exclude a difference above %s.%s", differ, floor,
		open)
}

// further reports whether a candidate is further from the best than another.
func (v *MetricVerdict) further(other *MetricVerdict) bool {
	return v.Percent != nil && (other.Percent == nil || math.Abs(*v.Percent) > math.Abs(*other.Percent))
}

// openText says that the lead is not shown.
func (c *Choice) openText() string {
	next := &c.Candidates[c.Open[0]]
	if next.Against.P == nil {
		return fmt.Sprintf("Not known: %s cannot show how much repeats would differ; the next is %s (%s).", c.counts(),
			next.Name, c.against(c.Open[0]))
	}
	return fmt.Sprintf("Not shown: the runs do not exclude that %s is as good (%s).", next.Name, c.against(c.Open[0]))
}

// counts says how many runs there are of each setting, and on how many server starts if several share
// one.
func (c *Choice) counts() string {
	within := c.Candidates[:c.Within]
	runs := between(within, func(x Candidate) int { return x.measured }, "run")
	if slices.ContainsFunc(within, func(x Candidate) bool { return x.Jobs < x.measured }) {
		runs += " on " + between(within, func(x Candidate) int { return x.Jobs }, "start")
	}
	return runs + " per " + string(c.Noun)
}

// between is the least and the most of a number of candidates.
func between(list []Candidate, of func(Candidate) int, noun string) string {
	least, most := math.MaxInt, 0
	for _, x := range list {
		least, most = min(least, of(x)), max(most, of(x))
	}
	switch {
	case most == 1:
		return "one " + noun
	case least == most:
		return fmt.Sprintf("%d %ss", least, noun)
	}
	return fmt.Sprintf("%d to %d %ss", least, most, noun)
}

// against is by how much a candidate differs from the best, and what that rests on.
func (c *Choice) against(i int) string {
	v := c.Candidates[i].Against
	if v.Percent == nil {
		return fmt.Sprintf("%s against %s", quantity.Significant(*v.Second.Median), quantity.Significant(*v.First.Median))
	}
	text := signed(*v.Percent) + " %"
	if v.Low != nil {
		text += fmt.Sprintf(" [%s, %s]", signed(*v.Low), signed(*v.High))
	}
	if v.P != nil {
		text += ", " + c.sizes(i)
	}
	return text
}

// sizes are how many numbers of a candidate were held against how many of the best.
func (c *Choice) sizes(i int) string {
	best, x := &c.Candidates[0], &c.Candidates[i]
	of := strconv.Itoa(best.Value.N)
	if x.starts != best.starts {
		of = quantity.Count(best.Value.N, best.unit())
	}
	return quantity.Count(x.Value.N, x.unit()) + " against " + of
}

// apartBy is the size of a difference from the best, and what that rests on.
func (c *Choice) apartBy(i int) string {
	v := c.Candidates[i].Against
	if v.Percent == nil {
		return "nothing"
	}
	text := quantity.Significant(math.Abs(*v.Percent)) + " %"
	if v.P != nil && v.Low != nil {
		text += fmt.Sprintf(" (interval [%s, %s], %s)", signed(*v.Low), signed(*v.High), c.sizes(i))
	}
	return text
}

// signed is a difference with its sign and at most two decimals, as tables have it.
func signed(x float64) string {
	if math.Abs(x) < 10 {
		return fmt.Sprintf("%+.2f", x)
	}
	return fmt.Sprintf("%+.1f", x)
}

func superlative(m metric.Metric) string {
	if m.Better == metric.Lower {
		return "lowest"
	}
	return "highest"
}

// phrase is the name of a metric within a sentence: throughput, median TTFT, P99 TTFT.
func phrase(m metric.Metric) string {
	r := []rune(m.Name)
	if len(r) > 1 && unicode.IsUpper(r[0]) && unicode.IsLower(r[1]) {
		r[0] = unicode.ToLower(r[0])
	}
	return string(r)
}

func capital(s string) string {
	r := []rune(s)
	r[0] = unicode.ToUpper(r[0])
	return string(r)
}
