package render

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
)

// stepView is a step as the script sees it.
type stepView struct {
	*plan.Step
	shared *shared
}

// shared are words that several steps have alike: the options of their container, and the command
// of the instances of a role. The script says them once, in an array.
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

// token is a word of bash, and whether a line begins with it.
type token struct {
	word   string
	starts bool
}

// boxes are the names of arrays with options of containers. The names belong to the script.
var boxes = []string{"BOX", "BOX2", "BOX3", "BOX4"}

// CommandVar is the array with the command of the instances of a role, or of a client in several
// loads.
func CommandVar(kind string) string {
	return strings.ToUpper(strings.ReplaceAll(kind, "-", "_")) + "_COMMAND"
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
	for _, group := range grouped(order, boxKey) {
		if len(s.lists) == len(boxes) {
			break
		}
		run := commonRun(listsOf(group, words))
		if n := optionCount(group[0]); n > 0 {
			run = words[group[0]][:n]
		}
		s.add(boxes[len(s.lists)], run, group, words)
	}
	kinds := map[*plan.Step]string{}
	for i := range p.Roles {
		kinds[&p.Roles[i].Step] = p.Roles[i].KindName()
	}
	for i := range p.Loads {
		for j := range p.Loads[i].Clients {
			kinds[&p.Loads[i].Clients[j]] = p.Loads[i].Clients[j].Name
		}
	}
	for _, group := range grouped(order, func(step *plan.Step) string { return kinds[step] }) {
		s.add(CommandVar(kinds[group[0]]), commonRun(listsOf(group, words)), group, words)
	}
	return s, nil
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
func (s *shared) add(name string, run []token, group []*plan.Step, words map[*plan.Step][]token) {
	lists := listsOf(group, words)
	for len(run) > 0 && dangles(run, lists) {
		run = run[:len(run)-1]
	}
	if len(lines(run)) < 2 {
		return
	}
	for _, step := range group {
		words[step] = replaced(words[step], run, name)
		s.of[step] = append(s.of[step], len(s.lists))
	}
	s.lists = append(s.lists, wordArray{name, run})
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

// tokens are the words of a step: srun's own options, then its launcher's, then the environment,
// then the command.
func tokens(s *plan.Step) ([]token, error) {
	srun, err := wordList(s.Srun)
	if err != nil {
		return nil, err
	}
	argv, err := wordList(s.Argv)
	if err != nil {
		return nil, err
	}
	secrets, err := given(s.Secrets)
	if err != nil {
		return nil, err
	}
	var env []string
	if len(s.Env) > 0 {
		env = append(env, "env")
	}
	for _, v := range s.Env {
		q, err := word(v.Value)
		if err != nil {
			return nil, err
		}
		env = append(env, v.Name+"="+q)
	}
	var list []token
	short := len(strings.Join(env, " ")) < lineWidth/3 // then the command follows on its line
	for _, part := range [][]string{srun, secrets, env, argv} {
		for i, w := range part {
			list = append(list, token{w, i == 0})
		}
	}
	if n := len(list) - len(argv); short && len(env) > 0 && len(argv) > 0 {
		list[n].starts = false
	}
	return list, nil
}

// lines breaks words into lines.
func lines(list []token) []string { return linesAs(list, func(word string) string { return word }) }

// linesAs breaks words into lines, and writes each in another form. The words themselves say where
// a line can end.
func linesAs(list []token, form func(string) string) []string {
	var out []string
	for i := 0; i < len(list); {
		part := []string{list[i].word}
		for i++; i < len(list) && !list[i].starts; i++ {
			part = append(part, list[i].word)
		}
		out = append(out, wrap(part, form)...)
	}
	return out
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

// command writes one step, broken into lines at options.
func command(s stepView) (string, error) {
	head := fmt.Sprintf(`step --job-name=%s --relative=%d --nodes=%d --ntasks=%d --ntasks-per-node=%d`,
		s.Name, s.Nodes.Offset, s.Nodes.Count, s.Tasks(), max(s.TasksPerNode, 1))
	switch {
	case s.Tasks() > 1 && s.Ends:
		head += " --wait=0"
	case s.Tasks() > 1:
		head += fmt.Sprintf(" --wait=%d", int(rankWait.Seconds()))
	}
	if path.IsAbs(s.Log) {
		log, err := Quote(s.Log)
		if err != nil {
			return "", err
		}
		head += " --output=" + log
	} else {
		head += ` --output="$RUN"/` + s.Log
	}
	list, err := s.shared.words(s.Step)
	if err != nil {
		return "", err
	}
	if len(list) > 0 && strings.HasPrefix(list[0].word, `"${`) {
		head, list = head+" "+list[0].word, list[1:]
	}
	return strings.Join(append([]string{head}, lines(list)...), " \\\n  "), nil
}
