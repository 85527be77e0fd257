package render

import (
	"fmt"
	"path"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
)

// stepView is a step as the script sees it.
type stepView struct {
	*plan.Step
	shared *shared
}

// token is a word of bash, and whether a line begins with it.
type token struct {
	word   string
	starts bool
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
