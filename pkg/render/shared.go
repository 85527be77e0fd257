package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
)

// shared are words that several steps have alike: what starts their command, the options of their
// container, the command of the instances of a role, and what several such roles share. The script
// says them once, in an array.
type shared struct {
	lists []wordArray
	of    map[*plan.Step][]int // indices of the arrays that a step has
	said  bool                 // the template printed them; a site's own need not
}

// wordArray is an array of the script.
type wordArray struct {
	name  string
	words []token
}

// boxes are the names of arrays with options of containers. The names belong to the script.
var boxes = []string{"BOX", "BOX2", "BOX3", "BOX4"}

// launch is the array with what starts the command of steps. An array takes a line, and saves one in
// each step if its words do not fit on the step's first line.
const (
	launch      = "LAUNCH"
	launchWidth = lineWidth / 2
)

// engine is the array with what engines of several kinds have alike.
const engine = "ENGINE"

// CommandVars are the arrays with parts of the command of the instances of a role, or of a client in
// several loads.
func CommandVars(kind string) []string {
	kind = strings.ToUpper(strings.ReplaceAll(kind, "-", "_"))
	return []string{kind + "_COMMAND", kind + "_OPTIONS"}
}

// sharedWords finds the words that steps have alike.
func sharedWords(p *plan.Plan) (*shared, error) {
	s := &shared{of: map[*plan.Step][]int{}}
	words := map[*plan.Step][]token{}
	var order []*plan.Step
	for _, step := range stepsOf(p) {
		list, err := tokens(step)
		if err != nil {
			return nil, err
		}
		words[step], order = list, append(order, step)
	}
	for _, group := range grouped(order, launchKey) {
		run := trimmed(commonStart(listsOf(group, words)), listsOf(group, words))
		if len(s.lists) == 0 && len(group) > 2 && width(run) >= launchWidth {
			s.replace(launch, run, group, words)
		}
	}
	names := boxes
	for _, group := range grouped(order, boxKey) {
		run := commonRun(listsOf(group, words))
		if n := optionCount(group[0]); n > 0 {
			run = words[group[0]][:n]
		}
		if len(names) > 0 && s.add(names[0], run, group, words) {
			names = names[1:]
		}
	}
	kinds, engines := kindsOf(p)
	if len(engines) > 2 {
		s.add(engine, commonRun(listsOf(engines, words)), engines, words)
	}
	for _, group := range grouped(order, func(step *plan.Step) string { return kinds[step] }) {
		s.addCommand(CommandVars(kinds[group[0]]), group, words)
	}
	return s, nil
}

// kindsOf says of which role or client a step is an instance, and which steps are engines; none if
// those are all of one kind.
func kindsOf(p *plan.Plan) (kinds map[*plan.Step]string, engines []*plan.Step) {
	kinds = map[*plan.Step]string{}
	several := false
	for i := range p.Roles {
		r := &p.Roles[i]
		kinds[&r.Step] = r.KindName()
		if r.Engine {
			several = several || len(engines) > 0 && kinds[engines[0]] != r.KindName()
			engines = append(engines, &r.Step)
		}
	}
	for i := range p.Loads {
		for j := range p.Loads[i].Clients {
			kinds[&p.Loads[i].Clients[j]] = p.Loads[i].Clients[j].Name
		}
	}
	if !several {
		engines = nil
	}
	return kinds, engines
}

// stepsOf are the steps of the script, in its order.
func stepsOf(p *plan.Plan) []*plan.Step {
	var list []*plan.Step
	for i := range p.Setup {
		list = append(list, &p.Setup[i])
	}
	for i := range p.Roles {
		list = append(list, &p.Roles[i].Step)
	}
	if p.APICheck != nil {
		list = append(list, p.APICheck)
	}
	for i := range p.Loads {
		for j := range p.Loads[i].Clients {
			list = append(list, &p.Loads[i].Clients[j])
		}
	}
	return list
}

// grouped are the steps with the same key, in order, where there are several. Those whose key is ""
// are in no group.
func grouped(steps []*plan.Step, key func(*plan.Step) string) [][]*plan.Step {
	var order []string
	groups := map[string][]*plan.Step{}
	for _, step := range steps {
		k := key(step)
		if k == "" {
			continue
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], step)
	}
	var list [][]*plan.Step
	for _, k := range order {
		if len(groups[k]) > 1 {
			list = append(list, groups[k])
		}
	}
	return list
}

// launchKey is the same for steps that begin alike: what gives them their secrets, and the program
// that starts their container. Options of srun are in an array of their own.
func launchKey(s *plan.Step) string {
	if len(s.Srun) > 0 || !s.Container && len(s.Secrets) == 0 {
		return ""
	}
	return fmt.Sprint(s.Container, s.Secrets)
}

// commonStart is what all lists begin with.
func commonStart(lists [][]token) []token {
	n := 0
	for n < len(lists[0]) && !slices.ContainsFunc(lists, func(list []token) bool {
		return n >= len(list) || list[n].word != lists[0][n].word
	}) {
		n++
	}
	return lists[0][:n]
}

// width is how much of a line words take.
func width(list []token) (n int) {
	for _, t := range list {
		n += len(t.word) + 1
	}
	return n
}

// boxKey is the same for steps whose launcher gave them the same options: of srun, where the image
// is among them, or of a command, where it stands behind them.
func boxKey(s *plan.Step) string {
	switch {
	case len(s.Srun) > 0:
		return fmt.Sprint(s.Srun, s.Secrets)
	case s.Container:
		return "command"
	}
	return ""
}

// optionCount is how many words of a step are options of srun and what gives it its secrets, 0 if
// srun has none.
func optionCount(s *plan.Step) int {
	if len(s.Srun) == 0 {
		return 0
	}
	secrets, _ := given(s.Secrets) // tokens complained
	return len(s.Srun) + len(secrets)
}

func listsOf(group []*plan.Step, words map[*plan.Step][]token) (lists [][]token) {
	for _, step := range group {
		lists = append(lists, words[step])
	}
	return lists
}

// add makes an array of a run of words that all steps of a group have, if it takes more than a
// line.
func (s *shared) add(name string, run []token, group []*plan.Step, words map[*plan.Step][]token) bool {
	run = trimmed(run, listsOf(group, words))
	return len(lines(run)) > 1 && s.replace(name, run, group, words)
}

// trimmed is a run of words without those at its end that something belongs to which stands behind
// them.
func trimmed(run []token, lists [][]token) []token {
	for len(run) > 0 && dangles(run, lists) {
		run = run[:len(run)-1]
	}
	return run
}

// addCommand makes arrays of the two longest runs of words that all steps of a group have.
func (s *shared) addCommand(names []string, group []*plan.Step, words map[*plan.Step][]token) {
	first := len(s.lists)
	for _, name := range names {
		s.add(name, commonRun(listsOf(group, words)), group, words)
	}
	if len(s.lists) < first+len(names) {
		return
	}
	a, b := &s.lists[first], &s.lists[first+1]
	whole, _ := tokens(group[0])
	for i := range first {
		whole = replaced(whole, s.lists[i].words, s.lists[i].name)
	}
	if index(whole, b.words) < index(whole, a.words) { // the command begins with the first
		a.words, b.words = b.words, a.words
	}
}

// replace makes an array of a run of words that all steps of a group have.
func (s *shared) replace(name string, run []token, group []*plan.Step, words map[*plan.Step][]token) bool {
	for _, step := range group {
		words[step] = replaced(words[step], run, name)
		s.of[step] = append(s.of[step], len(s.lists))
	}
	s.lists = append(s.lists, wordArray{name, run})
	return true
}

// dangles reports whether what belongs to the last word of a run comes behind it: variables, or an
// option's value.
func dangles(run []token, lists [][]token) bool {
	last := run[len(run)-1].word
	if last == "env" {
		return true
	}
	option := last != "--" && strings.HasPrefix(last, "-") && !strings.Contains(last, "=")
	return option && slices.ContainsFunc(lists, func(list []token) bool {
		next := index(list, run) + len(run)
		return next < len(list) && !list[next].starts && !strings.HasPrefix(list[next].word, "-")
	})
}

// commonRun is the longest run of words that is in every list, the first of several.
func commonRun(lists [][]token) []token {
	first := lists[0]
	for n := len(first); n > 1; n-- {
		for i := 0; i+n <= len(first); i++ {
			run := first[i : i+n]
			if !slices.ContainsFunc(lists[1:], func(list []token) bool { return index(list, run) < 0 }) {
				return run
			}
		}
	}
	return nil
}

// index is where a run of words begins in a list, -1 if it is not there.
func index(list, run []token) int {
	for i := 0; i+len(run) <= len(list); i++ {
		if slices.EqualFunc(list[i:i+len(run)], run, func(a, b token) bool { return a.word == b.word }) {
			return i
		}
	}
	return -1
}

// replaced is a list with an array in place of a run of words.
func replaced(list, run []token, name string) []token {
	i := index(list, run)
	if i < 0 {
		return list
	}
	array := token{`"${` + name + `[@]}"`, list[i].starts}
	return slices.Concat(list[:i], []token{array}, list[i+len(run):])
}

// words are a step's, with the arrays that the script has.
func (s *shared) words(step *plan.Step) ([]token, error) {
	list, err := tokens(step)
	if err != nil || s == nil || !s.said {
		return list, err
	}
	for _, i := range s.of[step] {
		list = replaced(list, s.lists[i].words, s.lists[i].name)
	}
	return list, nil
}

// Shared are the arrays, for a template that prints them before its first step.
func (v view) Shared() []wordArray {
	v.shared.said = true
	return v.shared.lists
}

// array writes one of them.
func array(a wordArray) string {
	return a.name + "=(" + strings.Join(linesAs(a.words, quotedCommas), "\n  ") + ")"
}

// quotedCommas is a word of bash whose commas are all quoted: bare ones read as if they divided the
// elements of an array (shellcheck SC2054).
func quotedCommas(word string) string {
	if !strings.ContainsAny(word, `"'\`) && strings.Contains(word, ",") {
		return "'" + word + "'"
	}
	var b strings.Builder
	quote, escaped := byte(0), false
	for i := range len(word) { // of bytes: not all need be UTF-8
		r := word[i]
		switch {
		case escaped:
			escaped = false
		case quote == 0 && r == '\\':
			escaped = true
		case quote == 0 && r == ',':
			b.WriteString("','")
			continue
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case r == quote:
			quote = 0
		}
		b.WriteByte(r)
	}
	return b.String()
}
