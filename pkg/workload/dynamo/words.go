package dynamo

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/shell"
	"github.com/profllm/profllm/pkg/source"
)

// words are the words of a command: its text, divided as a shell divides it, else the default.
// Nothing in it is expanded, and JSON keeps its quotes, which CloudAI does not take away either.
func words(text string, pos source.Pos, otherwise ...string) ([]string, error) {
	if text == "" {
		return otherwise, nil
	}
	list, err := shell.Words(quotedJSON(text))
	operator := slices.IndexFunc(list, func(word string) bool { return slices.Contains(operators, word) })
	switch {
	case err == nil && operator >= 0:
		return nil, source.Errorf(pos, "the command %q has %s, which only a shell understands", text, list[operator]).
			Hintf("write bash -c '…' if a shell shall run it")
	case err != nil:
		return nil, source.Errorf(pos, "the command %q: %v", text, err).
			Hintf("put each word with blanks or quotes between '…'; a word of JSON needs none")
	case len(list) > 0 && len(otherwise) > 0 && strings.HasPrefix(list[0], "-"):
		return nil, source.Errorf(pos, "the command %q has no program", text).
			Hintf("write the whole command as one text: a list is a sweep over commands")
	case len(list) == 0 && len(otherwise) > 0 || len(list) > 0 && strings.Contains(list[0], "=") &&
		(len(otherwise) > 0 || !strings.HasPrefix(list[0], "-")):
		return nil, source.Errorf(pos, "the command %q has no program", text).
			Hintf("begin with the program; variables stand in extra_env_vars")
	}
	return list, nil
}

// operators are words by which a shell joins and redirects commands. Nothing here does.
var operators = []string{"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1", "&>"}

// quotedJSON is a text in which each word that is an object of JSON, also with blanks in it, stands
// between quotes of the shell.
func quotedJSON(text string) string {
	var out strings.Builder
	var quote byte // within which this place stands
	blank := true  // before this place
	for len(text) > 0 {
		if blank && text[0] == '{' && quote == 0 {
			dec := json.NewDecoder(strings.NewReader(text))
			var object map[string]any
			if dec.Decode(&object) == nil {
				n := int(dec.InputOffset())
				if n == len(text) || strings.ContainsRune(" \t\n", rune(text[n])) {
					out.WriteString(shell.Quote(text[:n]))
					text, blank = text[n:], false
					continue
				}
			}
		}
		n := 1
		switch char := text[0]; {
		case char == '\\' && quote != '\'' && len(text) > 1:
			n = 2
		case char == quote:
			quote = 0
		case quote == 0 && (char == '\'' || char == '"'):
			quote = char
		}
		blank = strings.ContainsRune(" \t\n", rune(text[0]))
		out.WriteString(text[:n])
		text = text[n:]
	}
	return out.String()
}

// command are the words of a command for the version of the service.
func (w *Workload) command(text string, pos source.Pos, otherwise ...string) ([]plan.Word, error) {
	list, err := words(text, pos, otherwise...)
	if err != nil {
		return nil, err
	}
	return w.translated(list, pos)
}

// extraArgs are the words of extra_args: a text that is divided as a shell does, or a list of
// words.
func (w *Workload) extraArgs(r *role, c *source.Complaints) []plan.Word {
	if r.Extra == nil {
		return nil
	}
	if list, ok := r.Extra.Any.([]*source.Value); ok {
		for _, v := range list {
			r.extraWords = append(r.extraWords, serving.Scalar(v))
		}
	} else {
		text, ok := r.Extra.Text()
		if !ok {
			c.Add(source.Errorf(r.Extra.Pos, "%s.extra_args must be a text, not %s", r.label(), r.Extra.Describe()).
				Hintf(`write extra_args = "--name value"`))
		}
		var err error
		r.extraWords, err = words(text, r.Extra.Pos)
		c.Add(err)
	}
	argv, err := w.translated(r.extraWords, r.Extra.Pos)
	c.Add(err)
	return argv
}
