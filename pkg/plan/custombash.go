package plan

import (
	"regexp"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// snippet is shell text that runs before a command, in its shell.
type snippet struct {
	pattern *regexp.Regexp // of the commands it is for; nil for all
	text    string         // "" leaves the command as it is
}

// customBash puts custom_bash before every command of the run. The command is
// passed to the shell as its arguments, so that nothing is quoted twice and every
// address in it is known where the job's script knows it.
func (p *Plan) customBash(v *source.Value) error {
	snippets, err := parseSnippets(v)
	if err != nil {
		return err
	}
	var texts []string
	for _, sn := range snippets {
		text := sn.text
		if sn.pattern != nil {
			text = sn.pattern.String() + ": " + text
		}
		texts = append(texts, text)
	}
	p.CustomBash = strings.Join(texts, "\n")
	for i := range p.Roles {
		p.Roles[i].Step.custom(snippets)
	}
	for i := range p.Loads {
		for j := range p.Loads[i].Clients {
			p.Loads[i].Clients[j].custom(snippets)
		}
	}
	return nil
}

// parseSnippets reads custom_bash: one text, or a table of regular expression to
// text, in the order of the file.
func parseSnippets(v *source.Value) ([]snippet, error) {
	if v == nil {
		return nil, nil
	}
	var c source.Complaints
	var list []snippet
	switch x := v.Any.(type) {
	case string:
		list = append(list, snippet{text: x})
	case *source.Table:
		for _, key := range x.Keys() {
			entry := x.Get(key)
			pattern, err := regexp.Compile(key)
			if err != nil {
				c.Add(source.Errorf(entry.Pos, "custom_bash: %q is not a regular expression: %v", key, err).
					Hintf("use RE2 syntax, which has no look-around and no back-references"))
			}
			text, ok := entry.Text()
			if !ok {
				c.Addf(entry.Pos, "custom_bash: the text for %q must be a string, not %s", key, entry.Describe())
			}
			list = append(list, snippet{pattern, text})
		}
	default:
		c.Add(source.Errorf(v.Pos, "custom_bash must be a string or a table, not a %s", v.Kind()).
			Hintf("write custom_bash = \"...\", or [custom_bash] with lines such as \"vllm serve\" = \"...\""))
	}
	return list, c.Err()
}

// custom wraps a step by the first snippet that its command matches.
func (s *Step) custom(snippets []snippet) {
	for _, sn := range snippets {
		if sn.pattern != nil && !sn.pattern.MatchString(s.commandText()) {
			continue
		}
		if sn.text != "" {
			s.wrap(Texts("bash", "-c", sn.text+"\nexec \"$@\"", s.Name))
		}
		return
	}
}

// commandText is what a pattern is looked for in: the environment of the step
// and its command, without what only starts it.
func (s *Step) commandText() string {
	var words []string
	if len(s.Env) > 0 {
		words = append(words, "env")
	}
	for _, v := range s.Env {
		words = append(words, v.Name+"="+v.Value.String())
	}
	for _, w := range s.Argv[s.Inner:] {
		words = append(words, w.String())
	}
	return strings.Join(words, " ")
}
