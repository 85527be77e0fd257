package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// Answer is one sentence with which a report opens, to a question that every reader has.
type Answer struct {
	Question Question `json:"question"`
	Text     string   `json:"text"`
	Dirs     []string `json:"dirs,omitempty"` // of the runs that the sentence is about
}

// Question is what an answer answers.
type Question string

// The questions, in the order of their answers.
const (
	AskSearch  Question = "search" // the highest load within limits
	AskBest    Question = "best"
	AskResult  Question = "result"       // of the only one that there is
	AskUnlike  Question = "not compared" // what cannot be ranked
	AskSure    Question = "certainty"    // of the answer before it
	AskChange  Question = "change"
	AskDoubt   Question = "not believed"
	AskFailure Question = "failed"
	AskLeftOut Question = "left out"
)

const (
	mostChoices = 8 // answered at the top
	mostChanges = 4 // told one by one
	mostNames   = 3 // runs in a sentence
	mostCauses  = 3
	longestLine = 120 // runes of a log line in a sentence
)

// answer writes the answers from what the report concluded.
func (r *Report) answer() {
	r.saySearches()
	for i := range r.Choices {
		if i == mostChoices {
			r.say(AskBest, fmt.Sprintf("%s more are ranked in the tables below.",
				quantity.Count(len(r.Choices)-i, "group of settings")), nil)
			break
		}
		r.sayChoice(&r.Choices[i])
	}
	r.sayChanges()
	r.sayTrends()
	r.sayDoubts()
	r.sayFailures()
	r.sayLeftOut()
}

func (r *Report) say(q Question, text string, dirs []string) {
	r.Answers = append(r.Answers, Answer{q, text, dirs})
}

// saySearches answers which load was found by the runs that searched for one.
func (r *Report) saySearches() {
	runs := r.filtered(func(e *Entry) bool { return len(e.Searches()) > 0 })
	for i, e := range runs {
		if i == mostNames && len(runs) > mostNames+1 {
			r.say(AskSearch, fmt.Sprintf("%d more searches are below.", len(runs)-i), nil)
			return
		}
		for _, sentence := range e.Searches() {
			r.say(AskSearch, e.Label+e.Kind.Suffix()+e.invalid()+": "+sentence+".", []string{e.Dir})
		}
	}
}

// invalid says that a run's numbers are not to be believed, and why; it is "" if they are.
func (e *Entry) invalid() string {
	if e.Usable || e.Run == nil || e.Run.Result == nil || e.Run.Result.Validity == nil {
		return ""
	}
	return " is invalid (" + strings.Join(e.Run.Result.Validity.Words, ", ") + ")"
}

// Searches are the answers of a run that searched for the highest load within limits.
func (e *Entry) Searches() []string {
	var list []string
	if e.Run == nil || e.Run.Result == nil {
		return nil
	}
	for _, s := range e.Run.Result.Search {
		if s != nil { // nil in a record that an earlier version wrote while the search ran
			list = append(list, s.Sentence)
		}
	}
	return list
}

// question is what a choice answers: a single setting is not the best of any.
func (c *Choice) question() Question {
	switch {
	case len(c.Unlike) > 0:
		return AskUnlike
	case len(c.Candidates) == 1 || len(c.Candidates) == 0 && c.Runs == 1:
		return AskResult
	}
	return AskBest
}

// sayChoice answers which setting is the best, and how sure that is.
func (r *Report) sayChoice(c *Choice) {
	var dirs []string
	if c.Within > 0 && len(c.Unlike) == 0 {
		dirs = append(dirs, c.Candidates[0].Dir)
		level := c.Level()
		for _, i := range level[:min(len(level), mostNames-1)] {
			dirs = append(dirs, c.Candidates[i].Dir)
		}
	}
	r.say(c.question(), c.bestText(r.Limits), dirs)
	if len(dirs) > 0 {
		r.say(AskSure, c.sureText(len(r.Limits) > 0), nil)
	}
}

// cause is what some runs have in common, and who they are.
type cause struct {
	what   string // why one of them is so
	common string // why all of them are, if they are several
	labels []string
	dirs   []string
	runs   []*Entry
}

// causes sorts runs by what is said of them; of gives a key, a text for one, a text for several.
func causes(runs []*Entry, of func(*Entry) (key, one, several string)) []cause {
	var list []cause
	at := map[string]int{}
	for _, e := range runs {
		key, one, several := of(e)
		i, ok := at[key]
		if !ok {
			i = len(list)
			at[key], list = i, append(list, cause{what: one, common: several})
		}
		list[i].labels, list[i].dirs = append(list[i].labels, e.Label), append(list[i].dirs, e.Dir)
		list[i].runs = append(list[i].runs, e)
	}
	slices.SortStableFunc(list, func(a, b cause) int { return len(b.labels) - len(a.labels) })
	return list
}

// text names the runs of a few causes, with the cause behind them.
func (r *Report) text(list []cause) (text string, dirs []string) {
	var parts []string
	for i, c := range list {
		if dirs = append(dirs, c.dirs...); i >= mostCauses {
			continue
		}
		why := c.what
		if len(c.labels) > 1 {
			why = c.common
		}
		part := r.named(&c)
		if why != "" {
			part += " (" + why + ")"
		}
		parts = append(parts, part)
	}
	if n := len(list) - mostCauses; n > 0 {
		parts = append(parts, quantity.Count(n, "more cause"))
	}
	return strings.Join(parts, "; "), dirs
}

// named names the runs of a cause: many by the settings that they alone share, if there are such.
func (r *Report) named(c *cause) string {
	if len(c.runs) <= mostNames+1 {
		return some(c.labels)
	}
	shared := sharedValues(c.runs)
	for _, s := range shared {
		if len(r.having(s)) == len(c.runs) {
			return fmt.Sprintf("all %d with %s", len(c.runs), records.JoinShort([]records.Setting{s}))
		}
	}
	if of := len(r.having(shared...)); len(shared) > 0 && of < len(r.Runs) {
		which := fmt.Sprintf("%d of the %d", len(c.runs), of)
		if of == len(c.runs) {
			which = fmt.Sprintf("all %d", of)
		}
		return which + " with " + records.JoinShort(shared)
	}
	return some(c.labels)
}

// sharedValues are what a sweep chose for all of some runs alike.
func sharedValues(runs []*Entry) []records.Setting {
	list := slices.Clone(runs[0].Run.Values)
	for _, e := range runs[1:] {
		list = slices.DeleteFunc(list, func(s records.Setting) bool { return !slices.Contains(e.Run.Values, s) })
	}
	return list
}

// having are the runs for which a sweep chose all of these.
func (r *Report) having(values ...records.Setting) []*Entry {
	return r.filtered(func(e *Entry) bool {
		return !slices.ContainsFunc(values, func(s records.Setting) bool { return !slices.Contains(e.Run.Values, s) })
	})
}

// some names a few things, and counts the others.
func some(names []string) string {
	if n := len(names) - mostNames; n > 1 {
		return quantity.List(append(slices.Clone(names[:mostNames]), fmt.Sprintf("%d more", n)))
	}
	return quantity.List(names)
}

// share is how many of the runs something is said of, as the subject of a sentence.
func share(n, of int, one, several string) string {
	switch {
	case of == 1:
		return "The only run " + one
	case n == of && n == 2:
		return "Both runs " + several
	case n == of:
		return fmt.Sprintf("All %d runs %s", of, several)
	case n == 1:
		return fmt.Sprintf("1 of %d runs %s", of, one)
	}
	return fmt.Sprintf("%d of %d runs %s", n, of, several)
}

// filtered are the runs of which something is true.
func (r *Report) filtered(is func(*Entry) bool) []*Entry {
	var list []*Entry
	for i := range r.Runs {
		if e := &r.Runs[i]; is(e) {
			list = append(list, e)
		}
	}
	return list
}

// ended reports whether a run left something to judge.
func (e *Entry) ended() bool {
	r := e.Run.Result
	return r != nil && (r.Status == result.Completed || r.Status == result.Partial)
}

// doubtful is why a run is doubted: the first failed check of that severity, or that nobody
// judged it.
func (e *Entry) doubtful() (key, one, several string) {
	v := e.Run.Result.Validity
	if v == nil {
		return "not judged", "not judged", "not judged"
	}
	of := result.Suspect
	if v.Verdict == result.VerdictInvalid {
		of = result.Invalid
	}
	var first *result.Check
	for i := range v.Checks {
		c := &v.Checks[i]
		if c.Outcome == result.Fail && c.Severity == of &&
			(first == nil || len(v.Words) > 0 && c.Word == v.Words[0]) { // the worst comes first there
			first = c
		}
	}
	if first == nil {
		words := quantity.List(v.Words)
		return words, words, words
	}
	several = first.Word
	if first.Why != "" {
		several += ": " + first.Why
	}
	return first.Word, first.Word + ": " + short(first.Detail), several
}

func short(line string) string {
	if r := []rune(line); len(r) > longestLine {
		return string(r[:longestLine-1]) + "…"
	}
	return line
}

// sayDoubts tells which runs cannot be believed, and which of their numbers.
func (r *Report) sayDoubts() {
	if len(r.Runs) == 0 {
		return
	}
	invalid := r.filtered(func(e *Entry) bool { return e.ended() && !e.Usable && !e.broke() })
	suspect := r.filtered(func(e *Entry) bool { return e.ended() && e.Usable && !e.Best() })
	if len(invalid) > 0 {
		said, dirs := r.text(causes(invalid, (*Entry).doubtful))
		r.say(AskDoubt, share(len(invalid), len(r.Runs), "is invalid and is not ranked", "are invalid and are not ranked")+
			": "+said+".", dirs)
	}
	if len(suspect) > 0 {
		said, dirs := r.text(causes(suspect, (*Entry).doubtful))
		r.say(AskDoubt, share(len(suspect), len(r.Runs), "is suspect: it is shown, but is never the best",
			"are suspect: they are shown, but are never the best")+": "+said+".", dirs)
	}
	if n := len(r.filtered((*Entry).Best)); len(invalid)+len(suspect) == 0 && n > 0 {
		r.say(AskDoubt, share(n, len(r.Runs), "is valid", "are valid")+".", nil)
	}
	r.sayWithheld()
}

// sayWithheld tells which numbers the records do not give out.
func (r *Report) sayWithheld() {
	var names, reasons []string
	runs := r.filtered(func(e *Entry) bool {
		if !e.Usable {
			return false
		}
		some := false
		for _, m := range metric.All {
			if e.Metrics[m.Key].Withheld {
				if some = true; !slices.Contains(names, m.Name) {
					names = append(names, m.Name)
				}
			}
		}
		for _, c := range e.Run.Result.Validity.Checks {
			why := c.Word + ": " + c.Why
			if some && c.Outcome == result.Fail && c.Severity == result.Withheld && !slices.Contains(reasons, why) {
				reasons = append(reasons, why)
			}
		}
		return some
	})
	if len(runs) == 0 {
		return
	}
	said := share(len(runs), len(r.Runs), "withholds ", "withhold ") + some(names)
	if len(reasons) > 0 {
		said += " (" + strings.Join(reasons, "; ") + ")"
	}
	r.say(AskDoubt, said+".", nil)
}

// broke reports whether a run failed: nothing of it can be used, and there is a cause.
func (e *Entry) broke() bool {
	r := e.Run.Result
	return r != nil && (r.Status == result.Failed || r.Status == result.Partial && !e.Usable && r.Failure != nil)
}

// sayFailures tells which runs failed, and why.
func (r *Report) sayFailures() {
	cancelled := func(e *Entry) bool { return e.Run.Result != nil && e.Run.Result.Status == result.Cancelled }
	for _, s := range []struct {
		is           func(*Entry) bool
		one, several string
	}{{(*Entry).broke, "failed", "failed"}, {cancelled, "was cancelled", "were cancelled"}} {
		runs := r.filtered(s.is)
		if len(runs) == 0 {
			continue
		}
		said, dirs := r.text(causes(runs, (*Entry).failed))
		r.say(AskFailure, share(len(runs), len(r.Runs), s.one, s.several)+": "+said+".", dirs)
	}
}

// failed is why a run failed: its cause with the line of the log, and what to do.
func (e *Entry) failed() (key, one, several string) {
	f := e.Run.Result.Failure
	if f == nil {
		return e.doubtful()
	}
	one = f.Cause
	if f.Line != "" {
		one += ": " + short(f.Line)
	}
	several = f.Cause
	if f.Next != "" {
		one, several = one+"; next: "+f.Next, several+"; next: "+f.Next
	}
	return f.Cause, one, several
}

// sayLeftOut tells what is in no table of numbers, and what was not tried.
func (r *Report) sayLeftOut() {
	runs := r.filtered(func(e *Entry) bool {
		return e.Run.Result == nil || e.Run.Result.Status == result.Unknown || e.Run.Result.Status == result.Ended
	})
	if len(runs) > 0 {
		said, dirs := r.text(causes(runs, func(e *Entry) (key, one, several string) {
			word := string(e.Verdict)
			if e.Reason == "" {
				return word, word, word
			}
			return word + e.Reason, word + ": " + short(e.Reason), word + ": " + short(e.Reason)
		}))
		r.say(AskLeftOut, share(len(runs), len(r.Runs), "has no numbers", "have no numbers")+": "+said+".", dirs)
	}
	if n := len(r.filtered(func(e *Entry) bool { return e.Kind == records.Profiled })); n > 0 {
		r.say(AskLeftOut, share(n, len(r.Runs), "was profiled, which slows it down, and is not ranked",
			"were profiled, which slows them down, and are not ranked")+".", nil)
	}
	for _, s := range r.Sweeps {
		if s.Cost.Rows < s.Cost.Space {
			r.say(AskLeftOut, fmt.Sprintf("%s tried %d of the %d combinations of its values.", s.Name+s.Kind.Suffix(),
				s.Cost.Rows, s.Cost.Space), nil)
		}
	}
	r.sayApart()
}
